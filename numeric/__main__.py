"""The geometry of one's own network on the command line: geometry."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analytic.console import add_command, exit_code


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m numeric", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    sub = add_command(
        commands, "geometry", _geometry,
        "log volume, spectrum, prediction and entropy of a network along segments between test images",
    )  # fmt: skip
    sub.add_argument(
        "--model", required=True, metavar="MODULE:FACTORY",
        help="a function without arguments that makes the network, such as numeric.models:resnet20",
    )  # fmt: skip
    sub.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="its weights (those that the factory gives)"
    )
    sub.add_argument(
        "--data", type=Path, metavar="DIR",
        help="IDX files, CIFAR-10, or a folder of images for each class (scikit-learn's digits)",
    )  # fmt: skip
    sub.add_argument("--size", help="pixels a side to which images from folders are scaled (none)")
    sub.add_argument(
        "--pairs", default="4", metavar="N", help="segments, each between two classes (4)"
    )
    sub.add_argument("--steps", default="64", metavar="N", help="images along each segment (64)")
    sub.add_argument(
        "--directions", metavar="N",
        help="estimate log volumes from N random directions, where a Jacobian is too dear (exact)",
    )  # fmt: skip
    sub.add_argument("--layer", metavar="NAME", help="whose output is the feature map (the last)")
    sub.add_argument(
        "--output",
        metavar="NAME",
        help="of several outputs the one that predicts: a key, or a place from 0",
    )
    for name in ("mean", "std"):
        sub.add_argument(
            f"--{name}", metavar="NUMBERS",
            help="of each channel, such as .485,.456,.406 (the checkpoint's, or the training images')",
        )  # fmt: skip
    sub.add_argument("--seed", default="0", help="which images are drawn (0)")
    sub.add_argument("--memory", default="1", metavar="GB", help="budget of the derivatives (1)")
    sub.add_argument("--out", type=Path, required=True, metavar="DIR", help="where all is written")
    args = parser.parse_args(argv)
    return exit_code(lambda: args.run(args))


def _geometry(args: argparse.Namespace) -> None:
    from numeric.experiments.images.command import Settings

    settings = Settings.read(args)
    for line in settings.statement:
        print(line)
    print(f"written to {settings.run()}")


if __name__ == "__main__":
    sys.exit(main())

"""The command `python -m numeric geometry`: its options read and checked, and its run."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import nn

from numeric.data import ImageData, Normalisation, Split, digits, load
from numeric.experiments.images.interpolation import segment
from numeric.experiments.images.network import build, picked
from numeric.experiments.images.network_fields import estimated_fields, fields
from numeric.experiments.images.report import Segment, require_figures, write
from numeric.inputs import InputError, generator_for, require_writable
from numeric.models.memory import GIGABYTE
from numeric.models.model import Model
from numeric.models.weights import Weights

__all__ = ["Settings"]


@dataclass(frozen=True, eq=False)
class Settings:
    """A network, test images and what is computed of them; see `Settings.read`."""

    network: nn.Module
    layer: str | None
    output: str | None
    test: ImageData
    pairs: tuple[tuple[int, int], ...]
    steps: int
    directions: (
        int | None
    )  # random ones from which log volumes are estimated, or None for exact volumes
    memory: int
    folder: Path
    statement: tuple[str, ...] = field(default=())  # what was done to the input, a sentence each

    @classmethod
    def read(cls, args: argparse.Namespace) -> Settings:
        """From the options of the command line, all of which are checked before anything is computed."""
        require_figures()
        pairs, steps = _whole("--pairs", args.pairs, 1), _whole("--steps", args.steps, 2)
        seed, memory = _whole("--seed", args.seed, 0), _positive("--memory", args.memory)
        directions = None if args.directions is None else _whole("--directions", args.directions, 2)
        requested = _normalisation(args.mean, args.std)
        folder = require_writable(args.out / "index.html").parent
        network = build(args.model).eval()
        said, weights = [], None
        if args.checkpoint is not None:
            weights = Weights.read(args.checkpoint)
            said += [f"Of {args.checkpoint} {note}." for note in weights.notes]
            weights.into(network)
        if args.layer is not None:
            Model.of(network, args.layer)
        size = None if args.size is None else _whole("--size", args.size, 1)
        split = _data(args.data, size)
        normalisation, origin = (
            split.train.normalisation,
            "of the training images, none being given",
        )
        if weights is not None and weights.normalisation is not None:
            normalisation, origin = weights.normalisation, "of the checkpoint"
        if requested is not None:
            normalisation, origin = requested, "given"
        said.append(f"Normalisation: {_numbers(normalisation)} ({origin}).")
        test = split.test.normalised_by(normalisation)
        chosen = _pairs(test, pairs, seed)
        rows = sorted({row for pair in chosen for row in pair})
        said.append(
            f"Test images: {len(test)} of {args.data or 'digits'}, {len(rows)} of them in pairs."
        )
        said.append(f"Features: the output of {args.layer or 'the whole network'}.")
        if directions is not None:
            said.append(
                f"Log volumes: means over {directions} random directions, with their standard errors. All "
                "images have the same directions, so that differences along a segment are surer than values."
            )
        return cls(
            network, args.layer, args.output, test, chosen, steps, directions, int(memory * GIGABYTE),
            folder, (f"Network: {args.model}.", *said),
        )  # fmt: skip

    def run(self) -> Path:
        """Compute the fields along all segments, and write them; what an earlier run has written is used."""
        dtype = next((p.dtype for p in self.network.parameters()), torch.float32)
        classifier = picked(self.network, self.test.inputs([self.pairs[0][0]], dtype), self.output)
        source = classifier if self.layer is None else self.network
        compute = fields
        if self.directions is not None:
            compute = partial(estimated_fields, directions=self.directions)
        names, segments = self.test.classes, []
        for k, rows in enumerate(self.pairs):
            first, second = self.test.inputs(rows, dtype)
            x = segment(first, second, self.steps)
            pair_fields = compute(
                source, x, self.layer, classifier=classifier, memory=self.memory,
                store=self.folder / "runs" / f"pair-{k:03d}.rows",
            )  # fmt: skip
            labels = tuple(names[label] for label in self.test.labels[list(rows)].tolist())
            t = torch.linspace(0, 1, self.steps)
            first, second = self.test.shown(rows)
            shown = segment(first, second, self.steps)
            segments.append(Segment(rows, labels, t, shown, pair_fields))
        outputs = segments[0].fields.logits.shape[1]
        classes = names if outputs == len(names) else tuple(map(str, range(outputs)))
        return write(self.folder, segments, classes, self.statement)


def _data(path: Path | None, size: int | None) -> Split:
    if path is not None:
        return load(path, size)
    if size is not None:
        raise InputError("--size was given without --data: the digits are of a fixed size.")
    return digits()


def _pairs(test: ImageData, count: int, seed: int) -> tuple[tuple[int, int], ...]:
    """Pairs of rows of two classes, no pair twice."""
    present = test.labels.unique().tolist()
    sizes = [len(test.of_class(label)) for label in present]
    most = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
    if count > most:
        raise InputError(
            f"--pairs {count} was given, but the test images have {most} pairs of two classes."
        )
    generator = generator_for("pairs", seed)
    pairs: list[tuple[int, int]] = []
    while len(pairs) < count:
        first, second = torch.randint(len(test), (2,), generator=generator).tolist()
        known = (first, second) in pairs or (second, first) in pairs
        if test.labels[first] != test.labels[second] and not known:
            pairs.append((first, second))
    return tuple(pairs)


def _normalisation(mean: str | None, std: str | None) -> Normalisation | None:
    if mean is None and std is None:
        return None
    if mean is None or std is None:
        raise InputError("--mean and --std belong together: give both, or neither.")
    return Normalisation(_floats("--mean", mean), _floats("--std", std))


def _floats(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"{option} {text} was given, but numbers with commas are needed, as .485,.456,.406."
        ) from None


def _numbers(normalisation: Normalisation) -> str:
    mean, std = (
        ", ".join(f"{v:.4g}" for v in part) for part in (normalisation.mean, normalisation.std)
    )
    return f"mean {mean}, deviation {std}"


def _whole(option: str, text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise InputError(
            f"{option} {text} was given, but it must be a whole number at least {least}."
        )
    return int(text)


def _positive(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"{option} {text} was given, but it must be a number above 0.")
    return value

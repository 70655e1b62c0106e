"""Notebooks on the command line: list, run, sweep, report, index, screenshot, lab."""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analytic import InputError
from analytic.console import add_command, exit_code

OUTPUT = Path("build")
FOLDER = Path(__file__).parent
INFINITE = ("inf", "-inf")  # no Python literals


def main(argv: Sequence[str] | None = None, folder: Path = FOLDER) -> int:
    parser = argparse.ArgumentParser(prog="python -m notebooks", description=__doc__)
    parser.set_defaults(folder=folder)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    add_command(commands, "list", _list, "names, questions and parameters of all notebooks")
    sub = add_command(
        commands, "run", _run, "run notebooks into DIR/notebooks, all of them where none is named"
    )
    sub.add_argument("names", nargs="*", metavar="NAME", help="such as 01_nngp_geometry, or 01")
    sub.add_argument(
        "-p", dest="pairs", action="append", default=[], metavar="KEY=VALUE",
        help="a parameter, such as seed=3; given to the notebooks that have it",
    )  # fmt: skip
    sub.add_argument("--profile", help="quick (seconds) or full (the scale of the papers)")
    sub.add_argument("--jobs", default="1", help="how many notebooks at a time (1)")
    sub.add_argument("--report", action="store_true", help="write the report if all pass")
    sub.add_argument("--figures", type=Path, metavar="DIR", help="(figures in the output)")
    _output(sub)
    _sweep_command(commands)
    _output(
        add_command(
            commands, "report", _report, "write DIR/report from the notebooks that have been run"
        )
    )
    sub = add_command(commands, "index", _index, "write the gallery that 00_index.py opens with")
    sub.add_argument(
        "--output", type=Path, metavar="DIR",
        help="take pictures and verdicts from what has been run into DIR (as they are)",
    )  # fmt: skip
    sub = add_command(commands, "screenshot", _screenshot, "a picture of a panel in JupyterLab")
    sub.add_argument("name", metavar="NAME", help="such as 06_finite_networks, or 06")
    sub.add_argument("file", type=Path, metavar="FILE", help="such as figures/panel.png")
    sub = add_command(commands, "lab", _lab, "open JupyterLab on the index, on this machine only")
    sub.add_argument("--port", help="(any that is free)")
    sub.add_argument("--no-browser", action="store_true", help="print the address instead")
    args = parser.parse_args(argv)
    return exit_code(lambda: args.run(args))


def _output(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--output", type=Path, default=OUTPUT, metavar="DIR", help="(build)")


def _sweep_command(commands: argparse._SubParsersAction) -> None:
    sub = add_command(
        commands, "sweep", _sweep, "run one notebook over a grid of parameters, and collect its numbers"
    )  # fmt: skip
    sub.add_argument("name", metavar="NAME", help="such as 01_nngp_geometry, or 01")
    sub.add_argument(
        "grid", nargs="+", metavar="KEY=VALUES",
        help="sigma=0.5,1,2 or a range of whole numbers: q=2:6 is 2, 3, 4, 5, without its end as in Python",
    )  # fmt: skip
    sub.add_argument("--profile", help="quick (seconds) or full (the scale of the papers)")
    sub.add_argument("--jobs", default="1", help="how many settings at a time (1)")
    sub.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="a Dask cluster that runs them instead, such as tcp://10.0.0.1:8786; its workers must have this "
        "package and see the same folders",
    )  # fmt: skip
    sub.add_argument("--output", type=Path, metavar="DIR", help="(build/sweeps/NAME)")
    sub.add_argument("--yes", action="store_true", help="do not ask about more than 200 settings")


def _sweep(args: argparse.Namespace) -> int:
    from notebooks.running import runner, sweep

    (path,) = runner.find([args.name], args.folder)
    grid = sweep.read_grid(args.grid, _literal)
    jobs = _whole("--jobs", args.jobs)
    runner.check([runner.read(path)], {name: values[0] for name, values in grid.items()})
    sweep.confirm(sweep.count(grid), args.yes)
    output = (args.output or OUTPUT / "sweeps" / path.stem).absolute()
    fixed = {} if args.profile is None else {"profile": args.profile}
    results = sweep.run(path, grid, fixed, output, jobs, args.scheduler)
    failed = sum(result.state == "failed" for result in results)
    ended = f"{failed} of {len(results)} settings failed" if failed else f"{len(results)} passed"
    print(f"{ended}; see {output / 'index.html'}")
    return 1 if failed else 0


def _list(args: argparse.Namespace) -> int:
    from notebooks.report import anatomy
    from notebooks.running import runner

    for source in map(runner.read, runner.find((), args.folder)):
        print(f"{source.name}: {anatomy.heading(source.node) or 'no heading'}")
        for name, default in source.defaults.items():
            print(
                f"    {name} = {default if isinstance(default, anatomy.Computed) else repr(default)}"
            )
    return 0


def _run(args: argparse.Namespace) -> int:
    from tqdm import tqdm

    from notebooks.running import runner

    parameters = _parameters(args.pairs, args.profile)
    jobs = _whole("--jobs", args.jobs)
    sources = [runner.read(path) for path in runner.find(args.names, args.folder)]
    failed = []
    for outcome in runner.outcomes(sources, parameters, jobs, args.output, args.figures):
        state = "passed" if outcome.error is None else "FAILED"
        tqdm.write(f"{state} {outcome.name} ({outcome.seconds:.1f} s)", file=sys.stderr)
        if outcome.error is not None:
            failed.append(outcome.name)
            tqdm.write(f"{outcome.error}\n", file=sys.stderr)
    if failed:
        print(f"{len(failed)} of {len(sources)} failed: {', '.join(sorted(failed))}")
        return 1
    print(f"{len(sources)} of {len(sources)} passed; outputs in {args.output / 'notebooks'}")
    return _report(args) if args.report else 0


def _whole(option: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise InputError(f"{option} {value} was given, but it must be a whole number at least 1.")
    return int(value)


def _parameters(pairs: Sequence[str], profile: str | None) -> dict[str, Any]:
    parameters: dict[str, Any] = {} if profile is None else {"profile": profile}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"-p {pair} was given, but it must be KEY=VALUE, such as seed=3.")
        if name in parameters:
            raise InputError(f"{name} was given twice.")
        parameters[name] = _literal(value)
    return parameters


def _literal(value: str) -> Any:
    if value in INFINITE:
        return float(value)
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def _report(args: argparse.Namespace) -> int:
    from notebooks import report

    print(f"report written to {report.write(args.output)}")
    return 0


def _index(args: argparse.Namespace) -> int:
    from notebooks import report
    from notebooks.report import gallery
    from notebooks.running import runner

    sources = {s.name: s.node for s in map(runner.read, runner.find((), args.folder))}
    (index,) = runner.find(["00"], args.folder)
    del sources[index.stem]
    try:
        if args.output is not None:
            executed = report.read_executed(args.output)
            gallery.collect(
                {r.notebook: n for r, n in executed if r.notebook in sources}, args.folder
            )
        gallery.write(index, sources)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"The gallery in {args.folder} cannot be written ({reason}).") from None
    print(f"gallery of {len(sources)} notebooks written to {index}")
    return 0


def _screenshot(args: argparse.Namespace) -> int:
    from notebooks.running import browser, runner

    (path,) = runner.find([args.name], args.folder)
    if args.file.is_dir():
        raise InputError(f"{args.file} is a folder: give a FILE in it, such as panel.png.")
    runner.check_room(args.file.absolute().parent, "FILE")
    browser.screenshot(path, args.file)
    print(f"picture of {path.stem} written to {args.file}")
    return 0


def _lab(args: argparse.Namespace) -> int:
    from notebooks.running.lab import open_lab

    port = None if args.port is None else _whole("--port", args.port)
    return open_lab(port, browser=not args.no_browser)


if __name__ == "__main__":
    sys.exit(main())

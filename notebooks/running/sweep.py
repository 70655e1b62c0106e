"""One notebook over a grid of parameters: a folder a setting, nothing run twice, numbers collected."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from analytic import InputError
from notebooks.report import unwritable
from notebooks.report.record import Commit, Record, plain
from notebooks.running import runner
from notebooks.running.runner import Kernels, Outcome, Source

Grid = Mapping[str, Sequence[Any]]
ASK = 200  # settings, above which one is asked
MOST = 100_000  # settings
LISTED = 20  # values of one parameter
MANY = 2  # jobs, in the eyes of a kernel that must leave cores to others
RANGE = re.compile(r"(-?\d+):(-?\d+)")


def read_grid(words: Sequence[str], literal: Callable[[str], Any]) -> dict[str, Sequence[Any]]:
    """Values by name of words such as sigma=0.5,1,2 or q=2:6, which is 2, 3, 4, 5 as in Python."""
    grid: dict[str, Sequence[Any]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals or not name or not values:
            raise InputError(
                f"{word!r} was given, but NAME=VALUES is needed, such as sigma=0.5,1,2 or q=2:6."
            )
        if name in grid:
            raise InputError(f"{name} was given twice.")
        grid[name] = _values(word, values, literal)
    if not grid:
        raise InputError("There is nothing to sweep: give parameters, such as sigma=0.5,1,2.")
    return grid


def _values(word: str, values: str, literal: Callable[[str], Any]) -> Sequence[Any]:
    if bounds := RANGE.fullmatch(values):
        first, end = map(int, bounds.groups())
        if end <= first:
            raise InputError(
                f"{word} is an empty range: it begins at {first} and ends before {end}."
            )
        return range(first, end)
    if ":" in values and "," not in values:
        raise InputError(
            f"{word} was given, but a range has two whole numbers, such as {word.split('=')[0]}=2:6."
        )
    parts = re.split(r",(?![^(\[]*[)\]])", values)  # commas within brackets belong to a value
    if not all(part.strip() for part in parts):
        raise InputError(f"{word} has an empty value: write values as in sigma=0.5,1,2.")
    literals = [literal(part.strip()) for part in parts]
    twice = [value for k, value in enumerate(literals) if value in literals[:k]]
    if twice:
        raise InputError(f"{word} has {twice[0]!r} twice.")
    return literals


def count(grid: Grid) -> int:
    """How many settings there are; a range may be too long for len()."""
    sizes = (v.stop - v.start if isinstance(v, range) else len(v) for v in grid.values())
    return math.prod(sizes)


def confirm(number: int, yes: bool, ask: Callable[[str], str] = input) -> None:
    """Refuses a large grid that nobody has agreed to."""
    if number > MOST:
        raise InputError(f"These are {number} settings, but at most {MOST} fit into one sweep.")
    if number <= ASK or yes:
        return
    if not sys.stdin.isatty():
        raise InputError(f"These are {number} settings, more than {ASK}: give --yes to run them.")
    if ask(f"These are {number} settings. Run them? [y/N] ").strip().lower() not in ("y", "yes"):
        raise InputError(f"The {number} settings were not run.")


@dataclass(frozen=True)
class Setting:
    """The parameters of one run, and the folder that it alone writes to."""

    parameters: dict[str, Any]
    folder: Path

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.parameters.items())


def settings(source: Source, grid: Grid, fixed: Mapping[str, Any], output: Path) -> list[Setting]:
    """All of a grid; each value is checked before the first kernel starts."""
    runner.check([source], fixed)
    for name, values in grid.items():
        if name in fixed:
            raise InputError(f"{name} was given twice.")
        for value in values:
            runner.check([source], {name: value})
    points = (dict(zip(grid, point, strict=True)) for point in itertools.product(*grid.values()))
    return [Setting(point | fixed, output / "settings" / _folder_name(point)) for point in points]


def _folder_name(point: Mapping[str, Any]) -> str:
    """Readable, and made unique by a digest where a file system would not take it."""
    name = ",".join(f"{key}={value}" for key, value in point.items())
    safe = re.sub(r"[^\w.,=+-]+", "_", name)[:150]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Result:
    """How a setting ended, as it is collected."""

    parameters: dict[str, Any]
    state: str  # passed, failed
    numbers: dict[str, Any] = field(default_factory=dict)
    verdict: str | None = None
    error: str | None = None
    seconds: float | None = None
    page: str = ""  # relative to the output


def done(source: Source, setting: Setting) -> Record | None:
    """The record of a setting that has run to its end with this notebook as it stands."""
    path = setting.folder / "notebooks" / f"{source.name}.json"
    try:
        record = Record.read(path)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    same = record.parameters == plain(source.defaults | setting.parameters)
    return record if same and record.source == source.digest else None


def run(
    path: Path,
    grid: Grid,
    fixed: Mapping[str, Any],
    output: Path,
    jobs: int = 1,
    scheduler: str | None = None,
) -> list[Result]:
    """Runs the settings that are not done, and writes results.csv, results.json and index.html."""
    from notebooks.running import summary

    source = runner.read(path)
    every = settings(source, grid, fixed, output)
    engine = _on_cluster(scheduler) if scheduler else _on_this_machine
    with _lock(output):
        open_ = [one for one in every if done(source, one) is None]
        print(describe(source, grid, len(every), len(every) - len(open_)), flush=True)
        failures: dict[Path, Outcome] = {}
        commit, workers = Commit.here(), MANY if scheduler else jobs
        tasks = [_Task(path.absolute(), one, workers, commit) for one in open_]
        bar = tqdm(total=len(tasks), unit="setting", disable=None, leave=False)  # on a terminal
        with bar, closing(engine(tasks, jobs)) as ended:
            for setting, outcome in ended:
                bar.update()
                if outcome.error is not None:
                    failures[setting.folder] = outcome
                    tqdm.write(f"FAILED {setting}: {_last_line(outcome)}", file=sys.stderr)
        results = [_result(source, one, failures.get(one.folder), output) for one in every]
        try:
            _replace(output / "results.csv", table(grid, results))
            data = {
                "notebook": source.name,
                "source": source.digest,
                "swept": {name: list(values) for name, values in grid.items()},
                "settings": [asdict(result) for result in results],
            }
            _replace(output / "results.json", json.dumps(plain(data), indent=2) + "\n")
            _replace(output / "index.html", summary.page(source, grid, results))
        except OSError as error:
            raise unwritable(output, error) from None
    return results


def describe(source: Source, grid: Grid, number: int, before: int) -> str:
    """What is swept, in one line."""
    ran = f", {before} of them done before" if before else ""
    return f"{source.name}: {listed(grid)}: {number} settings{ran}"


def listed(grid: Grid) -> str:
    """Every value, or of very many the first and the last."""
    return "; ".join(f"{name} = {', '.join(_few(values))}" for name, values in grid.items())


def _few(values: Sequence[Any]) -> list[str]:
    if len(values) <= LISTED:
        return [str(value) for value in values]
    return [*map(str, values[: LISTED // 2]), "...", str(values[-1])]


@dataclass(frozen=True)
class _Task:
    """One setting as a worker gets it, in a thread or on another machine."""

    notebook: Path
    setting: Setting
    jobs: int
    commit: Commit

    def run(self, kernels: Kernels) -> tuple[Setting, Outcome]:
        source, folder = runner.read(self.notebook), self.setting.folder
        target = runner.clear(folder / "notebooks", [source])
        parameters, figures = self.setting.parameters, folder / "figures"
        batch = runner.Batch(
            target, parameters, self.jobs, figures, commit=self.commit, kernels=kernels
        )
        return self.setting, batch.attempt(source)


Ended = Iterator[tuple[Setting, Outcome]]


def _on_this_machine(tasks: Sequence[_Task], jobs: int) -> Ended:
    """In threads, since each only waits for a kernel; also for one job, as an event loop may run in ours."""
    kernels = Kernels()
    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(task.run, kernels) for task in tasks]
        try:
            for ended in as_completed(running):
                yield ended.result()
        finally:
            kernels.stop(running)


def _on_cluster(scheduler: str) -> Callable[[Sequence[_Task], int], Ended]:
    """Workers of a Dask cluster, which must see the folders of this machine and have this package."""
    try:
        import distributed
    except ImportError:
        raise InputError(
            "--scheduler needs Dask, which is not installed: pip install 'kernel-geometry[cluster]'."
        ) from None
    try:
        client = distributed.Client(scheduler, timeout=10)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"No Dask scheduler answers at {scheduler} ({type(error).__name__}): start one, or leave "
            "--scheduler out."
        ) from None

    def ended(tasks: Sequence[_Task], _: int) -> Ended:
        with client:
            futures = [client.submit(_Task.run, task, Kernels(), pure=False) for task in tasks]
            try:
                for future in distributed.as_completed(futures):
                    yield future.result()
            finally:
                client.cancel(futures)

    return ended


def _result(source: Source, setting: Setting, failure: Outcome | None, output: Path) -> Result:
    place = setting.folder.relative_to(output) / "notebooks"
    if failure is not None:
        page = place / f"{source.name}.failed.ipynb"
        reason = {"error": _last_line(failure), "seconds": failure.seconds}
        return Result(setting.parameters, "failed", page=page.as_posix(), **reason)
    record = done(source, setting)
    if record is None:
        raise InputError(f"{setting.folder} has lost its record while the sweep ran: run it again.")
    page = place / f"{source.name}.html"
    return Result(
        setting.parameters,
        "passed",
        record.numbers,
        record.verdict,
        None,
        record.seconds,
        page.as_posix(),
    )


def _last_line(failure: Outcome) -> str:
    """The exception; its cell and traceback stand in the notebook that failed."""
    return (failure.error or "").strip().splitlines()[-1]


def table(grid: Grid, results: Sequence[Result]) -> str:
    """Comma-separated: what was swept, how it ended, every number that a setting recorded."""
    names = list(dict.fromkeys(name for result in results for name in result.numbers))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    # A number may have the name of a parameter.
    columns = [f"{name} (recorded)" if name in grid else name for name in names]
    writer.writerow([*grid, "state", *columns, "seconds", "verdict", "error", "page"])
    for one in results:
        swept = [one.parameters[name] for name in grid]
        numbers = [one.numbers.get(name, "") for name in names]
        rest = [one.seconds, one.verdict or "", one.error or "", one.page]
        writer.writerow([*swept, one.state, *numbers, *rest])
    return text.getvalue()


def _replace(path: Path, text: str) -> None:
    """The whole file or the earlier one, whatever happens."""
    scratch = path.with_name(f".{path.name}")
    scratch.write_text(text, "utf-8")
    os.replace(scratch, path)


@contextmanager
def _lock(output: Path) -> Iterator[None]:
    """The folder for this sweep alone; the lock ends with the process, however that ends."""
    import fcntl

    try:
        output.mkdir(parents=True, exist_ok=True)
        handle = (output / ".lock").open("w")
    except OSError as error:
        raise unwritable(output, error) from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"Another sweep is at work in {output}: wait for it, or give another --output."
            ) from None
        yield

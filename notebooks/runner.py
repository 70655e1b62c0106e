"""Runs notebooks with papermill: parameters checked first, failures told, outputs whole or absent."""

# ruff: noqa: E402
from __future__ import annotations

import difflib
import logging
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

sys.modules.setdefault("rfc3987_syntax", None)  # jsonschema would compile a grammar for 2 s

import jupytext
import nbformat
import papermill
from nbclient.exceptions import DeadKernelError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, NotebookExecutionManager, papermill_engines
from papermill.exceptions import PapermillExecutionError
from tqdm import tqdm

from analytic import InputError
from notebooks.report import anatomy, standalone
from notebooks.report.cells import plain
from notebooks.report.record import ROOT, Commit, Record

FOLDER = Path(__file__).parent
PROFILES = ("quick", "full")
SUFFIXES = (".ipynb", ".html", ".json", ".failed.ipynb")
_KERNEL = {"name": "python3", "language": "python", "display_name": "Python 3"}
_log = logging.getLogger("papermill")
_log.setLevel(logging.CRITICAL)  # what papermill warns of is checked or told here


@dataclass(frozen=True)
class Outcome:
    """How a notebook ended; the error is the failing cell and its traceback."""

    name: str
    seconds: float
    error: str | None = None


@dataclass(frozen=True)
class Source:
    """A notebook before it runs, with the defaults of its parameters."""

    name: str
    node: nbformat.NotebookNode
    defaults: dict[str, Any]


def read(path: Path) -> Source:
    node = jupytext.read(path, fmt="py:percent")
    node.metadata["kernelspec"] = _KERNEL
    try:
        return Source(path.stem, node, anatomy.parameters(node))
    except (SyntaxError, ValueError) as error:
        raise InputError(f"The parameters cell of {path.stem} cannot be read: {error}.") from None


def find(names: Iterable[str], folder: Path = FOLDER) -> list[Path]:
    """The notebooks of these names or unique prefixes; all of them where none is named."""
    known = {path.stem: path for path in sorted(folder.glob("[0-9][0-9]_*.py"))}
    if not known:
        raise InputError(f"{folder} holds no notebook, that is, no file named like 01_topic.py.")
    chosen = [_match(name, list(known)) for name in names] or list(known)
    return [known[name] for name in dict.fromkeys(chosen)]


def _match(name: str, known: list[str]) -> str:
    wanted = Path(name).name.removesuffix(".py")
    matches = [wanted] if wanted in known else [k for k in known if k.startswith(wanted or "?")]
    if len(matches) == 1:
        return matches[0]
    near = matches or difflib.get_close_matches(wanted, known, cutoff=0.4) or known
    fault = "begins several notebooks" if matches else "is no notebook"
    raise InputError(f"{name!r} {fault}: choose from {', '.join(near)}.")


def check(sources: Sequence[Source], parameters: Mapping[str, Any]) -> None:
    """Every parameter belongs to one of the notebooks and is of the kind of its default."""
    known = sorted({name for source in sources for name in source.defaults})
    for name, value in parameters.items():
        if name not in known:
            near = difflib.get_close_matches(name, known) or known or ["no parameters"]
            raise InputError(f"No chosen notebook has {name!r}: there is {', '.join(near)}.")
        if name == "profile" and value not in PROFILES:
            raise InputError(f"profile is {' or '.join(PROFILES)}, but {value!r} was given.")
        for source in sources:
            default = source.defaults.get(name)
            if not _fits(default, value):
                raise InputError(
                    f"{name} of {source.name} must be of type {type(default).__name__}, "
                    f"like {default!r}, but {value!r} was given."
                )


def _fits(default: Any, value: Any) -> bool:
    if default is None or isinstance(default, anatomy.Computed):
        return True
    if isinstance(default, tuple | list):
        return isinstance(value, tuple | list)
    return type(value) is type(default) or (type(default) is float and type(value) is int)


def run(
    names: Iterable[str],
    parameters: Mapping[str, Any],
    jobs: int,
    output: Path,
    folder: Path = FOLDER,
) -> list[Outcome]:
    """Runs notebooks, `jobs` at a time, into output/notebooks; outcomes in order of name."""
    chosen = [read(path) for path in find(names, folder)]
    return sorted(outcomes(chosen, parameters, jobs, output), key=lambda outcome: outcome.name)


def outcomes(
    sources: Sequence[Source], parameters: Mapping[str, Any], jobs: int, output: Path
) -> Iterator[Outcome]:
    """Each outcome as it comes; bad input is refused before a notebook starts."""
    check(sources, parameters)
    if jobs < 1:
        raise InputError(f"{jobs} jobs were asked for, but at least 1 is needed.")
    batch = _Batch(_cleared(output / "notebooks", sources), parameters, jobs)
    with (
        ThreadPoolExecutor(jobs) as pool,
        tqdm(total=len(sources), unit="notebook", leave=False, disable=None) as bar,
    ):
        running = [pool.submit(batch.attempt, source) for source in sources]
        try:
            for done in as_completed(running):
                yield done.result()
                bar.update()
        finally:
            batch.stop(running)


def _cleared(target: Path, sources: Sequence[Source]) -> Path:
    """The folder without earlier outputs of these notebooks, and sure to take new ones."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        for source in sources:
            for suffix in SUFFIXES:
                (target / f"{source.name}{suffix}").unlink(missing_ok=True)
        with TemporaryFile(dir=target) as probe:
            probe.write(b"room for a page" * 512)
    except OSError as error:
        raise _unwritable(target, error) from None
    return target


def _unwritable(target: Path, error: OSError) -> InputError:
    return InputError(f"{target} cannot be written ({error.strerror}): give another --output.")


@dataclass(frozen=True)
class _Batch:
    """What the notebooks of one call share, and the kernels at work."""

    target: Path
    parameters: Mapping[str, Any]
    jobs: int
    commit: Commit = field(default_factory=Commit.here)
    clients: set[PapermillNotebookClient] = field(default_factory=set)

    def attempt(self, source: Source) -> Outcome:
        """Executes one notebook; its outputs come into place together, or not at all."""
        started = datetime.now(UTC)
        given = {k: v for k, v in self.parameters.items() if k in source.defaults}
        try:
            with TemporaryDirectory(dir=self.target, prefix=".") as scratch, TemporaryFile() as log:
                partial = Path(scratch) / f"{source.name}.ipynb"
                error = self._execute(source, given, partial, log)
                record = Record.of(source.name, source.defaults | given, self.commit, started)
                if error is None:
                    node = nbformat.read(partial, as_version=4)
                    partial.with_suffix(".html").write_text(standalone(node, record), "utf-8")
                    record.write(partial.with_suffix(".json"))
                    for suffix in (".ipynb", ".html", ".json"):  # the record last: it says "whole"
                        os.replace(partial.with_suffix(suffix), self.target / f"{source.name}{suffix}")
                elif partial.exists():
                    os.replace(partial, self.target / f"{source.name}.failed.ipynb")
        except OSError as error:
            raise _unwritable(self.target, error) from None
        return Outcome(source.name, record.seconds, error)

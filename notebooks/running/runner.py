"""Runs notebooks with papermill: parameters checked first, failures reported, outputs whole or absent."""

# ruff: noqa: E402
from __future__ import annotations

import difflib
import hashlib
import logging
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from textwrap import indent
from typing import Any

sys.modules.setdefault("rfc3987_syntax", None)  # jsonschema would compile a grammar for 2 s

import jupytext
import nbformat
import papermill
from jupyter_client.provisioning import KernelProvisionerFactory
from jupyter_core.utils import ensure_event_loop
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, NotebookExecutionManager, papermill_engines
from papermill.exceptions import PapermillExecutionError
from tqdm import tqdm

from analytic import InputError
from notebooks.report import anatomy, standalone, unwritable
from notebooks.report.cells import plain
from notebooks.report.record import ROOT, Commit, Record
from notebooks.running import forked_kernels

Values = Mapping[str, Any]
FOLDER = Path(__file__).parents[1]
PROFILES = ("quick", "full")
WITHOUT_SLIDERS = ("profile", "seed", "device", "store")  # to look for some would import torch
SUFFIXES = (".ipynb", ".html", ".json", ".failed.ipynb")
_KERNEL = {"name": "python3", "language": "python", "display_name": "Python 3"}
_BAR = {"leave": False, "disable": None}  # on a terminal only
_log = logging.getLogger("papermill")
_log.setLevel(logging.CRITICAL)  # what papermill warns of is checked or reported here


@dataclass(frozen=True)
class Outcome:
    """How a notebook ended; the error is the failing cell and its traceback."""

    name: str
    seconds: float
    error: str | None = None


@dataclass(frozen=True, eq=False)
class Source:
    """A notebook before it runs, with the defaults of its parameters."""

    name: str
    node: nbformat.NotebookNode
    defaults: dict[str, Any]
    digest: str  # of the file


def read(path: Path) -> Source:
    text = path.read_text("utf-8")
    node = jupytext.reads(text, fmt="py:percent")
    node.metadata["kernelspec"] = _KERNEL
    digest = hashlib.sha256(text.encode()).hexdigest()
    try:
        return Source(path.stem, node, anatomy.parameters(node), digest)
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


def check(sources: Sequence[Source], parameters: Values) -> None:
    """Every parameter belongs to one of the notebooks, is of the kind of its default and in its domain."""
    known = sorted({name for source in sources for name in source.defaults})
    for name, value in parameters.items():
        if name not in known:
            near = difflib.get_close_matches(name, known) or known or ["no parameter at all"]
            raise InputError(f"No chosen notebook has {name!r}: there is {', '.join(near)}.")
        if name == "profile" and value not in PROFILES:
            raise InputError(f"profile is {' or '.join(PROFILES)}, but {value!r} was given.")
        owners = [source for source in sources if name in source.defaults]
        for source in owners:
            default = source.defaults[name]
            if not anatomy.fits(default, value):
                raise InputError(
                    f"{name} of {source.name} must be of type {type(default).__name__}, "
                    f"like {default!r}, but {value!r} was given."
                )
        _check_domain(name, value, owners)


def _check_domain(name: str, value: Any, sources: Sequence[Source]) -> None:
    """By the symbol of this name, and by the sliders of this name that the notebooks show."""
    from notebooks.panels.controls import check_parameter  # widgets: slow to import

    check_parameter(name, value)
    if name in WITHOUT_SLIDERS:
        return
    for source in sources:
        for control in _controls(source):
            if control.name == name and hasattr(control, "accept"):
                control.accept(value)


@lru_cache(maxsize=64)
def _controls(source: Source) -> list[Any]:
    return [control for look in anatomy.looks(source.node) for control in look.controls]


def run(
    names: Iterable[str], parameters: Values, jobs: int, output: Path, folder: Path = FOLDER
) -> list[Outcome]:
    """Runs notebooks, `jobs` at a time, into output/notebooks; outcomes in order of name."""
    chosen = [read(path) for path in find(names, folder)]
    return sorted(outcomes(chosen, parameters, jobs, output), key=lambda outcome: outcome.name)


def outcomes(
    sources: Sequence[Source],
    parameters: Values,
    jobs: int,
    output: Path,
    figures: Path | None = None,
) -> Iterator[Outcome]:
    """Each outcome as it comes; bad input is refused before a notebook starts.

    Figures are written to output/figures where no other folder is named.
    """
    check(sources, parameters)
    if jobs < 1:
        raise InputError(f"{jobs} jobs were asked for, but at least 1 is needed.")
    if figures is not None:
        check_room(figures, "--figures")
    target = clear(output / "notebooks", sources)
    batch = Batch(target, parameters, jobs, figures or output / "figures", bars=True)
    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(batch.attempt, source) for source in sources]
        try:
            for done in tqdm(as_completed(running), total=len(running), unit="notebook", **_BAR):
                yield done.result()
        finally:
            batch.kernels.stop(running)


def clear(target: Path, sources: Sequence[Source]) -> Path:
    """The folder without earlier outputs of these notebooks, and sure to take new ones."""
    try:
        for source in sources:
            for suffix in SUFFIXES:
                (target / f"{source.name}{suffix}").unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(target, error) from None
    check_room(target)
    return target


def check_room(folder: Path, other: str = "--output") -> None:
    """Refuse a folder that takes no new files; it is made where there is none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as probe:
            probe.write(b"room for a page" * 512)
    except OSError as error:
        raise unwritable(folder, error, other) from None


@dataclass
class Kernels:
    """The kernels at work, so that all can be ended."""

    clients: set[PapermillNotebookClient] = field(default_factory=set)
    ending: bool = False  # none may start any more

    def kill(self) -> None:
        self.ending = True
        for client in tuple(self.clients):
            provisioner = getattr(client.km, "provisioner", None)
            if provisioner and provisioner.pgid:
                with suppress(ProcessLookupError):
                    os.killpg(provisioner.pgid, signal.SIGKILL)

    def stop(self, running: Sequence[Future[Any]]) -> None:
        """Ends what still runs: nothing, unless there was an interrupt or a full disk."""
        for future in running:
            future.cancel()
        while wait(running, timeout=0.2).not_done:
            self.kill()


@dataclass(frozen=True)
class Batch:
    """What the notebooks of one call share."""

    target: Path
    parameters: Values
    jobs: int
    figures: Path
    bars: bool = False  # one progress bar a notebook, on a terminal
    commit: Commit = field(default_factory=Commit.here)
    kernels: Kernels = field(default_factory=Kernels)

    def attempt(self, source: Source) -> Outcome:
        """Executes one notebook; its outputs come into place together, or not at all."""
        started, name = datetime.now(UTC), source.name
        chosen = {k: v for k, v in self.parameters.items() if k in source.defaults}
        try:
            with TemporaryDirectory(dir=self.target, prefix=".") as scratch:
                partial = Path(scratch, f"{name}.ipynb")
                failure = self._execute(source, chosen, partial)
                node = nbformat.read(partial, as_version=4)
                record = Record.of(
                    name,
                    source.defaults | chosen,
                    self.commit,
                    started,
                    source.digest,
                    anatomy.numbers(node),
                    anatomy.verdict(node),
                )
                if failure is None:
                    partial.with_suffix(".html").write_text(standalone(node, record), "utf-8")
                    record.write(partial.with_suffix(".json"))
                    for suffix in (
                        ".ipynb",
                        ".html",
                        ".json",
                    ):  # the record last: it marks a whole output
                        os.replace(partial.with_suffix(suffix), self.target / f"{name}{suffix}")
                else:
                    os.replace(partial, self.target / f"{name}.failed.ipynb")
        except OSError as error:
            raise unwritable(self.target, error) from None
        return Outcome(name, record.seconds, failure)

    def _execute(self, source: Source, chosen: Values, partial: Path) -> str | None:
        """What went wrong, if anything; papermill keeps what ran in `partial`."""
        try:
            node = papermill.execute_notebook(
                source.node,
                partial,
                {name: _as_lists(value) for name, value in chosen.items()},
                engine_name=_Engine.__name__,
                kernel_name=_KERNEL["name"],
                progress_bar={"desc": source.name, **_BAR} if self.bars else False,
                batch=self,
            )
        except PapermillExecutionError as error:
            return _failure_text(error.source, "\n".join(error.traceback))
        except RuntimeError as error:  # the kernel died, or never started
            cells = nbformat.read(partial, as_version=4).cells
            begun = [c.source for c in cells if c.metadata.papermill.start_time]
            return _failure_text(begun[-1] if begun else "", str(error))
        ended = [c.source for c in node.cells if c.metadata.papermill.exception]
        return (
            _failure_text(ended[0], "SystemExit: the cells below did not run.") if ended else None
        )


def _as_lists(value: Any) -> Any:
    """Tuples as lists, since papermill would inject a tuple as text."""
    return [_as_lists(part) for part in value] if isinstance(value, tuple | list) else value


def _failure_text(cell: str, failure: str) -> str:
    return f"{indent(cell.strip(), '    ')}\n\n{plain(failure).strip()}"


class _Engine(Engine):
    """papermill's engine, with kernels that the batch holds and can end."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: NotebookExecutionManager, kernel_name: str, *, batch: Batch, **_: Any
    ) -> None:
        nb_man.nb.metadata.papermill.update(input_path=None, output_path=None)  # scratch
        KernelProvisionerFactory.instance().default_provisioner_name = forked_kernels.NAME
        client = PapermillNotebookClient(nb_man, kernel_name=kernel_name, log=_log)
        client.extra_arguments = ["--log-level=40"]  # errors, without the warning about TCP
        batch.kernels.clients.add(client)
        # Sliders become frames; no progress bar, for nobody watches and it would stay in the report.
        environment = {"KERNEL_GEOMETRY_FRAMES": "1"} | os.environ | {"TQDM_DISABLE": "1"}
        environment["KERNEL_GEOMETRY_FIGURES"] = str(batch.figures.absolute())
        if batch.jobs > 1:
            environment["OMP_NUM_THREADS"] = "1"
        with TemporaryFile() as log:
            try:
                if batch.kernels.ending:
                    raise RuntimeError("It was stopped before its kernel started.")
                client.execute(cwd=str(ROOT), env=environment, stdout=log, stderr=log)
            except RuntimeError as error:
                log.seek(0)
                raise RuntimeError(f"{error}\n{log.read().decode()}") from None
            finally:
                batch.kernels.clients.discard(client)
                ensure_event_loop().close()  # this thread's, which nbclient leaves open


papermill_engines.register(_Engine.__name__, _Engine)

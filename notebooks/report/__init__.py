"""The static report: pages of executed notebooks and of the ledger that open without a network."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from analytic import InputError
from notebooks.report import anatomy, cells
from notebooks.report.anatomy import Node
from notebooks.report.page import INDEX, LEDGER, NAVIGATION, frame
from notebooks.report.record import Record


def write(output: Path) -> Path:
    """output/report from what stands in output/notebooks; pages of anything else are removed."""
    executed = read_executed(output)
    target = output / "report"
    try:
        target.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target, prefix=".") as scratch:
            pages = _pages(executed)
            for name, text in pages.items():
                Path(scratch, name).write_text(text, "utf-8")
            for old in set(target.glob("*.html")) - {target / name for name in pages}:
                old.unlink()
            for name in pages:
                os.replace(Path(scratch, name), target / name)
    except OSError as error:
        raise unwritable(target, error) from None
    return target / INDEX


def read_executed(output: Path) -> list[tuple[Record, Node]]:
    """What stands in output/notebooks; refused where nothing does."""
    records = sorted((output / "notebooks").glob("[0-9][0-9]_*.json"))
    if not records:
        raise InputError(
            f"{output / 'notebooks'} holds no executed notebook: run some first, as in "
            f"python -m notebooks run 01 --output {output}."
        )
    return [_read(path) for path in records]


def unwritable(target: Path, error: OSError, other: str = "--output") -> InputError:
    return InputError(
        f"{target} cannot be written ({error.strerror or error}): give another {other}."
    )


def standalone(notebook: Node, record: Record) -> str:
    """One executed notebook as a page that links nowhere."""
    return _page(notebook, record, (), "")


def _read(path: Path) -> tuple[Record, Node]:
    try:
        return Record.read(path), json.loads(path.with_suffix(".ipynb").read_text("utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{path.stem} in {path.parent} is damaged: run it again.") from None


def _pages(executed: list[tuple[Record, Node]]) -> dict[str, str]:
    from notebooks.report import index, ledger  # sympy and every route: slow to import

    names = [INDEX, LEDGER, *(f"{record.notebook}.html" for record, _ in executed)]
    bodies = [index.page(executed), ledger.page()]
    bodies += [_page(notebook, record, names, NAVIGATION) for record, notebook in executed]
    return dict(zip(names, bodies, strict=True))


def _page(notebook: Node, record: Record, pages: Collection[str], header: str) -> str:
    title = re.sub(r"[$\\{}*`]", "", anatomy.heading(notebook) or record.notebook)
    foot = f'<p class="record">{escape(record.notebook)}: {escape(str(record))}</p>'
    return frame(title, f"{cells.render(notebook, pages)}\n{foot}", header)

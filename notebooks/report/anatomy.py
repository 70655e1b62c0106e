"""Parts of a notebook by their role: heading, question, parameters, numbers, verdict."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from notebooks.running.numbers import MIME

Node = Mapping[str, Any]  # a notebook, a cell or an output, from memory or straight from JSON


@dataclass(frozen=True)
class Computed:
    """A default that is no literal: any value may replace it."""

    source: str

    def __str__(self) -> str:
        return self.source


def text(value: str | list[str]) -> str:
    """Files keep long text as a list of lines."""
    return value if isinstance(value, str) else "".join(value)


def tagged(notebook: Node, tag: str) -> list[Node]:
    return [c for c in notebook["cells"] if tag in c["metadata"].get("tags", ())]


def heading(notebook: Node) -> str | None:
    """The first heading, as Markdown."""
    match = re.search(r"^#+ +(.+)", _prose(notebook), re.MULTILINE)
    return match[1].strip() if match else None


def question(notebook: Node) -> str | None:
    """Of the paragraph beneath the first heading, the first question or else the first sentence."""
    match = re.search(r"^#+ .+\n+((?:[^#\n].*(?:\n|$))+)", _prose(notebook), re.MULTILINE)
    if not match:
        return None
    sentences = re.split(r"(?<=[.?!])\s+(?=[A-Z$(`])", " ".join(match[1].split()))
    return next((s for s in sentences if s.endswith("?")), sentences[0])


def _prose(notebook: Node) -> str:
    cells = (c for c in notebook["cells"] if c["cell_type"] == "markdown")
    return "\n\n".join(text(cell["source"]) for cell in cells)


def verdict(notebook: Node) -> str | None:
    """What the cell tagged verdict printed; since it ran to its end, its assertions hold."""
    ran = [c for c in tagged(notebook, "verdict") if c.get("execution_count")]
    if not ran:
        return None
    printed = [text(o["text"]) for c in ran for o in c["outputs"] if o.get("name") == "stdout"]
    return " ".join("".join(printed).split()) or "Every assertion holds."


def numbers(notebook: Node) -> dict[str, int | float | str]:
    """What the notebook recorded, by name; of a name that it recorded twice, the last."""
    outputs = (output for cell in notebook["cells"] for output in cell.get("outputs", ()))
    recorded = (output.get("data", {}).get(MIME, {}) for output in outputs)
    return {name: value for values in recorded for name, value in values.items()}


def parameters(notebook: Node) -> dict[str, Any]:
    """Names and defaults that the cell tagged parameters assigns."""
    cells = tagged(notebook, "parameters")
    statements = (s for cell in cells for s in ast.parse(text(cell["source"])).body)
    return dict(pair for statement in statements for pair in _assigned(statement))


def looks(notebook: Node) -> list[Any]:
    """The looks of the panels that the cell tagged play opens; its imports run, its panels do not."""
    all_looks: list[Any] = []
    for cell in tagged(notebook, "play"):
        tree, space = ast.parse(text(cell["source"])), {}
        imports = [s for s in tree.body if isinstance(s, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module(imports, []), "<play>", "exec"), space)
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        opened = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "open_panel"]
        all_looks += [
            eval(compile(ast.Expression(c.args[1]), "<play>", "eval"), space) for c in opened
        ]
    return all_looks


def fits(default: Any, value: Any) -> bool:
    """Whether a value may replace a default: its own type, an int for a float, a list for a tuple."""
    if default is None or isinstance(default, Computed):
        return True
    if isinstance(default, tuple | list):
        return isinstance(value, tuple | list)
    return type(value) is type(default) or (type(default) is float and type(value) is int)


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, Any]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _pairs(target, statement.value)
    elif isinstance(statement, ast.AnnAssign) and statement.value:
        yield from _pairs(statement.target, statement.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, Any]]:
    """Name and value; several for `a, b = 1, 2`."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for part, its in zip(target.elts, value.elts, strict=True):
            yield from _pairs(part, its)
    elif isinstance(target, ast.Name):
        try:
            yield target.id, ast.literal_eval(value)
        except ValueError:
            yield target.id, Computed(ast.unparse(value))

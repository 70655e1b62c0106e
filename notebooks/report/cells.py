"""The cells of an executed notebook as HTML: prose, folded code, outputs by their richest form."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from notebooks.report import markdown, mathml
from notebooks.report.anatomy import Node, text

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_WIDGET = "application/vnd.jupyter.widget-view+json"
_TITLES = {"parameters": "parameters", "injected-parameters": "parameters of this run"}


def plain(printed: str) -> str:
    """Without colours, and with lines that a progress bar wrote over as they last stood."""
    lines = _ANSI.sub("", printed).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def render(notebook: Node, pages: Collection[str]) -> str:
    """Every cell; `pages` are the files that links may reach."""
    return "\n".join(_cell(cell, pages) for cell in notebook["cells"])


def _cell(cell: Node, pages: Collection[str]) -> str:
    source = text(cell["source"])
    if cell["cell_type"] == "markdown":
        return f'<div class="prose">{markdown.render(source, pages)}</div>'
    if cell["cell_type"] != "code" or not source.strip():
        return ""
    code = highlight(source, PythonLexer(), HtmlFormatter())
    title = f"<summary>{escape(_title(cell))}</summary>"
    outputs = "\n".join(_output(output, pages) for output in cell["outputs"])
    return f'<details class="code">{title}{code}</details>\n{outputs}'


def _title(cell: Node) -> str:
    """The line that stands for folded code: its first that imports nothing."""
    for tag in cell["metadata"].get("tags", ()):
        if tag in _TITLES:
            return _TITLES[tag]
    lines = text(cell["source"]).strip().splitlines()
    own = [line for line in lines if line.strip() and not line.startswith(("import ", "from "))]
    return own[0].removeprefix("# ") if own else "imports"


def _output(output: Node, pages: Collection[str]) -> str:
    if output["output_type"] == "stream":
        return f'<pre class="output {output["name"]}">{escape(plain(text(output["text"])))}</pre>'
    data = output["data"]
    if _WIDGET in data and "text/html" not in data:  # needs a kernel
        return ""
    kind = next((kind for kind in _FORMS if kind in data), None)
    if kind is None:
        return ""
    if kind == "text/markdown":
        body = markdown.render(text(data[kind]), pages)
    else:
        body = _FORMS[kind](text(data[kind]))
    return f'<div class="output">{body}</div>'


def _picture(kind: str, encoded: str) -> str:
    return f'<img alt="figure" src="data:{kind};base64,{encoded}">'


def _svg(source: str) -> str:
    """As a picture, so that its ids cannot meet those of another."""
    return _picture("image/svg+xml", base64.b64encode(source.encode()).decode())


_FORMS: dict[str, Callable[[str], str]] = {  # the richest first
    "text/html": lambda source: source,
    "image/svg+xml": _svg,
    "image/png": lambda data: _picture("image/png", data.replace("\n", "")),
    "image/jpeg": lambda data: _picture("image/jpeg", data.replace("\n", "")),
    "text/markdown": markdown.render,
    "text/latex": lambda source: mathml.display(mathml.bare(source)),
    "text/plain": lambda source: f"<pre>{escape(plain(source))}</pre>",
}

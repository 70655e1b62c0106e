"""The cells of an executed notebook as HTML: prose, folded code, outputs by their richest form."""

from __future__ import annotations

import ast
import base64
import re
from collections.abc import Collection
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from notebooks.report import markdown, mathml, pictures
from notebooks.report.anatomy import Node, text

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_WIDGET = "application/vnd.jupyter.widget-view+json"
_KINDS = (  # the richest first
    "text/html", "image/svg+xml", "image/png", "image/jpeg", "text/markdown", "text/latex", "text/plain",
)  # fmt: skip
_TITLES = {
    "parameters": "parameters",
    "injected-parameters": "parameters of this run",
    "play": "code of the panel",
}
_FOR_LINTERS = ("# isort:", "# noqa", "# ruff:")
_LIVE = (
    '<p class="live">This page computes nothing: it holds a few positions of each control. '
    "To click, drag and type, open the notebook itself with <code>make lab</code>.</p>"
)


def plain(printed: str) -> str:
    """Without colours, and with lines that a progress bar wrote over as they last stood."""
    lines = _ANSI.sub("", printed).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def render(notebook: Node, pages: Collection[str]) -> str:
    """Every cell; `pages` are the files that links may reach."""
    parts, heading = [], ""
    for cell in notebook["cells"]:
        parts.append(_cell(cell, pages, heading))
        if cell["cell_type"] == "markdown":
            headings = re.findall(r"^#+ +(.+)", text(cell["source"]), re.MULTILINE)
            heading = headings[-1].strip() if headings else heading
            parts += [_LIVE] if "Play" in headings else []
            heading += "" if heading.endswith(("?", "!", ".")) else "."
    return "\n".join(parts)


def _cell(cell: Node, pages: Collection[str], heading: str) -> str:
    source = text(cell["source"])
    if cell["cell_type"] == "markdown":
        return f'<div class="prose">{markdown.render(source, pages)}</div>'
    if cell["cell_type"] != "code" or not source.strip():
        return ""
    code = highlight(source, PythonLexer(), HtmlFormatter())
    title = f"<summary>{escape(_title(cell))}</summary>"
    outputs = "\n".join(_output(output, pages, heading) for output in cell["outputs"])
    if "verdict" in cell["metadata"].get("tags", ()):
        outputs = f'<div class="passed">{outputs}</div>'
    return f'<details class="code">{title}{code}</details>\n{outputs}'


def _title(cell: Node) -> str:
    """The line that stands for folded code: the first that neither imports nor speaks to a linter."""
    for tag in cell["metadata"].get("tags", ()):
        if tag in _TITLES:
            return _TITLES[tag]
    source = text(cell["source"])
    imports = _lines_of_imports(source)
    lines = enumerate(source.splitlines(), 1)
    own = [
        line
        for number, line in lines
        if line.strip() and number not in imports and not line.startswith(_FOR_LINTERS)
    ]
    return own[0].removeprefix("# ") if own else "imports"


def _lines_of_imports(source: str) -> set[int]:
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # a command of IPython
        return set()
    imports = [s for s in statements if isinstance(s, ast.Import | ast.ImportFrom)]
    return {n for s in imports for n in range(s.lineno, (s.end_lineno or s.lineno) + 1)}


def _output(output: Node, pages: Collection[str], heading: str) -> str:
    if output["output_type"] == "stream":
        return f'<pre class="output {output["name"]}">{escape(plain(text(output["text"])))}</pre>'
    data = output["data"]
    if _WIDGET in data and "text/html" not in data:  # needs a kernel
        return ""
    kind = next((kind for kind in _KINDS if kind in data), None)
    if kind is None:
        return ""
    alt = output.get("metadata", {}).get(kind, {}).get("alt", "")
    body = _body(kind, text(data[kind]), pages, pictures.spell(f"{heading} {alt}"))
    return f'<div class="output">{body}</div>'


def _body(kind: str, source: str, pages: Collection[str], alt: str) -> str:
    match kind:
        case "text/html":
            return pictures.compress(source)
        case "text/markdown":
            return markdown.render(source, pages)
        case "text/latex":
            return mathml.display(mathml.bare(source))
        case "text/plain":
            return f"<pre>{escape(plain(source))}</pre>"
        case "image/svg+xml":  # as a picture too, so that its ids cannot meet those of another
            encoded = base64.b64encode(source.encode()).decode()
        case _:
            encoded = pictures.compress(source.replace("\n", ""))
    return f'<img alt="{escape(alt)}" src="data:{kind};base64,{encoded}">'

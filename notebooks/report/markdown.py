"""Markdown as HTML that asks nothing of a network: formulas in MathML, far links as text."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Any

import mistune

from notebooks.report import mathml

NOTEBOOKS = Path(__file__).parents[1]
_PART = r"(?:[^$\\\n]|\n(?!\s*\n)|\\[\s\S])+?"  # of a formula: escapes, but no blank line
_MATH = rf"\$\$(?P<wide>{_PART})\$\$|\$(?![\s$])(?P<narrow>{_PART})(?<!\s)\$(?!\d)"
_ALONE = rf"^ {{0,3}}\$\$(?P<alone>{_PART})\$\$[ \t]*(?:\n|$)"
_CODE = r"^ *```[\s\S]*?^ *```|`[^`]*`|\\."


class _Renderer(mistune.HTMLRenderer):
    """Links reach pages that exist; pictures beside the notebooks go into the page; all else is text."""

    def __init__(self, pages: Collection[str]) -> None:
        super().__init__(escape=False)
        self._pages = pages

    def link(self, text: str, url: str, title: str | None = None) -> str:
        if "://" not in url:
            page = f"{PurePosixPath(url).stem.lower()}.html"
            return super().link(text, page, title) if page in self._pages else text
        address = mistune.escape(url)
        return address if text == address else f"{text} ({address})"

    def image(self, text: str, url: str, title: str | None = None) -> str:
        path = NOTEBOOKS / url
        if path.suffix == ".png" and path.is_file():
            url = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
        return super().image(text, url, title) if url.startswith("data:") else text

    def table(self, text: str) -> str:
        return f'<div class="table"><table>\n{text}</table></div>\n'

    def block_math(self, text: str) -> str:
        return mathml.display(text)

    def inline_math(self, text: str) -> str:
        return mathml.inline(text)


def render(source: str, pages: Collection[str] = ()) -> str:
    """A block of Markdown; `pages` are the files that its links may reach."""
    markdown = mistune.create_markdown(renderer=_Renderer(pages), plugins=["table", _math])
    return str(markdown(_on_one_line(source)))


def _on_one_line(source: str) -> str:
    """Formulas joined, so that a line of one that opens with - or + begins no list."""

    def join(match: re.Match[str]) -> str:
        return match[0].replace("\n", " ") if match["wide"] or match["narrow"] else match[0]

    return re.sub(f"{_CODE}|{_MATH}", join, source, flags=re.MULTILINE)


def phrase(source: str) -> str:
    """One line of Markdown, without a paragraph around it."""
    return re.sub(r"^<p>|</p>\s*$", "", render(source).strip())


def _math(markdown: mistune.Markdown) -> None:
    """A plugin: $...$ in a line, $$...$$ in a line or on its own."""

    def alone(_: Any, match: re.Match[str], state: Any) -> int:
        state.append_token({"type": "block_math", "raw": match["alone"]})
        return match.end()

    def within(_: Any, match: re.Match[str], state: Any) -> int:
        kind = "block_math" if match["wide"] else "inline_math"
        state.append_token({"type": kind, "raw": match["wide"] or match["narrow"]})
        return match.end()

    markdown.block.register("math", _ALONE, alone, before="list")
    markdown.inline.register("math", _MATH, within, before="codespan")

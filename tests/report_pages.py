"""What every page of the report has: glyphs for its formulas, words for its pictures, few bytes."""

import io
import json
import re
import unicodedata
from functools import cache
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files

from fontTools.ttLib import TTFont

LARGEST = 4_000_000  # bytes of one page
RADICAL = "√"
UNSEEN = set("\u2061\u2062\u2063\u2064\u00a0\n\t")  # nothing is drawn for them


def check_page(page: str) -> None:
    assert len(page.encode()) < LARGEST
    assert not missing_glyphs(page)
    for alt in alternatives(page):
        assert len(alt) > 10, alt


def alternatives(page: str) -> list[str]:
    """The alt text of every picture."""
    pictures = re.findall(r"<img\b[^>]*?\bsrc=[^>]*>", page)  # others are filled by a script
    return [unescape(alt) for p in pictures for alt in re.findall(r"\balt=\"([^\"]*)\"", p)]


def missing_glyphs(page: str) -> set[str]:
    """Characters of formulas that the font of the report does not have."""
    return {c for c in characters(page) - UNSEEN if ord(c) not in font().getBestCmap()}


@cache
def font() -> TTFont:
    data = files("notebooks.report").joinpath("font", "stix-two-math.woff").read_bytes()
    return TTFont(io.BytesIO(data))


def characters(page: str) -> set[str]:
    """What formulas draw, those among the frames of a panel too."""
    reader = _Formulas()
    reader.feed(re.sub(r"<script>.*?</script>", _formulas_of_frames, page, flags=re.DOTALL))
    reader.close()
    return reader.characters


def _formulas_of_frames(script: re.Match[str]) -> str:
    return "".join(json.loads(f'"{m}"') for m in re.findall(r"<math.*?</math>", script[0]))


class _Formulas(HTMLParser):
    """The characters that formulas draw: a letter of its own is slanted, and a root has its sign."""

    def __init__(self) -> None:
        super().__init__()
        self.characters: set[str] = set()
        self._inside: list[str] = []
        self._upright = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "math" or self._inside:
            self._inside.append(tag)
            self._upright = ("mathvariant", "normal") in attrs
            self.characters |= {RADICAL} if tag in ("msqrt", "mroot") else set()

    def handle_endtag(self, tag: str) -> None:
        if self._inside:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside or "annotation" in self._inside:
            return
        slanted = self._inside[-1] == "mi" and len(data) == 1 and not self._upright
        self.characters |= {_slanted(data)} if slanted else set(data)


def _slanted(letter: str) -> str:
    if letter == "h":
        return "\u210e"  # its slanted form stands apart
    name = unicodedata.name(letter).replace("LETTER ", "")
    plain = name.removeprefix("LATIN ").removeprefix("GREEK ")
    try:
        return unicodedata.lookup(f"MATHEMATICAL ITALIC {plain}")
    except KeyError:
        return letter

"""LaTeX as MathML, which browsers typeset without a script."""

from __future__ import annotations

import html
import unicodedata
from xml.etree.ElementTree import Element, SubElement, tostring

from latex2mathml.converter import convert_to_element

_WORDS = {r"\langle": "⟨", r"\rangle": "⟩", "&#x0007E;": "\u223c"}  # as latex2mathml leaves them
_OPERATORS = set("⟨⟩⌊⌋:;\u223c⟂±⟶⟹⟺")  # which it takes for letters, and sets without space


def inline(latex: str) -> str:
    return _convert(latex, "inline")


def display(latex: str) -> str:
    return f'<span class="math">{_convert(latex, "block")}</span>'


def _convert(latex: str, mode: str) -> str:
    """MathML with its LaTeX as annotation: unseen, but found by a search and by a screen reader."""
    known = latex.replace("{aligned}", "{align*}")  # latex2mathml prints the & of the former
    try:
        parts = list(convert_to_element(known, display=mode))
    except Exception:  # the converter has no common error; its input is whatever an author wrote
        return f'<code class="latex">{html.escape(latex)}</code>'
    math = Element("math", display=mode)
    semantics = SubElement(math, "semantics")
    SubElement(semantics, "mrow").extend(parts)
    for element in semantics.iter():
        element.text = _WORDS.get(element.text or "", html.unescape(element.text or ""))
        if element.tag == "mi" and element.text in _OPERATORS:
            element.tag, element.attrib = "mo", {"stretchy": "false"}
        if element.text == "|":  # a norm; a browser would space it like a relation
            element.attrib |= {"lspace": "0", "rspace": "0"}
        if element.get("mathvariant", "normal") != "normal":
            element.text = _in_variant(element.text, element.attrib.pop("mathvariant"))
    SubElement(semantics, "annotation", encoding="application/x-tex").text = latex.strip()
    return tostring(math, encoding="unicode", short_empty_elements=False)


def _in_variant(letters: str, variant: str) -> str:
    """Letters of their own in Unicode: of a mathvariant, browsers only know `normal`."""
    style = {"bold-italic": "BOLD ITALIC"}.get(variant, variant.upper())

    def styled(letter: str) -> str:
        name = unicodedata.name(letter, "").replace("LETTER ", "")
        for script in ("LATIN ", "GREEK "):
            name = name.removeprefix(script)
        try:
            return unicodedata.lookup(f"MATHEMATICAL {style} {name}")
        except KeyError:
            return letter

    return "".join(map(styled, letters))


def bare(latex: str) -> str:
    r"""Without the dollars and \displaystyle of a notebook output."""
    return latex.strip().strip("$").strip().removeprefix(r"\displaystyle").strip()

"""The frame of every page: one file with its style inside, nothing fetched."""

from __future__ import annotations

import base64
from functools import cache
from html import escape
from importlib.resources import files
from string import Template

INDEX, LEDGER = "index.html", "ledger.html"
NAVIGATION = f'<nav><a href="{INDEX}">kernel-geometry</a><a href="{LEDGER}">ledger</a></nav>'


@cache
def asset(name: str) -> str:
    return files("notebooks.report").joinpath(name).read_text("utf-8")


@cache
def _math_font() -> str:
    """The font of formulas as a style: inside the page, since a browser may refuse one file to another."""
    data = files("notebooks.report").joinpath("font", "stix-two-math.woff").read_bytes()
    source = f"url(data:font/woff;base64,{base64.b64encode(data).decode()})"
    return f'@font-face {{ font-family: "STIX Two Math"; src: {source} format("woff"); }}\n'


def frame(title: str, body: str, navigation: str = NAVIGATION) -> str:
    """A whole page."""
    style = asset("page.css") + (_math_font() if "<math" in body else "")
    parts = {"title": escape(title), "style": style, "navigation": navigation}
    return Template(asset("page.html")).substitute(parts, body=body)

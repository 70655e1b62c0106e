"""The frame of every page: one file with its style inside, nothing fetched."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from string import Template

INDEX, LEDGER = "index.html", "ledger.html"
NAVIGATION = f'<nav><a href="{INDEX}">kernel-geometry</a><a href="{LEDGER}">ledger</a></nav>'


@cache
def asset(name: str) -> str:
    return files("notebooks.report").joinpath(name).read_text("utf-8")


def frame(title: str, body: str, navigation: str = NAVIGATION) -> str:
    """A whole page."""
    parts = {"title": escape(title), "style": asset("page.css"), "navigation": navigation}
    return Template(asset("page.html")).substitute(parts, body=body)

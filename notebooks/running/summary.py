"""The page of a sweep: recorded numbers against what was swept, and every setting with its verdict."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from html import escape
from statistics import fmean
from typing import TYPE_CHECKING

from notebooks.report import anatomy
from notebooks.report.page import frame
from notebooks.running.sweep import Grid, Result, listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from notebooks.running.runner import Source

MOST_ROWS, MOST_COLUMNS = 12, 6  # of the picture; results.csv has all
TICKS = 8  # values that stand below an axis one by one


def page(source: Source, grid: Grid, results: Sequence[Result]) -> str:
    """A whole page that needs no network."""
    failed = [one for one in results if one.state == "failed"]
    names = list(dict.fromkeys(name for one in results for name in one.numbers))
    title = f"Sweep of {source.name}"
    swept = listed(grid)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(anatomy.heading(source.node) or '')}</p>",
        f"<p>{escape(swept)}: {len(results)} settings, {len(failed)} of them failed. "
        'All numbers: <a href="results.csv">CSV</a>, <a href="results.json">JSON</a>.</p>',
        _picture(grid, names, results),
        _table(grid, names, results),
    ]
    return frame(title, "\n".join(parts), "")


def _picture(grid: Grid, names: Sequence[str], results: Sequence[Result]) -> str:
    from notebooks.panels.style import new_figure

    if not names:
        return "<p>No setting recorded a number, so there is nothing to draw.</p>"
    rows = names[:MOST_ROWS]
    columns = sorted(grid, key=lambda name: -len(grid[name]))[:MOST_COLUMNS]
    columns = [name for name in grid if name in columns]
    figure = new_figure(3.2 * len(columns) + 0.8, 2.3 * len(rows) + 0.4)
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    for number, line in zip(rows, axes, strict=True):
        for parameter, one in zip(columns, line, strict=True):
            _scatter(one, grid[parameter], parameter, number, results)
        line[0].set_ylabel(number)
    for parameter, one in zip(columns, axes[-1], strict=True):
        one.set_xlabel(parameter)
    held = io.BytesIO()
    figure.savefig(held, format="png", dpi=130, metadata={"Software": None})
    encoded = base64.b64encode(held.getvalue()).decode()
    alt = f"{', '.join(rows)} against {', '.join(columns)}"
    image = f'<img alt="{escape(alt)}" src="data:image/png;base64,{encoded}">'
    text = (
        "Each dot is one setting; the line is the mean over settings that share the value below it."
    )
    return f'<figure class="output">{image}<figcaption>{text}</figcaption></figure>'


def _scatter(
    axes: Axes, values: Sequence[object], parameter: str, number: str, results: Sequence[Result]
) -> None:
    """Dots and their means; parameters that are no finite numbers take places 0, 1, 2 under their names."""
    from notebooks.panels.style import BLUE, INK

    numeric = all(type(v) in (int, float) and math.isfinite(v) for v in values)
    means = []
    for place, value in enumerate(values):
        x = value if numeric else place
        recorded = (
            one.numbers.get(number) for one in results if one.parameters[parameter] == value
        )
        finite = [y for y in map(float, (n for n in recorded if n is not None)) if math.isfinite(y)]
        if finite:
            axes.plot([x] * len(finite), finite, "o", color=BLUE, alpha=0.4, ms=4, mew=0)
            means.append((x, fmean(finite)))
    if means:
        axes.plot(*zip(*sorted(means), strict=True), color=INK, lw=1)
    if not numeric or len(values) <= TICKS:
        places = values if numeric else range(len(values))
        axes.set_xticks(places, [str(value) for value in values])
    axes.spines[["top", "right"]].set_visible(False)


def _table(grid: Grid, names: Sequence[str], results: Sequence[Result]) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in [*grid, "ended", *names, "verdict"])
    rows = "\n".join(_row(grid, names, one) for one in results)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="output">{table}</div>'


def _row(grid: Grid, names: Sequence[str], one: Result) -> str:
    numbers = (one.numbers.get(name, "") for name in names)
    shown = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in numbers]
    cells = [
        *(escape(str(one.parameters[name])) for name in grid),
        f'<a href="{escape(one.page)}">{one.state}</a>',
        *map(escape, shown),
        escape(one.verdict or one.error or ""),
    ]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"

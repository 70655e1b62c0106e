"""Power laws on logarithmic axes, and plots of curves with error bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from notebooks.panels.style import BLUE, INK, PURPLE, RED, SMALL, frame_axes, new_figure

if TYPE_CHECKING:
    from notebooks.topics.statistics import LinePlot, PowerLaw


def figure_laws(columns: Mapping[str, Mapping[str, PowerLaw]], xlabel: str) -> Figure:
    """Power laws, each with the slope that was fitted."""
    figure = new_figure()
    for (title, laws), axes in zip(columns.items(), figure.subplots(1, len(columns)), strict=True):
        for (label, law), colour, mark in zip(laws.items(), (BLUE, RED, INK), "os^", strict=False):
            text = f"{label}: slope {law.slope:.3f}"
            axes.loglog(law.x, law.y, f"{mark}-", color=colour, mfc="none", lw=1, label=text)
        frame_axes(axes, title, xlabel).legend(**SMALL)
    return figure


def figure_lines(*plots: LinePlot) -> Figure:
    figure = new_figure()
    for plot, axes in zip(plots, figure.subplots(1, len(plots), squeeze=False)[0], strict=True):
        looks = zip((BLUE, RED, INK, PURPLE), ("o-", "s--", "^-.", "D:"), strict=True)
        for (label, (x, y, *bars)), (colour, look) in zip(plot.lines.items(), looks, strict=False):
            style = {"color": colour, "mfc": "none", "ms": 5, "lw": 1.2, "capsize": 2}
            axes.errorbar(x, y, *bars, fmt=look, label=label, **style)
        axes.set_yscale("log" if plot.log else "linear")
        frame_axes(axes, plot.title, plot.xlabel).legend(**SMALL)
    return figure

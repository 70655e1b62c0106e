"""Pictures of what one learned example does to volumes: Figure E.1 of the curvature paper, and a panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from notebooks.panels import Caption, Look, Slider, degree, dimension, log_slider
from notebooks.panels.style import BLUE, GREY, INK, RED, SMALL, frame_axes, new_figure

if TYPE_CHECKING:
    from notebooks.topics.perturbation import (
        AreaMaps,
        ChiCurves,
        LearnedExample,
        LineFit,
        Sampled,
        TargetCurves,
    )
    from notebooks.topics.statistics import PowerLaw

CHANGE = r"$n\,(\langle\sqrt{\det g}\rangle / \sqrt{\det\bar g} - 1)$"
TARGET = r"$y\,/\,|x_a|^q$"
SHRINK_GROW = LinearSegmentedColormap.from_list("shrink, grow", (BLUE, "white", RED))
HOLLOW = {"color": INK, "mfc": "none", "ms": 4}
CONTROLS = (
    degree,
    dimension,
    Slider("rho", "ρ", 0.0, 1.0, 0.05, 0.5, "overlap"),  # noqa: RUF001
    Slider("y", "y", 0.0, 3.0, 0.1, 2.0, "target"),
    log_slider("n", "n", 1, 6, 1000, "width"),
)
CORRECTED = r"1 + \frac{1}{n}\left[\frac{y^2|x_a|^{-2q} - 1}{4}\,(\chi - d) + \kappa\right]"
TITLES = ("mean volume over its limit", "the same by target")  # formulas would be slow to draw


def figure_e1(curves: ChiCurves) -> Figure:
    """chi over its value at rho = 1, and chi - d; circles for its definition."""
    figure = new_figure(9.0, 6.6)
    dimensions, degrees = (dict.fromkeys(part) for part in zip(*curves.closed_form, strict=True))
    rows = figure.subplots(2, len(dimensions), sharex=True, sharey="row")
    places = curves.check_overlaps
    for d, (share, excess) in zip(dimensions, rows.T, strict=True):
        for q, shade in zip(degrees, np.linspace(1, 0.25, len(degrees)), strict=True):
            curve, checks = curves.closed_form[d, q], curves.checks[d, q]
            style = {"color": RED, "alpha": shade}
            share.plot(curves.overlaps, curve / curve[-1], label=f"$q = {q}$", **style)
            excess.semilogy(curves.overlaps, curve - d, **style)
            for axes, values in ((share, checks / checks[-1]), (excess, checks - d)):
                axes.plot(places[1:-1], values[1:-1], "o", **HOLLOW | {"ms": 2.5})
                axes.plot(places[[0, -1]], values[[0, -1]], "o", **HOLLOW | {"ms": 6})
        frame_axes(share, rf"$\chi(\rho)\,/\,\chi(1)$, $d = {d}$").set_ylim(0, 1.1)
        frame_axes(excess, rf"$\chi(\rho) - d$, $d = {d}$", r"overlap $\rho$")
    named = rows[0, 0].get_legend_handles_labels()
    figure.legend(*named, loc="outside right center", frameon=False)
    return figure


def _formulas(axes: Axes, curves: TargetCurves) -> None:
    """Both formulas against the target."""
    axes.axhline(0, color=GREY, lw=0.8)
    axes.plot(curves.targets, curves.printed, "--", color=RED, label="as printed, (E.38)")
    axes.plot(curves.targets, curves.corrected, color=BLUE, label="corrected")
    where = rf", $\rho = {curves.rho:g}$" if curves.d > 1 else ""
    frame_axes(axes, f"{CHANGE}, $q = {curves.q}$, $d = {curves.d}${where}", TARGET)


def figure_printed_corrected(
    line: TargetCurves, at: np.ndarray, exact: Mapping[int, np.ndarray],
    plane: TargetCurves, sampled: Mapping[int, Sampled],
) -> Figure:  # fmt: skip
    """Both formulas beside exact values at some targets, and beside samples, by width."""
    figure = new_figure(9.0, 3.9)
    left, right = figure.subplots(1, 2)
    _formulas(left, line)
    _formulas(right, plane)
    for (width, values), mark in zip(exact.items(), (":", "o"), strict=False):
        left.plot(at, values, mark, **HOLLOW, label=f"exact, $n = {width}$")
    for (width, one), mark in zip(sampled.items(), "s^", strict=False):
        style = {"fmt": mark, "lw": 1.2, "capsize": 2, "zorder": 3, **HOLLOW}
        right.errorbar(one.at, one.mean, one.stderr, label=f"Monte Carlo, $n = {width}$", **style)
    for axes in (left, right):
        axes.legend(loc="upper left", **SMALL)
    return figure


def figure_limits(
    laws: Mapping[str, PowerLaw], by_width: Sampled, fit: LineFit, corrected: float, printed: float
) -> Figure:
    """How the exact case nears each formula; samples by width, and their limit."""
    figure = new_figure(9.0, 3.9)
    left, right = figure.subplots(1, 2)
    looks = zip(("o-", "s-", "^--"), (BLUE, INK, RED), strict=True)
    for (label, law), (style, colour) in zip(laws.items(), looks, strict=True):
        text = f"{label}: slope {law.slope:.3f}"
        left.loglog(law.x, law.y, style, **HOLLOW | {"color": colour}, lw=1, label=text)
    frame_axes(left, "exact case less the formulas", "$n$").legend(**SMALL)
    inverse = 1 / by_width.at
    right.axhline(corrected, color=BLUE, label=f"corrected: ${corrected:+.3f}$")
    right.plot([], [], "--", color=RED, label=f"as printed: ${printed:+.3f}$, far above")
    reach = np.array([0, inverse.max()])
    right.plot(reach, fit.value + fit.slope * reach, ":", color=INK, label="fitted line")
    samples = {"fmt": "s", "capsize": 2, "label": "Monte Carlo", **HOLLOW}
    right.errorbar(inverse, by_width.mean, by_width.stderr, **samples)
    last = {"fmt": "D", "color": INK, "capsize": 3, "label": r"$n \to \infty$", "zorder": 3}
    right.errorbar(0, fit.value, fit.stderr, **last)
    low, high = right.get_ylim()
    right.set_ylim(1.7 * low - 0.7 * high, high)  # room for the legend
    frame_axes(right, f"{CHANGE} by width", "$1/n$").legend(loc="lower right", **SMALL)
    return figure


def figure_map(maps: AreaMaps) -> Figure:
    """Where around a training point areas grow, against infinite width and against no training."""
    figure, (x, y) = new_figure(9.0, 5.8), maps.example
    both = (maps.against_infinite_width, maps.against_untrained)
    rows = figure.subplots(2, len(both[0]), sharex=True, sharey=True)
    top = max(abs(one.along) for row in both for one in row)
    names = (r"against $n = \infty$", "against untrained networks")
    for row, ones, name in zip(rows, both, names, strict=True):
        for axes, one in zip(row, ones, strict=True):
            colours = {"cmap": SHRINK_GROW, "vmin": -top, "vmax": top}
            shown = axes.pcolormesh(maps.side, maps.side, one.change, **colours)
            dashed = {"colors": INK, "linestyles": "--", "linewidths": 1}
            axes.contour(maps.side, maps.side, one.change, [0], **dashed)
            axes.plot(x, y, "*", color=INK, ms=11)
            for place, value in (((x, y - 0.5), one.along), ((-y, x), one.across)):
                axes.text(*place, f"{value:+.2f}", ha="center")
            axes.set(title=rf"$y = {one.target:g}\,|x_a|^{maps.q}$", aspect="equal")
        row[0].set_ylabel(name)
    label = "change of areas in percent, $n = 100$"
    figure.colorbar(shown, ax=rows, label=label, shrink=0.8)
    return figure


def figure_monotone(
    title: str, coefficients: Sequence[float], turns: Mapping[int, Mapping[int, float]]
) -> Figure:
    """Coefficients of chi, and the overlap beyond 1 at which it would turn, by dimension and degree."""
    figure = new_figure(9.0, 3.6)
    left, right = figure.subplots(1, 2)
    colours = [BLUE if value > 0 else RED for value in coefficients]
    left.bar(range(len(coefficients)), coefficients, color=colours)
    left.axhline(0, color=INK, lw=0.8)
    left.set_yscale("symlog")
    frame_axes(left, rf"coefficients of $\chi$, {title}", r"power of $\rho^2$")
    for (d, places), style in zip(turns.items(), ("o-", "s--", "^-.", "D:"), strict=False):
        beyond = np.array(list(places.values())) - 1
        right.semilogy(list(places), beyond, style, lw=1.2, label=f"$d = {d}$", **HOLLOW)
    title = r"$\rho_* - 1$, where $\chi'(\rho_*) = 0$"
    frame_axes(right, title, "$q$").legend(ncols=2, **SMALL)
    return figure


def relevant(control: str, values: Mapping[str, Any]) -> bool:
    """On a line all points are parallel."""
    return control != "rho" or values["d"] > 1


def draw_example(axes: Sequence[Axes], now: LearnedExample) -> Caption:
    """Volumes after one example was learned, by the overlap with it and by its target."""
    if not axes[0].lines:
        _begin(axes)
    for line, volume in enumerate((now.corrected, now.printed)):
        axes[0].lines[line].set_data(now.overlaps, volume.by_overlap)
        axes[1].lines[line].set_data(now.targets, volume.by_target)
        for one, at in zip(axes, (now.rho, now.y), strict=True):
            one.lines[2 + line].set_data([at], [volume.here])
    for one in axes:
        one.relim()
        one.autoscale_view()
    numbers = f"corrected {now.corrected.here:.8g}, as printed {now.printed.here:.8g}"
    numbers += f"; areas grow from y = {now.threshold:.6g} |x_a|^{now.q}"
    if now.too_narrow:
        numbers += "; too narrow for a first order in 1/n"
    filled = rf"\frac{{{now.y**2:.4g} - 1}}{{4}}\cdot {now.excess:.6g} - {-now.fluctuation:.6g}"
    formula = rf"{CORRECTED} = 1 + \frac{{1}}{{{now.n}}}\left[{filled}\right]"
    return Caption(formula, numbers)


def _begin(axes: Sequence[Axes]) -> None:
    """The lines that move: corrected, as printed, and a dot on each; then one that does not."""
    for one, xlabel in zip(axes, (r"overlap $\rho$", TARGET), strict=True):
        one.plot([], [], "-", color=BLUE, label="corrected")
        one.plot([], [], "--", color=RED, label="as printed")
        one.plot([], [], "o", color=BLUE)
        one.plot([], [], "o", color=RED, mfc="none")
        one.axhline(1, color=GREY, lw=0.8, zorder=0)
        one.set_xlabel(xlabel)
        one.locator_params(nbins=5)
    axes[0].set_xlim(-0.05, 1.05)
    axes[1].legend(loc="upper left", **SMALL)  # where no curve goes, for all of them rise with y


PANEL = Look(draw_example, CONTROLS, TITLES, relevant)

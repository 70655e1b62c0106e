"""Pictures of what univariate ReLU networks interpolate: Figures 3 and 4 of the paper, and a panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from notebooks.panels import Caption, Choice, Look, Slider, freeze, log_slider
from notebooks.panels.pad import Box, Handles
from notebooks.panels.style import BLUE, GREEN, GREY, INK, RED, SMALL, frame_axes, new_figure
from notebooks.topics.splines import FIVE, LAWS, REACH, has_scale

if TYPE_CHECKING:
    from notebooks.topics.splines import Fit, Interpolants, KernelSlice, NotSplines

TERMS = {  # of the tangent kernel, by the parameter that its gradients belong to
    "c": r"$\partial_c$: $E\,[ax-b]_+[ay-b]_+$",
    "a": r"$\partial_a$: $xy\,E\,c^2\,P$",
    "b": r"$\partial_b$: $E\,c^2\,P$",
}
POINTS = Handles("points", "data", FIVE, limits=Box(-REACH, REACH, -REACH, REACH))
LAW = Choice("law", "law", LAWS, "signs")
A = Slider("A", "A", 0.2, 3.0, 0.1, 1.0, "range of slopes", above=0.0)
B = Slider("B", "B", 0.2, 8.0, 0.1, 1.0, "range of biases", above=0.0)
units = Slider("m", "m", 10, 2_000, 10, 200, "units", most=20_000)
ridge = replace(log_slider("ridge", "λ", -9, 0, 1e-9, "ridge"), least=1e-15, most=1e6)
CONTROLS = (LAW, A, B, units, ridge, POINTS)
TITLES = ("network, its limit, the natural spline", "distance to the natural spline")
FORMULA = r"f'' = \nu_3(x)\,\tfrac12\sum_j\alpha_j\,|x - x_j|"
LOOKS = {"network": (GREEN, "-", 1.0), "kernel": (BLUE, "-", 2.0), "spline": (RED, "--", 1.3)}


def figure_slices(slices: Mapping[str, KernelSlice], allowed: float) -> Figure:
    """Figure 3: a column for each law, the terms above and their errors below."""
    figure = new_figure(9.5, 5.0)
    rows = figure.subplots(2, len(slices), sharex=True, height_ratios=(2.4, 1))
    for (title, one), above, below in zip(slices.items(), *rows, strict=True):
        for (name, label), colour in zip(TERMS.items(), (BLUE, RED, GREEN), strict=True):
            above.plot(one.line, one.exact[name], color=colour, lw=1.3, label=label)
            circles = {"color": colour, "ms": 3.5, "mfc": "none"}
            above.plot(one.points, one.network[name].mean, "o", **circles)
            below.plot(one.points, one.sigmas[name], "o-", color=colour, ms=2.5, lw=0.7)
        below.axhline(allowed, color=GREY, ls=":", lw=1)
        frame_axes(above, title, size=10)
        frame_axes(below, "", size=10).set(xlabel="$y$", ylabel="standard errors")
    rows[0, 0].legend(title="closed forms; circles: network", **SMALL)
    return figure


def figure_fit(fit: Fit) -> Figure:
    """Figure 4: functions through the data, and how far networks stay from the natural spline."""
    figure = new_figure(9.5, 3.8)
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1))
    shades = np.linspace(0.4, 1, len(fit.networks))
    for (label, curve), shade in zip(fit.networks.items(), shades, strict=True):
        left.plot(fit.grid, curve, color=GREEN, alpha=shade, lw=1, label=label)
    left.plot(fit.grid, fit.kernel, color=BLUE, lw=2.2, label="kernel interpolant")
    left.plot(fit.grid, fit.spline, "--", color=RED, lw=1.3, label="natural spline")
    left.plot(*fit.data, "o", color=INK, ms=4, zorder=4)
    frame_axes(left, "ten points of a square wave", size=10).set(xlabel="$x$", ylim=(-1.7, 2.6))
    left.legend(frameon=False, fontsize=7.5, ncols=2, loc="upper center")
    for (label, law), mark in zip(fit.approaches.items(), "os", strict=False):
        right.loglog(law.x, law.y, f"{mark}-", color=GREEN, mfc="none", label=label)
    right.axhline(fit.limit, color=BLUE, lw=1.5, label=f"kernel interpolant: {fit.limit:.3g}")
    frame_axes(right, "largest distance to the natural spline", size=10).set_xlabel("$m$")
    right.legend(**SMALL)
    return figure


def figure_not_splines(curves: NotSplines) -> Figure:
    """Slopes of interpolants, and f'' where the density of knots is not constant."""
    figure, x = new_figure(11.0, 3.5), curves.data[0]
    first, *rest = figure.subplots(1, 1 + len(curves.others))
    for (label, slopes), colour in zip(curves.slopes.items(), (BLUE, RED), strict=True):
        first.plot(curves.middles, slopes, color=colour, lw=1.2, label=label)
    frame_axes(first, "$f'$: kinks at the data", size=10).legend(loc="upper right", **SMALL)
    for axes, one in zip(rest, curves.others, strict=True):
        dots = {"color": INK, "ms": 3, "mfc": "none", "label": r"$\nu_3$ polygon"}
        axes.plot(one.grid, one.differences, color=BLUE, label="second differences")
        axes.plot(one.dots, one.polygon, "o", **dots)
        axes.plot(curves.inside, curves.spline, "--", color=RED, lw=1, label="natural spline")
        for edge in one.edges:
            axes.axvline(edge, color=GREY, ls=":", lw=1)
        frame_axes(axes, one.title, size=10)
    rest[0].legend(**SMALL)
    for axes in (first, *rest):
        axes.plot(x, 0 * x, "|", color=INK, ms=12, transform=axes.get_xaxis_transform())
        axes.set_xlabel("$x$")
    return figure


def relevant(control: str, values: Mapping[str, Any]) -> bool:
    """The scales matter to laws that have them."""
    return control not in ("A", "B") or has_scale(values["law"], control)


def draw_interpolants(axes: Sequence[Axes], now: Interpolants) -> Caption:
    """What m units and infinitely many make of the points, and how far either is from the spline."""
    if not axes[0].lines:
        _begin(*axes)
    axes[0].lines[-1].set_data(now.x, now.y)
    if now.refusal:
        for line in (*axes[0].lines[:-1], *axes[1].lines):
            line.set_data([], [])
        return Caption(FORMULA, now.refusal)
    for line, other, name in zip(axes[0].lines, axes[1].lines, LOOKS, strict=False):
        line.set_data(now.line, now.curves[name])
        other.set_data(now.line, now.distances[name])
    largest = ", ".join(f"{name} {now.largest[name]:.3e}" for name in ("network", "kernel"))
    return Caption(FORMULA, f"largest distance to the spline between data: {largest}")


def _begin(left: Axes, right: Axes) -> None:
    """Frames, numbers and legends, drawn once since they cost most; then empty lines."""
    left.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xlabel="$x$")
    right.set(xlim=(-REACH, REACH), ylim=(1e-6, 5), yscale="log", xlabel="$x$")
    for where in (left, right):
        for name, (colour, dash, width) in LOOKS.items():
            where.plot([], [], dash, color=colour, lw=width, label=name)
    left.legend(loc="lower left", **SMALL)
    freeze((left, right))
    left.plot([], [], "o", color=INK, ms=5)


PANEL = Look(draw_interpolants, CONTROLS, TITLES, relevant)

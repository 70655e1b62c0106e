"""Pictures of univariate ReLU networks in training: Figures 1, 2 and 5 to 9 of the paper, and a panel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Wedge

from notebooks.panels import Caption, Choice, Look, Slider, tick_slider
from notebooks.panels.style import BLUE, GREEN, GREY, INK, RED, SMALL, frame_axes, new_figure
from notebooks.topics.dynamics import ATTRACTOR, DELTAS, REPULSOR, STOPS, TASKS

if TYPE_CHECKING:
    from notebooks.topics.dynamics import (
        ActiveArc,
        FilmFrame,
        KnotShares,
        NetworkState,
        NeuronPaths,
        Velocities,
    )

SHADES = (INK, BLUE, RED)
RAYS = {ATTRACTOR: (GREEN, "-"), REPULSOR: (RED, "--")}
FORMULA = r"\dot w_i = -P_{\delta}(r_i)\,\nabla_{w_i}\tilde L, \quad \delta = c_i^2 - a_i^2 - b_i^2"


def spell(delta: float) -> str:
    return {math.inf: r"$\infty$", -math.inf: r"$-\infty$"}.get(delta, f"{delta:g}")


def draw_fit(axes: Axes, state: NetworkState, colour: str = BLUE) -> None:
    """The function, its knots on it, and the samples."""
    axes.plot(state.grid, state.function, color=colour, lw=1.3)
    axes.plot(state.knots, state.heights, "o", color=GREEN, ms=2.5, alpha=0.35, mew=0)
    axes.plot(state.x, state.y, "x", color=INK, ms=6, mew=1.6)
    axes.set(xlim=(-1.3, 1.3), xlabel="$x$")


def draw_plane(axes: Axes, state: NetworkState) -> None:
    """Neurons at (u, v), coloured by the sign of r, with the line of each sample."""
    _sample_lines(axes, state.x, state.reach)
    for value, colour in ((1, RED), (-1, BLUE)):
        of_sign = state.sign == value
        axes.plot(state.u[of_sign], state.v[of_sign], "o", color=colour, ms=2.5, alpha=0.5, mew=0)


def _sample_lines(axes: Axes, x: np.ndarray, reach: float) -> None:
    for one in x:
        axes.plot([-reach, reach], [reach * one, -reach * one], color=GREY, lw=0.5, zorder=0)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="$u$", ylabel="$v$")


def figure_network(state: NetworkState, arcs: Sequence[ActiveArc]) -> Figure:
    """Figure 1: a network's function with its knots, and its neurons among the arcs."""
    figure = new_figure(9.0, 3.8)
    left, right = figure.subplots(1, 2)
    draw_fit(frame_axes(left, "the function and its knots", size=10), state)
    draw_plane(frame_axes(right, "neurons in the plane, arcs by active samples", size=10), state)
    for arc in arcs:
        colour, alpha = (GREY, 0.28) if arc.dead else (GREEN, arc.share / 4)
        style = {"color": colour, "alpha": alpha, "lw": 0, "zorder": -1}
        right.add_patch(Wedge((0, 0), 2 * state.reach, arc.start, arc.stop, **style))
    return figure


def figure_local(paths: Mapping[float, Sequence[tuple[np.ndarray, np.ndarray]]]) -> Figure:
    """Figure 2: neurons under one constant gradient, which points to the right."""
    figure = new_figure(10.0, 3.9)
    for axes, (delta, curves) in zip(figure.subplots(1, len(paths)), paths.items(), strict=True):
        for u, v in curves:
            axes.plot(u, v, color=BLUE, lw=0.9)
            axes.plot(u[0], v[0], "o", color=INK, ms=3)
        frame_axes(axes, rf"$\delta$ = {spell(delta)}", size=10)
        axes.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", xlabel=r"along $\nabla\tilde L$")
    return figure


def figure_regimes(states: Mapping[float, NetworkState]) -> Figure:
    """Figure 5: fits from delta = -infinity to infinity, above their neurons."""
    figure = new_figure(2.3 * len(states), 4.6)
    rows = figure.subplots(2, len(states), squeeze=False, height_ratios=(1, 1.1))
    for (delta, state), above, below in zip(states.items(), *rows, strict=True):
        draw_fit(frame_axes(above, rf"$\delta$ = {spell(delta)}", size=10), state)
        above.set(ylim=(-1.9, 1.9), xlabel="")
        draw_plane(frame_axes(below, "", size=10), state)
        below.set(xticks=[], yticks=[], xlabel="", ylabel="")
    return figure


def figure_limits(limits: Mapping[float, NeuronPaths]) -> Figure:
    """Figure 6: the fit, the neurons after training, and the paths of some of them."""
    figure = new_figure(10.0, 3.3 * len(limits))
    for (delta, one), row in zip(limits.items(), figure.subplots(len(limits), 3), strict=True):
        draw_fit(frame_axes(row[0], rf"$\delta$ = {spell(delta)}", size=10), one.final)
        draw_plane(frame_axes(row[1], "after training", size=10), one.final)
        frame_axes(row[2], f"paths of {len(one.sign)} neurons", size=10)
        _sample_lines(row[2], one.final.x, one.final.reach)
        for u, v, sign in zip(one.u.T, one.v.T, one.sign, strict=True):
            row[2].plot(u, v, color=RED if sign > 0 else BLUE, lw=0.7, alpha=0.7)
    return figure


def figure_fits(states: Mapping[str, NetworkState], start: NetworkState | None = None) -> Figure:
    """Figures 7 and 8: fits side by side, dashed where they started if they all started there."""
    figure = new_figure(3.4 * len(states), 3.2)
    for axes, (title, state) in zip(figure.subplots(1, len(states)), states.items(), strict=True):
        if start is not None:
            axes.plot(start.grid, start.function, "--", color=GREY, lw=1)
        draw_fit(frame_axes(axes, title, size=10), state)
        axes.set(ylim=(-1.9, 1.9))
    return figure


def figure_field(state: NetworkState, fields: Sequence[Velocities]) -> Figure:
    """Figure 9: the field that moves a neuron at delta = infinity, for either sign, and the network."""
    figure = new_figure(10.0, 7.4)
    above, below = figure.subplots(2, 2)
    for axes, field, colour in zip(above, fields, (RED, BLUE), strict=True):
        _velocities(axes, field, colour)
        frame_axes(axes, f"a neuron of sign {'+' if field.sign > 0 else '-'}", size=10)
    above[0].legend(loc="upper right", **SMALL)
    draw_fit(frame_axes(below[0], "the network", size=10), state)
    draw_plane(frame_axes(below[1], "its neurons", size=10), state)
    return figure


def _velocities(axes: Axes, field: Velocities, colour: str) -> None:
    for kind, (shade, dash) in RAYS.items():
        for k, (u, v) in enumerate(1.25 * field.rays[kind]):
            axes.plot([0, u], [0, v], dash, color=shade, label=None if k else kind)
    arrows = {"color": colour, "alpha": 0.7, "scale": 11, "width": 4e-3}
    axes.quiver(field.u, field.v, field.du, field.dv, **arrows)
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal", xlabel="$u$", ylabel="$v$")


def figure_clusters(clusters: Mapping[str, Mapping[float, KnotShares]]) -> Figure:
    """The weight of knots at samples over training: a column for each data set, a line for each delta."""
    figure = new_figure(3.6 * len(clusters), 3.2)
    columns = figure.subplots(1, len(clusters), sharey=True)
    for axes, (title, by_delta) in zip(columns, clusters.items(), strict=True):
        for (delta, one), colour in zip(by_delta.items(), SHADES, strict=True):
            low, high = one.mean - 2 * one.stderr, one.mean + 2 * one.stderr
            label = rf"$\delta$ = {spell(delta)}"
            axes.plot(one.progress, one.mean, color=colour, lw=1.4, label=label)
            axes.fill_between(one.progress, low, high, color=colour, alpha=0.2, lw=0)
        axes.axhline(one.expected, color=GREY, ls=":", lw=1)
        frame_axes(axes, title, size=10).set(xlabel="progress of training", ylim=(0, 1.02))
    columns[0].set_ylabel("weight of knots at samples")
    columns[-1].legend(loc="upper left", **SMALL)
    return figure


def draw_frame(axes: Sequence[Axes], frame: FilmFrame) -> Caption:
    """One picture of a film."""
    left, right = axes
    if not left.lines:
        _begin(left, right)
    curve, knots, samples = left.lines
    curve.set_data(frame.grid, frame.function)
    knots.set_data(*frame.knots)
    samples.set_data(frame.x, frame.y)
    rays, *signs = right.lines
    rays.set_data(*_rays(frame.x, frame.reach))
    for line, value in zip(signs, (1, -1), strict=True):
        line.set_data(frame.u[frame.sign == value], frame.v[frame.sign == value])
    right.set(xlim=(-frame.reach, frame.reach), ylim=(-frame.reach, frame.reach))
    return Caption(
        FORMULA,
        f"loss {frame.loss:.3g}; knots within 0.02 of a sample: {frame.near:.1%}, "
        f"at the start {frame.near_at_start:.1%}",
    )


def _begin(left: Axes, right: Axes) -> None:
    left.set(xlim=(-1.3, 1.3), ylim=(-2, 2), xlabel="$x$")
    left.plot([], [], color=BLUE, lw=1.4)
    left.plot([], [], "o", color=GREEN, ms=3, alpha=0.4, mew=0)
    left.plot([], [], "x", color=INK, ms=6, mew=1.6)
    right.set(xlabel="$u$", ylabel="$v$", aspect="equal")
    right.plot([], [], color=GREY, lw=0.5, zorder=0)
    for colour in (RED, BLUE):
        right.plot([], [], "o", color=colour, ms=2.5, alpha=0.5, mew=0)


def _rays(x: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """The lines of all samples as one, broken by NaN."""
    gap = np.full(len(x), np.nan)
    u = np.stack([0 * x - reach, 0 * x + reach, gap], 1).ravel()
    v = np.stack([reach * x, -reach * x, gap], 1).ravel()
    return u, v


CONTROLS = (
    Choice("task", "data", tuple(TASKS), "sinusoid"),
    tick_slider("delta", "δ", DELTAS, 0.0, "invariant of a neuron"),
    Slider("progress", "t", 0, 1, 1 / (STOPS - 1), 1.0, "share of training", least=0, most=1, play=True),
)  # fmt: skip
TITLES = ("the function and its knots", "neurons in the plane")
PANEL = Look(draw_frame, CONTROLS, TITLES, heavy=True)

"""Pictures of univariate ReLU networks in training: Figures 1, 2 and 5 to 9 of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Wedge
from numpy.typing import NDArray

from analytic.relu_dynamics import RayKind, Samples, VelocityField
from notebooks.panels.style import BLUE, INK, RED, framed, new
from numeric.experiments.knots.gathering import Shares
from numeric.relu_dynamics import Neurons, Trajectory
from numeric.relu_dynamics.regimes import milestones, regime

Array = NDArray[np.float64]
GREEN, GREY = "#3a7d44", "#888888"
GRID = torch.linspace(-1.3, 1.3, 1_041, dtype=torch.float64)
SHADES = (INK, BLUE, RED)
RAYS = {RayKind.ATTRACTOR: (GREEN, "-", "attractor"), RayKind.REPULSOR: (RED, "--", "repulsor")}


@dataclass(frozen=True, eq=False)
class Data:
    """Samples of a function on a line."""

    title: str
    x: torch.Tensor  # (s,)
    y: torch.Tensor  # (s,)


def _even(reach: float, count: int) -> torch.Tensor:
    return torch.linspace(-reach, reach, count, dtype=torch.float64)


def square_wave(count: int = 10) -> Data:
    x = _even(0.9, count)
    return Data("square wave", x, torch.sign(torch.cos(2.5 * math.pi * x)))


def sinusoid(count: int = 10) -> Data:
    x = _even(1.0, count)
    return Data("sinusoid", x, torch.sin(2 * math.pi * x))


def trained(
    neurons: Neurons, data: Data, delta: float, span: float, tolerance: float = 1e-4
) -> Trajectory:
    return regime(neurons, data.x, data.y, delta, span, tolerance)


def spelled(delta: float) -> str:
    return {math.inf: r"$\infty$", -math.inf: r"$-\infty$"}.get(delta, f"{delta:g}")


def draw_fit(axes: Axes, neurons: Neurons, data: Data, colour: str = BLUE) -> None:
    """The function, its knots on it, and the samples."""
    knots = neurons.knots[neurons.knots.abs() <= GRID[-1]]
    axes.plot(GRID, neurons.predict(GRID).cpu(), color=colour, lw=1.3)
    axes.plot(
        knots.cpu(), neurons.predict(knots).cpu(), "o", color=GREEN, ms=2.5, alpha=0.35, mew=0
    )
    axes.plot(data.x, data.y, "x", color=INK, ms=6, mew=1.6)
    axes.set(xlim=(-1.3, 1.3), xlabel="$x$")


def draw_plane(axes: Axes, neurons: Neurons, data: Data, reach: float | None = None) -> None:
    """Neurons at (u, v), coloured by the sign of r, with the line of each sample."""
    u, v, sign = (part.cpu() for part in (neurons.u, neurons.v, neurons.sign))
    reach = reach or 1.05 * torch.hypot(u, v).quantile(0.995).item()
    for x in data.x.tolist():
        axes.plot([-reach, reach], [reach * x, -reach * x], color=GREY, lw=0.5, zorder=0)
    for value, colour in ((1, RED), (-1, BLUE)):
        axes.plot(u[sign == value], v[sign == value], "o", color=colour, ms=2.5, alpha=0.5, mew=0)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="$u$", ylabel="$v$")


def figure_network(neurons: Neurons, data: Data) -> Figure:
    """Figure 1: a network's function with its knots, and its neurons among the arcs."""
    figure = new(9.0, 3.8)
    left, right = figure.subplots(1, 2)
    draw_fit(framed(left, "the function and its knots", size=10), neurons, data)
    draw_plane(
        framed(right, "neurons in the plane, arcs by active samples", size=10), neurons, data
    )
    reach = right.get_xlim()[1]
    samples = Samples.of(data.x.tolist())
    for arc in samples.arcs:
        start, stop = (math.degrees(angle) for angle in arc.angles)
        share = len(arc.pattern) / len(samples.x)
        shade = {"color": GREY, "alpha": 0.28} if arc.dead else {"color": GREEN, "alpha": share / 4}
        right.add_patch(Wedge((0, 0), 2 * reach, start, stop, lw=0, zorder=-1, **shade))
    return figure


def figure_local(paths: Mapping[float, Sequence[Array]]) -> Figure:
    """Figure 2: neurons under one constant gradient, which points to the right."""
    figure = new(10.0, 3.9)
    for axes, (delta, curves) in zip(figure.subplots(1, len(paths)), paths.items(), strict=True):
        for u, v in curves:
            axes.plot(u, v, color=BLUE, lw=0.9)
            axes.plot(u[0], v[0], "o", color=INK, ms=3)
        framed(axes, rf"$\delta$ = {spelled(delta)}", size=10)
        axes.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", xlabel=r"along $\nabla\tilde L$")
    return figure


def figure_regimes(runs: Mapping[float, Trajectory], data: Data) -> Figure:
    """Figure 5: fits from delta = -infinity to infinity, above their neurons."""
    figure = new(2.3 * len(runs), 4.6)
    rows = figure.subplots(2, len(runs), squeeze=False, height_ratios=(1, 1.1))
    for (delta, run), above, below in zip(runs.items(), *rows, strict=True):
        draw_fit(framed(above, rf"$\delta$ = {spelled(delta)}", size=10), run.final, data)
        above.set(ylim=(-1.9, 1.9), xlabel="")
        draw_plane(framed(below, "", size=10), run.final, data)
        below.set(xticks=[], yticks=[], xlabel="", ylabel="")
    return figure


def figure_limits(runs: Mapping[float, Trajectory], data: Data, shown: int = 100) -> Figure:
    """Figure 6: the fit, the neurons after training, and the ways that some of them went."""
    figure = new(10.0, 3.3 * len(runs))
    for (delta, run), row in zip(runs.items(), figure.subplots(len(runs), 3), strict=True):
        draw_fit(framed(row[0], rf"$\delta$ = {spelled(delta)}", size=10), run.final, data)
        draw_plane(framed(row[1], "after training", size=10), run.final, data)
        reach = row[1].get_xlim()[1]
        draw_plane(framed(row[2], f"the way of {shown} neurons", size=10), run.at(0.0), data, reach)
        for line in row[2].lines[len(data.x) :]:
            line.remove()
        states = [run.at(t) for t in milestones(run, 60)]
        which = torch.linspace(0, run.final.m - 1, shown).long()
        u, v = (torch.stack([part(s)[which] for s in states]).cpu() for part in _PLANE)
        for k, sign in enumerate(run.final.sign[which].tolist()):
            row[2].plot(u[:, k], v[:, k], color=RED if sign > 0 else BLUE, lw=0.7, alpha=0.7)
    return figure


_PLANE = (lambda neurons: neurons.u, lambda neurons: neurons.v)


def figure_fits(runs: Mapping[str, Trajectory], data: Data, start: Neurons | None = None) -> Figure:
    """Figures 7 and 8: fits side by side, dashed where they started if they all started there."""
    figure = new(3.4 * len(runs), 3.2)
    for axes, (title, run) in zip(figure.subplots(1, len(runs)), runs.items(), strict=True):
        if start is not None:
            axes.plot(GRID, start.predict(GRID).cpu(), "--", color=GREY, lw=1)
        draw_fit(framed(axes, title, size=10), run.final, data)
        axes.set(ylim=(-1.9, 1.9))
    return figure


def figure_field(neurons: Neurons, data: Data, residuals: Sequence[Any]) -> Figure:
    """Figure 9: the field that moves a neuron at delta = infinity, for either sign, and the network."""
    figure = new(10.0, 7.4)
    above, below = figure.subplots(2, 2)
    field = VelocityField.of(data.x.tolist(), residuals)
    pulls = {tuple(arc.pattern): field.residual_sum(arc.pattern) for arc in field.samples.arcs}
    for axes, sign, colour in ((above[0], 1, RED), (above[1], -1, BLUE)):
        _field(axes, field, pulls, sign, colour)
        framed(axes, f"a neuron of sign {'+' if sign > 0 else '-'}", size=10)
    above[0].legend(frameon=False, fontsize=8, loc="upper right")
    draw_fit(framed(below[0], "the network", size=10), neurons, data)
    draw_plane(framed(below[1], "its neurons", size=10), neurons, data)
    return figure


def figure_clusters(clusters: Mapping[str, Mapping[float, Shares]]) -> Figure:
    """The weight of knots at samples over training: a column for each data set, a line for each delta."""
    figure = new(3.6 * len(clusters), 3.2)
    columns = figure.subplots(1, len(clusters), sharey=True)
    for axes, (title, by_delta) in zip(columns, clusters.items(), strict=True):
        for (delta, shares), colour in zip(by_delta.items(), SHADES, strict=True):
            mean, error = shares.found.mean[:, 1], 2 * shares.found.stderr[:, 1]
            way = np.linspace(0, 1, len(mean))
            axes.plot(way, mean, color=colour, lw=1.4, label=rf"$\delta$ = {spelled(delta)}")
            axes.fill_between(way, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
        axes.axhline(shares.chance, color=GREY, ls=":", lw=1)
        framed(axes, title, size=10).set(xlabel="progress of training", ylim=(0, 1.02))
    columns[0].set_ylabel("weight of knots at samples")
    columns[-1].legend(frameon=False, fontsize=8, loc="upper left")
    return figure


def _field(
    axes: Axes, field: VelocityField, pulls: Mapping[Any, Any], sign: int, colour: str
) -> None:
    for kind, (shade, dash, label) in RAYS.items():
        rays = [ray for ray in field.samples.rays if field.kind(ray, sign) is kind]
        for k, ray in enumerate(rays):
            end = np.array(ray.direction, float)
            end *= 1.25 / np.hypot(*end)
            axes.plot([0, end[0]], [0, end[1]], dash, color=shade, label=None if k else label)
    angles = np.linspace(0, 2 * math.pi, 72, endpoint=False) + 0.01
    u, v = (np.outer((0.4, 0.7, 1.0), part(angles)).ravel() for part in (np.cos, np.sin))
    seen = [tuple(np.flatnonzero(a * _floats(field.samples.x) + b > 0)) for a, b in zip(u, v)]
    flow = -sign * np.array([[float(part) for part in pulls[pattern]] for pattern in seen]).T
    size = np.hypot(*flow)
    flow *= np.sqrt(size / size.max()) / np.maximum(size, 1e-300)  # weak fields are seen, too
    axes.quiver(u, v, *flow, color=colour, alpha=0.7, scale=11, width=4e-3)
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal", xlabel="$u$", ylabel="$v$")


def _floats(values: Sequence[Any]) -> Array:
    return np.array([float(value) for value in values])

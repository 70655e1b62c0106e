"""Pictures of what univariate ReLU networks interpolate: Figures 3 and 4 of the paper, and a panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from analytic.expressions.arguments import InputError
from analytic.splines import INITIALISATIONS, Initialisation
from notebooks.panels import Caption, Choice, Slider, freeze
from notebooks.panels.pad import Box, Handles
from notebooks.panels.style import BLUE, INK, RED, framed, new
from notebooks.topics.ntk_figures import Law
from numeric.estimate import Estimate
from numeric.experiments.random_features import RandomFeatures
from numeric.splines import SplineInterpolant
from numeric.splines.natural import natural

Array = NDArray[np.float64]
Data = tuple[Array, Array]
Function = Callable[[Any], Array]
GREEN, GREY = "#3a7d44", "#888888"
TERMS = {  # of the tangent kernel, by the parameter that its gradients belong to
    "c": r"$\partial_c$: $E\,[ax-b]_+[ay-b]_+$",
    "a": r"$\partial_a$: $xy\,E\,c^2\,P$",
    "b": r"$\partial_b$: $E\,c^2\,P$",
}


@dataclass(frozen=True)
class Setting:
    """A law of hidden units with numbers for its parameters."""

    initialisation: Initialisation
    values: Mapping[str, float]

    @classmethod
    def of(cls, name: str, A: float = 1.0, B: float = 1.0) -> Setting:
        """By name; A and B are the scales of a and b, as far as the law has such."""
        init = INITIALISATIONS[name]
        scales = {"A": A, "B": B, "sa": A, "sb": B}
        return cls(init, {symbol.name: scales[symbol.name] for symbol in init.parameters})

    def terms(self, x: Any, y: Any, ec2: float) -> dict[str, Array]:
        """The three terms of (27), whose sum is the tangent kernel."""
        both = self.initialisation.both.numpy(x=x, y=y, **self.values)
        kernel = self.initialisation.rf.numpy(x=x, y=y, **self.values)
        return {"c": kernel, "a": ec2 * x * y * both, "b": ec2 * both}

    def interpolant(self, x: Any, y: Any, **kind: float) -> SplineInterpolant:
        return SplineInterpolant(self.initialisation, self.values, **kind).fit(x, y)


def farthest(one: Function, other: Function, x: Sequence[float], points: int = 1_001) -> float:
    """The largest difference of two functions between the data."""
    grid = np.linspace(min(x), max(x), points)
    return float(np.abs(one(grid) - other(grid)).max())


@dataclass(frozen=True, eq=False)
class Slice:
    """The tangent kernel of one point with many, in closed form and as means over a network's units."""

    setting: Setting
    x: float
    y: Array
    ec2: float
    found: Mapping[str, Estimate]

    def sigmas(self) -> dict[str, Array]:
        """By how many standard errors the network is off."""
        exact = self.setting.terms(self.x, self.y, self.ec2)
        return {k: self.found[k].sigmas_from(torch.from_numpy(exact[k])).numpy() for k in TERMS}


def figure_slices(slices: Mapping[str, Slice], allowed: float) -> Figure:
    """Figure 3: a column for each law, the terms above and their errors below."""
    figure = new(9.5, 5.0)
    rows = figure.subplots(2, len(slices), sharex=True, height_ratios=(2.4, 1))
    for (title, one), above, below in zip(slices.items(), *rows, strict=True):
        y = np.linspace(one.y.min(), one.y.max(), 401)
        exact, sigmas = one.setting.terms(one.x, y, one.ec2), one.sigmas()
        for (name, label), colour in zip(TERMS.items(), (BLUE, RED, GREEN), strict=True):
            above.plot(y, exact[name], color=colour, lw=1.3, label=label)
            above.plot(one.y, one.found[name].mean, "o", color=colour, ms=3.5, mfc="none")
            below.plot(one.y, sigmas[name], "o-", color=colour, ms=2.5, lw=0.7)
        below.axhline(allowed, color=GREY, ls=":", lw=1)
        framed(above, title, size=10)
        framed(below, "", size=10).set(xlabel="$y$", ylabel="standard errors")
    rows[0, 0].legend(frameon=False, fontsize=8, title="closed forms; circles: network")
    return figure


def figure_fit(
    data: Data, curves: Mapping[str, Function], approaches: Mapping[str, Law], limit: float
) -> Figure:
    """Figure 4: functions through the data, and how far networks stay from the natural spline."""
    figure = new(9.5, 3.8)
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1))
    grid = np.linspace(data[0].min() - 0.1, data[0].max() + 0.1, 1_201)
    *networks, kernel, spline = curves
    for label, shade in zip(networks, np.linspace(0.4, 1, len(networks)), strict=True):
        left.plot(grid, curves[label](grid), color=GREEN, alpha=shade, lw=1, label=label)
    left.plot(grid, curves[kernel](grid), color=BLUE, lw=2.2, label=kernel)
    left.plot(grid, curves[spline](grid), "--", color=RED, lw=1.3, label=spline)
    left.plot(*data, "o", color=INK, ms=4, zorder=4)
    framed(left, "ten points of a square wave", size=10).set(xlabel="$x$", ylim=(-1.7, 2.6))
    left.legend(frameon=False, fontsize=7.5, ncols=2, loc="upper center")
    for (label, law), mark in zip(approaches.items(), "os", strict=False):
        right.loglog(law.x, law.y, f"{mark}-", color=GREEN, mfc="none", label=label)
    right.axhline(limit, color=BLUE, lw=1.5, label=f"{kernel}: {limit:.3g}")
    framed(right, "largest distance to the natural spline", size=10).set_xlabel("$m$")
    right.legend(frameon=False, fontsize=8)
    return figure


def slopes(f: Function, grid: Array) -> Array:
    """Of a function, over each cell of a grid."""
    return np.diff(f(grid)) / np.diff(grid)


@dataclass(frozen=True, eq=False)
class Bending:
    """f'' of an interpolant: by differences, and as density times polygon."""

    title: str
    found: Function
    exact: Function
    edges: tuple[float, ...]


def figure_not_splines(
    data: Data, grid: Array, bent: Mapping[str, Function], others: Sequence[Bending]
) -> Figure:
    """Slopes of interpolants, and f'' where the density of knots is not constant."""
    figure = new(11.0, 3.5)
    first, *rest = figure.subplots(1, 1 + len(others))
    for (label, f), colour in zip(bent.items(), (BLUE, RED), strict=True):
        first.plot((grid[1:] + grid[:-1]) / 2, slopes(f, grid), color=colour, lw=1.2, label=label)
    framed(first, "$f'$: kinks at the data", size=10).legend(
        frameon=False, fontsize=8, loc="upper right"
    )
    spline = CubicSpline(*data, bc_type="natural")
    inner, inside = grid[1:-1], np.linspace(*spline.x[[0, -1]], 201)
    dots = inner[:: max(1, len(inner) // 40)]
    for axes, one in zip(rest, others, strict=True):
        second = np.diff(slopes(one.found, grid)) / np.diff(grid)[1:]
        axes.plot(inner, second, color=BLUE, label="second differences")
        axes.plot(dots, one.exact(dots), "o", color=INK, ms=3, mfc="none", label=r"$\nu_3$ polygon")
        axes.plot(inside, spline(inside, 2), "--", color=RED, lw=1, label="natural spline")
        for edge in one.edges:
            axes.axvline(edge, color=GREY, ls=":", lw=1)
        framed(axes, one.title, size=10)
    rest[0].legend(frameon=False, fontsize=8)
    for axes in (first, *rest):
        axes.plot(data[0], 0 * data[0], "|", color=INK, ms=12, transform=axes.get_xaxis_transform())
        axes.set_xlabel("$x$")
    return figure


FIVE = ((-0.8, 0.3), (-0.4, -0.2), (0.0, 0.5), (0.5, 0.1), (0.9, -0.4))
REACH = 1.5
POINTS = Handles("points", "data", FIVE, limits=Box(-REACH, REACH, -REACH, REACH))
INITIALISATION = Choice("law", "law", tuple(INITIALISATIONS), "signs")
A = Slider("A", "A", 0.2, 3.0, 0.1, 1.0)
B = Slider("B", "B", 0.2, 8.0, 0.1, 1.0)
units = Slider("m", "m", 10, 2_000, 10, 200)
ridge = Slider("ridge", r"\log_{10}\lambda", -9.0, 0.0, 0.25, -9.0)
CONTROLS = (INITIALISATION, A, B, units, ridge, POINTS)
TITLES = ("network, its limit, the natural spline", "distance to the natural spline")
LINE = np.linspace(-REACH, REACH, 301)
FORMULA = r"f'' = \nu_3(x)\,\tfrac12\sum_j\alpha_j\,|x - x_j|"
DRAWN = {"network": (GREEN, "-", 1.0), "kernel": (BLUE, "-", 2.0), "spline": (RED, "--", 1.3)}


def relevant(control: str, values: Mapping[str, Any]) -> bool:
    """The scales matter to laws that have them."""
    names = {symbol.name for symbol in INITIALISATIONS[values["law"]].parameters}
    return control not in ("A", "B") or bool(names & {control, "sa"})


def play(
    axes: Sequence[Axes], law: str, A: float, B: float, m: int, ridge: float, points: Any
) -> Caption:
    """What m units and infinitely many make of the points, and how far either is from the spline."""
    if not axes[0].lines:
        _begin(*axes)
    x, y = np.array(points, float).T
    axes[0].lines[-1].set_data(x, y)
    try:
        curves = _curves(Setting.of(law, A, B), m, 10**ridge, x, y)
    except InputError as refusal:
        for line in (*axes[0].lines[:-1], *axes[1].lines):
            line.set_data([], [])
        return Caption(FORMULA, str(refusal))
    between, told = (x.min() <= LINE) & (x.max() >= LINE), []
    lines = zip(axes[0].lines, axes[1].lines, curves.items(), strict=False)
    for line, other, (name, curve) in lines:
        off = np.abs(curve - curves["spline"])
        line.set_data(LINE, curve)
        other.set_data(LINE, off)
        told.append(f"{name} {off[between].max():.3e}")
    return Caption(FORMULA, f"largest distance to the spline between data: {', '.join(told[:2])}")


def _curves(setting: Setting, m: int, ridge: float, x: Array, y: Array) -> dict[str, Array]:
    spline = natural(x, y)(LINE)  # refuses points above points
    kernel = setting.interpolant(x, y, ridge=ridge).predict(LINE)
    hidden = RandomFeatures(setting.initialisation, setting.values, m, device="cpu")
    network = hidden.fit(x, y, ridge).predict(LINE).numpy()
    return {"network": network, "kernel": kernel, "spline": spline}


def _begin(left: Axes, right: Axes) -> None:
    """Frames, numbers and legends, drawn once and kept since they cost most; then empty lines."""
    left.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xlabel="$x$")
    right.set(xlim=(-REACH, REACH), ylim=(1e-6, 5), yscale="log", xlabel="$x$")
    for where in (left, right):
        for name, (colour, dash, width) in DRAWN.items():
            where.plot([], [], dash, color=colour, lw=width, label=name)
    left.legend(frameon=False, fontsize=8, loc="lower left")
    freeze((left, right))
    left.plot([], [], "o", color=INK, ms=5)

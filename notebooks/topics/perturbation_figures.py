"""Pictures of what one learned example does to volumes: Figure E.1 of the curvature paper, and a panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from analytic.perturbation import chi, fluctuation, magnification
from notebooks import panels
from notebooks.panels import Caption, LogSlider, Slider
from notebooks.panels.style import BLUE, GREY, INK, RED, SMALL, framed, new
from notebooks.topics.ntk_figures import Law

OVERLAPS = np.linspace(0, 1, 201)
TARGETS = np.linspace(0, 3, 121)  # y / |x_a|^q
CHANGE = r"$n\,(\langle\sqrt{\det g}\rangle / \sqrt{\det\bar g} - 1)$"
TARGET = r"$y\,/\,\|x_a\|^q$"
SHRINK_GROW = LinearSegmentedColormap.from_list("shrink, grow", (BLUE, "white", RED))
HOLLOW = {"color": INK, "mfc": "none", "ms": 4}


def change(d: int, q: int, rho: Any, y: Any) -> Any:
    """What stands before 1/n in the posterior mean of sqrt(det g); y is in units of |x_a|^q."""
    return magnification.numpy(d=d, q=q, rho=rho, ratio=np.square(y), n=1) - 1


def as_printed(d: int, q: int, rho: Any, y: Any) -> Any:
    """The same by (E.38)."""
    return (np.square(y) - 1) * (chi.numpy(d=d, q=q, rho=rho) - d) / 4


def threshold(d: int, q: int, rho: Any) -> Any:
    """The target, in units of |x_a|^q, from which areas grow."""
    excess = chi.numpy(d=d, q=q, rho=rho) - d
    return np.sqrt(1 - 4 * fluctuation.numpy(d=d, q=q) / excess)


def figure_e1(
    judged: Callable[[int, int, float], float],
    dimensions: Sequence[int] = (2, 100),
    degrees: Sequence[int] = range(1, 11),
) -> Figure:
    """chi over its value at rho = 1, and chi - d; circles for what another route found."""
    figure = new(9.0, 6.6)
    rows = figure.subplots(2, len(dimensions), sharex=True, sharey="row")
    for d, (share, excess) in zip(dimensions, rows.T, strict=True):
        for q, shade in zip(degrees, np.linspace(1, 0.25, len(degrees)), strict=True):
            curve = chi.numpy(d=d, q=q, rho=OVERLAPS)
            share.plot(OVERLAPS, curve / curve[-1], color=RED, alpha=shade, label=f"$q = {q}$")
            excess.semilogy(OVERLAPS, curve - d, color=RED, alpha=shade)
            places = np.linspace(0, 1, 5)
            found = np.array([judged(d, q, rho) for rho in places])
            for axes, values in ((share, found / found[-1]), (excess, found - d)):
                axes.plot(places[1:-1], values[1:-1], "o", **HOLLOW | {"ms": 2.5})
                axes.plot(places[[0, -1]], values[[0, -1]], "o", **HOLLOW | {"ms": 6})
        framed(share, rf"$\chi(\rho)\,/\,\chi(1)$, $d = {d}$").set_ylim(0, 1.1)
        framed(excess, rf"$\chi(\rho) - d$, $d = {d}$", r"overlap $\rho$")
    named = rows[0, 0].get_legend_handles_labels()
    figure.legend(*named, loc="outside right center", frameon=False)
    return figure


@dataclass(frozen=True)
class Case:
    """Where a comparison takes place."""

    d: int
    q: int
    rho: float

    def draw(self, axes: Axes) -> None:
        """Both formulas against the target."""
        at = (self.d, self.q, self.rho, TARGETS)
        axes.axhline(0, color=GREY, lw=0.8)
        axes.plot(TARGETS, as_printed(*at), "--", color=RED, label="as printed, (E.38)")
        axes.plot(TARGETS, change(*at), color=BLUE, label="corrected")
        where = rf", $\rho = {self.rho:g}$" if self.d > 1 else ""
        framed(axes, f"{CHANGE}, $q = {self.q}$, $d = {self.d}${where}", TARGET)


def figure_voices(
    exact_case: Case, at: Any, exact: Mapping[int, Any],
    sampled_case: Case, targets: Any, sampled: Mapping[int, Any],
) -> Figure:  # fmt: skip
    """Both formulas beside what does not know them: exact values, and (mean, error) pairs, by width."""
    figure = new(9.0, 3.9)
    left, right = figure.subplots(1, 2)
    exact_case.draw(left)
    sampled_case.draw(right)
    for (width, values), mark in zip(exact.items(), (":", "o"), strict=True):
        left.plot(at, values, mark, **HOLLOW, label=f"exact, $n = {width}$")
    for (width, pairs), mark in zip(sampled.items(), "s^", strict=False):
        style = {"fmt": mark, "lw": 1.2, "capsize": 2, "zorder": 3, **HOLLOW}
        right.errorbar(targets, *np.transpose(pairs), label=f"Monte Carlo, $n = {width}$", **style)
    for axes in (left, right):
        axes.legend(loc="upper left", **SMALL)
    return figure


@dataclass(frozen=True)
class Line:
    """A straight line through points with error bars, and how sure its value at 0 is."""

    value: float
    stderr: float
    slope: float

    @classmethod
    def through(cls, x: Any, y: Any, stderr: Any) -> Line:
        (slope, value), cov = np.polyfit(x, y, 1, w=1 / np.asarray(stderr), cov="unscaled")
        return cls(float(value), float(cov[1, 1] ** 0.5), float(slope))


def figure_limits(
    laws: Mapping[str, Law], at: Mapping[int, Any], fit: Line, corrected: float, printed: float
) -> Figure:
    """How the exact case nears each formula; (mean, error) of samples by width, and their limit."""
    figure = new(9.0, 3.9)
    left, right = figure.subplots(1, 2)
    looks = zip(("o-", "s-", "^--"), (BLUE, INK, RED), strict=True)
    for (label, law), (style, colour) in zip(laws.items(), looks, strict=True):
        text = f"{label}: slope {law.slope.value:.3f}"
        left.loglog(law.x, law.y, style, **HOLLOW | {"color": colour}, lw=1, label=text)
    framed(left, "exact case less the formulas", "$n$").legend(**SMALL)
    inverse = 1 / np.array(list(at))
    right.axhline(corrected, color=BLUE, label=f"corrected: ${corrected:+.3f}$")
    right.plot([], [], "--", color=RED, label=f"as printed: ${printed:+.3f}$, far above")
    reach = np.array([0, inverse.max()])
    right.plot(reach, fit.value + fit.slope * reach, ":", color=INK, label="fitted line")
    mean, stderr = np.array(list(at.values())).T
    right.errorbar(inverse, mean, stderr, fmt="s", capsize=2, label="Monte Carlo", **HOLLOW)
    last = {"fmt": "D", "color": INK, "capsize": 3, "label": r"$n \to \infty$", "zorder": 3}
    right.errorbar(0, fit.value, fit.stderr, **last)
    low, high = right.get_ylim()
    right.set_ylim(1.7 * low - 0.7 * high, high)  # room for the legend
    framed(right, f"{CHANGE} by width", "$1/n$").legend(loc="lower right", **SMALL)
    return figure


def figure_map(targets: Sequence[float], q: int, xa: tuple[float, float]) -> Figure:
    """Where around a training point areas grow, against infinite width and against no training."""
    side = np.linspace(-2, 2, 200)  # even: the origin has no direction
    grid = np.stack(np.meshgrid(side, side))
    rho = np.tensordot(xa, grid, 1) / (np.linalg.norm(xa) * np.linalg.norm(grid, axis=0))
    figure = new(9.0, 5.8)
    rows = figure.subplots(2, len(targets), sharex=True, sharey=True)
    top = max(abs(read(2, q, 1.0, y)) for y in targets for read in (change, as_printed))
    names = (r"against $n = \infty$", "against untrained networks")
    for row, read, name in zip(rows, (change, as_printed), names, strict=True):
        for axes, y in zip(row, targets, strict=True):
            value = read(2, q, rho.clip(-1, 1), y)
            shown = axes.pcolormesh(side, side, value, cmap=SHRINK_GROW, vmin=-top, vmax=top)
            axes.contour(side, side, value, [0], colors=INK, linestyles="--", linewidths=1)
            axes.plot(*xa, "*", color=INK, ms=11)
            for place, overlap in (((xa[0], xa[1] - 0.5), 1.0), ((-xa[1], xa[0]), 0.0)):
                axes.text(*place, f"{read(2, q, overlap, y):+.2f}", ha="center")
            axes.set(title=rf"$y = {y:g}\,\|x_a\|^{q}$", aspect="equal")
        row[0].set_ylabel(name)
    label = "change of areas in percent, $n = 100$"
    figure.colorbar(shown, ax=rows, label=label, shrink=0.8)
    return figure


def figure_monotone(
    title: str, coefficients: Sequence[float], turns: Mapping[int, Mapping[int, float]]
) -> Figure:
    """Coefficients of chi, and the overlap beyond 1 at which it would turn, by dimension and degree."""
    figure = new(9.0, 3.6)
    left, right = figure.subplots(1, 2)
    colours = [BLUE if value > 0 else RED for value in coefficients]
    left.bar(range(len(coefficients)), coefficients, color=colours)
    left.axhline(0, color=INK, lw=0.8)
    left.set_yscale("symlog")
    framed(left, rf"coefficients of $\chi$, {title}", r"power of $\rho^2$")
    for (d, places), style in zip(turns.items(), ("o-", "s--", "^-.", "D:"), strict=False):
        beyond = np.array(list(places.values())) - 1
        right.semilogy(list(places), beyond, style, lw=1.2, label=f"$d = {d}$", **HOLLOW)
    title = r"$\rho_* - 1$, where $\chi'(\rho_*) = 0$"
    framed(right, title, "$q$").legend(ncols=2, **SMALL)
    return figure


CONTROLS = (
    panels.degree,
    panels.dimension,
    Slider("rho", r"\rho", 0.0, 1.0, 0.05, 0.5),
    Slider("y", "y", 0.0, 3.0, 0.1, 2.0),
    LogSlider("n", "n", 1, 6, 1000.0),
)
CORRECTED = r"1 + \frac{1}{n}\left[\frac{y^2\|x_a\|^{-2q} - 1}{4}\,(\chi - d) + \kappa\right]"
TITLES = ("mean volume over its limit", "the same by target")  # no slow formulas


def relevant(control: str, values: Any) -> bool:
    """On a line all points are parallel."""
    return control != "rho" or values["d"] > 1


def perturbed(axes: Sequence[Axes], q: int, d: int, rho: float, y: float, n: float) -> Caption:
    """Volumes after one example was learned, by the overlap with it and by its target."""
    n, rho = round(n), rho if d > 1 else 1.0
    if not axes[0].lines:
        _begun(axes)
    overlaps = OVERLAPS if d > 1 else OVERLAPS[-1:]
    found = []
    for line, read in enumerate((change, as_printed)):
        found.append(1 + read(d, q, rho, y) / n)
        axes[0].lines[line].set_data(overlaps, 1 + read(d, q, overlaps, y) / n)
        axes[1].lines[line].set_data(TARGETS, 1 + read(d, q, rho, TARGETS) / n)
        for one, at in zip(axes, (rho, y), strict=True):
            one.lines[2 + line].set_data([at], [found[-1]])
    for one in axes:
        one.relim()
        one.autoscale_view()
    told = f"corrected {found[0]:.8g}, as printed {found[1]:.8g}"
    told += f"; areas grow from y = {threshold(d, q, rho):.6g} |x_a|^{q}"
    if abs(found[0] - 1) > 0.2:
        told += "; too narrow for a first order in 1/n"
    excess, kappa = chi.numpy(d=d, q=q, rho=rho) - d, fluctuation.numpy(d=d, q=q)
    filled = rf"\left[\frac{{{y**2:.4g} - 1}}{{4}}\cdot {excess:.6g} - {-kappa:.6g}\right]"
    return Caption(rf"{CORRECTED} = 1 + \frac{{1}}{{{n}}}{filled}", told)


def _begun(axes: Sequence[Axes]) -> None:
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

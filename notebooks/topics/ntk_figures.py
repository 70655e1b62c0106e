"""Pictures of shallow NTK geometry beside that of the NNGP, and a panel that moves both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analytic.activations import ACTIVATIONS
from analytic.catalogue import catalogue
from analytic.expressions.arguments import InputError
from notebooks.panels import Caption
from notebooks.panels.style import BLUE, INK, RED, framed, new
from notebooks.topics.nngp_figures import RADII
from numeric.estimate import Slope, power_law
from numeric.experiments.width import Convergence

KERNELS = {"nngp": "NNGP", "ntk": "NTK"}
LOG_VOLUME = r"$\log_{10}\sqrt{\det g}$"
QUANTITIES = {"magnification": r"$\sqrt{\det g}$", "ricci": "$R$"}
Values = Mapping[str, Any]


def found(kernel: str, activation: str, what: str, **values: Any) -> Any:
    """A closed form of the catalogue in floats, which takes of the values those that it has."""
    formula = catalogue[f"{kernel}.{activation}.{what}"]
    return formula.numpy(**{symbol.name: values[symbol.name] for symbol in formula.args})


def log_volume(kernel: str, activation: str, d: int, **values: Any) -> Any:
    r"""$\log_{10}\sqrt{\det g}$ of $g = aI + b\,xx^T$ from those of d = 1 and 2.

    $\det g = a^{d-1}(a + b|x|^2)$ leaves the floats in high dimension, and its logarithm does not.
    """
    return by_dimension(partial(found, kernel, activation, "magnification"), d, **values)


def by_dimension(volume: Callable[..., Any], d: int, r: Any, **values: Any) -> Any:
    """The logarithm of a volume, which is linear in d, from both dimensions at once."""
    one, two = np.log10(volume(d=np.array([[1], [2]]), r=np.atleast_1d(r), **values))
    line = one + (d - 1) * (two - one)
    return line if np.ndim(r) else line[0]


def ricci(kernel: str, activation: str, **values: Any) -> Any:
    return found(kernel, activation, "ricci", **values)


@dataclass(frozen=True)
class Shown:
    """An activation of the figures: its name in the catalogue, its parameters and its line."""

    activation: str
    label: str
    colour: str
    style: str
    parameters: Mapping[str, int] = field(default_factory=dict)

    def found(self, kernel: str, what: str, **values: Any) -> Any:
        return found(kernel, self.activation, what, **values, **self.parameters)


SHOWN = (
    Shown("erf", "erf", BLUE, "-"),
    Shown("monomial", "monomial, q = 2", RED, "-", {"q": 2}),
    Shown("monomial", "monomial, q = 3", RED, "--", {"q": 3}),
)


def figure_geometry(
    radii: Sequence[float], judged: Mapping[tuple[str, str, str], Any], values: Values
) -> Figure:
    """Both geometries along a ray; circles for what another route found at a few radii.

    `judged` holds the latter by kernel, label of the activation and name of the quantity.
    """
    figure = new(9.0, 8.2)
    rows = figure.subplots(3, 2, sharex=True, sharey="row")
    for (kernel, name), (volume, *scalars) in zip(KERNELS.items(), rows.T, strict=True):
        for one in SHOWN:
            curve = np.log10(one.found(kernel, "magnification", r=RADII, **values))
            points = np.log10(judged[kernel, one.label, "magnification"])
            volume.plot(RADII, curve, one.style, color=one.colour, label=one.label)
            _circles(volume, radii, points, "differences of the kernel" if one is SHOWN[-1] else "")
            axes = scalars[one is not SHOWN[0]]
            curve = one.found(kernel, "ricci", r=RADII, **values)
            label = f"{one.label}: $R(0) = {curve[0] + 0.0:.3g}$"  # no -0
            axes.plot(RADII, curve, one.style, color=one.colour, label=label)
            axes.plot(0, curve[0], "o", color=one.colour, ms=9, zorder=3)
            _circles(axes, radii, judged[kernel, one.label, "ricci"])
            framed(axes, f"{name}: {QUANTITIES['ricci']}").legend(frameon=False, fontsize=8)
        framed(volume, f"{name}: {LOG_VOLUME}")
        scalars[-1].set_xlabel(r"$\|x\|$")
    rows[0, 0].legend(frameon=False, fontsize=8)
    return figure


def _circles(axes: Axes, x: Any, y: Any, label: str = "") -> None:
    axes.plot(x, y, "o", color=INK, mfc="none", ms=6, zorder=4, label=label or "_")


def figure_width(sweeps: Mapping[str, Mapping[str, Convergence]], values: Values) -> Figure:
    """Tangent metrics of finite networks by label and quantity, with the NNGP for contrast."""
    figure = new(9.0, 3.1 * len(sweeps))
    rows = figure.subplots(len(sweeps), 2, sharex=True, squeeze=False)
    shown = {one.label: one for one in SHOWN}
    for (label, quantities), row in zip(sweeps.items(), rows, strict=True):
        for (what, quantity), axes in zip(quantities.items(), row, strict=True):
            exact = {k: shown[label].found(k, what, r=RADII, **values) for k in KERNELS}
            axes.plot(RADII, exact["nngp"], ":", color=RED, label=r"NNGP, $n = \infty$")
            axes.plot(RADII, exact["ntk"], "--", color=INK, lw=1.5, label=r"NTK, $n = \infty$")
            _networks(framed(axes, f"{label}: {QUANTITIES[what]}"), quantity)
    rows[0, 0].legend(frameon=False, fontsize=8)
    for axes in rows[-1]:
        axes.set_xlabel(r"$\|x\|$")
    return figure


def _networks(axes: Axes, quantity: Convergence) -> None:
    """Mean and standard deviation over networks, width beside width so that no bar hides another."""
    shades = np.linspace(0.4, 1, len(quantity.at))
    for k, (shade, (width, estimate)) in enumerate(zip(shades, quantity.at.items(), strict=True)):
        at = quantity.radii.cpu() + 0.07 * (k - (len(shades) - 1) / 2)
        mean, spread = estimate.mean.cpu(), estimate.spread.cpu()
        style = {"fmt": "os^D"[k % 4], "ms": 4, "lw": 1.2, "capsize": 2, "zorder": 3}
        axes.errorbar(at, mean, spread, color=BLUE, alpha=shade, label=f"NTK, n = {width}", **style)


@dataclass(frozen=True)
class Law:
    """Pairs that may lie on a power law, and its exponent."""

    x: Sequence[float]
    y: Sequence[float]

    @property
    def slope(self) -> Slope:
        return power_law(self.x, self.y)


def figure_laws(columns: Mapping[str, Mapping[str, Law]], xlabel: str) -> Figure:
    """Power laws on logarithmic axes, each with the slope that was fitted."""
    figure = new()
    for (title, laws), axes in zip(columns.items(), figure.subplots(1, len(columns)), strict=True):
        for (label, law), colour, mark in zip(laws.items(), (BLUE, RED, INK), "os^", strict=False):
            text = f"{label}: slope {law.slope.value:.3f}"
            axes.loglog(law.x, law.y, f"{mark}-", color=colour, mfc="none", lw=1, label=text)
        framed(axes, title).legend(frameon=False, fontsize=8)
        axes.set_xlabel(xlabel)
    return figure


TITLES = (LOG_VOLUME, r"$R$, and a dot at $R_{\mathrm{NTK}}(0)$")
# Dense where curvature turns, |x| = 1 among them, but not 0, which zeta = 0 makes singular.
NEAR = np.concatenate([np.geomspace(0.05, 1, 40), np.geomspace(1, 5, 21)[1:]])
DRAWN = (log_volume, ricci)


def geometry(
    axes: Sequence[Axes], activation: str, sigma: float, zeta: float, xi: float, q: int, d: int
) -> Caption:
    """Both geometries along a ray, the NTK's curvature at the origin, and numbers at |x| = 1."""
    extra = {s.name: q if s.name == "q" else 1.0 for s in ACTIVATIONS[activation].parameters}
    values = {"d": d, "sigma": sigma, "zeta": zeta, "xi": xi, **extra}
    told = []
    for line, (kernel, name) in enumerate(KERNELS.items()):
        try:
            curves = [quantity(kernel, activation, r=NEAR, **values) for quantity in DRAWN]
            volume, scalar = (curve[NEAR == 1].item() for curve in curves)
            told.append(f"{name} log10 sqrt(det g) = {volume:.8g}, R = {scalar + 0.0:.8g}")
        except InputError as refusal:  # a rectified power may be too steep for gradients
            curves = [np.full_like(NEAR, np.nan)] * 2
            told.append(str(refusal))
        for one, curve in zip(axes, curves, strict=True):
            _moved(one, line, NEAR, curve)
    return Caption(_origin(axes[1], activation, values), f"at |x| = 1: {'; '.join(told)}")


def _moved(axes: Axes, line: int, x: Any, y: Any) -> None:
    """Moves one of the lines: NNGP, NTK, and the dot at the origin; makes them when there are none."""
    if not axes.lines:
        axes.plot([], [], "-", color=BLUE, label=KERNELS["nngp"])
        axes.plot([], [], "--", color=RED, label=KERNELS["ntk"])
        axes.plot([], [], "o", color=RED)
        axes.legend(frameon=False, fontsize=8)
    axes.lines[line].set_data(x, y)
    axes.relim()
    axes.autoscale_view()


def _origin(axes: Axes, activation: str, values: Values) -> str:
    """R(0) of the NTK as a formula with its value, and its dot where it has one."""
    formula = catalogue[f"ntk.{activation}.origin"]
    try:
        at = {symbol.name: values[symbol.name] for symbol in formula.args}
        value = float(formula.evaluate(12, **at)) + 0.0
    except InputError:
        _moved(axes, 2, [], [])
        return r"R_{\mathrm{NTK}}(0) \text{ does not exist here}"
    _moved(axes, 2, [0.0], [value])
    return rf"R_{{\mathrm{{NTK}}}}(0) = -\frac{{2d(d-1)\,c}}{{a^2}} = {value:.6g}"

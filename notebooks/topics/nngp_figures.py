"""Pictures of shallow NNGP geometry: Figures 1 and C.1 of the curvature paper, and a panel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import sympy as sp
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analytic.activations import ACTIVATIONS
from analytic.activations.activation import Activation
from analytic.catalogue import catalogue
from analytic.expressions.expectation import Moment
from analytic.expressions.symbols import r
from analytic.geometry import nngp
from notebooks.panels import Caption, Choice, curve
from notebooks.panels.style import BLUE, INK, RED, framed, new
from numeric.experiments.width import Convergence, Sweep

RADIUS = r"$\|x\|$"
RADII = np.linspace(0, 5, 201)


def figure_1(sweeps: dict[str, Sweep]) -> Figure:
    """Finite networks against the closed form: mean and standard deviation over realisations."""
    figure = new(9.0, 3.1 * len(sweeps))
    rows = figure.subplots(len(sweeps), 2, squeeze=False)
    for (name, sweep), (left, right) in zip(sweeps.items(), rows, strict=True):
        _convergence(framed(left, rf"{name}: $\sqrt{{\det g}}$", RADIUS), sweep.magnification)
        _convergence(framed(right, f"{name}: $R$", RADIUS), sweep.ricci)
        right.plot(
            sweep.ricci.radii.cpu(), 3 * sweep.ricci.exact.cpu(), ":", color=RED, label="as printed"
        )
        low = float(3.2 * sweep.ricci.exact.min())
        right.set_ylim(low, -low / 6)
        right.legend(frameon=False, fontsize=8)
    return figure


def _convergence(axes: Axes, quantity: Convergence) -> None:
    radii = quantity.radii.cpu()
    for shade, (width, estimate) in zip(
        np.linspace(0.25, 1, len(quantity.at)), quantity.at.items(), strict=True
    ):
        mean, spread = estimate.mean.cpu(), estimate.spread.cpu()
        axes.plot(radii, mean, color=BLUE, alpha=shade, lw=1, label=f"n = {width}")
        axes.fill_between(radii, mean - spread, mean + spread, color=BLUE, alpha=0.18 * shade, lw=0)
    axes.plot(radii, quantity.exact.cpu(), "--", color=INK, lw=1.5, label=r"$n = \infty$")


def figure_c1() -> Figure:
    """Ricci scalar of monomials: by degree in d = 2, by dimension for q = 2; sigma = zeta = 1."""
    figure = new()
    left, right = figure.subplots(1, 2)
    ricci = catalogue["nngp.monomial.ricci"].numpy
    for shade, k in zip(np.linspace(1, 0.25, 9), range(2, 11), strict=True):
        by_degree = ricci(d=2, sigma=1.0, zeta=1.0, r=RADII, q=k)
        left.plot(RADII, by_degree, color=RED, alpha=shade, label=f"q = {k}")
        by_dimension = ricci(d=k, sigma=1.0, zeta=1.0, r=RADII, q=2)
        right.plot(RADII, by_dimension, color="#6a4c93", alpha=shade, label=f"d = {k}")
    for axes, title in ((left, "$R$, $d = 2$"), (right, "$R$, $q = 2$")):
        framed(axes, title, RADIUS).legend(frameon=False, fontsize=7, ncols=2)
    return figure


@cache
def _formulas(name: str) -> tuple[Any, Any]:
    act = ACTIVATIONS[name]
    return nngp.magnification(act), nngp.ricci(act)


ACTIVATION = Choice("activation", "activation", tuple(ACTIVATIONS), "erf")


def relevant(control: str, values: Any) -> bool:
    """The degree matters to activations that have one."""
    return control != "q" or values["activation"] in ("monomial", "relu_power")


TITLES = (r"$\sqrt{\det g}$", "$R$")


def geometry(
    axes: Sequence[Axes], activation: str, sigma: float, zeta: float, q: int, d: int
) -> Caption:
    """Magnification and Ricci scalar along a ray, with the formula of the latter filled in."""
    act = ACTIVATIONS[activation]
    extra = {s.name: q if s.name == "q" else 1.0 for s in act.parameters}
    values = {"d": d, "sigma": sigma, "zeta": zeta, **extra}
    volume, scalar = _formulas(activation)
    radii = RADII[1:]  # with zeta = 0 the metric may be singular at the origin
    curve(axes[0], radii, volume.numpy(r=radii, **values), color=BLUE)
    curve(axes[1], radii, scalar.numpy(r=radii, **values), color=RED)
    at = {"r": 1.0, **values}
    numbers = f"at |x| = 1: sqrt(det g) = {volume.numpy(**at):.8g}, R = {scalar.numpy(**at):.8g}"
    return Caption(_filled(act, values), numbers)


def _filled(act: Activation, values: dict[str, Any]) -> str:
    """R(r) with the numbers of the sliders, or G(V) where R itself would not fit on a line."""
    scalar = _formulas(act.name)[1]
    if scalar.expr.has(sp.asin, sp.erfc, Moment):
        return rf"G(V) = {sp.latex(act.G.expr)},\quad R \text{{ by (7), corrected}}"
    numbers = {sp.pi: sp.pi.evalf(3)}
    for symbol in scalar.args:
        if symbol != r:
            value = values[symbol.name]
            numbers[symbol] = sp.Float(value, 3) if isinstance(value, float) else sp.Integer(value)
    return f"R(r) = {sp.latex(scalar.expr.subs(numbers), full_prec=False)}"

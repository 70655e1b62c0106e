"""Shallow NNGP geometry: random networks by width, monomials, and magnification and curvature along a ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from analytic.activations import ACTIVATIONS, monomial
from analytic.activations.activation import Activation
from analytic.catalogue import catalogue
from analytic.expressions.expectation import Moment
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import r
from analytic.geometry import nngp
from notebooks.topics.statistics import Array, WidthCurves

if TYPE_CHECKING:
    from numeric.experiments.width import Sweep

RADII = np.linspace(0, 5, 201)
ACTIVATION_NAMES = tuple(ACTIVATIONS)


@dataclass(frozen=True, eq=False)
class RandomNetworks:
    """Figure 1: networks by width beside the closed forms, and the curvature as it is printed."""

    magnification: WidthCurves
    ricci: WidthCurves
    ricci_as_printed: Array

    @classmethod
    def of(cls, sweep: Sweep) -> RandomNetworks:
        magnification, ricci = WidthCurves.of(sweep.magnification), WidthCurves.of(sweep.ricci)
        return cls(magnification, ricci, 3 * ricci.exact)


@dataclass(frozen=True, eq=False)
class MonomialCurvature:
    """Figure C.1: the Ricci scalar of monomials with sigma = zeta = 1."""

    radii: Array
    by_degree: Mapping[int, Array]  # in d = 2
    by_dimension: Mapping[int, Array]  # for q = 2


def monomial_curvature() -> MonomialCurvature:
    ricci = catalogue["nngp.monomial.ricci"].numpy
    scales = {"sigma": 1.0, "zeta": 1.0, "r": RADII}
    return MonomialCurvature(
        RADII,
        {k: ricci(d=2, q=k, **scales) for k in range(2, 11)},
        {k: ricci(d=k, q=2, **scales) for k in range(2, 11)},
    )


def compared(activation: str, q: int) -> dict[str, Activation]:
    """What Figure 1 shows, by its title: an activation with its parameters filled in, and a monomial."""
    family = ACTIVATIONS[activation]
    chosen = family.fixed(**catalogue_parameters(activation, q)) if family.parameters else family
    power = {2: "quadratic"}.get(q, f"degree {q}")
    return {power if activation == "monomial" else activation: chosen, power: monomial(q)}


def catalogue_parameters(activation: str, q: int) -> dict[str, float]:
    """Values for the parameters of an activation's closed forms: the degree q, and 1 for any other."""
    return {s.name: q if s.name == "q" else 1.0 for s in ACTIVATIONS[activation].parameters}


@dataclass(frozen=True, eq=False)
class Ray:
    """Magnification and Ricci scalar along a ray, at |x| = 1, and a formula with its numbers filled in."""

    radii: Array
    magnification: Array
    ricci: Array
    magnification_at_one: float
    ricci_at_one: float
    formula: str  # LaTeX


def ray(activation: str, sigma: float, zeta: float, q: int, d: int) -> Ray:
    values = {"d": d, "sigma": sigma, "zeta": zeta, **catalogue_parameters(activation, q)}
    volume, scalar = _formulas(activation)
    radii = RADII[1:]  # with zeta = 0 the metric may be singular at the origin
    return Ray(
        radii,
        volume.numpy(r=radii, **values),
        scalar.numpy(r=radii, **values),
        float(volume.numpy(r=1.0, **values)),
        float(scalar.numpy(r=1.0, **values)),
        _with_numbers(ACTIVATIONS[activation], values),
    )


@cache
def _formulas(name: str) -> tuple[Formula, Formula]:
    act = ACTIVATIONS[name]
    return nngp.magnification(act), nngp.ricci(act)


def _with_numbers(act: Activation, values: dict[str, Any]) -> str:
    """R(|x|) with the numbers of the sliders, or G(V) where R itself would not fit on a line."""
    scalar = _formulas(act.name)[1]
    if scalar.expr.has(sp.asin, sp.erfc, Moment):
        return rf"G(V) = {sp.latex(act.G.expr)},\quad R \text{{ by (7), corrected}}"
    numbers = {sp.pi: sp.pi.evalf(3), r: sp.Symbol("|x|", nonnegative=True)}
    for symbol in scalar.args:
        if symbol != r:
            value = values[symbol.name]
            numbers[symbol] = sp.Integer(value) if value == int(value) else sp.Float(value, 3)
    return f"R(|x|) = {sp.latex(scalar.expr.subs(numbers), full_prec=False)}"

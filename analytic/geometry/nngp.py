r"""Geometry of the shallow NNGP kernel, from nothing but an activation's $G(V) = E[\phi'^2]$.

The metric is $e^\Omega(I + 2\Omega' x x^T)$ with $e^\Omega = \sigma^2 G(V)$, $V = \sigma^2 s +
\zeta^2$ (curvature paper, (5)). The float faces are written in the elasticities $\epsilon_1 = V
G'/G$ and $\epsilon_2 = V\epsilon_1'$ and in the share $\tau = \sigma^2 s/V$ of the input in the
variance. Nothing in them cancels, from r = 1e-8 to 1e8 and at zeta = 0:

$$\frac{E}{a} = P = (1-\tau) + \tau(1 + 2\epsilon_1), \qquad
R = -\frac{(d-1)\,\tau\epsilon_1}{V G P^2}\big[(d-2)\epsilon_1 P
    + 4\big((1-\tau)\epsilon_1 + \tau\epsilon_2\big)\big].$$
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from analytic.activations.activation import Activation
from analytic.activations.log_derivatives import (
    Elasticities,
    algebraic,
    elasticities,
    factored,
    log_of_product,
    quick,
    rise,
)  # fmt: skip
from analytic.expressions.formula import Formula
from analytic.expressions.special import log_variance, share, volume
from analytic.expressions.symbols import V, d, r, s, sigma, zeta
from analytic.geometry.radial import RadialMetric, origin_curvature

PAPER = "Zavatone-Veth et al."
_variance = sigma**2 * s + zeta**2
_bare = sp.And(sp.Eq(s, 0), sp.Eq(zeta, 0))


def kernel(act: Activation) -> Formula:
    return _named(act.kernel, act, "kernel", f"{PAPER}, (C.3)")


def slope(act: Activation) -> Formula:
    return _named(
        act.require("slope"),
        act,
        "slope",
        "E[phi'(u) phi'(v)], by Price's theorem d(kernel)/d(kxy)",
    )


def metric(act: Activation) -> RadialMetric:
    """The pullback metric as its two radial coefficients (5)."""
    a = sigma**2 * act.require("G").expr.subs(V, _variance)
    return RadialMetric(a, 2 * sp.diff(a, s))


def omega(act: Activation) -> Formula:
    face = _Face(act)
    return _formula(act, "omega", sp.log(metric(act).a), face.log_a, "(C.11)")


def tangential(act: Activation) -> Formula:
    """The eigenvalue of the metric across x, of multiplicity d - 1."""
    face = _Face(act)
    return _formula(act, "tangential", metric(act).a, sigma**2 * face.G, "(5)")


def radial(act: Activation) -> Formula:
    """The eigenvalue of the metric along x."""
    face = _Face(act)
    return _formula(act, "radial", _along(act), sigma**2 * face.G * face.P, "(5)")


def magnification(act: Activation) -> Formula:
    """sqrt(det g)."""
    face = _Face(act)
    textbook = metric(act).a ** ((d - 1) / 2) * sp.sqrt(_along(act))
    stable = volume(sigma**2 * face.G, face.log_a, face.P, d)
    return _formula(act, "magnification", textbook, stable, "(C.13)", dimension=True)


def ricci(act: Activation) -> Formula:
    """The Ricci scalar; the paper prints three times this value, (7)."""
    face = _Face(act)
    textbook = (
        factored(metric(act).scalar_curvature()) if quick(act.require("G")) else _regular(act)
    )
    bracket = (d - 2) * face.e1 * face.P + 4 * (face.rest * face.e1 + face.tau * face.e2)
    stable = -(d - 1) * face.tau * face.slope / (face.G * face.P**2) * bracket
    if bend := rise(act.G):
        limit = origin_curvature(sigma**2 * act.G.expr.subs(V, 0), sp.S.Zero, sigma**3 * bend)
        textbook, stable = (sp.Piecewise((limit, _bare), (f, True)) for f in (textbook, stable))
    return _formula(act, "ricci", textbook, stable, "(7), corrected by 1/3", dimension=True)


def _regular(act: Activation) -> sp.Expr:
    """(7) without its division by Omega', which has zeros (GELU's lies at V = 10.2133)."""
    a, a1, a2 = (sp.diff(metric(act).a, s, k) for k in range(3))
    E = a + 2 * s * a1
    bracket = (d - 2) * a1 * E + 4 * (a * a1 + s * (a * a2 - a1**2))
    return -(d - 1) * s * a1 / (a**2 * E**2) * bracket


def _along(act: Activation) -> sp.Expr:
    """The eigenvalue along x, which is defined at x = 0, zeta = 0 too."""
    along, G = metric(act).a * _stretch(act), act.G.expr
    vanishes = G.subs(V, 0) == 0 and not algebraic(G)  # then no factor V cancels in Omega'
    return sp.Piecewise((0, _bare), (along, True)) if vanishes else along


def _stretch(act: Activation) -> sp.Expr:
    r"""$1 + 2 s \Omega' = 1 + 2\tau\epsilon_1$, which is defined at x = 0, zeta = 0 too."""
    slope = sp.diff(act.G.expr, V) / act.G.expr
    if slope.subs(V, 0).is_finite:
        stretch = 1 + 2 * sigma**2 * s * slope.subs(V, _variance)
        return factored(stretch) if algebraic(stretch) else stretch
    elasticity = (
        factored(V * slope) if quick(act.G) else sp.expand(V * sp.diff(act.G.expr, V)) / act.G.expr
    )
    return 1 + 2 * share(sigma**2 * s, zeta**2, 1) * elasticity.subs(V, _variance)


def _formula(
    act: Activation,
    what: str,
    textbook: sp.Expr,
    stable: sp.Expr,
    source: str,
    dimension: bool = False,
) -> Formula:
    args = (sigma, zeta, r, *act.parameters)
    at_r = {s: r**2}
    return Formula(
        f"nngp.{act.name}.{what}",
        (d, *args) if dimension else args,
        textbook.subs(at_r),
        act.G.domain,
        f"{PAPER}, {source}",
        stable.subs(at_r),
    )


def _named(formula: Formula, act: Activation, what: str, source: str) -> Formula:
    return replace(formula, name=f"nngp.{act.name}.{what}", source=source)


@dataclass(frozen=True)
class _Face:
    """The ingredients of the float faces, each written so that floating point survives it."""

    act: Activation

    @property
    def tau(self) -> sp.Expr:
        return share(sigma**2 * s, zeta**2, 1)

    @property
    def rest(self) -> sp.Expr:
        """1 - tau."""
        return share(zeta**2, sigma**2 * s, 0)

    @property
    def G(self) -> sp.Expr:
        return self.act.G.floating.subs(V, _variance)

    @property
    def _rates(self) -> Elasticities:
        return elasticities(self.act.G, self.act.elasticity)

    @property
    def e1(self) -> sp.Expr:
        return self._rates.first.subs(V, _variance)

    @property
    def e2(self) -> sp.Expr:
        return self._rates.second.subs(V, _variance)

    @property
    def slope(self) -> sp.Expr:
        """e1 / V = G'/G."""
        return self._rates.slope.subs(V, _variance)

    @property
    def P(self) -> sp.Expr:
        return self.rest + self.tau * self._rates.stretch.subs(V, _variance)

    @property
    def log_a(self) -> sp.Expr:
        """log(sigma^2 G) factor by factor: no power of V overflows, and no digit is lost near 0."""
        parts = log_of_product(self.act.G.floating)
        numbers = [part for part in sp.Add.make_args(parts) if part.is_number]
        power = parts.coeff(sp.log(V))
        rest = parts - sp.Add(*numbers) - power * sp.log(V)
        lead = sp.log(sigma**2 * sp.exp(sp.Add(*numbers)))
        bias = log_variance(power, sigma, r, zeta) if power != 0 else sp.S.Zero
        return lead + rest.subs(V, _variance) + bias

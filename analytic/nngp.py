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

from analytic.activation import Activation
from analytic.expectation import Moment
from analytic.formula import Formula
from analytic.radial import RadialMetric
from analytic.special import log1p, log_variance, share, volume
from analytic.symbols import V, d, r, s, sigma, zeta

PAPER = "Zavatone-Veth et al."
_variance = sigma**2 * s + zeta**2


def kernel(act: Activation) -> Formula:
    return _named(act.kernel, act, "kernel", f"{PAPER}, (C.3)")


def slope(act: Activation) -> Formula:
    return _named(
        act.slope, act, "slope", "E[phi'(u) phi'(v)], by Price's theorem d(kernel)/d(kxy)"
    )


def metric(act: Activation) -> RadialMetric:
    """The pullback metric as its two radial coefficients (5)."""
    a = sigma**2 * act.G.expr.subs(V, _variance)
    return RadialMetric(a, 2 * sp.diff(a, s))


def omega(act: Activation) -> Formula:
    face = _Face(act)
    return _formula(act, "omega", sp.log(metric(act).a), face.log_a, "(C.11)")


def tangential(act: Activation) -> Formula:
    """The eigenvalue of the metric across x, of multiplicity d - 1."""
    face = _Face(act)
    return _formula(act, "tangential", metric(act).a, sigma**2 * face.G, "(C.14)")


def radial(act: Activation) -> Formula:
    """The eigenvalue of the metric along x."""
    face = _Face(act)
    return _formula(
        act, "radial", metric(act).a * _stretch(act), sigma**2 * face.G * face.P, "(C.14)"
    )


def magnification(act: Activation) -> Formula:
    """sqrt(det g)."""
    face = _Face(act)
    textbook = metric(act).a ** (d / 2) * sp.sqrt(_stretch(act))
    stable = volume(sigma**2 * face.G, face.log_a, face.P, d)
    return _formula(act, "magnification", textbook, stable, "(C.13)", dimension=True)


def ricci(act: Activation) -> Formula:
    """The Ricci scalar; the paper prints three times this value, (7)."""
    face = _Face(act)
    textbook = _factored(metric(act).scalar_curvature()) if _quick(act) else _regular(act)
    bracket = (d - 2) * face.e1 * face.P + 4 * (face.rest * face.e1 + face.tau * face.e2)
    stable = -(d - 1) * face.tau * face.slope / (face.G * face.P**2) * bracket
    return _formula(act, "ricci", textbook, stable, "(7), corrected by 1/3", dimension=True)


def _regular(act: Activation) -> sp.Expr:
    """(7) without its division by Omega', which has zeros (GELU's lies at V = 10.2133)."""
    a, a1, a2 = (sp.diff(metric(act).a, s, k) for k in range(3))
    E = a + 2 * s * a1
    bracket = (d - 2) * a1 * E + 4 * (a * a1 + s * (a * a2 - a1**2))
    return -(d - 1) * s * a1 / (a**2 * E**2) * bracket


def _stretch(act: Activation) -> sp.Expr:
    r"""$1 + 2 s \Omega' = 1 + 2\tau\epsilon_1$, which is defined at x = 0, zeta = 0 too."""
    slope = sp.diff(act.G.expr, V) / act.G.expr
    if slope.subs(V, 0).is_finite:
        stretch = 1 + 2 * sigma**2 * s * slope.subs(V, _variance)
        return _factored(stretch) if _algebraic(stretch) else stretch
    elasticity = (
        _factored(V * slope) if _quick(act) else sp.expand(V * sp.diff(act.G.expr, V)) / act.G.expr
    )
    return 1 + 2 * share(sigma**2 * s, zeta**2, 1) * elasticity.subs(V, _variance)


def _quick(act: Activation) -> bool:
    """Whether `factor` is quick on expressions in G: powers and exponentials only."""
    return not act.G.expr.has(Moment, sp.asin, sp.erfc, sp.erf)


def _factored(expr: sp.Expr) -> sp.Expr:
    """The factored form, each factor ordered by powers of zeta."""
    generic = {symbol: sp.Dummy(symbol.name, positive=True) for symbol in (s, zeta, V)}
    factors = sp.factor(expr.subs(generic)).as_powers_dict()
    bias = generic[zeta]
    tidy = sp.Mul(*(sp.collect(sp.expand(b), bias, sp.factor) ** e for b, e in factors.items()))
    return tidy.subs({dummy: symbol for symbol, dummy in generic.items()})


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
    def e1(self) -> sp.Expr:
        return elasticities(self.act).first.subs(V, _variance)

    @property
    def e2(self) -> sp.Expr:
        return elasticities(self.act).second.subs(V, _variance)

    @property
    def slope(self) -> sp.Expr:
        """e1 / V = G'/G."""
        return elasticities(self.act).slope.subs(V, _variance)

    @property
    def P(self) -> sp.Expr:
        return self.rest + self.tau * elasticities(self.act).stretch.subs(V, _variance)

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


@dataclass(frozen=True)
class Elasticities:
    """e1 = V G'/G, e2 = V e1', stretch = 1 + 2 e1 and slope = e1/V, each free of cancellation."""

    first: sp.Expr
    second: sp.Expr
    stretch: sp.Expr
    slope: sp.Expr


def elasticities(act: Activation) -> Elasticities:
    G, textbook = act.G.floating, act.G.expr
    if G.has(Moment):
        return _of_moment(G)
    if act.elasticity is not None:
        e1 = act.elasticity
        return Elasticities(e1, V * sp.diff(e1, V), 1 + 2 * e1, e1 / V)
    slope = sp.diff(textbook, V)
    if _algebraic(textbook):
        e1 = _factored(V * slope / textbook)
        e2, stretch = _factored(V * sp.diff(e1, V)), _factored(1 + 2 * e1)
        return Elasticities(e1, e2, stretch, _factored(e1 / V))
    if _algebraic(slope := _factored(slope)):  # G' is simpler than G, as for GELU
        once = _factored(V * slope)
        e1, e2 = once / G, _factored(V * sp.diff(once, V)) / G - (once / G) ** 2
        return Elasticities(e1, e2, 1 + 2 * e1, slope / G)
    slope = sp.diff(G, V) / G
    return Elasticities(V * slope, V * sp.diff(V * slope, V), 1 + 2 * V * slope, slope)


def _of_moment(G: sp.Expr) -> Elasticities:
    """From quadratures of one sign: moving the scale of f puts z f' or t^2 f under the average."""
    second = G.replace(Moment, lambda f, V, power, kinks: Moment(f, V, 2, kinks))
    e1 = _log_derivative(G) / G
    stretch = second / G
    e2 = stretch / 2 * (_log_derivative(second) / second - e1)
    return Elasticities(e1, e2, stretch, e1 / V)


def _log_derivative(expr: sp.Expr) -> sp.Expr:
    """V d/dV of a constant plus moments."""
    return sp.Add(*(part.log_derivative() for part in expr.atoms(Moment)))


def _algebraic(expr: sp.Expr) -> bool:
    return not expr.atoms(sp.Function) - expr.atoms(sp.gamma, sp.loggamma) and not expr.has(
        sp.exp, Moment
    )


def log_of_product(expr: sp.Expr) -> sp.Expr:
    """log of a positive product, factor by factor; a sum is led by its constant, for log1p."""
    number, rest = expr.as_coeff_Mul()
    if number < 0:  # two negative factors, such as -expm1(-x)
        return sp.log(-number) + sp.log(-rest)
    if expr.is_Mul:
        return sp.Add(*map(log_of_product, expr.args))
    if isinstance(expr, sp.exp):
        return expr.args[0]
    if expr.is_Pow:
        return expr.exp * log_of_product(expr.base)
    constant, rest = expr.as_coeff_Add()
    return (
        sp.log(constant) + log1p(rest / constant) if expr.is_Add and constant > 0 else sp.log(expr)
    )

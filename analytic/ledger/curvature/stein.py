"""The tangent metric by Stein's lemma and Price's theorem, (D.13) to (D.19)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.activations import gaussian, gelu
from analytic.activations.activation import Activation, derivative
from analytic.checks.claims import Claim, sample
from analytic.expressions import quadrature
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.expectation import Moment
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V as variance
from analytic.expressions.symbols import r, s, sigma, xi, z, zeta
from analytic.ledger.curvature.gaussian import PHI
from analytic.ledger.curvature.tangent import ROUTES as BEFORE
from analytic.ledger.curvature.tangent import metric, theta
from analytic.ledger.curvature.weights import ARGS, POINT, conditional_mean, u, v, vector, x
from analytic.ledger.verification import Verification, dot, holds, metric_along

__all__ = ["ROUTES"]

_slopes = [derivative(PHI, k) for k in range(5)]
_V = sigma**2 * dot(x, x) + zeta**2


def _square(k: int, V: sp.Expr = _V) -> Moment:
    """E[phi^(k)(z)^2]."""
    return Moment(_slopes[k] ** 2, V)


def _rate(k: int, V: sp.Expr = _V) -> Moment:
    """E[phi^(k+1)(z)^2 + phi^(k)(z) phi^(k+2)(z)], the derivative of the same by V."""
    return Moment(_slopes[k + 1] ** 2 + _slopes[k] * _slopes[k + 2], V)


def _over_weights(name: str, expr: sp.Expr, average: sp.Expr) -> Claim:
    """A statement after Stein's lemma, against the average that it started from."""
    oracle = Formula(name, ARGS, average).mpmath
    return Claim(Formula(name, ARGS, expr), "average over weights", oracle, (POINT,))


def _outer(k: int, rate: Moment) -> Claim:
    """(D.13) and (D.14)."""
    along = dot(x, u) * dot(x, v)
    expr = sigma**2 * _square(k) * dot(u, v) + 2 * sigma**4 * rate * along
    return _over_weights(f"(D.{12 + k})", expr, conditional_mean(PHI)(k, k, u, v))


def _as_read() -> Formula:
    """(D.14) with the primes that its damaged text shows."""
    rate = Moment(_slopes[2] ** 2 + _slopes[1] * _slopes[4], _V)
    return replace(_outer(2, rate).statement, name="(D.14) as read")


def _coefficients(V: sp.Expr, norm: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """The two brackets of (D.17)."""
    both = sigma**2 + xi**2
    first = both * _square(1, V) + sigma**2 * xi**2 * _square(2, V) * (1 + norm)
    return first, both * _rate(1, V) + sigma**2 * xi**2 * _rate(2, V) * (1 + norm)


def _projected() -> Claim:
    """(D.17), against (D.16)."""
    first, second = _coefficients(_V, dot(x, x))
    expr = first * dot(u, v) + 2 * sigma**2 * second * dot(x, u) * dot(x, v)
    return _over_weights("(D.17)", expr, metric(conditional_mean(PHI)))


def _price() -> Claim:
    """(D.18): the derivative of the first bracket of (D.17) by the squared norm."""
    args, V = (sigma, zeta, xi, r), sigma**2 * r**2 + zeta**2
    _, second = _coefficients(V, r**2)
    formula = Formula("(D.18)", args, sigma**2 * second + sigma**2 * xi**2 * _square(2, V))
    slope_squared, second_derivative_squared = (
        compile_mpmath((z,), _slopes[k] ** 2) for k in (1, 2)
    )

    def oracle(sigma: Any, zeta: Any, xi: Any, r: Any) -> Any:
        def bracket(s: Any) -> Any:
            G, G2 = (
                quadrature.moment(f, sigma**2 * s + zeta**2)
                for f in (slope_squared, second_derivative_squared)
            )
            return (sigma**2 + xi**2) * G + sigma**2 * xi**2 * G2 * (1 + s)

        return mp.diff(bracket, r**2)

    point = {"sigma": "0.7", "zeta": "0.5", "xi": "1.3", "r": "1.1"}
    reason = "a difference of quadratures of 30 digits"
    return Claim(formula, "numerical derivative", oracle, (point,), 18, reason)


def _radial(act: Activation) -> Claim:
    """(D.19) with (D.20) from closed forms of G and G2, against the kernel moved at both ends."""
    G, G2 = (f.expr.subs(variance, sigma**2 * s + zeta**2) for f in map(act.require, ("G", "G2")))
    Psi, c = (sigma**2 + xi**2) * G + sigma**2 * xi**2 * G2 * (1 + s), sigma**2 * xi**2 * G2
    expr = Psi * dot(u, v) + 2 * (sp.diff(Psi, s) - c) * dot(x, u) * dot(x, v)
    formula = Formula(f"(D.19), {act.name}", ARGS, expr.subs(s, dot(x, x)))

    def oracle(**values: Any) -> Any:
        return metric_along(partial(theta, act, values), *(vector(values, name) for name in "xuv"))

    return Claim(formula, "differences of the kernel", oracle, (POINT, *sample(formula, 1)))


ROUTES: dict[str, Verification] = {
    "curvature/D.13": holds(_outer(1, _rate(1))),
    "curvature/D.14": Verification((_outer(2, _rate(2)),), _as_read()),
    "curvature/D.15": holds(
        _over_weights("(D.15)", sigma**2 * _rate(1) * dot(x, u), conditional_mean(PHI)(1, 2, u))
    ),
    "curvature/D.16-D.17": holds(*BEFORE["curvature/D.11-D.12"].claims, _projected()),
    "curvature/D.18": holds(_price()),
    "curvature/D.19": holds(_radial(gelu), _radial(gaussian)),
}

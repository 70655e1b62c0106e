"""The NNGP metric, (5) and (C.4) to (C.10): against Gaussian averages of phi'^2 w w^T."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.activations import erf, gaussian, gelu, monomial
from analytic.activations.activation import Activation, activation, derivative
from analytic.checks.claims import Claim, Point, sample
from analytic.checks.oracles import nngp_jet
from analytic.expressions import quadrature
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.expectation import Moment
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V, r, sigma, z, zeta
from analytic.ledger.verification import Verification, dot, holds, real_symbols

__all__ = ["MODERATE", "PHI", "ROUTES"]

x, u, v = (real_symbols(f"{name}1 {name}2") for name in "xuv")
ARGS = (sigma, zeta, *x, *u, *v)

# Smooth, neither odd nor even, and without closed forms: all its averages are quadratures.
PHI = sp.sin(sp.Rational(3, 2) * z) + z**2 / 4 + z / 2
GENERIC = activation("generic", PHI)
# Of moderate variance: at a large one the averages of the sine vanish, and mutants go unnoticed.
MODERATE: Point = {"sigma": "0.7", "zeta": "0.5", "x1": "0.6", "x2": "-0.9", "u1": "1.2", "u2": "0.4",
                   "v1": "-0.3", "v2": "0.8"}  # fmt: skip


_variance = sigma**2 * dot(x, x) + zeta**2


def _by_averages(act: Activation, name: str, expr: sp.Expr) -> Claim:
    """A metric contracted with u and v, against its average over the weights by quadrature."""
    formula = Formula(f"{name}, {act.name}", ARGS, expr)

    def average(**values: Any) -> Any:
        at, a, b = ([values[f"{n}{k}"] for k in (1, 2)] for n in "xuv")
        g = nngp_jet(act, at, values["sigma"], values["zeta"]).g
        return mp.fsum(a[i] * g[i][j] * b[j] for i in (0, 1) for j in (0, 1))

    return Claim(formula, "average over weights", average, sample(formula, 2))


def _metric(act: Activation) -> Claim:
    """(5) with Omega from the closed form of G."""
    omega = sp.log(sigma**2 * act.require("G").expr)
    at = {V: _variance}
    slope = sp.diff(omega, V).subs(at) * sigma**2
    expr = sp.exp(omega.subs(at)) * (dot(u, v) + 2 * slope * dot(x, u) * dot(x, v))
    return _by_averages(act, "NNGP metric", expr)


def _from_kernel(act: Activation) -> Claim:
    """(C.4): second derivatives of the closed kernel along u and v."""
    y, s, t = real_symbols("y1 y2"), *real_symbols("s t")
    gram = act.kernel.expr.subs(
        dict(
            zip(
                act.kernel.args,
                (_variance, sigma**2 * dot(x, y) + zeta**2, sigma**2 * dot(y, y) + zeta**2),
                strict=True,
            )
        ),
        simultaneous=True,
    )

    def displaced(start: Any) -> list[sp.Expr]:
        return [c + s * a + t * b for c, a, b in zip(start, u, v, strict=True)]

    def second(expr: sp.Expr) -> sp.Expr:
        return sp.diff(expr, s, t).subs({s: 0, t: 0})

    both = gram.subs(
        dict(zip((*x, *y), (*displaced(x), *displaced(x)), strict=True)), simultaneous=True
    )
    one = gram.subs(dict(zip(y, displaced(x), strict=True)), simultaneous=True)
    return _by_averages(act, "metric from the kernel", second(both) / 2 - second(one))


def _after_stein(steps: int) -> Claim:
    """(C.6) after one use of Stein's lemma, (C.7) after two; E[f w] = sigma^2 x E[f z]/V."""
    first, second, third = (derivative(PHI, k) for k in (1, 2, 3))
    if steps == 1:
        second_term = Moment(first * second, _variance, 1) / sp.sqrt(_variance)
    else:
        second_term = Moment(second**2 + first * third, _variance)
    expr = sigma**2 * Moment(first**2, _variance) * dot(u, v)
    expr += 2 * sigma**4 * second_term * dot(x, u) * dot(x, v)
    claim = _by_averages(GENERIC, f"(C.{5 + steps})", expr)
    return replace(claim, points=(MODERATE,))


def _price() -> tuple[Claim, Claim]:
    """(C.8) and (C.9): the derivative of E[phi'^2] by the variance, and by the squared norm."""
    first, second, third = (derivative(PHI, k) for k in (1, 2, 3))
    squared = compile_mpmath((z,), first**2)
    by_variance = Formula("E[phi''^2 + phi' phi''']", (V,), Moment(second**2 + first * third, V))

    def weighted(V: Any) -> Any:
        return (quadrature.moment(squared, V, 2) - quadrature.moment(squared, V)) / (2 * V)

    by_norm = Formula(
        "sigma^2 E[phi''^2 + phi' phi''']",
        (sigma, zeta, r),
        sigma**2 * by_variance.expr.subs(V, sigma**2 * r**2 + zeta**2),
    )

    def numerical(sigma: Any, zeta: Any, r: Any) -> Any:
        return mp.diff(lambda s: quadrature.moment(squared, sigma**2 * s + zeta**2), r**2)

    return (
        Claim(by_variance, "a Hermite weight", weighted, sample(by_variance, 2)),
        Claim(
            by_norm,
            "numerical derivative",
            numerical,
            sample(by_norm, 1),
            digits=18,
            reason="a difference of quadratures of 30 digits",
        ),
    )


_metrics = tuple(_metric(act) for act in (erf, gelu, monomial(3)))

ROUTES: dict[str, Verification] = {
    "curvature/5": holds(*_metrics),
    "curvature/C.4": holds(_from_kernel(erf), _from_kernel(gaussian)),
    "curvature/C.5-C.7": holds(_after_stein(1), _after_stein(2)),
    "curvature/C.8-C.9": holds(*_price()),
    "curvature/C.10": holds(*_metrics),
}

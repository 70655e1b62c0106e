r"""Activations with closed-form Gaussian moments: the only closed forms typed by hand in the suite.

Convention: `erf` is erf(z/sqrt 2), `monomial(q)` is z^q/sqrt((2q-1)!!), `relu_power(q)` is
max(0, z)^q, `gelu` is exact, z Phi(z). A pair (textbook, stable) gives both faces. `ACTIVATIONS`
are those of the catalogue, `FURTHER` holds one of each other kind, and `smooth` those without
closed forms.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy as sp
from sympy import Rational

from analytic.activation import Activation
from analytic.activations.hermite import hermite
from analytic.activations.normal import elu, erf, gaussian, gelu
from analytic.activations.powers import monomial, polynomial, relu, relu_power
from analytic.activations.slopes import absolute, leaky_relu, real, sign, step, two_slope
from analytic.activations.smooth import sigmoid, silu, softplus, tanh
from analytic.activations.waves import cosine, exponential, gabor, rbf, sine, snake
from analytic.domain import InputError
from analytic.expectation import Moment
from analytic.formula import Formula
from analytic.symbols import V, kxx, kyy, z

ACTIVATIONS: dict[str, Activation] = {
    one.name: one
    for one in (
        erf, monomial(), relu_power(), sine(), cosine(), exponential(), gaussian, gelu, elu, snake(),
    )
}  # fmt: skip

FURTHER: dict[str, Activation] = {
    one.name: one
    for one in (
        leaky_relu(Rational(1, 10)), absolute, sign, step,
        sine(Rational(13, 10), phase=Rational(2, 5)), rbf(Rational(7, 10)), gabor, hermite(3),
        tanh, sigmoid, softplus, silu,
    )
}  # fmt: skip


def affine(act: Activation, scale: Any = 1, shift: Any = 0) -> Activation:
    r"""$a\phi(z) + b$, as in `affine(erf.scaled(c), a, b)`, with the closed forms of phi.

    A shift brings the mean $E[\phi]$ into F and the kernel: nothing for an odd phi, and else a
    one-point quadrature. Where a phi + b nearly vanishes, as cos(z) - 1 at small variance, the
    sum loses digits in floats.
    """
    a, b = real("scale", scale), real("shift", shift)
    if a == 0:
        raise InputError("scale = 0 was given, but it must be another number: nothing varies then.")
    phi = act.phi.expr
    odd = b == 0 or sp.expand(phi + phi.subs(z, -z)) == 0

    def mean(variance: sp.Symbol) -> sp.Expr:
        return sp.S.Zero if odd else Moment(act.phi.floating, variance, 0, act.kinks)

    def moved(formula: Formula | None, more: sp.Expr = sp.S.Zero, front: sp.Expr = a**2) -> Any:
        if formula is None:
            return None
        stable = None if formula.stable is None else _outside(formula.stable, front, more)
        return replace(
            formula, name=f"affine({formula.name}, {a}, {b})", expr=_outside(formula.expr, front, more),
            stable=stable,
        )  # fmt: skip

    return replace(
        act,
        name=f"affine({act.name}, {a}, {b})",
        phi=moved(act.phi, b, a),
        kernel=moved(act.kernel, a * b * (mean(kxx) + mean(kyy)) + b**2),
        slope=moved(act.slope),
        F=moved(act.F, 2 * a * b * mean(V) + b**2),
        G=moved(act.G),
        G2=moved(act.G2),
    )


def _outside(expr: sp.Expr, front: sp.Expr, more: sp.Expr) -> sp.Expr:
    """front expr + more, branch by branch, so that a Piecewise stays one."""
    if isinstance(expr, sp.Piecewise):
        return sp.Piecewise(*((_outside(value, front, more), where) for value, where in expr.args))
    return front * expr + more


__all__ = [
    "ACTIVATIONS", "FURTHER", "absolute", "affine", "cosine", "elu", "erf", "exponential", "gabor",
    "gaussian", "gelu", "hermite", "leaky_relu", "monomial", "polynomial", "rbf", "relu",
    "relu_power", "sigmoid", "sign", "silu", "sine", "snake", "softplus", "step", "tanh", "two_slope",
]  # fmt: skip

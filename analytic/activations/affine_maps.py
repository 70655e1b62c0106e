r"""$a\phi(z) + b$ of an activation phi, with its closed forms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy as sp

from analytic.activations.activation import Activation, require_activation, require_real
from analytic.expressions.arguments import InputError
from analytic.expressions.expectation import Moment
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V, kxx, kyy, z


def affine(act: Activation, scale: Any = 1, shift: Any = 0) -> Activation:
    r"""$a\phi(z) + b$, as in `affine(erf.scaled(c), a, b)`, with the closed forms of phi.

    With a shift, F and the kernel contain the mean $E[\phi]$, which is 0 for an odd phi and else a
    one-point quadrature. Where a phi + b nearly vanishes, as cos(z) - 1 at small variance, the
    sum loses digits in floats.
    """
    act = require_activation(act)
    a, b = require_real("scale", scale), require_real("shift", shift)
    if a == 0:
        raise InputError("scale = 0 was given, but then phi is constant: take another number.")
    phi = act.phi.expr
    odd = b == 0 or sp.expand(phi + phi.subs(z, -z)) == 0

    def mean(variance: sp.Symbol) -> sp.Expr:
        return sp.S.Zero if odd else Moment(act.phi.floating, variance, 0, act.kinks)

    def mapped(formula: Formula | None, more: sp.Expr = sp.S.Zero, front: sp.Expr = a**2) -> Any:
        if formula is None:
            return None
        stable = None if formula.stable is None else _mapped(formula.stable, front, more)
        return replace(
            formula, name=f"affine({formula.name}, {a}, {b})", expr=_mapped(formula.expr, front, more),
            stable=stable,
        )  # fmt: skip

    return replace(
        act,
        name=f"affine({act.name}, {a}, {b})",
        phi=mapped(act.phi, b, a),
        kernel=mapped(act.kernel, a * b * (mean(kxx) + mean(kyy)) + b**2),
        slope=mapped(act.slope),
        F=mapped(act.F, 2 * a * b * mean(V) + b**2),
        G=mapped(act.G),
        G2=mapped(act.G2),
    )


def _mapped(expr: sp.Expr, front: sp.Expr, more: sp.Expr) -> sp.Expr:
    """front expr + more; branch by branch, so that a Piecewise remains the outermost node."""
    if isinstance(expr, sp.Piecewise):
        return sp.Piecewise(*((_mapped(value, front, more), where) for value, where in expr.args))
    return front * expr + more

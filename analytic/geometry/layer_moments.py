"""A layer as the moments that germs of kernels pass through: in textbook form, and for floats."""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from analytic.activations.activation import Activation
from analytic.activations.log_derivatives import algebraic, elasticities, factored
from analytic.expressions.arguments import InputError
from analytic.expressions.expectation import Moment, one_sided
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V
from analytic.geometry.kernel_jet import Passage


def passage(act: Activation) -> Passage:
    """Of the kernel E[phi phi], for twofold floats."""
    return _floating(act.F, act.require("G"))


def derived_passage(act: Activation) -> Passage:
    """Of the kernel E[phi' phi']."""
    return _floating(act.require("G"), act.require("G2"))


def bent(act: Activation) -> Formula:
    """E[phi''^2], which tangent metrics rest on; refused where phi' jumps and it is infinite."""
    reason = dict(act.absent).get("G2")
    if reason is None and not act.parameters:
        slope = act.derivative()
        for b in act.kinks:
            if one_sided(slope, b, act.kinks, 1) != one_sided(slope, b, act.kinks, -1):
                reason = f"phi' jumps at {b}, so E[phi''^2] diverges"
    if reason is not None:
        raise InputError(
            f"The NTK metric of {act.name} does not exist: {reason}. Take a smoother activation, "
            "or the NNGP metric."
        )
    why = "else E[phi''^2] diverges and there is no NTK metric"
    return replace(act.G2, domain=replace(act.G2.domain, why=why))


def textbook(act: Activation) -> Passage:
    """The same from textbook forms, which any working precision can bear."""
    return _defined(act.F.expr, act.require("G").expr)


def derived_textbook(act: Activation) -> Passage:
    return _defined(act.require("G").expr, act.require("G2").expr)


def _defined(f: sp.Expr, g: sp.Expr) -> Passage:
    first, slope, ratio = V * sp.diff(f, V) / f, V * sp.diff(g, V) / g, sp.diff(f, V) / g
    second, bend, turn = (V * sp.diff(e, V) for e in (first, slope, ratio))
    return Passage(f, first, second, g, slope, bend, 1 + 2 * slope, ratio, turn)


def _floating(f: Formula, g: Formula) -> Passage:
    of_f, of_g = elasticities(f), elasticities(g)
    ratio, turn = _ratio(f, g)
    return Passage(
        f.floating,
        of_f.first,
        of_f.second,
        g.floating,
        of_g.first,
        of_g.second,
        of_g.stretch,
        ratio,
        turn,
    )


def _ratio(f: Formula, g: Formula) -> tuple[sp.Expr, sp.Expr]:
    """f'/g and its rate; quadratures are multiplied only, for their digits are those of floats."""
    if f.floating.has(Moment) or g.floating.has(Moment):
        of_f, of_g = elasticities(f), elasticities(g)
        ratio = f.floating * of_f.slope / g.floating
        return ratio, ratio * (of_f.second / of_f.first + of_f.first - 1 - of_g.first)
    ratio = sp.diff(f.floating, V) / g.floating
    turn = V * sp.diff(ratio, V)
    return (factored(ratio), factored(turn)) if algebraic(ratio) else (ratio, turn)

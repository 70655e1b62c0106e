"""The Gaussian moments of a layer as expressions in V: in textbook form, and for floats."""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from analytic.activations.activation import Activation
from analytic.activations.log_derivatives import algebraic, factored, log_derivatives
from analytic.expressions.arguments import InputError
from analytic.expressions.expectation import Moment, one_sided
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V
from analytic.geometry.kernel_jet import LayerMoments

__all__ = [
    "derivative_layer_moments", "layer_moments", "require_finite_G2",
    "textbook_derivative_layer_moments", "textbook_layer_moments",
]  # fmt: skip


def layer_moments(act: Activation) -> LayerMoments:
    """The moments F and G of the kernel E[phi phi], written for twofold floats."""
    return _for_floats(act.F, act.require("G"))


def derivative_layer_moments(act: Activation) -> LayerMoments:
    """The moments G and G2 of the kernel E[phi' phi'], written for twofold floats."""
    return _for_floats(act.require("G"), act.require("G2"))


def textbook_layer_moments(act: Activation) -> LayerMoments:
    """`layer_moments` by definition, from textbook forms: for any working precision of mpmath."""
    return _by_definition(act.F.expr, act.require("G").expr)


def textbook_derivative_layer_moments(act: Activation) -> LayerMoments:
    """`derivative_layer_moments` by definition, from textbook forms."""
    return _by_definition(act.require("G").expr, act.require("G2").expr)


def require_finite_G2(act: Activation) -> Formula:
    """E[phi''^2], which NTK metrics depend on; refused where phi' jumps, because it is infinite."""
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
    G2 = act.require("G2")
    return replace(G2, domain=replace(G2.domain, why=why))


def _by_definition(F: sp.Expr, G: sp.Expr) -> LayerMoments:
    eps_F, eps_G, ratio = V * sp.diff(F, V) / F, V * sp.diff(G, V) / G, sp.diff(F, V) / G
    rate_eps_F, rate_eps_G, rate_ratio = (V * sp.diff(e, V) for e in (eps_F, eps_G, ratio))
    return LayerMoments(
        F=F,
        eps_F=eps_F,
        rate_eps_F=rate_eps_F,
        G=G,
        eps_G=eps_G,
        rate_eps_G=rate_eps_G,
        one_plus_2_eps_G=1 + 2 * eps_G,
        ratio=ratio,
        rate_ratio=rate_ratio,
    )


def _for_floats(F: Formula, G: Formula) -> LayerMoments:
    of_F, of_G = log_derivatives(F), log_derivatives(G)
    ratio, rate_ratio = _ratio(F, G)
    return LayerMoments(
        F=F.floating,
        eps_F=of_F.eps,
        rate_eps_F=of_F.rate,
        G=G.floating,
        eps_G=of_G.eps,
        rate_eps_G=of_G.rate,
        one_plus_2_eps_G=of_G.one_plus_2_eps,
        ratio=ratio,
        rate_ratio=rate_ratio,
    )


def _ratio(F: Formula, G: Formula) -> tuple[sp.Expr, sp.Expr]:
    """F'/G and its rate V d/dV.

    Quadratures have the 16 digits of floats, so they are only multiplied and divided, never subtracted
    from each other.
    """
    if F.floating.has(Moment) or G.floating.has(Moment):
        of_F, of_G = log_derivatives(F), log_derivatives(G)
        ratio = F.floating * of_F.eps_over_V / G.floating
        return ratio, ratio * (of_F.rate / of_F.eps + of_F.eps - 1 - of_G.eps)
    ratio = sp.diff(F.floating, V) / G.floating
    rate = V * sp.diff(ratio, V)
    return (factored(ratio), factored(rate)) if algebraic(ratio) else (ratio, rate)

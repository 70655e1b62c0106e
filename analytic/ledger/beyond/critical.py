"""The boundary between order and chaos, as a curve parametrised by the fixed variance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.activations import erf, sine
from analytic.activations.activation import Activation
from analytic.checks.claims import Claim, Point
from analytic.checks.oracles import squared_moment
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V
from analytic.ledger.verification import Verification, holds
from analytic.signal_propagation import critical_sigma

__all__ = ["ROUTES"]

Pair = tuple[Any, Any]  # sigma, zeta


def _limit_variance(act: Activation, sigma: Any, zeta: Any) -> Any:
    """The limit of the variance under iteration of V -> sigma^2 k(V, V, V) + zeta^2."""
    V, last = mpf(1), mpf(0)
    while abs(V - last) > mpf(10) ** (5 - mp.dps) * V:
        V, last = sigma**2 * act.kernel.mpmath(V, V, V) + zeta**2, V
    return V


def _correlation_slope(act: Activation, sigma: Any, zeta: Any) -> Any:
    """The factor by which a layer multiplies 1 - c, where the correlation c of two signals is near 1."""
    with mp.workdps(mp.dps + 10):
        V = _limit_variance(act, sigma, zeta)
        return sigma**2 * mp.diff(lambda k: act.kernel.mpmath(V, k, V), V)


def _critical_value(act: Activation, pair: Callable[[Any], Pair], low: Any, high: Any) -> Any:
    """The value between low and high at which small differences neither shrink nor grow."""
    return mp.findroot(
        lambda value: mp.log(_correlation_slope(act, *pair(value))), (mpf(low), mpf(high)), solver="anderson"
    )  # fmt: skip


def _curve(act: Activation) -> tuple[sp.Expr, sp.Expr]:
    """sigma and zeta as functions of the fixed variance."""
    F, G = act.F.expr, act.require("G").expr
    return 1 / sp.sqrt(G), sp.sqrt(V - F / G)


def _claims(act: Activation, points: tuple[Point, ...]) -> tuple[Claim, Claim, Claim]:
    outputs, slopes = squared_moment(act, 0), squared_moment(act)

    def by_quadrature(V: Any) -> Pair:
        F, G = outputs(V, 0), slopes(V, 0)
        return 1 / mp.sqrt(G), mp.sqrt(V - F / G)

    def critical_weight(V: Any) -> Any:
        zeta = by_quadrature(V)[1]
        return _critical_value(act, lambda sigma: (sigma, zeta), "0.8", 3)

    def critical_bias(V: Any) -> Any:
        sigma = by_quadrature(V)[0]
        return _critical_value(act, lambda zeta: (sigma, zeta), "0.01", 2)

    sigma, zeta = (
        Formula(f"critical {name}, {act.name}", (V,), expr)
        for name, expr in zip(("sigma", "zeta"), _curve(act), strict=True)
    )
    route = "where differences begin to grow"

    def by_search(V: Any) -> Any:
        return critical_sigma(act, zeta.mpmath(V), mp.dps)

    return (
        Claim(sigma, route, critical_weight, points),
        Claim(zeta, route, critical_bias, points),
        Claim(sigma, "search at a given zeta", by_search, points),
    )


ROUTES: dict[str, Verification] = {
    "beyond/critical-line": holds(
        *_claims(erf, ({"V": "0.5"}, {"V": 2})), *_claims(sine(1), ({"V": 1},))
    )
}

"""Derivatives of the shallow tangent kernel, (D.4) to (D.12): against differences of the kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.activations import polynomial
from analytic.activations.activation import Activation
from analytic.checks.claims import Claim, Point
from analytic.checks.kernel_oracles import WideNetwork
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import xi
from analytic.ledger.curvature.weights import (
    APART,
    ARGS,
    PAIR,
    POINT,
    RATES,
    Mean,
    conditional_mean,
    exponential_mean,
    p,
    q,
    u,
    v,
    vector,
    x,
    y,
)
from analytic.ledger.verification import Verification, dot, holds, shifted

__all__ = ["ROUTES", "metric", "theta"]

CUBIC = polynomial((1, sp.Rational(1, 2), sp.Rational(-1, 3), sp.Rational(1, 4)))  # of no parity
DIFFERENCES = "differences of the kernel"
Steps = tuple[sp.Expr, sp.Expr, sp.Expr]  # a kernel, its derivative along v, then one along u


def on_diagonal(mean: Mean) -> Steps:
    """(D.4) to (D.6): the kernel at y = x, and its derivatives by both points at once."""
    more = 1 + dot(x, x)
    once = 2 * mean(0, 1, v) + 2 * xi**2 * (mean(1, 2, v) * more + mean(1, 1) * dot(x, v))
    twice = 2 * (mean(1, 1, u, v) + mean(0, 2, u, v))
    twice += 2 * xi**2 * (mean(2, 2, u, v) + mean(1, 3, u, v)) * more
    twice += 4 * xi**2 * (mean(1, 2, u) * dot(x, v) + mean(1, 2, v) * dot(x, u))
    twice += 2 * xi**2 * mean(1, 1) * dot(u, v)
    return mean(0, 0) + xi**2 * mean(1, 1) * more, once, twice


def at_y(mean: Mean, there: tuple[sp.Symbol, ...]) -> Steps:
    """(D.7) to (D.9), or (D.10) if `there` is x: derivatives by y only."""
    more = 1 + dot(x, there)
    once = mean(0, 1, v) + xi**2 * (mean(1, 2, v) * more + mean(1, 1) * dot(x, v))
    twice = mean(0, 2, u, v) + xi**2 * mean(1, 3, u, v) * more
    twice += xi**2 * (mean(1, 2, u) * dot(x, v) + mean(1, 2, v) * dot(x, u))
    return mean(0, 0) + xi**2 * mean(1, 1) * more, once, twice


def metric(mean: Mean) -> sp.Expr:
    """(D.12)."""
    readout_terms = mean(2, 2, u, v) * (1 + dot(x, x)) + mean(1, 1) * dot(u, v)
    readout_terms += mean(1, 2, u) * dot(x, v) + mean(1, 2, v) * dot(x, u)
    return mean(1, 1, u, v) + xi**2 * readout_terms


def theta(act: Activation, values: dict[str, Any], one: Any, two: Any) -> Any:
    """The tangent kernel composed from the closed forms of E[phi phi] and E[phi' phi']."""
    parameters = {symbol.name: values[symbol.name] for symbol in act.parameters}
    return WideNetwork(act, values["sigma"], values["zeta"], 1, values["xi"], parameters).ntk(
        one, two
    )


def _differenced(
    act: Activation, values: dict[str, Any], both: bool, order: tuple[int, int]
) -> Any:
    """A derivative of the kernel along u and v, by y or by both points at once."""
    start = vector(values, "y" if "y1" in values else "x")
    ways = vector(values, "u"), vector(values, "v")

    def f(s: Any, t: Any) -> Any:
        there = shifted(shifted(start, ways[0], s), ways[1], t)
        return theta(act, values, there if both else vector(values, "x"), there)

    return mp.diff(f, (0, 0), order) if any(order) else f(0, 0)


def _at(
    point: Point, name: str, expr: sp.Expr, oracle: Callable[..., Any], route: str = DIFFERENCES
) -> Claim:
    args = tuple(symbol for symbol in (*ARGS, *y, p, q) if symbol.name in point)
    return Claim(Formula(name, args, expr), route, oracle, (point,))


def _steps(point: Point, names: tuple[str, ...], lines: Steps, both: bool) -> tuple[Claim, ...]:
    def claim(name: str, line: sp.Expr, order: tuple[int, int]) -> Claim:
        route = DIFFERENCES if any(order) else "the kernel in closed form"
        return _at(
            point, name, line, lambda **values: _differenced(PAIR, values, both, order), route
        )

    return tuple(map(claim, names, lines, ((0, 0), (0, 1), (1, 1))))


def _metric(act: Activation, mean: Mean, point: Point) -> Claim:
    """(D.12), against its definition (D.11)."""

    def oracle(**values: Any) -> Any:
        diagonal, one = (_differenced(act, values, both, (1, 1)) for both in (True, False))
        return diagonal / 2 - one

    return _at(point, f"tangent metric, {act.name}", metric(mean), oracle)


ROUTES: dict[str, Verification] = {
    "curvature/D.4-D.6": holds(
        *_steps(RATES, ("(D.4)", "(D.5)", "(D.6)"), on_diagonal(exponential_mean(x)), True)
    ),
    "curvature/D.7-D.9": holds(
        *_steps(APART, ("(D.7)", "(D.8)", "(D.9)"), at_y(exponential_mean(y), y), False)
    ),
    "curvature/D.10": holds(
        _steps(RATES, ("", "", "(D.10)"), at_y(exponential_mean(x), x), False)[2]
    ),
    "curvature/D.11-D.12": holds(
        _metric(PAIR, exponential_mean(x), RATES),
        _metric(CUBIC, conditional_mean(CUBIC.phi.expr), POINT),
    ),
}

"""Derivatives of the function and of the potential, by numerical differentiation: (3), (41), (42)."""

from __future__ import annotations

from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import alpha, x
from analytic.ledger.univariate.network import canonical, downhill, full, loss, rate
from analytic.ledger.univariate.particles import d, lifted, t, theta
from analytic.ledger.verification import Verification, dot, holds, real_symbols

__all__ = ["ROUTES"]


def _tangent() -> Claim:
    """(3) for two neurons: one is active at both data and at x, the other at one datum and x."""
    units = [real_symbols(f"a{k} b{k} c{k}") for k in (1, 2)]
    data = [real_symbols(f"x{k} y{k}") for k in (1, 2)]

    def z(unit: tuple[sp.Symbol, ...], place: sp.Expr) -> sp.Expr:
        return unit[0] * place - unit[1]

    def kernel(
        first: sp.Expr, second: sp.Expr, active_units: list[tuple[sp.Symbol, ...]]
    ) -> sp.Expr:
        terms = (
            z(u, first) * z(u, second) + u[2] ** 2 * (1 + first * second) for u in active_units
        )
        return sum(terms) / alpha**2

    (p, y1), (q, y2) = data
    first = (units[0][2] * z(units[0], p)) / alpha - y1
    second = (units[0][2] * z(units[0], q) + units[1][2] * z(units[1], q)) / alpha - y2
    expr = -kernel(x, p, units[:1]) * first - kernel(x, q, units) * second
    args = (*units[0], *units[1], *data[0], *data[1], x, alpha)
    formula = Formula("speed of the function", args, expr)

    def oracle(x: Any, alpha: Any, **v: Any) -> Any:
        z = [v[s.name] for s in (*units[0], *units[1])]
        pairs = [(v["x1"], v["y1"]), (v["x2"], v["y2"])]
        model = full(alpha)
        return rate(lambda z: model(z, x), z, downhill(loss(model, pairs), z))

    point = {"a1": "1.3", "b1": "-1.9", "c1": "0.7", "a2": "0.8", "b2": "0.4", "c2": "-1.6"}
    point |= {"x1": "-0.6", "x2": "1.2", "y1": "0.5", "y2": "-0.9", "alpha": "1.7"}
    points = tuple(point | {"x": place} for place in ("0.7", "2.2"))
    return Claim(formula, "gradient flow of the parameters", oracle, points)


def _potential() -> Claim:
    """The third line of (41): the derivative of V for a constant measure of one particle."""
    own, s, phi, y = real_symbols("r s phi y")
    expr = -own * dot(lifted(x), t(theta)) * (y - s * dot(lifted(x), d(phi)))
    formula = Formula("angular slope of V", (own, theta, s, phi, x, y), expr)

    def oracle(r: Any, theta: Any, **v: Any) -> Any:
        return mp.diff(lambda angle: _V(canonical, (v["s"], v["phi"]), r, angle, **v), theta)

    points = (
        {"r": "1.3", "theta": "0.4", "s": "-0.7", "phi": "1.1", "x": "0.6", "y": "0.9"},
        {"r": "-0.8", "theta": "2.9", "s": "1.9", "phi": "2.4", "x": "-1.5", "y": "-0.3"},
    )
    return Claim(formula, "slope of -F + K for a measure that stands still", oracle, points)


def _V(model: Any, others: Any, r: Any, theta: Any, x: Any, y: Any, **_: Any) -> Any:
    """V = -F + K for one sample, where `others` are the network of the measure."""
    phi = canonical((r, theta), x)
    return -phi * y + phi * model(others, x)


def _charges() -> Verification:
    """(42) for one sample and a measure of one neuron (a, b, c): the charge is r, not c."""
    a, b, c, y = real_symbols("a b c y")
    own = dot(lifted(x), d(theta))
    args = (theta, a, b, c, x, y, alpha)
    formula = Formula("radial slope of V", args, own * (c * (a * x - b) / alpha - y))
    printed = own * (c * (a * x - b) / sp.sqrt(a**2 + b**2) - y)

    def oracle(theta: Any, alpha: Any, **v: Any) -> Any:
        neuron = v["a"], v["b"], v["c"]
        return mp.diff(lambda r: _V(full(alpha), neuron, r, theta, **v), mp.mpf(1))

    points = (
        {
            "theta": "0.4",
            "a": "1.2",
            "b": "-0.5",
            "c": "0.8",
            "x": "0.6",
            "y": "0.9",
            "alpha": "1.7",
        },
        {
            "theta": "2.9",
            "a": "-2.1",
            "b": "0.3",
            "c": "-1.4",
            "x": "-1.5",
            "y": -1,
            "alpha": "0.6",
        },
    )
    claim = Claim(formula, "slope of -F + K for a measure that stands still", oracle, points)
    return Verification((claim,), Formula("radial slope of V as printed", args, printed))


ROUTES: dict[str, Verification] = {
    "univariate-relu/3": holds(_tangent()),
    "univariate-relu/41": holds(_potential()),
    "univariate-relu/42": _charges(),
}

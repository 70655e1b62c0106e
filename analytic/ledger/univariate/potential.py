"""Slopes of the function and of the potential, differentiated on the spot: (3), (41), (42)."""

from __future__ import annotations

from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import alpha, x
from analytic.ledger.settlement import Settled, dot, holds, reals
from analytic.ledger.univariate.network import canonical, downhill, full, loss, rate
from analytic.ledger.univariate.particles import d, lifted, t, theta


def _tangent() -> Claim:
    """(3) for two neurons, of which one sees both data and the place x, the other only one of them."""
    units = [reals(f"a{k} b{k} c{k}") for k in (1, 2)]
    data = [reals(f"x{k} y{k}") for k in (1, 2)]

    def z(unit: tuple[sp.Symbol, ...], place: sp.Expr) -> sp.Expr:
        return unit[0] * place - unit[1]

    def kernel(first: sp.Expr, second: sp.Expr, seeing: list[tuple[sp.Symbol, ...]]) -> sp.Expr:
        terms = (z(u, first) * z(u, second) + u[2] ** 2 * (1 + first * second) for u in seeing)
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
    """(41), its third line, where V is differentiated and the measure, one particle, stands still."""
    own, s, phi, y = reals("r s phi y")
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


def _charges() -> Settled:
    """(42) for one sample and a measure of one neuron (a, b, c): c is no charge, r is."""
    a, b, c, y = reals("a b c y")
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
    return Settled((claim,), Formula("radial slope of V as printed", args, printed))


ROUTES: dict[str, Settled] = {
    "univariate-relu/3": holds(_tangent()),
    "univariate-relu/41": holds(_potential()),
    "univariate-relu/42": _charges(),
}

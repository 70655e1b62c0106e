"""Finite networks, (2) to (4): against the feature map itself and textbook curvature."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, sample
from analytic.checks.oracles import determinant, network_jet
from analytic.expressions.formula import Formula
from analytic.ledger.verification import Verification, dot, holds, printed_times_three, real_symbols

__all__ = ["ROUTES"]


def _units(n: int, d: int) -> tuple[list[tuple[sp.Symbol, ...]], tuple[sp.Symbol, ...]]:
    """Weights w_j as rows, and the same symbols in one tuple."""
    rows = [real_symbols(" ".join(f"w{j}{m}" for m in range(1, d + 1))) for j in range(1, n + 1)]
    return rows, tuple(symbol for row in rows for symbol in row)


def _rows(values: dict[str, Any], n: int, d: int) -> list[list[Any]]:
    return [[values[f"w{j}{m}"] for m in range(1, d + 1)] for j in range(1, n + 1)]


def _metric() -> Claim:
    """(2) for a sine network, contracted with two vectors."""
    n, weights = 3, _units(3, 2)
    rows, flat = weights
    bias, x, u, v = (
        real_symbols("b1 b2 b3"),
        real_symbols("x1 x2"),
        real_symbols("u1 u2"),
        real_symbols("v1 v2"),
    )
    slopes = [sp.cos(dot(w, x) + b) for w, b in zip(rows, bias, strict=True)]
    expr = sum(p**2 * dot(w, u) * dot(w, v) for p, w in zip(slopes, rows, strict=True)) / n

    def features(values: dict[str, Any], way: str) -> list[Any]:
        """The derivative of every feature sin(w.x + b)/sqrt(n) along one vector."""
        at, to = ([values[f"{name}{m}"] for m in (1, 2)] for name in ("x", way))
        return [
            mp.diff(lambda t, w=w, b=b: mp.sin(dot(w, at) + t * dot(w, to) + b), 0) / mp.sqrt(n)
            for w, b in zip(_rows(values, n, 2), (values[f"b{j}"] for j in (1, 2, 3)), strict=True)
        ]

    def pullback(**values: Any) -> Any:
        return dot(features(values, "u"), features(values, "v"))

    formula = Formula("metric of a finite network", (*flat, *bias, *x, *u, *v), expr)
    return Claim(formula, "derivatives of the features", pullback, sample(formula, 3))


def _volume(n: int, d: int) -> Claim:
    """(3): the sum over tuples of units against the determinant of the metric."""
    rows, flat = _units(n, d)
    p = real_symbols(" ".join(f"p{j}" for j in range(1, n + 1)))
    tuples = permutations(range(n), d)
    total = sum(
        sp.Matrix([rows[j] for j in t]).det() ** 2 * sp.prod(p[j] ** 2 for j in t) for t in tuples
    )
    formula = Formula(f"det g, n={n}, d={d}", (*flat, *p), total / (n**d * sp.factorial(d)))

    def matrix(**values: Any) -> Any:
        units = [(values[f"p{j}"], 0, 0) for j in range(1, n + 1)]
        return determinant(network_jet(units, _rows(values, n, d)).g)

    return Claim(formula, "determinant of the metric", matrix, sample(formula, 3))


def _curvature(n: int) -> Claim:
    """(4): the sum over triples of units against textbook curvature of the metric's 2-jet."""
    rows, flat = _units(n, 2)
    p = real_symbols(" ".join(f"p{j}" for j in range(1, n + 1)))
    pp = real_symbols(" ".join(f"pp{j}" for j in range(1, n + 1)))

    def M(j: int, k: int) -> sp.Expr:
        return rows[j][0] * rows[k][1] - rows[j][1] * rows[k][0]

    total = sum(
        M(j, k) ** 2 * M(i, j) * M(i, k) * p[i] ** 2 * p[j] * p[k] * pp[j] * pp[k]
        for i, j, k in product(range(n), repeat=3)
    )
    formula = Formula(f"(det g)^2 R, n={n}", (*flat, *p, *pp), -total / n**3)

    def textbook(**values: Any) -> Any:
        third = mp.mpf(7) / 5  # phi''' drops out of the curvature
        units = [(values[f"p{j}"], values[f"pp{j}"], third) for j in range(1, n + 1)]
        jet = network_jet(units, _rows(values, n, 2))
        return determinant(jet.g) ** 2 * jet.curvature().scalar

    return Claim(formula, "textbook curvature", textbook, sample(formula, 3))


ROUTES: dict[str, Verification] = {
    "curvature/2": holds(_metric()),
    "curvature/3": holds(_volume(4, 2), _volume(4, 3)),
    "curvature/4": printed_times_three(_curvature(4)),
}

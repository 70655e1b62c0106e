r"""Averages $E[\phi^{(i)}(w\cdot x+b)\,\phi^{(j)}(w\cdot y+b)\,w\cdot u\cdots]$ over weights, as expressions.

The identities about them are bilinear in phi, so it is enough to check them for exponentials of any rates.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import sympy as sp

from analytic.activations import exponential
from analytic.activations.activation import Activation, activation, derivative
from analytic.checks.claims import Point
from analytic.expressions.expectation import Moment
from analytic.expressions.symbols import kxx, kxy, kyy, sigma, xi, z, zeta
from analytic.ledger.curvature.gaussian import MODERATE
from analytic.ledger.verification import dot, real_symbols

__all__ = [
    "APART", "ARGS", "PAIR", "POINT", "RATES", "Mean", "conditional_mean", "exponential_mean", "p", "q",
    "u", "v", "vector", "x", "y",
]  # fmt: skip

x, y, u, v = (real_symbols(f"{name}1 {name}2") for name in "xyuv")
p, q = real_symbols("p q")  # rates of two exponentials
ARGS = (sigma, zeta, xi, *x, *u, *v)

POINT: Point = {**MODERATE, "xi": "1.3"}
RATES: Point = {**POINT, "p": "0.6", "q": "-0.8"}
APART: Point = {**RATES, "y1": "-0.4", "y2": "0.5"}

Mean = Callable[..., sp.Expr]  # (i, j, *vectors), with at most two vectors


def vector(values: dict[str, Any], name: str) -> list[Any]:
    return [values[f"{name}{k}"] for k in (1, 2)]


def _exponentials() -> Activation:
    one = exponential(1).kernel.expr
    scaled = {
        (a, b): one.subs({kxx: a**2 * kxx, kxy: a * b * kxy, kyy: b**2 * kyy})
        for a, b in product((p, q), repeat=2)
    }
    return activation(
        "two exponentials",
        sp.exp(p * z) + sp.exp(q * z),
        parameters=(p, q),
        kernel=sum(scaled.values()),
        slope=sum(a * b * part for (a, b), part in scaled.items()),
    )


PAIR = _exponentials()


def exponential_mean(there: tuple[sp.Symbol, ...]) -> Mean:
    r"""For two exponentials: $E[e^{au+bv}f(w)]$ is $E[e^{au+bv}]$ times E[f] with a shifted mean."""

    def mean(i: int, j: int, *vectors: Any) -> sp.Expr:
        total = sp.S.Zero
        for a, b in product((p, q), repeat=2):
            centre = [sigma**2 * (a * c + b * e) for c, e in zip(x, there, strict=True)]
            size = sp.exp((dot(centre, centre) / sigma**2 + zeta**2 * (a + b) ** 2) / 2)
            inside = sp.prod(dot(centre, vector) for vector in vectors)
            if len(vectors) == 2:
                inside += sigma**2 * dot(*vectors)
            total += a**i * b**j * size * inside
        return total

    return mean


def conditional_mean(phi: sp.Expr) -> Mean:
    r"""At y = x: given z, weights have mean $\sigma^2xz/V$, covariance $\sigma^2(I-\sigma^2xx^T/V)$."""
    V = sigma**2 * dot(x, x) + zeta**2

    def mean(i: int, j: int, *vectors: Any) -> sp.Expr:
        f, count = derivative(phi, i) * derivative(phi, j), len(vectors)
        along = sp.prod(sigma**2 * dot(x, vector) / sp.sqrt(V) for vector in vectors)
        if count < 2:
            return along * Moment(f, V, count)
        plain = Moment(f, V)
        return sigma**2 * dot(*vectors) * plain + along * (Moment(f, V, 2) - plain)

    return mean

r"""Two-point averages at equal variances, fast on arrays: Mehler's series in the correlation.

$E[\phi(u)\phi(v)] = \sum_k a_k^2 c^k$ with $a_k = E[\phi(\sqrt V t) h_k(t)]$ and orthonormal Hermite
polynomials h_k. One-point averages give all a_k at once, where each c would need a quadrature in
the plane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError

Array = np.ndarray
Map = Callable[[Array], Array]
REACH = 13.0  # of the quadrature, in standard deviations: the density beyond is below 1e-37


@dataclass(frozen=True)
class TwoPointAverages:
    r"""$E[\phi\phi]$ and $E[\phi'\phi']$ at (V, cV, V) for c in [0, 1], and an error bound of the former.

    Each is a function of an array (n,) of correlations, one for each of the n variances.
    """

    kernel: Map
    slope: Map
    error: Map


def from_formulas(act: Activation, V: Array) -> TwoPointAverages:
    """From the activation's own closed forms or quadratures."""
    return TwoPointAverages(
        lambda c: act.kernel.numpy(V, c * V, V),
        lambda c: act.slope.numpy(V, c * V, V),
        lambda c: 0 * c,
    )


def from_mehler_series(act: Activation, V: Array, terms: int) -> TwoPointAverages:
    """From Mehler's series with `terms` terms.

    At c = 1 the full series sums to F, so the remainder at c is at most (F - partial sum) c^terms.
    """
    if any(act.kinks):
        raise InputError(
            f"A two-point average can have a kink at 0 only, but {act.name} has {act.kinks}: "
            "smooth the activation, or shift its kink to 0."
        )
    t, weighted = _rule(terms)
    squares = (act.phi.numpy(np.sqrt(V)[:, None] * t) @ weighted) ** 2
    slopes = (np.arange(terms) * squares)[:, 1:] / V[:, None]
    remainder = abs(1 - squares.sum(1) / act.F.numpy(V))
    return TwoPointAverages(
        lambda c: _horner(squares, c), lambda c: _horner(slopes, c), lambda c: remainder * c**terms
    )


def _horner(coefficients: Array, c: Array) -> Array:
    total = np.zeros_like(c)
    for column in coefficients.T[::-1]:
        total = total * c + column
    return total


@lru_cache
def _rule(terms: int) -> tuple[Array, Array]:
    """Nodes, (m,), and h_k times weights, (m, terms): Gauss-Legendre panels, finer towards 0."""
    x, w = np.polynomial.legendre.leggauss(20)
    edges = np.r_[0.0, 0.5 ** np.arange(12, 1, -1), np.arange(0.5, REACH + 0.5, 0.5)]
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    side = (middle[:, None] + half[:, None] * x).ravel()
    t, weight = np.r_[-side, side], np.tile((half[:, None] * w).ravel(), 2)
    # h_k alone would overflow: carry its product with the square root of the density.
    root = np.exp(-(t**2) / 4) / (2 * np.pi) ** 0.25
    functions = [root, t * root]
    for k in range(1, terms - 1):
        functions.append((t * functions[k] - np.sqrt(k) * functions[k - 1]) / np.sqrt(k + 1))
    return t, (np.array(functions) * (root * weight)).T

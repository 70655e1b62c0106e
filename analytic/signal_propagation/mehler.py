r"""Two-point averages at equal variances by Mehler's series: to any digits, and fast on arrays.

$E[\phi(u)\phi(v)] = \sum_k a_k^2 c^k$ with $a_k = E[\phi(\sqrt V t) h_k(t)]$ and orthonormal Hermite
polynomials h_k. One-point averages give all a_k at once, where each c would need a quadrature in the
plane. For an analytic phi the trapezoidal rule gives them with an error that falls geometrically with
the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from mpmath import mp, mpf

from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError

__all__ = ["TwoPointAverages", "from_formulas", "from_mehler_series", "kernel_at", "slope_at"]

GRIDS = (8, 12, 20, 32, 50)  # nodes per standard deviation, tried in this order
TERMS = 3000  # of the series at most
REACH = (
    13.0  # of the quadrature on arrays, in standard deviations: the density beyond is below 1e-37
)
Array = np.ndarray
Map = Callable[[Array], Array]


def kernel_at(act: Activation, V: Any, c: Any) -> Any:
    r"""$E[\phi\phi]$ at (V, cV, V) at the working precision."""
    sums = _pair(act, V, c)
    return sums[0] if sums else act.kernel.mpmath(V, c * V, V)


def slope_at(act: Activation, V: Any, c: Any) -> Any:
    r"""$E[\phi'\phi']$ at (V, cV, V) at the working precision."""
    sums = _pair(act, V, c)
    return sums[1] if sums else act.require("slope").mpmath(V, c * V, V)


def _pair(act: Activation, V: Any, c: Any) -> tuple[Any, Any] | None:
    """Both averages, on finer and finer grids until two agree; None if the activation's own formulas
    are better (a kink, c = 1 or -1, closed forms) or no grid suffices."""
    if act.kinks or abs(c) == 1 or {"kernel", "slope"} <= set(act.closed_forms):
        return None
    F, VG, last = act.F.mpmath(V), V * act.require("G").mpmath(V), None
    for per_unit in GRIDS:
        sums = _sums(act, V, c, per_unit, F, VG)
        # The error is exponential in the nodes per unit. Each grid has at least 1.5 times those of
        # the previous one, so its error is that of the previous one to the power 1.5.
        enough = mpf(10) ** (-mp.dps / mpf("1.5"))
        if (
            sums
            and last
            and all(abs(x - y) < enough * size for x, y, size in zip(sums, last, (F, VG)))
        ):
            return sums[0], sums[1] / V
        last = sums
    return None


def _sums(
    act: Activation, V: Any, c: Any, per_unit: int, F: Any, VG: Any
) -> tuple[Any, Any] | None:
    """Both series on one grid, up to the term from which the remainder is below the precision."""
    nodes = [mpf(k) / per_unit for k in range(int(per_unit * mp.sqrt(10 * (mp.dps + 5))))]
    root = [mp.sqrt(mp.npdf(t)) for t in nodes]  # h_k is carried times the root of the density
    even, odd = _folded(act, mp.sqrt(V), nodes, [r / per_unit for r in root])
    floor = mpf(10) ** (-mp.dps - 2)
    kernel = slope = F_sum = VG_sum = lower = mpf(0)
    power, previous, current = mpf(1), root, root
    for k in range(TERMS):
        square = mp.fdot(odd if k % 2 else even, current) ** 2
        kernel, slope = kernel + square * power, slope + k * square * lower
        F_sum, VG_sum = F_sum + square, VG_sum + k * square
        lower, power = power, power * c
        remainder = max(abs(F - F_sum) / F, abs(VG - VG_sum) / VG)
        if remainder * abs(lower) < floor:
            return kernel, slope
        up, down = 1 / mp.sqrt(k + 1), mp.sqrt(mpf(k) / (k + 1))
        following = [up * t * x - down * y for t, x, y in zip(nodes, current, previous)]
        previous, current = current, following
    return None


def _folded(act: Activation, scale: Any, nodes: list, weights: list) -> tuple[list, list]:
    """The even and odd parts phi(t) + phi(-t) and phi(t) - phi(-t) on the half-line, times weights."""
    weights = [weights[0] / 2, *weights[1:]]
    right, left = ([act.phi.mpmath(side * scale * t) for t in nodes] for side in (1, -1))
    even = [w * (x + y) for w, x, y in zip(weights, right, left)]
    odd = [w * (x - y) for w, x, y in zip(weights, right, left)]
    return even, odd


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
        lambda c: act.require("slope").numpy(V, c * V, V),
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

r"""Integrals $\int\nu\,\lambda_p\lambda_q\,du$ of hats against the density of knots, on many intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analytic.splines import Initialisation

__all__ = ["NODES", "WEIGHTS", "Ends", "Hats", "hats"]

Array = NDArray[np.float64]
Ends = tuple[Array | float, Array | float]  # values of a linear function at both ends of intervals
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
NODES, WEIGHTS = (1 + NODES) / 2, WEIGHTS / 2  # on [0, 1]


@dataclass(frozen=True)
class Hats:
    """Integrals over intervals [p, q] of products of the two hats, 1 at one end and 0 at the other."""

    pp: Array
    pq: Array
    qq: Array

    def __add__(self, other: Hats) -> Hats:
        return Hats(self.pp + other.pp, self.pq + other.pq, self.qq + other.qq)

    def against(self, f: Ends, g: Ends) -> Array:
        """The integral of nu f g for two linear functions with these values at p and q."""
        return f[0] * g[0] * self.pp + (f[0] * g[1] + f[1] * g[0]) * self.pq + f[1] * g[1] * self.qq


def hats(init: Initialisation, values: Mapping[str, float]) -> Callable[[Array, Array], Hats]:
    """A function of the ends of intervals, p <= q."""
    numbers = {symbol: values[symbol.name] for symbol in init.parameters}
    if not init.knot_intervals:
        scale = float((init.biases / init.slopes).subs(numbers)) ** 0.5
        return _Smooth(lambda u: init.density.numpy(u=u, **values), scale)
    parts = [
        _Power(
            low=float(one.low.subs(numbers)),
            high=float(one.high.subs(numbers)),
            weight=float(one.weight.subs(numbers)),
            power=one.power,
        )
        for one in init.knot_intervals
    ]

    def total(p: Array, q: Array) -> Hats:
        first, *rest = (part(p, q) for part in parts)
        return sum(rest, first)

    return total


@dataclass(frozen=True)
class _Power:
    """A stretch of density weight u^(-power) with power 0 or 4: exact, without cancellation."""

    low: float
    high: float
    weight: float
    power: int

    def __call__(self, p: Array, q: Array) -> Hats:
        start, stop = (np.clip(end, self.low, self.high) for end in (p, q))
        length, size = np.where(q > p, q - p, 1.0), (1.0, 1.0)
        measure = stop - start
        if self.power:
            size = np.abs(start), np.abs(stop)
            measure = measure / (start * stop)  # of 1/u
        before = [(q - end) / length / s for end, s in zip((start, stop), size, strict=True)]
        after = [(end - p) / length / s for end, s in zip((start, stop), size, strict=True)]
        factor = self.weight * np.abs(measure) / 6

        def mean(f: list[Array], g: list[Array]) -> Array:
            return factor * (2 * f[0] * g[0] + 2 * f[1] * g[1] + f[0] * g[1] + f[1] * g[0])

        return Hats(mean(before, before), mean(before, after), mean(after, after))


@dataclass(frozen=True)
class _Smooth:
    """A smooth density with one length scale, by Gauss-Legendre quadrature in u or in arctan(u / scale)."""

    density: Callable[[Array], Array]
    scale: float

    def __call__(self, p: Array, q: Array) -> Hats:
        p, q = np.broadcast_arrays(np.asarray(p, float), np.asarray(q, float))
        length = q - p
        apart = (p > 0) | (q < 0)  # there 1/u has the accurate angle
        reach = np.where(apart, np.minimum(np.abs(p), np.abs(q)), 0.0)
        short = (length <= np.hypot(reach, self.scale))[..., None]
        near = p[..., None] + length[..., None] * NODES
        far, rate = self._by_angle(p, q, apart)
        u = np.where(short, near, far)
        weight = self.density(u) * WEIGHTS * np.where(short, length[..., None], rate)
        safe = np.where(length > 0, length, 1.0)[..., None]
        after = np.where(short, NODES, (u - p[..., None]) / safe)
        before = np.where(short, 1 - NODES, (q[..., None] - u) / safe)
        return Hats(
            (weight * before**2).sum(-1),
            (weight * before * after).sum(-1),
            (weight * after**2).sum(-1),
        )

    def _by_angle(self, p: Array, q: Array, apart: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Nodes equally placed in arctan(u / scale), and du by what runs from 0 to 1."""
        low, high = (
            np.where(
                apart, -np.arctan(self.scale / np.where(apart, u, 1.0)), np.arctan(u / self.scale)
            )
            for u in (p, q)
        )
        turn = low[..., None] + (high - low)[..., None] * NODES
        tangent = np.tan(turn)
        safe = np.where(tangent == 0, 1.0, tangent)
        u = self.scale * np.where(apart[..., None], -1 / safe, tangent)
        return u, (high - low)[..., None] * (self.scale**2 + u**2) / self.scale

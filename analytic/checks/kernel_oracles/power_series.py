"""Truncated power series in the coordinates around a point, and metrics with such entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from mpmath import mp, mpf

from analytic.checks.oracles import MetricJet, Vector

__all__ = [
    "Metric", "Series", "coordinates", "identity", "metric_jet", "norm_squared", "series", "table",
]  # fmt: skip

ORDER = 3  # curvature needs second derivatives of a metric that has first derivatives of a variance
Key = tuple[int, ...]


@dataclass(frozen=True)
class Series:
    """A polynomial in the displacement t from a point, truncated after ORDER.

    `terms` maps the sorted indices (i, j, k) to the coefficient of t_i t_j t_k.
    """

    terms: Mapping[Key, Any]

    def __add__(self, other: Series | Any) -> Series:
        more = series(other).terms
        keys = {**self.terms, **more}
        return Series({key: self.terms.get(key, 0) + more.get(key, 0) for key in keys})

    def __mul__(self, other: Series | Any) -> Series:
        total: dict[Key, Any] = {}
        for (one, p), (two, q) in product(self.terms.items(), series(other).terms.items()):
            if len(one) + len(two) <= ORDER:
                key = tuple(sorted(one + two))
                total[key] = total.get(key, 0) + p * q
        return Series(total)

    def derivative(self, k: int) -> Series:
        """The derivative by one coordinate, correct to one order less."""
        return Series(
            {_without(key, k): key.count(k) * v for key, v in self.terms.items() if k in key}
        )

    def at_point(self, *index: int) -> Any:
        """The value, or a derivative by these coordinates, where t = 0."""
        derivative = self
        for k in index:
            derivative = derivative.derivative(k)
        return derivative.terms.get((), mpf(0))

    def compose(self, derivatives: Sequence[Any]) -> Series:
        """f of this series, from f and its derivatives at the constant term."""
        rest = Series({key: v for key, v in self.terms.items() if key})
        power, total = series(mpf(1)), series(mpf(0))
        for n, value in enumerate(derivatives):
            total, power = total + power * (value / mp.factorial(n)), power * rest
        return total


def series(value: Series | Any) -> Series:
    return value if isinstance(value, Series) else Series({(): value})


def _without(key: Key, k: int) -> Key:
    at = key.index(k)
    return key[:at] + key[at + 1 :]


Metric = Sequence[Sequence[Series]]


def coordinates(x: Vector) -> list[Series]:
    return [Series({(): v, (k,): mpf(1)}) for k, v in enumerate(x)]


def norm_squared(x: Sequence[Series]) -> Series:
    return sum((v * v for v in x), start=series(mpf(0)))


def identity(size: int, factor: Any) -> Metric:
    return [[series(factor * int(i == j)) for j in range(size)] for i in range(size)]


def metric_jet(g: Metric) -> MetricJet:
    """The values of g and its first two derivatives at the point."""
    return MetricJet(*(table(lambda i, j, *k: g[i][j].at_point(*k), len(g), n) for n in (2, 3, 4)))


def table(entry: Callable[..., Any], size: int, rank: int, *index: int) -> Any:
    """entry(i, j, ...) as nested lists."""
    if rank == 0:
        return entry(*index)
    return [table(entry, size, rank - 1, *index, i) for i in range(size)]

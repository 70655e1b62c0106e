"""Curves made of polynomial pieces, each given by its values at Lobatto nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

__all__ = ["Array", "Curve", "Rule", "lobatto"]

Array = NDArray[np.float64]


class Rule(NamedTuple):
    """Nodes on [-1, 1] with both ends, weights exact to degree 2m - 1, and two matrices."""

    nodes: Array  # (m + 1,)
    weights: Array  # (m + 1,)
    slopes: Array  # (m + 1, m + 1), values to derivatives at the nodes
    coefficients: Array  # (m + 1, m + 1), values to coefficients of Legendre polynomials


@lru_cache
def lobatto(degree: int) -> Rule:
    """The rule of degree + 1 nodes."""
    polynomial = legendre.Legendre.basis(degree)
    nodes = np.concatenate([[-1.0], np.sort(polynomial.deriv().roots().real), [1.0]])
    weights = 2 / (degree * (degree + 1) * polynomial(nodes) ** 2)
    coefficients = np.linalg.inv(legendre.legvander(nodes, degree))
    slopes = legendre.legvander(nodes, degree - 1) @ legendre.legder(coefficients)
    # numpy's stubs forget that the inverse of an array of float64 is one too.
    return Rule(nodes, weights, slopes, coefficients)  # pyrefly: ignore[bad-argument-type]


@dataclass(frozen=True, eq=False)
class Curve:
    """Pieces of one degree over a partition of [0, 1]."""

    breaks: Array  # (e + 1,), from 0 to 1
    values: Array  # (e, m + 1, d); neighbours share a node

    @classmethod
    def through(cls, breaks: Array, nodes: Array) -> Curve:
        """From values at all nodes in turn: (e m + 1, d)."""
        pieces = len(breaks) - 1
        degree = (len(nodes) - 1) // pieces
        rows = degree * np.arange(pieces)[:, None] + np.arange(degree + 1)
        return cls(breaks, nodes[rows])

    @property
    def rule(self) -> Rule:
        return lobatto(self.values.shape[1] - 1)

    @property
    def weights(self) -> Array:
        """Of the nodes of each piece in an integral, (e, m + 1)."""
        return np.diff(self.breaks)[:, None] / 2 * self.rule.weights

    @property
    def slopes(self) -> Array:
        """Values to derivatives at the nodes of each piece, (e, m + 1, m + 1)."""
        return self.rule.slopes * (2 / np.diff(self.breaks))[:, None, None]

    @property
    def velocities(self) -> Array:
        """Derivatives at the nodes of each piece, (e, m + 1, d)."""
        return self.slopes @ self.values

    @property
    def nodes(self) -> Array:
        """Values at all nodes in turn, (e m + 1, d)."""
        d = self.values.shape[2]
        return np.concatenate([self.values[:, :-1].reshape(-1, d), self.values[-1, -1:]])

    @property
    def times(self) -> Array:
        """Where the nodes are, (e m + 1,)."""
        return np.append(self.places(self.rule.nodes[:-1]).ravel(), 1.0)

    def places(self, nodes: Array) -> Array:
        """Places in each piece, of nodes in [-1, 1]: (k,) -> (e, k)."""
        half = np.diff(self.breaks)[:, None] / 2
        return self.breaks[:-1, None] + half * (1 + nodes)

    @cached_property
    def _series(self) -> tuple[Array, Array, Array]:
        """Coefficients of values, velocities and accelerations: (e, m + 1, d), (e, m, d), ..."""
        series = self.rule.coefficients @ self.values
        rate = (2 / np.diff(self.breaks))[:, None, None]
        first = rate * legendre.legder(series, axis=1)
        return series, first, rate * legendre.legder(first, axis=1)

    def at(self, t: Array, order: int = 0) -> Array:
        """Values, or derivatives up to the second: (n,) -> (n, d)."""
        piece = np.clip(np.searchsorted(self.breaks, t, "right") - 1, 0, len(self.breaks) - 2)
        left, right = self.breaks[piece], self.breaks[piece + 1]
        return self._within(piece, (2 * t - left - right) / (right - left), order)

    def inside(self, nodes: Array, order: int = 0) -> Array:
        """The same at nodes in [-1, 1] of each piece: (k,) -> (e, k, d)."""
        series = self._series[order]
        return legendre.legvander(nodes, series.shape[1] - 1) @ series

    def _within(self, piece: NDArray[np.intp], node: Array, order: int) -> Array:
        series = self._series[order]
        return np.einsum("nk,nkd->nd", legendre.legvander(node, series.shape[1] - 1), series[piece])

    def split(self, which: NDArray[np.bool_]) -> Curve:
        """The same curve with some pieces, (e,) of truth values, halved."""
        middles = (self.breaks[:-1] + self.breaks[1:])[which] / 2
        breaks = np.sort(np.concatenate([self.breaks, middles]))
        finer = Curve(breaks, np.empty((len(breaks) - 1, *self.values.shape[1:])))
        return Curve.through(breaks, self.at(finer.times))

"""A function whose second derivative is the density of knots times a piecewise linear function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from numeric.splines.law import FilledLaw
from numeric.splines.system import Outer
from numeric.splines.weights import Ends

__all__ = ["SplineCurve"]

Array = NDArray[np.float64]
ONE = (1.0, 1.0)  # a constant, by its values at both ends of an interval


@dataclass(frozen=True)
class SplineCurve:
    """f'' = nu m, from f, f' and m at nodes; `outer` is m beyond them."""

    x: Array
    values: Array
    slopes: Array
    moments: Array
    outer: tuple[Outer, Outer]
    law: FilledLaw

    @property
    def start(self) -> float:
        """The point up to which f is exactly 0."""
        return float(self.x[0]) if self.law.clamped else -np.inf

    def moment(self, x: Array) -> Array:
        """m, piecewise linear between the nodes and linear beyond them."""
        before, after = (slope * x + level for slope, level in self.outer)
        inside = np.interp(x, self.x, self.moments)
        return np.where(x < self.x[0], before, np.where(x > self.x[-1], after, inside))

    def __call__(self, x: Array) -> Array:
        x = np.maximum(x, self.start)
        left, p, q = self._piece(x)
        inside = np.clip(x, p, q)
        t = (inside - p) / (q - p)
        M, N, m = self.moments[left], self.moments[left + 1], self.moment(inside)
        before, after = self.law.hats(p, inside), self.law.hats(inside, q)
        sag = (q - inside) * t * before.against((M, m), (0.0, 1.0))
        sag += (inside - p) * (1 - t) * after.against((m, N), (1.0, 0.0))
        chord = self.values[left] * (1 - t) + self.values[left + 1] * t
        return chord - sag + self._beyond(x)

    def _beyond(self, x: Array) -> Array:
        """The increment of f beyond the first and the last node."""
        first, last = self.x[0], self.x[-1]
        low, high = np.minimum(x, first), np.maximum(x, last)
        slopes, (M, N) = self.slopes[[0, -1]], self.moments[[0, -1]]
        before = self.law.hats(low, first).against((self.moment(low), M), (0.0, 1.0))
        after = self.law.hats(last, high).against((N, self.moment(high)), (1.0, 0.0))
        return (low - first) * (slopes[0] - before) + (high - last) * (slopes[1] + after)

    def slope(self, x: Array) -> Array:
        x = np.maximum(x, self.start)
        left, p, q = self._piece(x)
        inside = np.clip(x, p, q)
        low, high = np.minimum(x, self.x[0]), np.maximum(x, self.x[-1])
        integral = self.integral_of_second_derivative
        change = integral(p, inside) + integral(self.x[-1], high)
        return self.slopes[left] + change - integral(low, self.x[0])

    def second_derivative(self, x: Array) -> Array:
        """The second derivative; at a jump of the density, that of one side."""
        return self.law.density(x) * self.moment(x)

    def integral_of_second_derivative(self, p: Array, q: Array, by: Ends = ONE) -> Array:
        """The integral of f'' g between p and q without a node between; g is linear."""
        return self.law.hats(p, q).against((self.moment(p), self.moment(q)), by)

    def _piece(self, x: Array) -> tuple[NDArray[np.intp], Array, Array]:
        left = np.clip(np.searchsorted(self.x, x, side="right") - 1, 0, len(self.x) - 2)
        return left, self.x[left], self.x[left + 1]

"""Sums of step kernels at the data: the contribution of training the inner weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numeric.splines.equations import Terms, equate, place

Array = NDArray[np.float64]
FIELDS = (4, 6)  # numbers of the value of each field at a datum; its slope after that follows


@dataclass(frozen=True)
class StepKernelSum:
    """A function that is piecewise linear in the fraction of knots passed, with nodes at the data."""

    share: Array
    at_data: Array
    slopes: Array  # before the first datum, and after each

    @classmethod
    def of(cls, share: Array, unknowns: Array, number: int) -> StepKernelSum:
        """From the unknowns of `field_terms`."""
        data = np.arange(len(share))
        slopes = np.append(-1, data)
        return cls(share, unknowns[place(number, data)], unknowns[place(number + 1, slopes)])

    def __call__(self, share: Array) -> Array:
        beyond = np.maximum(share - self.share[-1], 0) * self.slopes[-1]
        ahead = np.maximum(self.share[0] - share, 0) * self.slopes[0]
        return np.interp(share, self.share, self.at_data) + beyond - ahead

    def norm(self, clamped: bool) -> float:
        """Corollary 6: the integral of h'^2 / nu_1, and for a law with a mirror (h(-oo) + h(oo))^2."""
        gaps = np.diff(self.share, prepend=0, append=1)
        ends = self(np.array([0.0, 1.0])).sum()
        return float(gaps @ self.slopes**2 + (0 if clamped else ends**2))


def field_terms(share: Array, clamped: bool, number: int, *sources: tuple[Any, Any]) -> Terms:
    """Equations of a sum of step kernels at the data; sources are unknowns with factors.

    Its slope jumps by minus the source at each datum. With a mirror it is opposite at both ends, and
    the values there add up to the total times the probability that a unit is active at one of them or at
    both; without, it is 0 at the last datum's right and the value is 0 at the first, where knots begin.
    """
    data, last = np.arange(len(share)), len(share) - 1
    before = data[:-1]
    slopes, rises = place(number + 1, data), place(number + 1, before)
    ends = place(number, len(share)), place(number + 1, len(share))
    first, final = place(number + 1, -1), place(number + 1, last)
    terms = equate(
        place(number, data), (slopes, 1.0), (place(number + 1, data - 1), -1.0), *sources
    )
    terms += equate(rises, (place(number, before + 1), 1.0), (place(number, before), -1.0))
    terms += equate(rises, (rises, -np.diff(share)))
    if clamped:
        return terms + equate(ends[0], (place(number, 0), 1.0)) + equate(ends[1], (final, 1.0))
    probability = 2 - (share[-1] - share[0])
    terms += equate(ends[0], (first, 1.0), (final, 1.0))
    values = ((place(number, datum), 1.0) for datum in (0, last))
    return terms + equate(ends[1], *values, (first, -probability))

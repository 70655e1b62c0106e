"""Sums of step kernels at the data: what the inner weights add to an interpolant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Field:
    """A function that is linear in the share of knots passed between the data and beyond them."""

    share: Array
    at_data: Array
    first: float
    last: float

    def __call__(self, share: Array) -> Array:
        beyond = np.maximum(share - self.share[-1], 0) * self.last
        ahead = np.maximum(self.share[0] - share, 0) * self.first
        return np.interp(share, self.share, self.at_data) + beyond - ahead

    def norm(self, clamped: bool) -> float:
        """Corollary 6: the integral of h'^2 / nu_1, and for a law with a mirror (h(-oo) + h(oo))^2."""
        gaps, rises = np.diff(self.share), np.diff(self.at_data)
        inner = (rises[gaps > 0] ** 2 / gaps[gaps > 0]).sum()
        outer = self.share[0] * self.first**2 + (1 - self.share[-1]) * self.last**2
        ends = self(np.array([0.0, 1.0])).sum()
        return float(inner + outer + (0 if clamped else ends**2))


def field_system(share: Array, clamped: bool) -> tuple[sparse.csr_array, sparse.csr_array]:
    """(on values and slopes, on sources): what a sum of step kernels at the data satisfies.

    Its slope jumps by -source at each datum. With a mirror it is opposite at both ends, and the
    values there add up to the total times the chance that a unit is active at one of them or at
    both; without, it is 0 at the last datum's right and the value is 0 at the first, where knots begin.
    """
    s, gaps = len(share), np.diff(share)
    rows, slopes = np.arange(s), np.arange(s, 2 * s + 1)

    def block(count: int, entries: list[tuple[Any, Any, Any]]) -> sparse.csr_array:
        parts = [np.broadcast_arrays(*map(np.atleast_1d, entry)) for entry in entries]
        i, j, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        return sparse.csr_array((value.astype(float), (i, j)), shape=(count, 2 * s + 1))

    jumps = block(s, [(rows, slopes[1:], 1.0), (rows, slopes[:-1], -1.0)])
    rises = block(s - 1, [(rows[:-1], rows[1:], 1.0), (rows[:-1], rows[:-1], -1.0),
                          (rows[:-1], slopes[1:-1], -gaps)])  # fmt: skip
    if clamped:
        ends = [block(1, [(0, slopes[-1], 1.0)]), block(1, [(0, 0, 1.0)])]
    else:
        chance = 2 - (share[-1] - share[0])
        opposite = block(1, [(0, slopes[0], 1.0), (0, slopes[-1], 1.0)])
        ends = [opposite, block(1, [(0, 0, 1.0), (0, s - 1, 1.0), (0, slopes[0], -chance)])]
    sources = sparse.csr_array((-np.ones(s), (rows, rows)), shape=(2 * s + 1, s))
    return sparse.vstack([jumps, rises, *ends], format="csr"), sources

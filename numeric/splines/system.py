r"""The interpolant of least norm as a sparse linear system: moments at the data instead of a Gram matrix.

With coefficients $\alpha$ of kernel sections at the data, $f'' = \nu m$ and
$m(x) = \frac12\sum_j\alpha_j|x-x_j|$ is linear between data, so that f is known from its values
and the moments $M_i = m(x_i)$, as a cubic spline is. Slopes agree at the data, which is a tridiagonal
system; two equations more say what f is far away. For a law that looks to the right only,
$m(x) = \sum_j\alpha_j(x_j-x)_+$, and f starts at 0 with slope 0 where knots begin.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import MatrixRankWarning, splu

from analytic.domain import InputError
from numeric.splines.weights import Hats

Array = NDArray[np.float64]
Matrix = sparse.csr_array
Outer = tuple[float, float]
UNDETERMINED = (
    "The data do not determine an interpolant: some of them lie where no unit has its knot, so that "
    "nothing can bend between them. Use a ridge and no time limit, or a wider law."
)


@dataclass(frozen=True)
class Line:
    r"""Data on a line and the hats between them; E[a^2] and E[b^2] of the law.

    Unknown are the moments and, because far from the knots they nearly cancel in
    $m = \pm\frac12(S_0 x - S_1)$, also $S_0 = \sum\alpha_j$ and $S_1 = \sum\alpha_j x_j$.
    """

    x: Array
    hats: Hats
    slopes: float
    biases: float

    @property
    def steps(self) -> Array:
        return np.diff(self.x)

    def coefficients(self) -> Matrix:
        """alpha from the unknowns: by how much the slope of m jumps."""
        s = len(self.x)
        ends = _rows(s, 2, [(0, 0, 0.5), (s - 1, 0, 0.5)])
        return sparse.hstack([_second_difference(self.steps), ends], format="csr")

    def bending(self) -> tuple[Matrix, Matrix]:
        """(on unknowns, on values) with on unknowns @ (M, S0, S1) = on values @ f."""
        s, x = len(self.x), self.x
        joined = [(0, 0, 1.0), (0, s, x[0] / 2), (0, s + 1, -0.5)]
        joined += [(1, s - 1, 1.0), (1, s, -x[-1] / 2), (1, s + 1, 0.5)]
        inner = sparse.hstack([_bends(self.hats, s), sparse.csr_array((s - 2, 2))])
        unknowns, values = self._ends()
        return (
            sparse.vstack([_rows(2, s + 2, joined), inner, unknowns], format="csr"),
            sparse.vstack([sparse.csr_array((2, s)), _interior(self.steps), values], format="csr"),
        )

    def _ends(self) -> tuple[Matrix, Matrix]:
        """What holds of f' and of f - x f', summed over both ends of the data."""
        s, h, w, x = len(self.x), self.steps, self.hats, self.x
        one = np.ones(s - 1), np.ones(s - 1)
        place = x[:-1], x[1:]
        N0, N1, N2 = (w.against(f, g).sum() for f, g in ((one, one), (one, place), (place, place)))
        turned = [(0, 0, -w.pp[0]), (0, 1, -w.pq[0]), (1, s - 2, w.pq[-1]), (1, s - 1, w.qq[-1])]
        rises = [(0, 0, -1 / h[0]), (0, 1, 1 / h[0]), (1, s - 2, -1 / h[-1]), (1, s - 1, 1 / h[-1])]
        mixed = sparse.csr_array(np.array([[1.0, 1.0], [-x[0], -x[-1]]]))  # slopes of both ends
        outside = [[N1 / 2, self.slopes - N0 / 2], [self.biases - N2 / 2, N1 / 2]]
        here = _rows(2, s, [(1, 0, 1.0), (1, s - 1, 1.0)])
        unknowns = [-mixed @ _rows(2, s, turned), sparse.csr_array(np.array(outside))]
        return sparse.hstack(unknowns), mixed @ _rows(2, s, rises) + here

    def outer(self, found: Array) -> tuple[Outer, Outer]:
        """m before and after the data: its slope and its value at 0."""
        S0, S1 = found[-2:] / 2
        return (-S0, S1), (S0, -S1)


@dataclass(frozen=True)
class Clamped:
    """Data after the origin, which is the first of `x`, for a law that looks to the right only."""

    x: Array
    hats: Hats

    def coefficients(self) -> Matrix:
        """alpha from the moments; there is none at the origin, where every unit is silent."""
        inner = _second_difference(np.diff(self.x))[1:]
        return sparse.vstack([sparse.csr_array((1, len(self.x))), inner], format="csr")

    def bending(self) -> tuple[Matrix, Matrix]:
        """(on moments, on values): slope 0 at the origin, and m = 0 at the last datum."""
        s, h, w = len(self.x), np.diff(self.x), self.hats
        start = _rows(1, s, [(0, 0, w.pp[0]), (0, 1, w.pq[0])])
        rise = _rows(1, s, [(0, 0, -1 / h[0]), (0, 1, 1 / h[0])])
        free = _rows(1, s, [(0, s - 1, 1.0)])
        return (
            sparse.vstack([start, _bends(w, s), free], format="csr"),
            sparse.vstack([rise, _interior(h), sparse.csr_array((1, s))], format="csr"),
        )

    def outer(self, found: Array) -> tuple[Outer, Outer]:
        """No knot lies before the origin, and no datum after the last."""
        del found
        return (0.0, 0.0), (0.0, 0.0)


def _bends(w: Hats, s: int) -> Matrix:
    """What turns the slope from one interval to the next, from the moments."""
    middle = np.arange(1, s - 1)
    lines = [(middle - 1, w.pq[:-1]), (middle, w.qq[:-1] + w.pp[1:]), (middle + 1, w.pq[1:])]
    return _lines(middle, lines, s)


def _rows(rows: int, columns: int, entries: list[tuple[int, int, float]]) -> Matrix:
    i, j, value = zip(*entries, strict=True)
    return sparse.csr_array((value, (i, j)), shape=(rows, columns))


def _lines(rows: Array, lines: list[tuple[Array, Array]], columns: int) -> Matrix:
    """A block with some bands, one row for each of `rows`."""
    where = np.tile(np.arange(len(rows)), len(lines))
    at = np.concatenate([place for place, _ in lines])
    values = np.concatenate([value for _, value in lines])
    return sparse.csr_array((values, (where, at)), shape=(len(rows), columns))


def _interior(h: Array) -> Matrix:
    """Jumps of the slope of a polygon at its inner corners."""
    s = len(h) + 1
    middle = np.arange(1, s - 1)
    lines = [(middle - 1, 1 / h[:-1]), (middle, -1 / h[:-1] - 1 / h[1:]), (middle + 1, 1 / h[1:])]
    return _lines(middle, lines, s)


def _second_difference(h: Array) -> Matrix:
    """The same at all corners, as if the polygon went on level at both ends."""
    s = len(h) + 1
    first = _rows(1, s, [(0, 0, -1 / h[0]), (0, 1, 1 / h[0])])
    last = _rows(1, s, [(0, s - 2, 1 / h[-1]), (0, s - 1, -1 / h[-1])])
    return sparse.vstack([first, _interior(h), last], format="csr")


def solve(matrix: Matrix, right: Array) -> Array:
    """By sparse elimination, with one step of refinement; refuses what is singular."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", MatrixRankWarning)
        try:
            factors = splu(matrix.tocsc())
        except RuntimeError as failure:
            raise InputError(UNDETERMINED) from failure
    found = factors.solve(right)
    found = found + factors.solve(right - matrix @ found)
    # Rounding can hide that a matrix is singular from the elimination, but not from this.
    if not np.abs(right - matrix @ found).max() <= 1e-6 * np.abs(right).max():
        raise InputError(UNDETERMINED)
    return found

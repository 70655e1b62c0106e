r"""The earliest root of many sums of exponentials, of which none is missed, double roots included.

Each function is $F(t) = A + \sum_k D_k\int_0^t e^{-\lambda_k u}du + \sum_k E_k e^{-(\lambda_k - \lambda_0)t}$
with $\lambda_0$ the least rate. By the signs of its coefficients it falls apart into a concave and
a convex part, whose slopes and curvatures are monotone as well. So the values at both ends of an
interval bound F within it: a chord lies below the concave part and a tangent below the convex one.
An interval is halved until each function that these bounds leave open is monotone, convex or
concave there; then it has no root, or one that can be bracketed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from numeric.relu_dynamics.sliding.modes import integrals
from numeric.relu_dynamics.sliding.tables import Array

__all__ = ["Sums", "earliest"]

FLOOR = 2.0**-44  # relative to the time: shorter intervals are not halved again


@dataclass(frozen=True, eq=False)
class Sums:
    """n sums of exponentials, as in the module docstring."""

    rates: Array  # (s,)
    coefficients: Array  # (n, 1 + 2s): A, D and E

    @classmethod
    def of(cls, rates: Array, constant: Array, rising: Array, fading: Array) -> Sums:
        """From functions with A (n,) and D (n, s) only, followed by functions with E (n', s) only."""
        s, n = len(rates), len(constant)
        table = np.zeros((n + len(fading), 1 + 2 * s))
        table[:n, 0], table[:n, 1 : 1 + s], table[n:, 1 + s :] = constant, rising, fading
        return cls(rates, table)

    def basis(self, time: Array | float) -> Array:
        """Values, slopes and curvatures of all terms: (...) -> (..., 1 + 2s, 3)."""
        at = np.asarray(time)[..., None]
        late = self.rates - self.rates.min()
        decay, slow = np.exp(-self.rates * at), np.exp(-late * at)
        terms = np.zeros((*at.shape[:-1], 1 + 2 * len(self.rates), 3))
        terms[..., 0, 0] = 1
        growing, decaying = terms[..., 1 : 1 + len(late), :], terms[..., 1 + len(late) :, :]
        growing[..., 0] = integrals(self.rates, at)
        growing[..., 1] = decay
        growing[..., 2] = -self.rates * decay
        decaying[..., 0] = slow
        decaying[..., 1] = -late * slow
        decaying[..., 2] = late**2 * slow
        return terms

    def parts(self) -> Array:
        """Coefficients of the concave and of the convex part: (2, n, 1 + 2s)."""
        signs = np.ones(self.coefficients.shape[1])
        signs[1 : 1 + len(self.rates)] = -1
        concave = np.where(signs * self.coefficients < 0, self.coefficients, 0.0)
        return np.stack([concave, self.coefficients - concave])


def earliest(sums: Sums, horizon: float, guess: float) -> tuple[float, int] | None:
    """The first time in [0, horizon] at which a function falls below 0, and its number.

    `guess` is the length of the first interval that is tried; it decides nothing but the effort.
    """
    if horizon <= 0:
        return None
    parts = sums.parts()
    left, right = 0.0, min(guess, horizon)
    low = parts @ sums.basis(left)  # (2, n, 3)
    below = np.flatnonzero(low[:, :, 0].sum(0) < 0)
    if len(below):
        return 0.0, int(below[0])
    while True:
        high = parts @ sums.basis(right)
        width = right - left
        pending = _pending(low, high, width)
        if len(pending):
            shapes = _shapes(low[:, pending], high[:, pending])
            if not shapes.any(0).all() and width > FLOOR * right:
                right = left + width / 2
                continue
            if (root := _first(sums, pending, shapes[0], left, right)) is not None:
                return root
        if right >= horizon:
            return None
        left, low, right = right, high, min(horizon, right + 2 * width)


def _pending(low: Array, high: Array, width: float) -> NDArray[np.intp]:
    """Functions whose lower bounds do not keep them above 0 on the interval."""
    (concave, convex), (concave_end, convex_end) = low, high
    first = concave_end[:, 0] + convex[:, 0] + width * convex[:, 1]
    last = concave[:, 0] + convex_end[:, 0] - width * convex_end[:, 1]
    start, end = low[:, :, 0].sum(0), high[:, :, 0].sum(0)
    return np.flatnonzero(np.maximum(np.minimum(start, first), np.minimum(end, last)) <= 0)


def _shapes(low: Array, high: Array) -> NDArray[np.bool_]:
    """Whether each is convex, concave, falling or rising throughout: (4, n)."""
    (concave, convex), (concave_end, convex_end) = low, high
    return np.stack(
        [
            concave[:, 2] + convex_end[:, 2] > 0,
            concave_end[:, 2] + convex[:, 2] < 0,
            concave[:, 1] + convex_end[:, 1] < 0,
            concave_end[:, 1] + convex[:, 1] >= 0,
        ]
    )


def _first(
    sums: Sums, pending: NDArray[np.intp], convex: NDArray[np.bool_], left: float, right: float
) -> tuple[float, int] | None:
    """Among functions that have at most one root in front of their lowest point."""
    table = sums.coefficients[pending]
    ends = np.full(len(pending), right)
    slopes = (table @ np.stack([sums.basis(left)[:, 1], sums.basis(right)[:, 1]], 1)).T
    has_minimum = convex & (slopes[0] < 0) & (slopes[1] > 0)
    if has_minimum.any():
        ends[has_minimum] = _solve(sums, -table[has_minimum], left, ends[has_minimum], 1)
    values = np.einsum("nk,nk->n", table, sums.basis(ends)[..., 0])
    crossing = values < 0
    if not crossing.any():
        return None
    times = _solve(sums, table[crossing], left, ends[crossing], 0)
    best = int(times.argmin())
    return float(times[best]), int(pending[crossing][best])


def _solve(sums: Sums, table: Array, left: float, ends: Array, order: int) -> Array:
    """Roots of derivatives of this order, above 0 at `left`, below at `ends`: bracketed Newton steps."""
    low, high = np.full_like(ends, left), ends
    at = (low + high) / 2
    for _ in range(100):
        basis = sums.basis(at)
        value = np.einsum("nk,nk->n", table, basis[..., order])
        slope = np.einsum("nk,nk->n", table, basis[..., order + 1])
        low, high = np.where(value > 0, at, low), np.where(value > 0, high, at)
        step = np.divide(value, slope, out=np.full_like(at, np.inf), where=slope != 0)
        newton = at - step
        inside = (newton >= low) & (newton <= high)
        following = np.where(inside, newton, (low + high) / 2)
        if (np.abs(following - at) <= 8 * np.spacing(following)).all():
            break
        at = following
    return following

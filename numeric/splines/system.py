r"""Interpolation and regression as a chain of states at the data, instead of a Gram matrix.

With coefficients $\alpha$ of kernel sections at the data, $f'' = \nu m$ and
$m(x) = \frac12\sum_j\alpha_j|x-x_j|$ is linear between data. So f, f', m and m' are known at a datum
from those at the one before, h away: m grows by $hm'$, f' by $\int\nu m$ and f by
$hf' + h\int\nu\lambda_pm$, and at a datum m' jumps by $\alpha$. Five equations more say what m and f
are far away. For a law that looks to the right only, $m(x) = \sum_j\alpha_j(x_j-x)_+$, and f starts
at 0 with slope 0 where knots begin. Nothing is divided by h, so that data may be close.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numeric.inputs import InputError
from numeric.splines.equations import UNDETERMINED, Terms, equate, place, solve
from numeric.splines.law import FilledLaw
from numeric.splines.weights import Hats

__all__ = ["Outer", "States", "StepKernelSum", "System", "field_terms"]

Array = NDArray[np.float64]
Outer = tuple[float, float]
VALUE, SLOPE, MOMENT, RATE = range(4)  # f, f', m at a datum, and m' after it
RESIDUAL = 1e-10  # relative; what is well determined stays below 1e-15
CLOSE = (
    "Some data are so close that rounding decides what passes through their targets: merge them, or "
    "use a ridge."
)
DATUM = 0  # the equation that a datum itself gives; the next three lead to the next datum
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


@dataclass(frozen=True)
class States:
    """f, f', m and coefficients at the data; slope and intercept of m beyond them; the fields."""

    values: Array
    slopes: Array
    moments: Array
    coefficients: Array
    outer: tuple[Outer, Outer]
    fields: list[StepKernelSum]


@dataclass(frozen=True, eq=False)
class System:
    """Sorted data points and a law; for a clamped law the first point is the origin."""

    law: FilledLaw
    x: Array
    readout: float

    def interpolated(self, y: Array) -> States:
        """The function of least norm with these values."""
        curvature_weight = self._hats.pp + self._hats.qq
        if (curvature_weight[:-1] + curvature_weight[1:] == 0).any():
            raise InputError(UNDETERMINED)
        if not self.readout:
            return self._states(solve(self._line(), known=(place(VALUE, self._data), y)))
        states = self.regressed(y, 0.0)
        parts = zip(self._factors, states.fields, strict=True)
        missed = states.values + sum(factor * field.at_data for (_, factor), field in parts) - y
        if np.abs(missed).max() > RESIDUAL * np.abs(y).max():
            raise InputError(CLOSE)
        return states

    def regressed(self, y: Array, ridge: Array | float) -> States:
        """Kernel ridge regression: value + ridge * coefficient = y at each datum."""
        free = self._data[1:] if self.law.clamped else self._data
        own, terms = np.broadcast_to(ridge, len(self.x))[free], self._line()
        jump = (place(RATE, free), own), (place(RATE, free - 1), -own)
        terms += equate(place(DATUM, free), (place(VALUE, free), 1.0), *jump)
        for number, factor in self._factors:
            terms += equate(place(DATUM, free), (place(number, free), factor[free]))
            before, after = (
                (place(RATE, self._data - k), sign * self.readout * factor)
                for k, sign in ((1, -1), (0, 1))
            )
            terms += field_terms(self._share, self.law.clamped, number, before, after)
        return self._states(solve(terms, (place(DATUM, free), y[free])))

    def _line(self) -> Terms:
        """Equations from each datum to the next, and the conditions at both ends."""
        h, w, a = np.diff(self.x), self._hats, self._data[:-1]
        b = a + 1
        moments, slopes, values = (place(k, a) for k in (1, 2, 3))
        M, N = place(MOMENT, a), place(MOMENT, b)
        return [
            *equate(moments, (N, 1.0), (M, -1.0), (place(RATE, a), -h)),
            *equate(slopes, (place(SLOPE, b), 1.0), (place(SLOPE, a), -1.0)),
            *equate(slopes, (M, -w.pp - w.pq), (N, -w.pq - w.qq)),
            *equate(values, (place(VALUE, b), 1.0), (place(VALUE, a), -1.0)),
            *equate(values, (place(SLOPE, a), -h), (M, -h * w.pp), (N, -h * w.pq)),
            *(self._start() if self.law.clamped else self._far()),
        ]

    def _start(self) -> Terms:
        """f = f' = 0 and no coefficient at the origin, m = m' = 0 from the last datum on."""
        last = self._data[-1]
        ends = (VALUE, 0), (SLOPE, 0), (MOMENT, last), (RATE, last)
        terms = [term for k, end in enumerate(ends) for term in self._end(k, (place(*end), 1.0))]
        return terms + self._end(4, (place(RATE, 0), 1.0), (place(RATE, -1), -1.0))

    def _far(self) -> Terms:
        r"""$m = \pm\frac12(S_0x-S_1)$ beyond the data, and what follows for f' and f - x f' there.

        $S_1$ is an unknown of its own, because the two nearly cancel far from the knots.
        """
        w, (first, last) = self._hats, self.x[[0, -1]]
        one, x = (np.ones(1), np.ones(1)), (self.x[:-1], self.x[1:])
        N0, N1, N2 = (w.against(f, g).sum() for f, g in ((one, one), (one, x), (x, x)))
        (f, d, m, _), (F, D, M, half) = (
            [place(kind, end) for kind in (VALUE, SLOPE, MOMENT, RATE)]
            for end in self._data[[0, -1]]
        )  # half of S0 is m' after the last datum
        slopes, biases = self.law.slopes, self.law.biases
        return [
            *self._end(0, (place(RATE, -1), 1.0), (half, 1.0)),
            *self._end(1, (m, 1.0), (half, first), (self._S1, -0.5)),
            *self._end(2, (M, 1.0), (half, -last), (self._S1, 0.5)),
            *self._end(3, (d, 1.0), (D, 1.0), (half, -N1), (self._S1, N0 / 2 - slopes)),
            *self._end(4, (f, 1.0), (F, 1.0), (d, -first), (D, -last)),
            *self._end(4, (half, N2 - 2 * biases), (self._S1, -N1 / 2)),
        ]

    def _end(self, number: int, *sides: tuple[Any, Any]) -> Terms:
        """An equation that couples both ends, numbered after all others for the elimination."""
        return equate(place(number, len(self.x) + 1), *sides)

    def _states(self, unknowns: Array) -> States:
        values, slopes, moments = (unknowns[place(k, self._data)] for k in (VALUE, SLOPE, MOMENT))
        rates = unknowns[place(RATE, np.append(-1, self._data))]
        half, level = (0.0, 0.0) if self.law.clamped else (rates[-1], unknowns[self._S1] / 2)
        fields = [StepKernelSum.of(self._share, unknowns, number) for number, _ in self._factors]
        outer = (-half, level), (half, -level)
        return States(values, slopes, moments, np.diff(rates), outer, fields)

    @property
    def _S1(self) -> Any:
        return place(MOMENT, len(self.x))

    @property
    def _data(self) -> Any:
        return np.arange(len(self.x))

    @property
    def _factors(self) -> tuple[tuple[int, Array], ...]:
        """Numbers of the fields h_1 and h_2, which add h_1 + x h_2."""
        return (
            tuple(zip(FIELDS, (np.ones(len(self.x)), self.x), strict=True)) if self.readout else ()
        )

    @cached_property
    def _hats(self) -> Hats:
        return self.law.hats(self.x[:-1], self.x[1:])

    @cached_property
    def _share(self) -> Array:
        return self.law.passed(self.x)


def field_terms(share: Array, clamped: bool, number: int, *sources: tuple[Any, Any]) -> Terms:
    """Equations of a sum of step kernels at the data; sources are unknowns with factors.

    Its slope jumps by minus the source at each datum. With a mirror it is opposite at both ends, and
    the values there add up to the total times the probability that a unit is active at one of them or at
    both; without, it is 0 at the last datum's right and the value is 0 at the first, where knots begin.
    """
    data, last = np.arange(len(share)), len(share) - 1
    before = data[:-1]
    slopes, differences = place(number + 1, data), place(number + 1, before)
    ends = place(number, len(share)), place(number + 1, len(share))
    first, final = place(number + 1, -1), place(number + 1, last)
    terms = equate(
        place(number, data), (slopes, 1.0), (place(number + 1, data - 1), -1.0), *sources
    )
    terms += equate(differences, (place(number, before + 1), 1.0), (place(number, before), -1.0))
    terms += equate(differences, (differences, -np.diff(share)))
    if clamped:
        return terms + equate(ends[0], (place(number, 0), 1.0)) + equate(ends[1], (final, 1.0))
    probability = 2 - (share[-1] - share[0])
    terms += equate(ends[0], (first, 1.0), (final, 1.0))
    values = ((place(number, datum), 1.0) for datum in (0, last))
    return terms + equate(ends[1], *values, (first, -probability))

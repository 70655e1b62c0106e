r"""Densities of the knots $u = b/a$ of random hidden units $[ax - b]_+$, piecewise in powers of u.

If (a, b) and (-a, -b) have the same probability density p, a kernel depends on the law of (a, b) through
$\nu_p(u) = \int |a|^p\,p(a, au)\,da$ only: $\nu_1$ is the density of knots, $\nu_3$ weights it by $a^2$.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import sympy as sp
from sympy import Max, Min

from analytic.expressions.symbols import u

__all__ = ["KnotInterval", "oo", "total_density"]

oo = sp.oo


@dataclass(frozen=True)
class KnotInterval:
    """Knots between `low` and `high` with the density `weight` u^(-power).

    `power` is 0, or 4 for kernels and 2 for counts: integrands with two or no linear factors then
    become polynomials in 1/u. An interval with power > 0 does not contain 0 and may be unbounded.
    """

    low: sp.Expr
    high: sp.Expr
    weight: sp.Expr
    power: int = 0

    def kernel_integral(self, l: sp.Expr, h: sp.Expr) -> sp.Expr:
        r"""$\int_{u\le l}(l-u)(h-u)\,\nu(u)\,du$ for $l\le h$, as a sum of terms of the same sign."""
        return self._integral(l, lambda end: (self._gap(end, l), self._gap(end, h)))

    def slope_integral(self, l: sp.Expr, y: sp.Expr) -> sp.Expr:
        r"""$\int_{u\le l}(y-u)\,\nu(u)\,du$, the derivative of `kernel_integral` by l or h."""
        return self._integral(l, lambda end: (self._gap(end, y), self._unit(end)))

    def count(self, l: sp.Expr) -> sp.Expr:
        """The integral of the density over u <= l."""
        return self.weight * self._length(*self._until(l))

    def _until(self, l: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        stop = Min(l, self.high) if self.low == -oo else Max(self.low, Min(l, self.high))
        return self.low, stop

    def _length(self, start: sp.Expr, stop: sp.Expr) -> sp.Expr:
        """The length of an interval in u, or in 1/u if the density is a negative power."""
        if not self.power:
            return stop - start
        return -1 / stop if start == -oo else (stop - start) / (start * stop)

    def _integral(
        self, l: sp.Expr, factors: Callable[[sp.Expr], tuple[sp.Expr, sp.Expr]]
    ) -> sp.Expr:
        """The integral of two linear factors over the knots up to l.

        `factors` returns their values at an end of the interval, divided by |u| if power > 0.
        """
        start, stop = self._until(l)
        mean = _product(*factors(start), *factors(stop)) / 6
        return self.weight * self._length(start, stop) * mean

    def _gap(self, end: sp.Expr, place: sp.Expr) -> sp.Expr:
        return sp.S.One if end == -oo else (place - end) * self._unit(end)

    def _unit(self, end: sp.Expr) -> sp.Expr:
        if end == -oo:
            return sp.S.Zero
        return 1 / sp.Abs(end) if self.power else sp.S.One


def _product(f: sp.Expr, g: sp.Expr, f1: sp.Expr, g1: sp.Expr) -> sp.Expr:
    """Six times the mean of a product of two linear functions, from their values at both ends."""
    return 2 * f * g + 2 * f1 * g1 + f * g1 + f1 * g


def total_density(knot_intervals: Iterable[KnotInterval]) -> sp.Expr:
    """The density on all intervals together; a shared end point belongs to the first interval."""
    branches = [
        (one.weight / u**one.power, sp.And(u >= one.low, u <= one.high)) for one in knot_intervals
    ]
    return sp.Piecewise(*branches, (0, True))

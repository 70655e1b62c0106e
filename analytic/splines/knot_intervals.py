r"""The law of hidden units $[ax - b]_+$ at initialisation, told by its knots $b/a$.

For (a, b) as likely as (-a, -b) all that a kernel knows are the densities
$\nu_p(u) = \int |a|^p\,p(a, au)\,da$ of knots: $\nu_1$ counts them, $\nu_3$ weighs them by slopes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import sympy as sp
from sympy import Max, Min

from analytic.expressions.symbols import u

oo = sp.oo


@dataclass(frozen=True)
class Stretch:
    """Knots between `low` and `high` with density `weight` u^(-power); `power` is 0, or as below.

    A power p + 1 for an integrand of p linear factors, 4 for kernels and 2 for counts, because then
    y = 1/u makes a polynomial of it. Such a stretch does not reach 0 and may reach infinity.
    """

    low: sp.Expr
    high: sp.Expr
    weight: sp.Expr
    power: int = 0

    def before(self, l: sp.Expr, h: sp.Expr) -> sp.Expr:
        r"""$\int_{u\le l}(l-u)(h-u)\,\nu(u)\,du$ for $l\le h$, as a sum of terms of one sign."""
        return self._integral(l, lambda end: (self._gap(end, l), self._gap(end, h)))

    def leaning(self, l: sp.Expr, y: sp.Expr) -> sp.Expr:
        r"""$\int_{u\le l}(y-u)\,\nu(u)\,du$: what is left of it after a derivative by l or h."""
        return self._integral(l, lambda end: (self._gap(end, y), self._unit(end)))

    def count(self, l: sp.Expr) -> sp.Expr:
        """The knots up to l."""
        return self.weight * self._length(*self._until(l))

    def _until(self, l: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        stop = Min(l, self.high) if self.low == -oo else Max(self.low, Min(l, self.high))
        return self.low, stop

    def _length(self, start: sp.Expr, stop: sp.Expr) -> sp.Expr:
        """Of the stretch in u, or in 1/u."""
        if not self.power:
            return stop - start
        return -1 / stop if start == -oo else (stop - start) / (start * stop)

    def _integral(
        self, l: sp.Expr, factors: Callable[[sp.Expr], tuple[sp.Expr, sp.Expr]]
    ) -> sp.Expr:
        """Of two linear factors, told by their values at an end, or by their ratios to |u| there."""
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


def piecewise(stretches: Iterable[Stretch]) -> sp.Expr:
    """The sum of densities; where two stretches touch, the first one counts."""
    branches = [
        (one.weight / u**one.power, sp.And(u >= one.low, u <= one.high)) for one in stretches
    ]
    return sp.Piecewise(*branches, (0, True))

r"""How a layer changes the correlation of two signals whose variance has settled, and where that ends.

$f(c) = (\sigma^2 E[\phi\phi](V, cV, V) + \zeta^2)/V$ (Poole et al. 2016, (5)) is a power series in c
whose coefficients, squares of Hermite coefficients, are at least 0, and f(1) = 1. Convex on [0, 1],
it meets the diagonal below 1 exactly once if $f'(1) = \chi_1 > 1$ and never if $\chi_1 \le 1$; below
0 it meets it only if f is odd, and then at -1. So no fixed point needs to be searched for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp
from mpmath import mp, mpf

from analytic.activations.activation import Activation
from analytic.expressions import symbols
from analytic.expressions.arguments import InputError
from analytic.signal_propagation.fixed_point_arrays import correlate
from analytic.signal_propagation.mehler_exact import kernel_at, slope_at
from analytic.signal_propagation.scales import number, precise, to_mpf, unless_one
from analytic.signal_propagation.variance import FixedPoint


@dataclass(frozen=True)
class CorrelationMap:
    """f at a settled variance V above 0: of a number to all digits, of an array in floats."""

    act: Activation
    sigma: sp.Expr
    zeta: sp.Expr
    V: Any
    digits: int

    def __call__(self, c: Any) -> Any:
        if isinstance(c, np.ndarray):
            V, sigma, zeta = map(float, (self.V, self.sigma, self.zeta))
            return (sigma**2 * self.act.kernel.numpy(V, c * V, V) + zeta**2) / V
        with precise(self.digits):
            return self._at(_between(c))

    def slope(self, c: Any) -> Any:
        r"""$\sigma^2 E[\phi'\phi'](V, cV, V)$, by Price's theorem; at c = 1 this is chi_1."""
        with precise(self.digits):
            c = _between(c)
            G = self.act.G.mpmath(self.V) if c == 1 else slope_at(self.act, self.V, c)
            return unless_one(to_mpf(self.sigma**2) * G, self.digits)

    @cached_property
    def attractor(self) -> FixedPoint:
        """c*, where correlations settle."""
        chi = self.slope(1)
        if chi <= 1:
            return FixedPoint(mpf(1), chi)
        with precise(self.digits, more=int(-2 * mp.log10(min(chi - 1, mpf(1))))):
            c = mpf(0) if self._uncorrelated else self._below_one(chi)
            return FixedPoint(c, self.slope(c))

    @cached_property
    def fixed_points(self) -> tuple[FixedPoint, ...]:
        """Every fixed correlation, ascending."""
        with precise(self.digits):
            one = FixedPoint(mpf(1), self.slope(1))
            if one.slope == 1 and self._uncorrelated:
                raise InputError(f"Every correlation is fixed: {self.act.name} is linear.")
            inside = [] if one.slope <= 1 else [self.attractor]
            opposite = [FixedPoint(mpf(-1), one.slope)] if self._odd else []
            return (*opposite, *inside, one)

    def _at(self, c: Any) -> Any:
        kernel = self.act.F.mpmath(self.V) if c == 1 else kernel_at(self.act, self.V, c)
        return (to_mpf(self.sigma**2) * kernel + to_mpf(self.zeta**2)) / self.V

    @property
    def _odd(self) -> bool:
        """Whether the map is odd, which it is exactly for an odd phi without bias."""
        phi, points = self.act.phi.mpmath, [mpf(k) / 7 for k in range(1, 30)]
        small = mpf(10) ** -self.digits
        odd = all(abs(phi(t) + phi(-t)) <= small * (1 + abs(phi(t))) for t in points)
        return self.zeta == 0 and odd

    @cached_property
    def _uncorrelated(self) -> bool:
        """Whether signals without correlation stay so."""
        return self.zeta == 0 and bool(abs(self._at(mpf(0))) < mpf(10) ** -self.digits)

    def _below_one(self, chi: Any) -> Any:
        """The root in (0, 1): chords from the float root need few kernels, which may be quadratures."""
        numbers = (np.array([float(v)]) for v in (self.V, self.sigma**2, self.zeta**2))
        c, slope = (mpf(found[0]) for found in correlate(self.act, *numbers))
        tolerance, last = mpf(10) ** (-self.digits - 5), mpf("1e-6")
        while 1 - c > 1e-3:
            step = (self._at(c) - c) / (1 - slope)
            c += step
            if abs(step) < tolerance:
                return c
            if abs(step) > last:
                break
            last = abs(step) / 10

        def excess(c: Any) -> Any:  # rises from -f(0) to chi - 1, the root at 1 divided out
            return chi - 1 if c == 1 else (c - self._at(c)) / (1 - c)

        return mp.findroot(
            excess, (mpf(0), mpf(1)), solver="anderson", tol=tolerance * (chi - 1), maxsteps=500,
            verify=False,
        )  # fmt: skip


def _between(c: Any) -> Any:
    c = to_mpf(number(symbols.kxy, c))
    if abs(c) > 1:
        raise InputError(f"c = {mp.nstr(c)} was given, but a correlation lies between -1 and 1.")
    return c

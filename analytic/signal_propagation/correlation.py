r"""The correlation map: how a layer changes the correlation of two signals of fixed variance.

$f(c) = (\sigma^2 E[\phi\phi](V, cV, V) + \zeta^2)/V$ (Poole et al. 2016, (5)) is a power series in c
whose coefficients, squares of Hermite coefficients, are at least 0, and f(1) = 1. So f is convex on
[0, 1]: it meets the diagonal in [0, 1) exactly once if $f'(1) = \chi_1 > 1$ and never if $\chi_1 \le 1$.
For c < 0 it meets the diagonal only if f is odd, and then at -1. This locates every fixed point.
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
from analytic.expressions.arguments import InputError, RealNumber
from analytic.signal_propagation.exact_inputs import (
    exact_number,
    snap_to_one,
    to_mpf,
    working_precision,
)
from analytic.signal_propagation.fixed_point_arrays import limit_correlations
from analytic.signal_propagation.mehler import kernel_at, slope_at
from analytic.signal_propagation.variance import FixedPoint

__all__ = ["CorrelationMap"]


@dataclass(frozen=True)
class CorrelationMap:
    """f at a fixed variance V > 0: exact to `digits` for a number, in float64 for an array."""

    act: Activation
    sigma: sp.Expr
    zeta: sp.Expr
    V: Any
    digits: int

    def __call__(self, c: RealNumber | np.ndarray) -> Any:
        if isinstance(c, np.ndarray):
            V, sigma, zeta = map(float, (self.V, self.sigma, self.zeta))
            return (sigma**2 * self.act.kernel.numpy(V, c * V, V) + zeta**2) / V
        with working_precision(self.digits):
            return self._at(_require_correlation(c))

    def slope(self, c: RealNumber) -> Any:
        r"""$\sigma^2 E[\phi'\phi'](V, cV, V)$, by Price's theorem; at c = 1 this is chi_1."""
        with working_precision(self.digits):
            c = _require_correlation(c)
            G = self.act.require("G").mpmath(self.V) if c == 1 else slope_at(self.act, self.V, c)
            return snap_to_one(to_mpf(self.sigma**2) * G, self.digits)

    @cached_property
    def attractor(self) -> FixedPoint:
        """c*, the stable fixed point."""
        chi = self.slope(1)
        if chi <= 1:
            return FixedPoint(mpf(1), chi)
        with working_precision(self.digits, more=int(-2 * mp.log10(min(chi - 1, mpf(1))))):
            c = mpf(0) if self._uncorrelated else self._below_one(chi)
            return FixedPoint(c, self.slope(c))

    @cached_property
    def fixed_points(self) -> tuple[FixedPoint, ...]:
        """Every fixed point of the correlation, ascending."""
        with working_precision(self.digits):
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
        """Whether c = 0 is a fixed point."""
        return self.zeta == 0 and bool(abs(self._at(mpf(0))) < mpf(10) ** -self.digits)

    def _below_one(self, chi: Any) -> Any:
        """The fixed point in (0, 1).

        Newton steps with a fixed slope, from the float64 root, need few kernel evaluations, which may
        be quadratures. Where they do not converge, a bracketing method is used.
        """
        numbers = (np.array([float(v)]) for v in (self.V, self.sigma**2, self.zeta**2))
        c, slope = (mpf(array[0]) for array in limit_correlations(self.act, *numbers))
        tolerance, last = mpf(10) ** (-self.digits - 5), mpf("1e-6")
        while 1 - c > 1e-3:
            step = (self._at(c) - c) / (1 - slope)
            c += step
            if abs(step) < tolerance:
                return c
            if abs(step) > last:
                break
            last = abs(step) / 10

        # Increasing from -f(0) to chi - 1: the trivial root c = 1 is divided out.
        def excess(c: Any) -> Any:
            return chi - 1 if c == 1 else (c - self._at(c)) / (1 - c)

        return mp.findroot(
            excess, (mpf(0), mpf(1)), solver="anderson", tol=tolerance * (chi - 1), maxsteps=500,
            verify=False,
        )  # fmt: skip


def _require_correlation(c: RealNumber) -> Any:
    c = to_mpf(exact_number(symbols.kxy, c))
    if abs(c) > 1:
        raise InputError(f"c = {mp.nstr(c)} was given, but a correlation lies between -1 and 1.")
    return c

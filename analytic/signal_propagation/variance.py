r"""How a layer changes the variance of a signal, and where that ends.

$V \mapsto \sigma^2 F(V) + \zeta^2$ (Poole et al. 2016, (3)). Because
$d\log F/d\log V = (E[t^2\phi^2]/E[\phi^2] - 1)/2 \ge -1/2$, the map never falls faster than that on
a logarithmic scale: it has no cycles, its slope at rest is at least -1/2, and every variance
settles or grows without bound.
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
from analytic.signal_propagation.fixed_points import landscape, origin, origin_slope, resting
from analytic.signal_propagation.scales import number, precise, to_mpf, unless_one


@dataclass(frozen=True)
class FixedPoint:
    """A value that a map keeps, and the slope of the map there."""

    value: Any
    slope: Any

    @property
    def stable(self) -> bool:
        """Whether what is near comes exponentially nearer; at slope 1 it may come nearer slowly."""
        return bool(abs(self.slope) < 1)

    @property
    def scale(self) -> Any:
        """-1/log|slope|: layers in which a distance falls by e; below 0, in which it grows by e."""
        if self.slope == 0 or mp.isinf(self.slope):
            return mpf(0)
        return mp.inf if abs(self.slope) == 1 else -1 / mp.log(abs(self.slope))


@dataclass(frozen=True)
class VarianceMap:
    """V -> sigma^2 F(V) + zeta^2: of a number to all digits, of an array in floats."""

    act: Activation
    sigma: sp.Expr
    zeta: sp.Expr
    digits: int

    def __call__(self, V: Any) -> Any:
        if isinstance(V, np.ndarray):
            with np.errstate(over="ignore"):
                return float(self.sigma**2) * self.act.F.numpy(V) + float(self.zeta**2)
        with precise(self.digits):
            return self._at(to_mpf(number(symbols.V, V)))

    def chi_1(self, V: Any) -> Any:
        """sigma^2 G(V); at V = 0 its limit."""
        with precise(self.digits):
            G = self.act.G.mpmath(V) if V else origin_slope(self.act)
            return unless_one(to_mpf(self.sigma**2) * G, self.digits)

    def slope(self, V: Any) -> Any:
        """sigma^2 F'(V); at V = 0, if that is fixed, F' = G."""
        if not V:
            return self.chi_1(V)
        with precise(self.digits):
            return unless_one(to_mpf(self.sigma**2) * self._rate(V), self.digits)

    @cached_property
    def neutral(self) -> bool:
        """Whether every variance is fixed, as for a ReLU at sigma = sqrt(2), zeta = 0."""
        with precise(self.digits):
            probes = [mpf(1) / 7, mpf(1), mpf(7)]
            return all(abs(self._at(V) / V - 1) < mpf(10) ** -self.digits for V in probes)

    @cached_property
    def fixed_points(self) -> tuple[FixedPoint, ...]:
        """Every fixed variance up to 1e8, ascending; none where the variance always grows."""
        if self.neutral:
            raise InputError(
                f"Every variance is fixed for {self.act.name} at {self._point}: "
                "ask for the fixed_point of a start."
            )
        with precise(self.digits):
            grid, begin = landscape(self.act).V, self._at(mpf(0))
            side = begin or self.chi_1(0) - 1
            found = resting(self._at, self._tilt, grid, self(grid), side, self.digits)
            return tuple(FixedPoint(V, self.slope(V)) for V in ([] if begin else [mpf(0)]) + found)

    def fixed_point(self, start: Any = 1) -> FixedPoint:
        """The one that the variance reaches from a start."""
        start, end = number(symbols.V, start), landscape(self.act).V[-1]
        if self.neutral:
            return FixedPoint(to_mpf(start), mpf(1))
        V = np.array([float(start)])
        for _ in range(100):  # until only the next fixed point on the way is left
            V = np.minimum(self(V), end)
        with precise(self.digits):
            at = mpf(V[0])
            here = [p for p in self.fixed_points if abs(p.value - at) <= mpf("1e-9") * at]
            above = [p for p in self.fixed_points if p.value > at][:1]
            below = [p for p in self.fixed_points if p.value < at][-1:]
            reached = here or (above if self._at(at) > at else below)
        if not reached:
            raise ArithmeticError(
                f"The variance of {self.act.name} grows without bound from {start} at "
                f"{self._point}: nothing holds it up to {end:.0e}; lower sigma or start."
            )
        return reached[0]

    @property
    def _point(self) -> str:
        return f"sigma = {float(self.sigma):.6g}, zeta = {float(self.zeta):.6g}"

    def _at(self, V: Any) -> Any:
        F = self.act.F.mpmath(V) if V else origin(self.act)
        return to_mpf(self.sigma**2) * F + to_mpf(self.zeta**2)

    def _tilt(self, V: Any) -> Any:
        """V M' - M for the map M, which is 0 where M/V turns."""
        return V * to_mpf(self.sigma**2) * self._rate(V) - self._at(V)

    @cached_property
    def _rate(self) -> Any:
        return self.act.F.diff("V").mpmath

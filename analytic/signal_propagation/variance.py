r"""The variance map: how a layer changes the variance of a signal, and its fixed points.

$V \mapsto \sigma^2 F(V) + \zeta^2$ (Poole et al. 2016, (3)). Because
$d\log F/d\log V = (E[t^2\phi^2]/E[\phi^2] - 1)/2 \ge -1/2$, the map never decreases faster than that
on a logarithmic scale: it has no cycles, its slope at a fixed point is at least -1/2, and every
variance converges to a fixed point or grows without bound.
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
from analytic.signal_propagation.fixed_points import (
    F_at_zero,
    G_at_zero,
    fixed_variances,
    moment_grid,
)

__all__ = ["FixedPoint", "VarianceMap"]


@dataclass(frozen=True)
class FixedPoint:
    """A fixed point of a map, and the slope of the map there.

    >>> from analytic.activations import erf
    >>> from analytic.signal_propagation import Signal
    >>> point = Signal(erf, 2, "1/2").variance
    >>> point.stable, round(float(point.depth_scale), 3)
    (True, 0.946)
    """

    value: Any
    slope: Any

    @property
    def stable(self) -> bool:
        """Whether nearby values converge exponentially; at |slope| = 1 they may still, more slowly."""
        return bool(abs(self.slope) < 1)

    @property
    def depth_scale(self) -> Any:
        """-1/log|slope|: layers over which a distance to it falls by a factor e; negative if it grows."""
        if self.slope == 0 or mp.isinf(self.slope):
            return mpf(0)
        return mp.inf if abs(self.slope) == 1 else -1 / mp.log(abs(self.slope))


@dataclass(frozen=True)
class VarianceMap:
    """V -> sigma^2 F(V) + zeta^2: exact to `digits` for a number, in float64 for an array."""

    act: Activation
    sigma: sp.Expr
    zeta: sp.Expr
    digits: int

    def __call__(self, V: RealNumber | np.ndarray) -> Any:
        if isinstance(V, np.ndarray):
            with np.errstate(over="ignore"):
                return float(self.sigma**2) * self.act.F.numpy(V) + float(self.zeta**2)
        with working_precision(self.digits):
            return self._at(to_mpf(exact_number(symbols.V, V)))

    def chi_1(self, V: mpf | int) -> Any:
        """sigma^2 G(V); at V = 0 its limit."""
        with working_precision(self.digits):
            G = self.act.require("G").mpmath(V) if V else G_at_zero(self.act)
            return snap_to_one(to_mpf(self.sigma**2) * G, self.digits)

    def slope(self, V: mpf | int) -> Any:
        """sigma^2 F'(V). V = 0 is a fixed point only if phi(0) = 0, and then F'(0) = G(0)."""
        if not V:
            return self.chi_1(V)
        with working_precision(self.digits):
            return snap_to_one(to_mpf(self.sigma**2) * self._rate(V), self.digits)

    @cached_property
    def neutral(self) -> bool:
        """Whether every variance is fixed, as for a ReLU at sigma = sqrt(2), zeta = 0."""
        with working_precision(self.digits):
            probes = [mpf(1) / 7, mpf(1), mpf(7)]
            return all(abs(self._at(V) / V - 1) < mpf(10) ** -self.digits for V in probes)

    @cached_property
    def fixed_points(self) -> tuple[FixedPoint, ...]:
        """Every fixed point up to V = 1e8, ascending; empty where the variance always grows."""
        if self.neutral:
            raise InputError(
                f"Every variance is fixed for {self.act.name} at {self._point}: "
                "ask for the fixed_point of a start."
            )
        with working_precision(self.digits):
            grid, begin = moment_grid(self.act).V, self._at(mpf(0))
            side = begin or self.chi_1(0) - 1
            positive = fixed_variances(self._at, self._tilt, grid, self(grid), side, self.digits)
            zero = [] if begin else [mpf(0)]
            return tuple(FixedPoint(V, self.slope(V)) for V in zero + positive)

    def fixed_point(self, start: RealNumber = 1) -> FixedPoint:
        """The fixed point that the variance converges to from `start`."""
        start, end = exact_number(symbols.V, start), moment_grid(self.act).V[-1]
        if self.neutral:
            return FixedPoint(to_mpf(start), mpf(1))
        V = np.array([float(start)])
        for _ in range(100):  # then no other fixed point lies between V and the limit
            V = np.minimum(self(V), end)
        with working_precision(self.digits):
            at = mpf(V[0])
            here = [p for p in self.fixed_points if abs(p.value - at) <= mpf("1e-9") * at]
            above = [p for p in self.fixed_points if p.value > at][:1]
            below = [p for p in self.fixed_points if p.value < at][-1:]
            limit = here or (above if self._at(at) > at else below)
        if not limit:
            raise ArithmeticError(
                f"The variance of {self.act.name} grows without bound from {start} at "
                f"{self._point}: nothing holds it up to {end:.0e}; lower sigma or start."
            )
        return limit[0]

    @property
    def _point(self) -> str:
        return f"sigma = {float(self.sigma):.6g}, zeta = {float(self.zeta):.6g}"

    def _at(self, V: Any) -> Any:
        F = self.act.F.mpmath(V) if V else F_at_zero(self.act)
        return to_mpf(self.sigma**2) * F + to_mpf(self.zeta**2)

    def _tilt(self, V: Any) -> Any:
        """V M' - M for the map M, which vanishes where M/V has an extremum."""
        return V * to_mpf(self.sigma**2) * self._rate(V) - self._at(V)

    @cached_property
    def _rate(self) -> Any:
        return self.act.F.diff("V").mpmath

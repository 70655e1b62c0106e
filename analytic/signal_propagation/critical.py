r"""The boundary between order and chaos, $\chi_1 = 1$, as a curve in its own variance.

At rest on it, $\sigma^2 G(V) = 1$ and $V = \sigma^2 F(V) + \zeta^2$, so $\sigma^2 = 1/G(V)$ and
$\zeta^2 = V - F(V)/G(V)$. Signals stay there only if their variance does, $\chi_V = F'/G \le 1$.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp
from mpmath import mp, mpf

from analytic.activations.activation import Activation
from analytic.expressions import symbols
from analytic.expressions.arguments import InputError
from analytic.expressions.formula import Formula
from analytic.signal_propagation.fixed_points import landscape, origin, origin_slope, resting
from analytic.signal_propagation.scales import fixed, number, precise, to_mpf, unless_one

Array = np.ndarray


def critical_line(act: Activation, V_values: Any) -> tuple[Array, Array]:
    """(zeta, sigma) at those of the given variances above 0 where zeta is real and signals stay."""
    fixed(act, "G")
    V = np.asarray(V_values, dtype=float)
    if V.ndim != 1 or not ((V > 0) & np.isfinite(V)).all():
        raise InputError(
            f"V_values must be a list of finite numbers above 0, but {V_values!r} was given."
        )
    F, G = act.F.numpy(V), act.G.numpy(V)
    rate = Formula("F'", act.F.args, sp.diff(act.F.floating, symbols.V)).numpy(V)
    zeta2, rounding = V - F / G, 1e-14 * V
    there = (zeta2 >= -rounding) & (rate <= (1 + 1e-12) * G)
    return np.sqrt(np.maximum(zeta2[there], 0)), 1 / np.sqrt(G[there])


def critical_sigma(act: Activation, zeta: Any, digits: int = 30) -> Any:
    """The sigma of the boundary at a given zeta; the smallest, where order ends, if there are several."""
    fixed(act, "G")
    with precise(digits):
        bias = to_mpf(number(symbols.zeta, zeta) ** 2)
        found = [1 / mp.sqrt(G) for G in _steepness(act, bias, digits)]
    if not found:
        raise ArithmeticError(
            f"{act.name} has no critical sigma at zeta = {zeta}: no variance up to "
            f"{landscape(act).V[-1]:.0e} stays put there with chi_1 = 1."
        )
    return min(found)


def _steepness(act: Activation, bias: Any, digits: int) -> list[Any]:
    """G at every variance on the boundary where signals stay."""
    F, G = act.F.mpmath, act.G.mpmath
    F_rate, G_rate = act.F.diff("V").mpmath, act.G.diff("V").mpmath

    def M(V: Any) -> Any:
        return F(V) / G(V) + bias

    def tilt(V: Any) -> Any:
        """V M' - M."""
        return V * (F_rate(V) - F(V) * G_rate(V) / G(V)) / G(V) - M(V)

    def stays(V: Any) -> bool:
        return unless_one(F_rate(V) / G(V), digits) <= 1

    if all(abs(M(V) / V - 1) < mpf(10) ** -digits for V in (mpf(1) / 7, mpf(1), mpf(7))):
        return [G(mpf(1))] if stays(mpf(1)) else []  # any variance will do
    place = landscape(act)
    with np.errstate(divide="ignore"):
        coarse = place.F / place.G + float(bias)
    begin = origin(act) + bias
    found = [G(V) for V in resting(M, tilt, place.V, coarse, begin, digits) if stays(V)]
    slope, small = origin_slope(act), mpf("1e-6")
    if not begin and 0 < slope < mp.inf and F(small) <= slope * small:  # it comes down to V = 0
        found.append(slope)
    return found

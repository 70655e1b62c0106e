r"""The boundary between order and chaos, $\chi_1 = 1$, as a curve in its own variance.

At a fixed point V on it, $\sigma^2 G(V) = 1$ and $V = \sigma^2 F(V) + \zeta^2$, so $\sigma^2 = 1/G(V)$
and $\zeta^2 = V - F(V)/G(V)$. The variance stays at V only if that is stable, $\chi_V = F'/G \le 1$.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp
from mpmath import mp, mpf

from analytic.activations.activation import Activation
from analytic.expressions import symbols
from analytic.expressions.arguments import ArrayLike, InputError, RealNumber, finite_array, whole
from analytic.expressions.formula import Formula
from analytic.signal_propagation import fixed_points
from analytic.signal_propagation.exact_inputs import (
    exact_number,
    require_fixed_parameters,
    snap_to_one,
    to_mpf,
    working_precision,
)

__all__ = ["critical_line", "critical_sigma"]

Array = np.ndarray


def critical_line(act: Activation, V_values: ArrayLike) -> tuple[Array, Array]:
    """Points (zeta, sigma) of the boundary between order and chaos, from the variances they belong to.

    act: an activation without open parameters.
    V_values: fixed variances V > 0, (n,).

    Returned are the arrays zeta and sigma, at most (n,): left out are variances for which zeta would be
    imaginary, or which are not stable. Numbers that are not above 0 are refused with an InputError.

    >>> from analytic.activations import erf
    >>> from analytic.signal_propagation import critical_line
    >>> zeta, sigma = critical_line(erf, [0.1, 1.0, 10.0])
    >>> sigma.round(4)
    array([1.3118, 1.6495, 2.683 ])
    """
    require_fixed_parameters(act, "G")
    V = finite_array("V_values", V_values)
    if V.ndim != 1 or not (V > 0).all():
        raise InputError(
            f"V_values must be a list of finite numbers above 0, but {V_values!r} was given."
        )
    F, G = act.F.numpy(V), act.require("G").numpy(V)
    rate = Formula("F'", act.F.args, sp.diff(act.F.floating, symbols.V)).numpy(V)
    zeta2, rounding = V - F / G, 1e-14 * V
    admissible = (zeta2 >= -rounding) & (rate <= (1 + 1e-12) * G)
    return np.sqrt(np.maximum(zeta2[admissible], 0)), 1 / np.sqrt(G[admissible])


def critical_sigma(act: Activation, zeta: RealNumber, digits: int = 30) -> mpf:
    """The sigma at which chi_1 = 1 for this zeta; if there are several, the smallest, where order ends.

    act: an activation without open parameters.
    zeta: standard deviation of the biases, read exactly.
    digits: how many of the result are correct.

    Returned is an mpf. A zeta below 0 is refused with an InputError; where no variance is critical, there
    is an ArithmeticError.

    >>> from analytic.activations import relu
    >>> from analytic.signal_propagation import critical_sigma
    >>> round(float(critical_sigma(relu, 0)) ** 2, 12)
    2.0
    """
    require_fixed_parameters(act, "G")
    whole("digits", digits)
    with working_precision(digits):
        bias = to_mpf(exact_number(symbols.zeta, zeta) ** 2)
        sigmas = [1 / mp.sqrt(G) for G in _critical_G(act, bias, digits)]
    if not sigmas:
        raise ArithmeticError(
            f"{act.name} has no critical sigma at zeta = {zeta}: no variance up to "
            f"{fixed_points.moment_grid(act).V[-1]:.0e} stays put there with chi_1 = 1."
        )
    return min(sigmas)


def _critical_G(act: Activation, bias: Any, digits: int) -> list[Any]:
    """G at every stable variance on the boundary with zeta^2 = `bias`."""
    moments = act.F, act.require("G")
    F, G = (moment.mpmath for moment in moments)
    F_rate, G_rate = (moment.diff("V").mpmath for moment in moments)

    def M(V: Any) -> Any:
        return F(V) / G(V) + bias

    def tilt(V: Any) -> Any:
        """V M' - M."""
        return V * (F_rate(V) - F(V) * G_rate(V) / G(V)) / G(V) - M(V)

    def is_stable(V: Any) -> bool:
        return snap_to_one(F_rate(V) / G(V), digits) <= 1

    if all(abs(M(V) / V - 1) < mpf(10) ** -digits for V in (mpf(1) / 7, mpf(1), mpf(7))):
        return [G(mpf(1))] if is_stable(mpf(1)) else []  # every V is fixed, with one G for all
    table = fixed_points.moment_grid(act)
    with np.errstate(divide="ignore"):
        coarse = table.F / table.G + float(bias)
    begin = fixed_points.F_at_zero(act) + bias
    variances = fixed_points.fixed_variances(M, tilt, table.V, coarse, begin, digits)
    values = [G(V) for V in variances if is_stable(V)]
    slope, small = fixed_points.G_at_zero(act), mpf("1e-6")
    # F below its tangent at 0: the variance decreases to the fixed point V = 0.
    if not begin and 0 < slope < mp.inf and F(small) <= slope * small:
        values.append(slope)
    return values

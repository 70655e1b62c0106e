"""Fixed points of a positive map M of the variance: all V with M(V) = V, to any number of digits.

Changes of sign of log(M(V)/V) on a grid of floats bracket the fixed points; mpmath refines them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from mpmath import mp, mpf

from analytic.activations.activation import Activation
from analytic.expressions.expectation import Moment

__all__ = ["F_at_zero", "G_at_zero", "MomentGrid", "fixed_variances", "moment_grid"]

Array = np.ndarray
LOW, HIGH, PER_DECADE = -12, 8, 60  # V is searched from 1e-12 to 1e8, with 60 points per decade
SIGN_UNCERTAIN = 1e-12  # the sign of a smaller float may be due to rounding


@dataclass(frozen=True)
class MomentGrid:
    """F = E[phi^2] and G = E[phi'^2] on a logarithmic grid of V, up to where floats overflow."""

    V: Array
    F: Array
    G: Array
    G0: float  # the limit of G at V = 0


@lru_cache
def moment_grid(act: Activation) -> MomentGrid:
    """Tabulate F and G of an activation on the grid that is searched for fixed points."""
    rows = []
    for decade in range(LOW, HIGH):
        V = np.logspace(decade, decade + 1, PER_DECADE, endpoint=False)
        try:
            rows.append((V, act.F.numpy(V), act.require("G").numpy(V)))
        except ArithmeticError:  # the float quadrature does not resolve phi at this variance
            break
        if not np.isfinite(rows[-1][1:]).all():
            break
    V, F, G = (np.concatenate(column) for column in zip(*rows, strict=True))
    usable = np.isfinite(F) & np.isfinite(G) & (F > 0)
    return MomentGrid(V[usable], F[usable], G[usable], float(G_at_zero(act)))


def F_at_zero(act: Activation) -> Any:
    """F(0) = phi(0)^2. A closed form of F may be 0/0 at V = 0, so it is not used."""
    return mp.mpmathify(act.phi.mpmath(mpf(0))) ** 2


def G_at_zero(act: Activation) -> Any:
    r"""$\lim_{V\to0} G$, the mean square of the left and right slopes of phi at 0.

    Where phi(0) = 0, this is F'(0) as well.
    """
    G = act.require("G")
    if not G.expr.has(Moment):  # a quadrature at V = 0 would see one side of a kink only
        with suppress(ZeroDivisionError):  # the closed form is 0/0 at V = 0: take the limit below
            return mp.mpmathify(G.mpmath(mpf(0)))
    near, nearer = (G.mpmath(mpf(10) ** (-k * mp.dps)) for k in (2, 4))
    return mp.inf if nearer > near * (1 + mpf("1e-9")) else nearer


def fixed_variances(
    M: Callable[[Any], Any],
    tilt: Callable[[Any], Any],
    V: Array,
    coarse: Array,
    begin: Any,
    digits: int,
) -> list[Any]:
    """All V > 0 with M(V) = V up to the end of the grid, ascending.

    `coarse` is M on the grid `V` in floats. `tilt` is V M' - M, which vanishes where M/V has an
    extremum. The sign of `begin` is that of M(V) - V near V = 0, and 0 if M is tangent to the
    diagonal there.
    """

    def gap(V: Any) -> Any:  # 0 at a fixed point
        return mp.log(M(V) / V)

    def sign(V: Any) -> int:
        value = gap(V)
        return 0 if abs(value) < mpf(10) ** -digits else int(mp.sign(value))

    with np.errstate(divide="ignore"):
        floats = np.log(coarse / V)
    # Skip the grid points near V = 0 where M cannot be distinguished from the diagonal.
    tangent = np.argmin(np.append(abs(floats) < SIGN_UNCERTAIN, False))
    V, floats = V[tangent:], floats[tangent:]
    signs = [
        (mpf(v), sign(mpf(v)) if abs(g) < SIGN_UNCERTAIN else int(np.sign(g)))
        for v, g in zip(V, floats)
    ]
    for k in _near_tangencies(floats):
        left, right = mpf(V[k - 1]), mpf(V[k + 1])
        if tilt(left) * tilt(right) < 0:
            extremum = _root_between(tilt, left, right, digits)
            signs.append((extremum, sign(extremum)))
    if begin:
        signs.append((mpf(10) ** (-2 * mp.dps), int(mp.sign(begin))))
    signs.sort()
    roots = [v for v, side in signs if side == 0]
    for (a, left), (b, right) in pairwise(signs):
        if left * right < 0:
            roots.append(_root_between(gap, a, b, digits))
    return sorted(roots)


def _near_tangencies(gap: Array) -> Array:
    """Grid points where |gap| has a small local minimum without a change of sign.

    Between the neighbours of such a point there may be two roots, one double root, or none.
    """
    size = abs(gap)
    near = (size[1:-1] < 0.05) & (size[1:-1] < np.minimum(size[:-2], size[2:]) - 1e-7)
    side = np.sign(gap)
    same = (side[:-2] == side[1:-1]) & (side[1:-1] == side[2:]) & (size[1:-1] >= SIGN_UNCERTAIN)
    return 1 + np.flatnonzero(near & same)


def _root_between(f: Callable[[Any], Any], a: Any, b: Any, digits: int) -> Any:
    """The root of f between two variances, searched on a logarithmic scale."""
    ends = (mp.log(a), mp.log(b))
    tolerance = mpf(10) ** (-digits - 10)
    return mp.exp(
        mp.findroot(
            lambda x: f(mp.exp(x)),
            ends,
            solver="anderson",
            tol=tolerance,
            maxsteps=500,
            verify=False,
        )
    )

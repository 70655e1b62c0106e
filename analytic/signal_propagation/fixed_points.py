"""Where a positive map M of the variance rests: all V with M(V) = V, in floats and to any digits."""

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

Array = np.ndarray
LOW, HIGH, PER_DECADE = -12, 8, 60  # decades of V that are searched
UNSURE = 1e-12  # below, rounding may have set the sign of a float


@dataclass(frozen=True)
class Landscape:
    """F = E[phi^2] and G = E[phi'^2] on a logarithmic grid of V, as far as floats follow them."""

    V: Array
    F: Array
    G: Array
    G0: float  # the limit of G at V = 0


@lru_cache
def landscape(act: Activation) -> Landscape:
    rows = []
    for decade in range(LOW, HIGH):
        V = np.logspace(decade, decade + 1, PER_DECADE, endpoint=False)
        try:
            rows.append((V, act.F.numpy(V), act.G.numpy(V)))
        except ArithmeticError:  # too steep or too fast a phi for this variance
            break
        if not np.isfinite(rows[-1][1:]).all():
            break
    V, F, G = (np.concatenate(column) for column in zip(*rows, strict=True))
    seen = np.isfinite(F) & np.isfinite(G) & (F > 0)
    return Landscape(V[seen], F[seen], G[seen], float(origin_slope(act)))


def origin(act: Activation) -> Any:
    """F(0) = phi(0)^2, which a closed form of F may reach as a limit only."""
    return mp.mpmathify(act.phi.mpmath(mpf(0))) ** 2


def origin_slope(act: Activation) -> Any:
    r"""$\lim_{V\to0} G$; where phi(0) = 0 it is F'(0) too, the mean square of phi's two slopes at 0."""
    if not act.G.expr.has(Moment):  # at V = 0 itself a quadrature sees one side of a kink only
        with suppress(ZeroDivisionError):  # a limit only
            return mp.mpmathify(act.G.mpmath(mpf(0)))
    near, nearer = (act.G.mpmath(mpf(10) ** (-k * mp.dps)) for k in (2, 4))
    return mp.inf if nearer > near * (1 + mpf("1e-9")) else nearer


def resting(
    M: Callable[[Any], Any],
    tilt: Callable[[Any], Any],
    V: Array,
    coarse: Array,
    begin: Any,
    digits: int,
) -> list[Any]:
    """All V > 0 with M(V) = V between the origin and the end of the grid, ascending.

    `coarse` is M on the grid in floats, `tilt` is V M' - M, whose zeros are where M/V turns, and
    the sign of `begin` tells on which side of the diagonal M begins, 0 where it begins along it.
    """

    def gap(V: Any) -> Any:
        return mp.log(M(V) / V)

    def sign(V: Any) -> int:
        value = gap(V)
        return 0 if abs(value) < mpf(10) ** -digits else int(mp.sign(value))

    with np.errstate(divide="ignore"):
        floats = np.log(coarse / V)
    along = np.argmin(np.append(abs(floats) < UNSURE, False))  # begins along the diagonal so far
    V, floats = V[along:], floats[along:]
    marks = [
        (mpf(v), sign(mpf(v)) if abs(g) < UNSURE else int(np.sign(g))) for v, g in zip(V, floats)
    ]
    for k in _dips(floats):
        left, right = mpf(V[k - 1]), mpf(V[k + 1])
        if tilt(left) * tilt(right) < 0:
            turn = _bracketed(tilt, left, right, digits)
            marks.append((turn, sign(turn)))
    if begin:
        marks.append((mpf(10) ** (-2 * mp.dps), int(mp.sign(begin))))
    marks.sort()
    found = [v for v, side in marks if side == 0]
    for (a, left), (b, right) in pairwise(marks):
        if left * right < 0:
            found.append(_bracketed(gap, a, b, digits))
    return sorted(found)


def _dips(gap: Array) -> Array:
    """Grid points where the gap comes near zero without a change of sign: two roots, one, or none."""
    size = abs(gap)
    near = (size[1:-1] < 0.05) & (size[1:-1] < np.minimum(size[:-2], size[2:]) - 1e-7)
    side = np.sign(gap)
    same = (side[:-2] == side[1:-1]) & (side[1:-1] == side[2:]) & (size[1:-1] >= UNSURE)
    return 1 + np.flatnonzero(near & same)


def _bracketed(f: Callable[[Any], Any], a: Any, b: Any, digits: int) -> Any:
    """The root between two variances, on a logarithmic scale."""
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

"""What deep geometry tends to at x = 0, where it may vanish, have a pole, or go with |x|."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import mp, mpf

from analytic.twofold import Twofold

STEPS = {1: 8 / 3, 4: -2, 16: 1 / 3}  # a parabola in |x| through three points, at |x| = 0
NEAR = 1e-16  # the variance at the first of them
NOWHERE = 1e-60  # |x|^2 that changes nothing beside a bias


def at_origin(at: Callable[[Any], Any]) -> Any:
    """The limit of a function of s = |x|^2 on mpmath numbers, or nearly; more precision brings it closer."""
    digits = mp.dps
    with mp.workdps(4 * digits):  # powers of s cancel in it
        near = mpf(10) ** (-digits // 2)
        far, close = at(near), at(near**2)
    if abs(close - far) <= abs(close) / 10:
        return close
    if abs(close) < abs(far):
        return mpf(0)
    raise ZeroDivisionError


def with_origin(at: Callable[[Twofold], Any], s: Twofold, sigma: Twofold, zeta: Twofold) -> Any:
    """A function of s on arrays that may hold zeros; a pole is infinite there.

    Biases make it even in x. Without them it may go with |x|, or with a power of it.
    """
    xp, origin = s.xp, s.high == 0
    if not origin.any():
        return at(s)
    bare = zeta.high + 0.0 * s.high == 0
    start = xp.where(bare, NEAR / sigma.high**2, NOWHERE)

    def off(step: int) -> Twofold:
        return Twofold(xp, xp.where(origin, step * start, s.high), xp.where(origin, 0.0, s.low))

    if not (origin & bare).any():
        return at(off(1))
    values = {step: at(off(step)) for step in STEPS}
    near, far = values[1], values[4]
    smooth = sum(weight * values[step] for step, weight in STEPS.items())
    pole = xp.where(near > 0, float("inf"), -float("inf"))
    power = xp.where(abs(near) < abs(far), 0.0, pole)
    limit = xp.where(abs(near - far) <= 1e-3 * abs(far), smooth, power)
    return xp.where(origin & bare, limit, near)

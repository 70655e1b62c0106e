"""Deep geometry at x = 0, where it may vanish, have a pole, or go with |x|, and where floats end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from mpmath import mp, mpf

from analytic.expressions.twofold import Twofold
from analytic.geometry.deep.recursion import Layer
from analytic.geometry.kernel_jet import Germ

SQUARINGS = 6  # of |x|^2, on the way to a limit in many digits
STEPS = {1: 8 / 3, 4: -2, 16: 1 / 3}  # a parabola in |x| through three points, at |x| = 0
NEAR = 1e-16, 1e-3  # the largest variance at the first of them, and what moves a finite limit there
ROUGH = 1e-7, 0.05  # the same for quadratures, whose digits are those of floats
BESIDE = 1e-40  # a part of a bias that changes nothing
DEGENERATE = 1e-20  # twofold numbers have 32 digits: divided by less, they keep no 12
FAINT = 1e-30  # a variance that twofold numbers still see beside 1


def at_origin(at: Callable[[Any], Any]) -> Any:
    """The limit of a function of s = |x|^2 on mpmath numbers, or nearly; more precision brings it closer.

    Later layers amplify x, so s is squared until the value stays, or goes with a power of s, whose
    logarithm doubles each time; a negative power is a pole.
    """
    digits, values = mp.dps, []
    for power in range(SQUARINGS):
        exponent = 2**power * (digits // 2)
        with mp.workdps(4 * max(digits, exponent)):  # powers of s cancel in it
            values.append(at(mpf(10) ** -exponent))
        *_, far, near = [None, *values]
        if far is not None and abs(near - far) <= abs(near) / 10:
            return near
        if len(values) > 2 and (slope := _power_law(*values[-3:])):
            if slope < 0:
                return mpf(0)
            raise ZeroDivisionError
    raise ZeroDivisionError


def _power_law(far: Any, middle: Any, near: Any) -> int:
    """The sign of the growth where it is one power of s from end to end; 0 where it is none."""
    if not (far and middle and near):
        return 0
    first, second = mp.log(abs(middle / far)), mp.log(abs(near / middle))
    return int(mp.sign(first)) if abs(second - 2 * first) <= abs(first) / 5 else 0


def with_origin(
    at: Callable[[Twofold], Any], s: Twofold, layers: Sequence[Layer], tangent: bool, rough: bool
) -> Any:
    """A function of s on arrays that may hold zeros; a pole is infinite there.

    Where x is not 0, but its variance too small to be seen beside 1, the value is NaN.
    Biases make it even in x. Without them it may go with |x|, or with a power of it. Later layers
    amplify what x does, and in a tangent kernel their slopes do so once more.
    """
    xp, origin, first = s.xp, s.high == 0, layers[0]
    seen = origin | (first.sigma.high**2 * s.high + first.zeta.high**2 > FAINT)
    return xp.where(seen, _limits(at, s, layers, tangent, rough), float("nan"))


def _limits(
    at: Callable[[Twofold], Any], s: Twofold, layers: Sequence[Layer], tangent: bool, rough: bool
) -> Any:
    xp, origin, first = s.xp, s.high == 0, layers[0]
    if not _any(origin):
        return at(s)
    bare = first.zeta.high + 0.0 * s.high == 0
    variance, moves = ROUGH if rough else NEAR
    start = variance / _amplified(layers, tangent, variance + 0.0 * s.high, xp)
    start = xp.where(bare, start, BESIDE * first.zeta.high**2) / first.sigma.high**2

    def off(step: int) -> Twofold:
        return Twofold(xp, xp.where(origin, step * start, s.high), xp.where(origin, 0.0, s.low))

    if not _any(origin & bare):
        return at(off(1))
    values = {step: at(off(step)) for step in STEPS}
    near, far = values[1], values[4]
    smooth = sum(weight * values[step] for step, weight in STEPS.items())
    pole = near * float("inf")  # of its sign, and NaN beyond the range of floats
    power = xp.where(abs(near) < abs(far), 0.0, pole)
    limit = xp.where(abs(near - far) <= moves * abs(far), smooth, power)
    return xp.where(origin & bare, limit, near)


def _amplified(layers: Sequence[Layer], tangent: bool, variance: Any, xp: Any) -> Any:
    """How much larger than the first the variance of a later layer may be, or its square."""
    small, total = Twofold(xp, variance), 1.0 + 0.0 * variance
    for layer, after in pairwise(layers):
        found = layer.plain(small)
        rates = [found.g, found.first * found.f / small] if tangent else [found.g]
        for rate in rates:
            growth = abs((after.sigma**2 * rate).high) ** (1 + tangent)
            total = xp.where(growth > 1, total * growth, total)
    return total


def where_regular(germ: Germ, value: Any) -> Any:
    """NaN where the eigenvalue of the metric along x has no digits beside the one across it."""
    stretch = germ.stretch
    return stretch.xp.where(stretch.high > DEGENERATE, value, float("nan"))


def _any(mask: Any) -> bool:
    try:
        return bool(mask.any())
    except RuntimeError:  # torch.func.vmap hides its values, so let all cases be computed
        return True

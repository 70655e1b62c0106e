"""Limits at x = 0, where deep geometry may vanish, have a pole or be linear in |x|, and where floats fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mpmath import mp, mpf

from analytic.expressions.twofold import Twofold
from analytic.geometry.deep.recursion import Layer
from analytic.geometry.kernel_jet import KernelJet

__all__ = ["LimitAtOrigin", "at_origin", "where_regular"]

SQUARINGS = 6  # how often s = |x|^2 is squared on the way to a limit on mpmath numbers
# A parabola in |x| through three points, extrapolated to |x| = 0: multiples of s, and weights.
STEPS = {1: 8 / 3, 4: -2, 16: 1 / 3}
# The largest variance at the smallest s, and the relative change between the first two steps
# up to which a limit counts as finite: for closed forms, and for quadratures, which have 16 digits.
CLOSED_FORMS = 1e-16, 1e-3
QUADRATURES = 1e-7, 0.05
NEGLIGIBLE_SHARE = 1e-40  # of zeta^2: a variance so small beside the bias that it changes nothing
DEGENERATE = 1e-20  # twofold numbers have 32 digits: divided by less than this, 12 are not left
SMALLEST_VARIANCE = 1e-30  # a smaller one has too few of the 32 digits when it is added to 1


def at_origin(f: Callable[[Any], Any]) -> Any:
    """The limit at s = 0 of a function of s = |x|^2, on mpmath numbers; a pole is a ZeroDivisionError.

    Later layers amplify x, so s is squared until two values agree to a tenth: then the last, at an s
    that is smaller the higher the precision, is taken for the limit. If instead the values follow a
    power of s, so that their logarithms double each time, the limit is 0 or there is a pole.
    """
    digits, values = mp.dps, []
    for power in range(SQUARINGS):
        exponent = 2**power * (digits // 2)
        with mp.workdps(4 * max(digits, exponent)):  # terms in powers of s cancel
            values.append(f(mpf(10) ** -exponent))
        near = values[-1]
        if len(values) > 1 and abs(near - values[-2]) <= abs(near) / 10:
            return near
        if len(values) > 2 and (growth := _power_law(*values[-3:])):
            if growth < 0:
                return mpf(0)
            raise ZeroDivisionError
    raise ZeroDivisionError


def _power_law(far: Any, middle: Any, near: Any) -> int:
    """Whether three values at s, s^2, s^4 follow a power of s: 1 if they grow, -1 if they fall, else 0."""
    if not (far and middle and near):
        return 0
    first, second = mp.log(abs(middle / far)), mp.log(abs(near / middle))
    return int(mp.sign(first)) if abs(second - 2 * first) <= abs(first) / 5 else 0


@dataclass(frozen=True)
class LimitAtOrigin:
    """Functions of s = |x|^2 on arrays that may contain 0, where they are replaced by their limits.

    `layers` are those of the network, `tangent` says that the functions belong to its NTK, `quadratures`
    that a moment is no closed form.
    """

    layers: Sequence[Layer]
    tangent: bool
    quadratures: bool

    def __call__(self, f: Callable[[Twofold], Any], s: Twofold) -> Any:
        """f(s), or its limit; a pole is infinite.

        Where x is not 0, but its variance is too small for twofold numbers, the value is NaN.
        """
        xp, origin, first = s.xp, s.high == 0, self.layers[0]
        variance = first.sigma.high**2 * s.high + first.zeta.high**2
        resolved = origin | (variance > SMALLEST_VARIANCE)
        return xp.where(resolved, self._with_limits(f, s), float("nan"))

    def _with_limits(self, f: Callable[[Twofold], Any], s: Twofold) -> Any:
        """f(s), with limits at s = 0.

        With a bias f is smooth in s there, and a tiny s will do. Without one it may be linear in |x|, or
        follow a power of |x|: it is computed at three values of s so small that also the last layer,
        which sees x amplified by all before, is near its origin.
        """
        xp, origin, first = s.xp, s.high == 0, self.layers[0]
        if not _any(origin):
            return f(s)
        no_bias = first.zeta.high + 0.0 * s.high == 0
        variance, tolerance = QUADRATURES if self.quadratures else CLOSED_FORMS
        smallest = variance / self._amplification(variance + 0.0 * s.high, xp)
        smallest = xp.where(no_bias, smallest, NEGLIGIBLE_SHARE * first.zeta.high**2)
        smallest = smallest / first.sigma.high**2
        if not _any(origin & no_bias):
            return f(_off_origin(s, smallest))
        values = {step: f(_off_origin(s, step * smallest)) for step in STEPS}
        near, far = values[1], values[4]
        extrapolated = sum(weight * values[step] for step, weight in STEPS.items())
        pole = near * float("inf")  # with the sign of near; NaN where near is 0 or NaN
        power_law = xp.where(abs(near) < abs(far), 0.0, pole)
        limit = xp.where(abs(near - far) <= tolerance * abs(far), extrapolated, power_law)
        return xp.where(origin & no_bias, limit, near)

    def _amplification(self, variance: Any, xp: Any) -> Any:
        """A bound on how much later layers amplify the variance of the first.

        In a tangent kernel the derivative layers amplify it too, so each factor is squared.
        """
        small, total = Twofold(xp, variance), 1.0 + 0.0 * variance
        for layer, after in pairwise(self.layers):
            moments = layer.moments(small)
            rates = [moments.G]
            if self.tangent:
                rates.append(moments.eps_F * moments.F / small)  # F'(V)
            for rate in rates:
                growth = abs((after.sigma**2 * rate).high) ** (1 + self.tangent)
                total = xp.where(growth > 1, total * growth, total)
        return total


def _off_origin(s: Twofold, smallest: Any) -> Twofold:
    """s, with `smallest` in place of 0."""
    xp, origin = s.xp, s.high == 0
    return Twofold(xp, xp.where(origin, smallest, s.high), xp.where(origin, 0.0, s.low))


def where_regular(jet: KernelJet, value: Any) -> Any:
    """The value, or NaN where the metric is too degenerate along x for it to have correct digits."""
    ratio = jet.eigenvalue_ratio
    return ratio.xp.where(ratio.high > DEGENERATE, value, float("nan"))


def _any(mask: Any) -> bool:
    try:
        return bool(mask.any())
    except RuntimeError:  # torch.func.vmap hides its values, so let all cases be computed
        return True

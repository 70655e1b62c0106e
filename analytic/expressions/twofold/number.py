"""Numbers of twice the digits of a float: an unevaluated sum of two, on numpy and torch alike."""

from __future__ import annotations

import math
from typing import Any

from mpmath import mp

from analytic.expressions.special.exact_floats import halves, product_error, two_product, two_sum

__all__ = ["Twofold", "constant", "renormalised"]


class Twofold:
    """high + low, with low below the last digit of high: about 32 digits.

    Operators take twofolds and plain numbers, which count as exact. Beyond 1e292 products may be
    NaN. Error terms have no derivative, so that torch finds gradients, with the digits of floats.
    """

    __array_ufunc__ = None  # numpy leaves the operators to this class
    __slots__ = ("_halves", "high", "low", "xp")

    def __init__(self, xp: Any, high: Any, low: Any = 0.0) -> None:
        self.xp, self.high, self.low = xp, high, low
        self._halves: tuple[Any, Any] | None = None

    @property
    def halves(self) -> tuple[Any, Any]:
        """Those of high, cached because most numbers are factors more than once."""
        if self._halves is None:
            self._halves = halves(self.high)
        return self._halves

    def __add__(self, other: Any) -> Twofold:
        if isinstance(other, Twofold):
            high, low = two_sum(self.high, other.high)
            return renormalised(self.xp or other.xp, high, low + (self.low + other.low))
        if _is(other, 0):
            return self
        high, low = two_sum(self.high, other)
        return renormalised(self.xp, high, low + self.low)

    def __mul__(self, other: Any) -> Any:
        """Times the number 0 this is the int 0; times a power of two it is exact."""
        if isinstance(other, Twofold):
            high = self.high * other.high
            low = product_error(high, self.halves, other.halves)
            low = low + (self.high * other.low + self.low * other.high)
            return renormalised(self.xp or other.xp, high, low)
        if _is(other, 0):
            return 0
        if isinstance(other, int | float) and abs(math.frexp(other)[0]) == 0.5:
            return Twofold(self.xp, self.high * other, self.low * other)
        high = self.high * other
        low = product_error(high, self.halves, halves(other))
        return renormalised(self.xp, high, low + self.low * other)

    def __truediv__(self, other: Any) -> Twofold:
        by = other if isinstance(other, Twofold) else Twofold(self.xp, other)
        near = self.high / by.high
        return renormalised(self.xp or by.xp, near, (self - by * near).high / by.high)

    def __pow__(self, power: int | float) -> Any:
        if power < 0:
            return 1 / self**-power
        if power == int(power):
            return _whole_power(self, int(power))
        if 2 * power == int(2 * power):
            return _whole_power(self.sqrt(), int(2 * power))
        from analytic.expressions.twofold.functions import exp, log

        return exp(log(self) * power)

    def sqrt(self) -> Twofold:
        root = self.xp.sqrt(self.high)
        remainder = self - Twofold(self.xp, *two_product(root, root))
        return renormalised(
            self.xp, root, remainder.high / (2 * self.xp.where(root > 0, root, 1.0))
        )

    def __neg__(self) -> Twofold:
        return Twofold(self.xp, -self.high, -self.low)

    def __sub__(self, other: Any) -> Twofold:
        return self + -other

    def __rsub__(self, other: Any) -> Twofold:
        return -self + other

    def __rtruediv__(self, other: Any) -> Twofold:
        return Twofold(self.xp, other) / self

    __radd__, __rmul__ = __add__, __mul__


def renormalised(xp: Any, high: Any, low: Any) -> Twofold:
    """high + low as a twofold number, renormalised so that low is below the last digit of high."""
    total = high + low
    return Twofold(xp, total, low - (total - high))


def constant(value: Any) -> Twofold:
    """A number of SymPy or mpmath, or text, to 32 digits."""
    with mp.workdps(40):
        exact = mp.mpmathify(value)
        high = float(exact)
        return Twofold(None, high, float(exact - high))


def _is(value: Any, number: int) -> bool:
    """Whether a value is a plain number, not an array, and equal to this one."""
    return isinstance(value, int | float) and value == number


def _whole_power(base: Twofold, power: int) -> Any:
    result = 1
    while power:
        if power % 2:
            result = base * result
        power //= 2
        base = base * base if power else base
    return result

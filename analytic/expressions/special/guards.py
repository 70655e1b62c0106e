"""Elementary functions written so that no float cancels, overflows or divides zero by zero."""

from __future__ import annotations

import math
from typing import Any

import sympy as sp
from mpmath import mp
from sympy.core.function import ArgumentIndexError

from analytic.expressions.special.exact_floats import two_product, two_sum

__all__ = [
    "bernoulli", "bounded_exp", "expm1", "gram_det", "log1p", "log_variance", "off_origin", "share",
    "sine_excess", "volume",
]  # fmt: skip

MOST_BITS = 100_000  # of the exponent of a number in mpmath, beyond which memory runs out


def bounded_exp(x: Any) -> Any:
    """e^x in mpmath, with an OverflowError for an x so large that mpmath would abort the process."""
    if mp.isfinite(x) and mp.mag(x) > MOST_BITS:
        raise OverflowError(f"e^x has no representable exponent for x of {mp.mag(x)} bits.")
    return mp.exp(x)


class share(sp.Function):
    """The share t / (t + z) of t >= 0 in a sum, which is `corner` where both vanish."""

    @staticmethod
    def exact(t: Any, z: Any, corner: Any) -> Any:
        return t / (t + z) if t + z != 0 else t + corner

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        t, z, _ = self.args
        return (z, -t)[argindex - 1] / (t + z) ** 2

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        t, z, _ = self.args
        body = rf"\frac{{{printer.doprint(t)}}}{{{printer.doprint(t + z)}}}"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"

    @staticmethod
    def array(xp: Any, t: Any, z: Any, corner: Any) -> Any:
        total = t + z
        return xp.where(total > 0, t / xp.where(total > 0, total, 1.0), corner)


class off_origin(sp.Function):
    """s = |x|^2, but in floats no smaller than a tiny number, at which a limit at x = 0 is reached."""

    @staticmethod
    def exact(s: Any) -> Any:
        return s

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return sp.S.One

    @staticmethod
    def array(xp: Any, s: Any) -> Any:
        least = 1e-14 if s.dtype == xp.float32 else 1e-60
        return xp.where(s > least, s, least)


class expm1(sp.Function):
    """e^x - 1, exact near zero."""

    @staticmethod
    def exact(x: Any) -> Any:
        return sp.exp(x) - 1

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return sp.exp(self.args[0])

    @staticmethod
    def array(xp: Any, x: Any) -> Any:
        return xp.expm1(x)


class sine_excess(sp.Function):
    """sin a - a cos a, which is a^3/3 for a small angle."""

    @staticmethod
    def exact(a: Any) -> Any:
        return sp.sin(a) - a * sp.cos(a)

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return self.args[0] * sp.sin(self.args[0])

    @staticmethod
    def array(xp: Any, a: Any) -> Any:
        series = 0.0 * a
        for k in range(12, 0, -1):  # sum over k of (-1)^(k+1) 2k a^(2k+1) / (2k+1)!
            series = (-1) ** (k + 1) * 2 * k / math.factorial(2 * k + 1) + a * a * series
        return xp.where(abs(a) < 1.0, a**3 * series, xp.sin(a) - a * xp.cos(a))


class log1p(sp.Function):
    """log(1 + x), exact near zero."""

    @staticmethod
    def exact(x: Any) -> Any:
        return sp.log(1 + x)

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return 1 / (1 + self.args[0])

    @staticmethod
    def array(xp: Any, x: Any) -> Any:
        return xp.log1p(x)


class gram_det(sp.Function):
    """a b - c^2 of a positive semidefinite pair, without losing digits when it nearly vanishes."""

    @staticmethod
    def exact(a: Any, b: Any, c: Any) -> Any:
        return a * b - c**2

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        a, b, c = self.args
        return (b, a, -2 * c)[argindex - 1]

    @staticmethod
    def array(xp: Any, a: Any, b: Any, c: Any) -> Any:
        (p, p_low), (m, m_low) = two_product(a, b), two_product(c, c)
        value = (p - m) + (p_low - m_low)
        value = xp.where(
            xp.isfinite(value), value, a * b - c * c
        )  # beyond 1e300 the splitting of two_product overflows
        below = xp.where(value < 0, value, 0.0)
        # A negative value is a rounding error: it is set to 0, but the gradient is not.
        return value - (below.detach() if hasattr(below, "detach") else below)


class log_variance(sp.Function):
    """p log(sigma^2 r^2 + zeta^2), right to the last digit of the sum; 0 for p = 0 even at log 0."""

    @staticmethod
    def exact(p: Any, sigma: Any, r: Any, zeta: Any) -> Any:
        return p * sp.log(sigma**2 * r**2 + zeta**2)

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        p, sigma, r, zeta = self.args
        V = sigma**2 * r**2 + zeta**2
        inner = (2 * sigma * r**2, 2 * sigma**2 * r, 2 * zeta)
        return sp.log(V) if argindex == 1 else p * inner[argindex - 2] / V

    @staticmethod
    def array(xp: Any, p: Any, sigma: Any, r: Any, zeta: Any) -> Any:
        m, m_low = two_product(sigma, r)
        (mm, mm_low), (zz, zz_low) = two_product(m, m), two_product(zeta, zeta)
        total, low = two_sum(mm, zz)
        low = low + (mm_low + 2 * m * m_low + zz_low)
        inside = (total > 1e-280) & (total < 1e280) & xp.isfinite(low)
        safe = xp.where(inside, total, 1.0)
        near = xp.log(safe) + xp.where(inside, low, 0.0) / safe
        # Where squares leave the range of floats, add logarithms; elsewhere 1.0 avoids log(0).
        vanishes = (m == 0) & (zeta == 0)
        u = xp.log(sigma) + xp.log(xp.where(inside | vanishes, 1.0, r))
        v = xp.log(xp.where(inside | vanishes, 1.0, zeta))
        top = xp.where(u > v, u, v)
        gap = xp.where(xp.isfinite(u) & xp.isfinite(v), abs(u - v), float("inf"))
        value = xp.where(inside, near, 2 * top + xp.log1p(xp.exp(-2 * gap)))
        value = xp.where(vanishes, -float("inf"), value)
        return xp.where(p + 0.0 * total == 0, 0.0, p * value)


class volume(sp.Function):
    """A^(d/2) sqrt(P), through log A where a power of A would leave the range of floats."""

    @staticmethod
    def exact(A: Any, log_A: Any, P: Any, d: Any) -> Any:
        return A ** (d / 2) * sp.sqrt(P)

    @staticmethod
    def array(xp: Any, A: Any, log_A: Any, P: Any, d: Any) -> Any:
        inside = (d <= 64) & (abs(log_A) < 600) & (d * abs(log_A) < 1200) | (A == 0)
        direct = xp.where(inside, A, 1.0) ** (d / 2) * xp.sqrt(P)
        through_logs = xp.exp((d * xp.where(inside, 0.0, log_A) + xp.log(P)) / 2)
        return xp.where(inside, direct, through_logs)


class bernoulli(sp.Function):
    """Derivatives of x / (e^x - 1): order 0 is the function itself, order 1 is minus its slope."""

    host = (0,)

    @staticmethod
    def exact(order: Any, x: Any) -> Any:
        t = sp.Dummy()
        return (-1) ** order * sp.diff(t / (sp.exp(t) - 1), t, order).subs(t, x)

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        if argindex == 1 or self.args[0] != 0:
            raise ArgumentIndexError(self, argindex)
        return -bernoulli(1, self.args[1])

    @staticmethod
    def array(xp: Any, order: int, x: Any) -> Any:
        small = abs(x) < 1.0
        y = xp.where(small, 1.0, abs(x))
        decay, decay_minus_1 = xp.exp(-y), xp.expm1(-y)
        if order == 0:
            value = -y * decay / decay_minus_1
            return xp.where(small, _bernoulli_series(0, x), xp.where(x < 0, y + value, value))
        slope = decay * (y + decay_minus_1) / decay_minus_1**2
        return xp.where(small, -_bernoulli_series(1, x), xp.where(x < 0, 1 - slope, slope))


def _bernoulli_series(order: int, x: Any) -> Any:
    """The Taylor polynomial of x / (e^x - 1), or of its derivative, good to 1e-17 for x <= 1."""
    terms = [sp.bernoulli(k, 0) / sp.factorial(k) for k in range(24)]
    for _ in range(order):
        terms = [k * c for k, c in enumerate(terms)][1:]
    value = 0.0 * x
    for c in reversed(terms):
        value = value * x + float(c)
    return value

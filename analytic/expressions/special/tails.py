r"""Scaled repeated integrals of the error function: $t_n(y) = e^{y^2}\,\mathrm{i}^n\mathrm{erfc}(y)$.

The scale prevents underflow. All are positive, and each is, up to a factor, minus the derivative of the
one before. Gaussian averages of exponentials on a half-line, and all their derivatives, are sums of
them and of their first and second differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sympy as sp
from mpmath import mp, mpf
from sympy.core.function import ArgumentIndexError

__all__ = [
    "bend_series", "clenshaw", "corner_series", "scaled_tail", "tail_bend", "tail_corner",
    "tail_map", "tail_powers", "tail_series", "tail_step",
]  # fmt: skip

_MIDDLE = 5  # half of the Chebyshev nodes lie below
_TERMS = 56  # of a power series


class scaled_tail(sp.Function):
    r"""$t_n(y) = \frac{2}{\sqrt\pi\,n!}\int_0^\infty u^n e^{-u^2-2yu}\,du$ for y >= 0."""

    host = (0,)

    @staticmethod
    def exact(n: Any, y: Any) -> Any:
        if n == -1:
            return 2 / sp.sqrt(sp.pi)
        if n == 0:
            return sp.exp(y**2) * sp.erfc(y)
        one, two = (scaled_tail.exact(n - k, y) for k in (1, 2))
        return (two - 2 * y * one) / (2 * n)

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        n, y = self.args
        if argindex != 2:
            raise ArgumentIndexError(self, argindex)
        return -2 * (n + 1) * scaled_tail(n + 1, y)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        n, y = map(printer.doprint, self.args)
        return rf"t_{{{n}}}{_power(exp)}\left({y}\right)"

    @staticmethod
    def array(xp: Any, n: int, y: Any) -> Any:
        u, scale = tail_map(y, int(n))
        return clenshaw([float(c) for c in tail_series(int(n), 18)], u) * scale


class tail_step(sp.Function):
    """t_n(x) - t_n(x + y), also where y is small."""

    host = (0,)

    @staticmethod
    def exact(n: Any, x: Any, y: Any) -> Any:
        return scaled_tail.exact(n, x) - scaled_tail.exact(n, x + y)

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        n, x, y = self.args
        if argindex == 1:
            raise ArgumentIndexError(self, argindex)
        if argindex == 2:
            return -2 * (n + 1) * tail_step(n + 1, x, y)
        return 2 * (n + 1) * scaled_tail(n + 1, x + y)

    @staticmethod
    def array(xp: Any, n: int, x: Any, y: Any) -> Any:
        """By the integral of its derivative, which has one sign; by definition where y is large."""
        small = y < 0.5 * (1 + x)
        near, total = xp.where(small, y, 0.0), 0.0 * (x + y)
        for node, weight in _nodes():
            total = total + weight * scaled_tail.array(xp, n + 1, x + node * near)
        far = scaled_tail.array(xp, n, x) - scaled_tail.array(xp, n, x + y)
        return xp.where(small, 2 * (n + 1) * near * total, far)


class tail_corner(sp.Function):
    """t_n(0) - t_n(x) - t_n(y) + t_n(x + y), also for small x and y of about the same size."""

    host = (0,)

    @staticmethod
    def exact(n: Any, x: Any, y: Any) -> Any:
        corners = [scaled_tail.exact(n, at) for at in (sp.S.Zero, x, y, x + y)]
        return corners[0] - corners[1] - corners[2] + corners[3]

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        n, *both = self.args
        if argindex == 1:
            raise ArgumentIndexError(self, argindex)
        x, y = both if argindex == 2 else reversed(both)
        return 2 * (n + 1) * tail_step(n + 1, x, y)

    @staticmethod
    def array(xp: Any, n: int, x: Any, y: Any) -> Any:
        inside = x + y < 1.25
        near = (xp.where(inside, part, 0.5) for part in (x, y))
        series = corner_series([float(c) for c in tail_powers(n, _TERMS)], *near)
        ends = [scaled_tail.array(xp, n, at) for at in (x, y, x + y)]
        return xp.where(inside, series, float(tail_powers(n, 1)[0]) - ends[0] - ends[1] + ends[2])


class tail_bend(sp.Function):
    r"""$\int_0^\infty \psi(xu)\psi(yu)\,2ue^{-u^2}du/\sqrt\pi$ for $\psi(p) = e^{-2p} - 1 + 2p$.

    $\psi$ is an exponential without its first two Taylor terms, so this is `tail_corner` of $t_1$ without
    the terms that are linear in x or in y.
    """

    @staticmethod
    def exact(x: Any, y: Any) -> Any:
        sides = (4 * p * tail_step.exact(2, sp.S.Zero, q) for p, q in ((x, y), (y, x)))
        return tail_corner.exact(1, x, y) - sum(sides) + 4 * x * y / sp.sqrt(sp.pi)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        arguments = r",\,".join(map(printer.doprint, self.args))
        return rf"B{_power(exp)}\left({arguments}\right)"

    @staticmethod
    def array(xp: Any, x: Any, y: Any) -> Any:
        """By a power series, by the integral of a second derivative if x or y is small, or by definition."""
        inside = x + y < 1.25
        near = (xp.where(inside, part, 0.5) for part in (x, y))
        series = bend_series([float(c) for c in tail_powers(1, _TERMS)], *near)
        low, high = xp.where(x < y, x, y), xp.where(x < y, y, x)
        thin, integral = xp.where(low < 0.5, low, 0.0), 0.0 * low
        for node, weight in _nodes():
            at = node * thin
            step = scaled_tail.array(xp, 3, at) - scaled_tail.array(xp, 3, at + high)
            second = 8 * high * scaled_tail.array(xp, 4, at) - step
            integral = integral + weight * (1 - node) * second
        ends = [scaled_tail.array(xp, 1, at) for at in (x, y, x + y)]
        sides = (p * (1 - 4 * scaled_tail.array(xp, 2, q)) for p, q in ((x, y), (y, x)))
        whole = (1 + 4 * x * y) / math.sqrt(math.pi) - ends[0] - ends[1] + ends[2] - sum(sides)
        return xp.where(inside, series, xp.where(low < 0.5, 24 * thin**2 * integral, whole))


def _power(exp: str | None) -> str:
    """An exponent behind the name of a function in LaTeX."""
    return "" if exp is None else rf"^{{{exp}}}"


def corner_series(terms: Sequence[Any], x: Any, y: Any) -> Any:
    """The sum of c_k ((x + y)^k - x^k - y^k) over k >= 2, by a recurrence without subtractions."""
    total, product = x + y, x * y
    corner, powers = 2 * product, (x, y)
    value = terms[2] * corner
    for c in terms[3:]:
        corner = total * corner + product * (powers[0] + powers[1])
        powers = (powers[0] * x, powers[1] * y)
        value = value + c * corner
    return value


def bend_series(terms: Sequence[Any], x: Any, y: Any) -> Any:
    """The same over k >= 4 without the terms k x y^(k-1) and k x^(k-1) y, by a similar recurrence."""
    total, square = x + y, (x * y) ** 2
    corner, powers = 6 * square, (x, y)
    value = terms[4] * corner
    for k, c in enumerate(terms[5:], 5):
        corner = total * corner + (k - 1) * square * (powers[0] + powers[1])
        powers = (powers[0] * x, powers[1] * y)
        value = value + c * corner
    return value


def tail_map(y: Any, n: int) -> tuple[Any, Any]:
    """The argument of the Chebyshev series for y, in [-1, 1), and the factor (1 + y)^-(n + 1) before it."""
    return 1 - 2 * _MIDDLE / (y + _MIDDLE), 1 / (1 + y) ** (n + 1)


def clenshaw(series: Sequence[Any], u: Any) -> Any:
    """A Chebyshev series at u."""
    double, one, two = 2 * u, 0 * u, 0 * u
    for c in reversed(series[1:]):
        one, two = double * one - two + c, one
    return u * one - two + series[0]


@lru_cache
def tail_series(n: int, digits: int) -> tuple[Any, ...]:
    """Chebyshev coefficients of (1 + y)^(n + 1) t_n(y)."""
    count = 4 * digits  # of nodes, more than the coefficients below
    with mp.workdps(2 * digits + 10):
        angles = [mp.pi * (2 * k + 1) / (2 * count) for k in range(count)]
        places = [_MIDDLE * (1 + mp.cos(a)) / (1 - mp.cos(a)) for a in angles]
        values = [(1 + y) ** (n + 1) * _tail(n, y) for y in places]
        terms = [
            (2 - (j == 0)) * mp.fdot(values, [mp.cos(j * a) for a in angles]) / count
            for j in range(2 * digits)
        ]
    least = mpf(10) ** -digits * max(map(abs, terms))
    return tuple(terms[: 1 + max(j for j, c in enumerate(terms) if abs(c) > least)])


@lru_cache
def tail_powers(n: int, count: int) -> tuple[Any, ...]:
    r"""Taylor coefficients of t_n at 0, $\binom{n+k}{k}(-2)^k t_{n+k}(0)$."""
    with mp.workdps(50):
        return tuple(
            mp.binomial(n + k, k) * (-2) ** k / (2 ** (n + k) * mp.gamma(mpf(n + k) / 2 + 1))
            for k in range(count)
        )


def _tail(n: int, y: Any) -> Any:
    """t_n(y) by a recurrence, which at large y loses a factor y^2 of accuracy for each order."""
    with mp.extradps(30 + 4 * n * int(mp.log10(1 + y) + 1)):
        last, now = 2 / mp.sqrt(mp.pi), mp.exp(y**2) * mp.erfc(y)
        for k in range(1, n + 1):
            last, now = now, (last - 2 * y * now) / (2 * k)
    return now


@lru_cache
def _nodes() -> tuple[tuple[float, float], ...]:
    """Nodes and weights of Gauss-Legendre quadrature on (0, 1)."""
    from scipy.special import roots_legendre

    nodes, weights = roots_legendre(9)
    return tuple(zip(((1 + nodes) / 2).tolist(), (weights / 2).tolist(), strict=True))

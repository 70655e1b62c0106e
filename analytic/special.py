"""Functions that SymPy lacks: each is a symbolic head, an exact meaning, and one body for arrays.

A head stands in expressions, differentiates and prints; `exact(...)` says what it is in textbook
functions; `array(xp, ...)` evaluates it in floating point on numpy or torch (`xp`), without the
cancellation, overflow or 0/0 for which the head exists. Arguments named in `host` are plain
numbers, never arrays.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import sympy as sp
from sympy.core.function import ArgumentIndexError

def _split(xp: Any, x: Any) -> tuple[Any, Any]:
    """x = high + low with halves short enough that their products are exact (Veltkamp)."""
    bits = (2 - math.frexp(float(xp.finfo(x.dtype).eps))[1] + 1) // 2
    scaled = x * (2**bits + 1)
    high = scaled - (scaled - x)
    return high, x - high


def _product(xp: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """x y as an unevaluated sum of two floats (Dekker)."""
    (a, b), (c, d), p = _split(xp, x), _split(xp, y), x * y
    return p, ((a * c - p) + a * d + b * c) + b * d


def _sum(x: Any, y: Any) -> tuple[Any, Any]:
    """x + y as an unevaluated sum of two floats (Knuth)."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


class share(sp.Function):
    """The part t / (t + z) of a sum of squares, and its value where both vanish."""

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
        (p, p_low), (m, m_low) = _product(xp, a, b), _product(xp, c, c)
        value = (p - m) + (p_low - m_low)
        value = xp.where(xp.isfinite(value), value, a * b - c * c)  # beyond 1e300 splitting overflows
        return xp.where(value > 0, value, 0.0 * value)


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
        m, m_low = _product(xp, sigma, r)
        (mm, mm_low), (zz, zz_low) = _product(xp, m, m), _product(xp, zeta, zeta)
        total, low = _sum(mm, zz)
        low = low + (mm_low + 2 * m * m_low + zz_low)
        low = xp.where(xp.isfinite(low) & (total > 0), low, 0.0 * total)
        value = xp.log(total) + low / xp.where(total > 0, total, 1.0)
        return xp.where(p + 0.0 * total == 0, 0.0, p * value)


class volume(sp.Function):
    """A^(d/2) sqrt(P), through log A where a power of A would leave the range of floats."""

    @staticmethod
    def exact(A: Any, log_A: Any, P: Any, d: Any) -> Any:
        return A ** (d / 2) * sp.sqrt(P)

    @staticmethod
    def array(xp: Any, A: Any, log_A: Any, P: Any, d: Any) -> Any:
        direct, through_logs = A ** (d / 2) * xp.sqrt(P), xp.exp((d * log_A + xp.log(P)) / 2)
        return xp.where((d <= 64) & (abs(log_A) < 600), direct, through_logs)


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
        small = x < 1.0
        safe = xp.where(small, 1.0 + 0.0 * x, x)
        value = xp.where(small, _bernoulli_series(0, x), safe / xp.expm1(safe))
        if order == 0:
            return value
        slope = (safe / -xp.expm1(-safe) - 1) / xp.expm1(safe)
        return xp.where(small, -_bernoulli_series(1, x), slope)


def _bernoulli_series(order: int, x: Any) -> Any:
    """The Taylor polynomial of x / (e^x - 1), or of its derivative, good to 1e-17 for x <= 1."""
    terms = [sp.bernoulli(k, 0) / sp.factorial(k) for k in range(24)]
    for _ in range(order):
        terms = [k * c for k, c in enumerate(terms)][1:]
    value = 0.0 * x
    for c in reversed(terms):
        value = value * x + float(c)
    return value


class monomial_pair(sp.Function):
    """E[u^q v^q] / (2q - 1)!! of a Gaussian pair: a polynomial whose terms share one sign."""

    host = (0,)

    @staticmethod
    def exact(q: Any, kxx: Any, kxy: Any, kyy: Any) -> Any:
        return sum(c * kxy ** (q - 2 * m) * (kxx * kyy) ** m for m, c in _monomial_terms(int(q)))

    @classmethod
    def eval(cls, q: Any, *gram: Any) -> sp.Expr | None:
        return cls.exact(q, *gram) if q.is_Integer else None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        q, kxx, kxy, kyy = self.args
        if argindex != 3:  # Price: a derivative by a variance leaves this family
            raise ArgumentIndexError(self, argindex)
        return q**2 * monomial_pair(q - 1, kxx, kxy, kyy) / (2 * q - 1)

    @staticmethod
    def array(xp: Any, q: int, kxx: Any, kxy: Any, kyy: Any) -> Any:
        terms = dict(_monomial_terms(int(q)))
        value, even = 0.0 * (kxx * kxy * kyy), q % 2
        for m in range(q // 2 + 1):  # Horner in kxy^2, one factor kxx kyy more for each step back
            value = value * kxy**2 + float(terms[m]) * (kxx * kyy) ** m
        return value * kxy if even else value


@lru_cache
def _monomial_terms(q: int) -> tuple[tuple[int, sp.Rational], ...]:
    """(m, coefficient of kxy^(q-2m) (kxx kyy)^m) by pairing q legs with q legs (Isserlis)."""
    norm = sp.factorial2(2 * q - 1)
    return tuple(
        (m, sp.factorial(q) ** 2 / (sp.factorial(q - 2 * m) * (2**m * sp.factorial(m)) ** 2) / norm)
        for m in range(q // 2 + 1)
    )


class rectified_pair(sp.Function):
    r"""E[u_+^q v_+^q] of a Gaussian pair, the arc-cosine kernel of any order q > -1/2."""

    host = (0,)

    @staticmethod
    def exact(q: Any, kxx: Any, kxy: Any, kyy: Any) -> Any:
        scale = sp.sqrt(kxx * kyy)
        half = (1 + kxy / scale) / 2
        front = 2 ** (q - 1) * sp.gamma(q + 1) ** 2 / (sp.sqrt(sp.pi) * sp.gamma(q + sp.Rational(3, 2)))
        tail = sp.hyper((sp.S.Half, sp.S.Half), (q + sp.Rational(3, 2),), half)
        return scale**q * front * half ** (q + sp.S.Half) * tail

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        q, kxx, kxy, kyy = self.args
        if argindex != 3:
            raise ArgumentIndexError(self, argindex)
        return q**2 * rectified_pair(q - 1, kxx, kxy, kyy)

    @staticmethod
    def array(xp: Any, q: float, kxx: Any, kxy: Any, kyy: Any) -> Any:
        # In polar coordinates the kernel is one integral over the sector where both are positive,
        # of half-angle h: Gauss-Jacobi is exact to rounding, and no term is negative.
        root = xp.sqrt(gram_det.array(xp, kxx, kyy, kxy))
        h = xp.atan2(root, -kxy) / 2
        scale = xp.sqrt(kxx) * xp.sqrt(kyy)
        total = 0.0 * h
        for x, weight in _jacobi_nodes(float(q)):
            ratio = _sinc(xp, h * (1 - x)) * _sinc(xp, h * (1 + x))
            total = total + weight * ratio**q
        front = float(sp.gamma(q + 1) * 2**q / (2 * sp.pi))
        return xp.where(scale > 0, front * (h * scale) ** q * h ** (q + 1) * total, 0.0)


def _sinc(xp: Any, x: Any) -> Any:
    return xp.where(x > 0, xp.sin(x) / xp.where(x > 0, x, 1.0), 1.0)


@lru_cache
def _jacobi_nodes(q: float) -> tuple[tuple[float, float], ...]:
    """Nodes and weights on [-1, 1] for the weight (1 - x^2)^q."""
    from scipy.special import roots_jacobi

    return tuple(zip(*(part.tolist() for part in roots_jacobi(40, q, q)), strict=True))


HEADS: tuple[type[sp.Function], ...] = (
    share, expm1, log1p, gram_det, log_variance, volume, bernoulli, monomial_pair, rectified_pair,
)  # fmt: skip

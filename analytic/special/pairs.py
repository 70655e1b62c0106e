"""Two-point averages of powers and rectified powers, in forms of one sign."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sympy as sp
from sympy.core.function import ArgumentIndexError

from analytic.special.guards import gram_det


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
        front = (
            2 ** (q - 1) * sp.gamma(q + 1) ** 2 / (sp.sqrt(sp.pi) * sp.gamma(q + sp.Rational(3, 2)))
        )
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

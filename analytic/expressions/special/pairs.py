"""Two-point averages of powers and rectified powers, as sums whose terms have one sign."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sympy as sp
from sympy.core.function import ArgumentIndexError

from analytic.expressions.special.guards import gram_det

__all__ = ["monomial_pair", "rectified_pair"]


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
        if argindex != 3:  # by Price's theorem; derivatives by a variance are no monomial_pair
            raise ArgumentIndexError(self, argindex)
        return q**2 * monomial_pair(q - 1, kxx, kxy, kyy) / (2 * q - 1)

    @staticmethod
    def array(xp: Any, q: int, kxx: Any, kxy: Any, kyy: Any) -> Any:
        terms = dict(_monomial_terms(int(q)))
        value, odd = 0.0 * (kxx * kxy * kyy), q % 2
        for m in range(q // 2 + 1):  # Horner in kxy^2, one factor kxx kyy more for each step back
            value = value * kxy**2 + float(terms[m]) * (kxx * kyy) ** m
        return value * kxy if odd else value


@lru_cache
def _monomial_terms(q: int) -> tuple[tuple[int, sp.Rational], ...]:
    """Pairs (m, coefficient of kxy^(q-2m) (kxx kyy)^m), by Isserlis' theorem."""
    norm = sp.factorial2(2 * q - 1)
    return tuple(
        (m, sp.factorial(q) ** 2 / (sp.factorial(q - 2 * m) * (2**m * sp.factorial(m)) ** 2) / norm)
        for m in range(q // 2 + 1)
    )


class rectified_pair(sp.Function):
    r"""E[u_+^q v_+^q] of a Gaussian pair, the arc-cosine kernel of any order q > -1/2.

    On arrays kxx kyy - kxy^2 may be a further argument, if it is known more accurately than from kxy.
    """

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
        q, kxx, kxy, kyy = self.args[:4]
        if argindex != 3 or len(self.args) > 4:
            raise ArgumentIndexError(self, argindex)
        return q**2 * rectified_pair(q - 1, kxx, kxy, kyy)

    @staticmethod
    def array(xp: Any, q: float, kxx: Any, kxy: Any, kyy: Any, det: Any = None) -> Any:
        det = gram_det.array(xp, kxx, kyy, kxy) if det is None else det
        collinear = det <= 0
        root = xp.where(collinear, 0.0, xp.sqrt(xp.where(collinear, 1.0, det)))
        value = _sector(xp, q, kxx, kxy, kyy, root)
        if q < 1 or not getattr(value, "requires_grad", False):
            return value
        # The angle has no derivative at collinear points: use Price's theorem and homogeneity there.
        slope = q**2 * rectified_pair.array(xp, q - 1, *(k.detach() for k in (kxx, kxy, kyy)))
        level = value.detach()
        straight = level + slope * (kxy - kxy.detach())
        for k in (kxx, kyy):
            rate = (q * level - kxy.detach() * slope) / (2 * xp.where(k > 0, k, 1.0).detach())
            straight = straight + rate * (k - k.detach())
        return xp.where(collinear, straight, value)


def _sector(xp: Any, q: float, kxx: Any, kxy: Any, kyy: Any, root: Any) -> Any:
    """An integral over the sector, of half-angle h, where u and v are positive; no term is negative."""
    h = xp.atan2(root, -kxy) / 2
    scale = xp.sqrt(kxx) * xp.sqrt(kyy)
    front = float(sp.gamma(q + 1) * 2**q / (2 * sp.pi))
    total = 0.0 * h
    for x, weight in _jacobi_nodes(float(q)):
        total = total + weight * (_sinc(xp, h * (1 - x)) * _sinc(xp, h * (1 + x))) ** q
    value = front * (h * scale) ** q * h ** (q + 1) * total
    if q != int(q):  # the integrand is singular near the ends of a wide sector: use tanh-sinh nodes
        wide, supplement = 0.0 * h, xp.atan2(root, kxy)
        smallest = xp.finfo(
            h.dtype
        ).tiny  # smaller nodes round to 0, and 0 to a negative power is infinite
        for near, weight in _end_nodes():
            if near < smallest:
                continue
            wide = wide + weight * (xp.sin(h * near) * xp.sin(supplement + h * near)) ** q
        value = xp.where(kxy > 0, 2 * front * scale**q * h * wide, value)
    return xp.where((scale > 0) & (h > 0), value, 0.0)


def _sinc(xp: Any, x: Any) -> Any:
    return xp.where(x > 0, xp.sin(x) / xp.where(x > 0, x, 1.0), 1.0)


@lru_cache
def _end_nodes() -> tuple[tuple[float, float], ...]:
    """Tanh-sinh nodes on (0, 1), crowded at both ends."""
    from analytic.expressions.quadrature.rules import segment

    return tuple((float(near), float(weight)) for (near, _), weight in segment(45))


@lru_cache
def _jacobi_nodes(q: float) -> tuple[tuple[float, float], ...]:
    """Nodes and weights on [-1, 1] for the weight (1 - x^2)^q."""
    from scipy.special import roots_jacobi

    return tuple(zip(*(part.tolist() for part in roots_jacobi(40, q, q)), strict=True))

"""Monomials, rectified powers and polynomials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy as sp
from sympy import Rational, S, exp, factorial, gamma, log, pi, sqrt

from analytic.activations.activation import (
    GRAM,
    Activation,
    activation,
    parameter,
    require_positive,
    symbols_of,
)
from analytic.expressions.arguments import InputError, RealNumber, listed
from analytic.expressions.special import monomial_pair, rectified_pair
from analytic.expressions.symbols import V, exponent, kxx, kxy, kyy, q, z

__all__ = ["monomial", "polynomial", "relu", "relu_power"]

_half = S.Half


def monomial(q: RealNumber = q) -> Activation:
    """z^q / sqrt((2q-1)!!) for whole q >= 1, or with q left open.

    Another degree is refused with an InputError.

    >>> from analytic.activations import monomial
    >>> monomial(2).F.expr, monomial().parameters
    (V**2, (q,))
    """
    q = _require_degree(q)
    norm = 2**q * gamma(q + _half) / sqrt(pi)  # (2q-1)!!
    stable_root = exp((q * log(2) + sp.loggamma(q + _half) - log(pi) / 2) / 2)
    front = q**2 / (2 * q - 1)
    front_G2 = front * (q - 1) ** 2 / (2 * q - 3)
    return activation(
        "monomial",
        z**q / sqrt(norm),
        parameters=symbols_of(q),
        kernel=(_monomial_textbook(q), monomial_pair(q, *GRAM)),
        slope=(front * _monomial_textbook(q - 1), front * monomial_pair(q - 1, *GRAM)),
        F=V**q,
        G=front * V ** (q - 1),
        G2=sp.Piecewise((0, sp.Eq(q, 1)), (front_G2 * V ** (q - 2), True)),
        **({} if q.is_number else {"phi_stable": z**q / stable_root}),
    )


def _monomial_textbook(n: sp.Expr) -> sp.Expr:
    """E[u^n v^n] / (2n-1)!!: the even or the odd Mehler sum, (C.40) and (C.43)."""
    if n.is_number:
        return monomial_pair(n, *GRAM)
    rho, sign = kxy / sqrt(kxx * kyy), (-1) ** n
    even = gamma((n + 1) / 2) ** 2 * sp.hyper((-n / 2, -n / 2), (_half,), rho**2)
    odd = (
        2
        * rho
        * gamma(n / 2 + 1) ** 2
        * sp.hyper(((1 - n) / 2, (1 - n) / 2), (Rational(3, 2),), rho**2)
    )
    body = ((1 + sign) * even + (1 - sign) * odd) / (2 * sqrt(pi) * gamma(n + _half))
    return sp.Piecewise(
        (1, sp.Eq(n, 0)), (0, sp.Eq(kxx * kyy, 0)), ((kxx * kyy) ** (n / 2) * body, True)
    )


def relu_power(q: RealNumber = exponent) -> Activation:
    """max(0, z)^q for any q > 1/2, or with q left open; q = 1 is the ReLU, whose metric is flat.

    A smaller exponent is refused with an InputError, because E[phi'^2] diverges.

    >>> from analytic.activations import relu_power
    >>> relu_power(2).F.expr
    3*V**2/2
    """
    q = require_positive("q", q)
    if q.is_number and not q > _half:
        raise InputError(
            f"relu_power needs q above 1/2, but q = {q} was given: E[phi'^2] diverges."
        )

    def moment(front: sp.Expr, n: sp.Expr) -> tuple[sp.Expr, sp.Expr | None]:
        r"""front E[max(0,z)^{2n}] = front (2n-1)!!/2 V^n."""
        textbook = front * 2 ** (n - 1) * gamma(n + _half) / sqrt(pi) * V**n
        stable = front * exp((n - 1) * log(2) + sp.loggamma(n + _half)) / sqrt(pi) * V**n
        return textbook, None if q.is_number else stable

    def pair(front: sp.Expr, n: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        vanishes = sp.Eq(kxx * kyy, 0) | ((kxy < 0) & (kxy**2 >= kxx * kyy))  # never both positive
        textbook = sp.Piecewise((0, vanishes), (rectified_pair.exact(n, *GRAM), True))
        return front * textbook, front * rectified_pair(n, *GRAM)

    finite_G, finite_G2 = (q > _half,), (q > Rational(3, 2),)
    domains = {} if q.is_number else {"slope": finite_G, "G": finite_G, "G2": finite_G2}
    no_G2, reason = q.is_number and not q > Rational(3, 2), "jumps" if q == 1 else "is too steep"
    return activation(
        "relu_power",
        sp.Piecewise((z**q, z > 0), (0, True)),
        parameters=symbols_of(q),
        kinks=(0,),
        domains=domains,
        absent={"G2": f"phi' {reason} at 0, so E[phi''^2] diverges"} if no_G2 else {},
        kernel=pair(S.One, q),
        slope=pair(q**2, q - 1),
        F=moment(S.One, q),
        G=moment(q**2, q - 1),
        G2=moment(q**2 * (q - 1) ** 2, q - 2),
    )


relu = replace(relu_power(1), name="relu")


def polynomial(coefficients: Sequence[RealNumber]) -> Activation:
    """c_0 + c_1 z + c_2 z^2 + ... with real coefficients c_k.

    What is no list of real numbers is refused with an InputError.

    >>> from analytic.activations import polynomial
    >>> polynomial([0, 1, 1]).F.expr
    3*V**2 + V
    """
    entries = enumerate(listed("coefficients", coefficients))
    c = [parameter(f"coefficient {k}", value, "a real number") for k, value in entries]
    if not c or not all(value.is_number for value in c):
        raise InputError(
            f"polynomial needs a list of real coefficients, but {coefficients!r} was given."
        )

    def mixed(j: int, k: int) -> sp.Expr:
        """E[u^j v^k], as a sum over the number m of pairs of a u with a v (Isserlis)."""
        terms = []
        for m in range(min(j, k) % 2 if (j + k) % 2 == 0 else 1, min(j, k) + 1, 2):
            if (j - m) % 2 == 0 and (k - m) % 2 == 0:
                l, n = (j - m) // 2, (k - m) // 2
                ways = (
                    factorial(j)
                    * factorial(k)
                    / (factorial(m) * factorial(l) * factorial(n) * 2 ** (l + n))
                )
                terms.append(ways * kxy**m * kxx**l * kyy**n)
        return sp.Add(*terms)

    def two_point(poly: sp.Poly) -> sp.Expr:
        items = [(m[0], value) for m, value in poly.terms()]
        return sp.expand(sum(x * y * mixed(j, k) for j, x in items for k, y in items))

    def one_point(poly: sp.Poly) -> sp.Expr:
        return two_point(poly).subs({kxx: V, kxy: V, kyy: V})

    phi = sp.Poly(list(reversed(c)), z)
    return activation(
        "polynomial",
        phi.as_expr(),
        kernel=two_point(phi),
        slope=two_point(phi.diff(z)),
        F=one_point(phi),
        G=one_point(phi.diff(z)),
        G2=one_point(phi.diff(z).diff(z)),
    )


def _require_degree(q: Any) -> sp.Expr:
    """A whole number at least 1, or an open symbol for one."""
    q = parameter("q", q, "a whole number at least 1")
    if not q.is_integer or (q.is_number and q < 1):
        raise InputError(f"monomial needs a whole degree q >= 1, but q = {q} was given.")
    return q

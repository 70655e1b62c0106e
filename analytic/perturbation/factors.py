r"""Factors of the 1/n correction to the volume element of a monomial network, appendix E.

A network $n^{-1/2}\sum_i v_i\phi(w_i\cdot x)$ with $\phi = z^q/\sqrt{(2q-1)!!}$ and unit Gaussian prior
learns one datum $(x_a, y_a)$ exactly. Its metric is $\bar g + h$, where h is of order $n^{-1/2}$ with
a mean of order $1/n$. With $A = \bar g^{-1}h$ the volume element is
$1 + \frac12\mathrm{tr}A + \frac18(\mathrm{tr}A)^2 - \frac14\mathrm{tr}A^2$ times that of $\bar g$:
the mean of the first term brings chi, the squares bring kappa, which (E.15) drops.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import sympy as sp
from mpmath import mpf

from analytic.expressions.arguments import Domain, InputError
from analytic.expressions.formula import Formula
from analytic.expressions.opaque import Opaque, Table
from analytic.expressions.symbols import d, n, q, ratio, rho
from analytic.perturbation import polynomials

__all__ = [
    "chi", "chi_excess", "derived_chi", "derived_fluctuation", "fluctuation", "magnification",
    "minus_kappa",
]  # fmt: skip

SOURCE = "Zavatone-Veth et al., appendix E"
_cosine = Domain((rho**2 <= 1,), "rho is the cosine of the angle between x and the datum")


class _DegreePolynomial(Opaque):
    """A polynomial whose exact coefficients depend on the degree q, a plain number."""

    straight_line = True
    total: Callable[..., Any]  # (number, d, q, ...): `number` converts the coefficients

    @property
    def inputs(self) -> tuple[sp.Expr, ...]:
        return self.args

    @property
    def host(self) -> frozenset[sp.Symbol]:
        return frozenset(self.args[1].free_symbols)

    def on_mpmath(self, table: Table) -> Callable[..., Any]:
        return partial(self.total, lambda c: mpf(c.numerator) / c.denominator)

    def on_arrays(self, xp: Any, table: Table) -> Callable[..., Any]:
        return partial(self.total, float)


class chi_excess(_DegreePolynomial):
    """chi - d as a function of (d, q, rho): a sum of positive terms in t = rho^2 and 1 - t."""

    @staticmethod
    def total(number: Callable[[Any], Any], d: Any, q: Any, rho: Any) -> Any:
        t = rho * rho
        rest = 1 - t  # exact for t >= 1/2, and its gradient is -2 rho
        weights = _weights(number, q)
        last = len(weights) - 1
        return sum(
            (slope * d + level) * ((4 * t) ** j * rest ** (last - j))
            for j, (slope, level) in enumerate(weights)
        )


class minus_kappa(_DegreePolynomial):
    """-kappa as a function of (d, q): a polynomial in d - 1 with positive coefficients."""

    @staticmethod
    def total(number: Callable[[Any], Any], d: Any, q: Any) -> Any:
        zeroth, first, second = _to_backend(number, q, polynomials.fluctuation_powers(q))
        return zeroth + (d - 1) * (first + (d - 1) * second)


def _weights(number: Callable[[Any], Any], q: Any) -> list[tuple[Any, Any]]:
    """Coefficients of (4t)^j (1-t)^(q-j). As chi grows like 4^q, they stay in the range of floats."""
    q = polynomials.require_degree(q)
    _to_backend(
        number, q, [polynomials.bernstein_line(q, q).level]
    )  # refuses an overflow of the largest
    lines = polynomials.excess(q)
    scaled = [line * Fraction(1, 4**j) for j, line in enumerate(lines)]
    flat = _to_backend(number, q, [c for line in scaled for c in (line.slope, line.level)])
    return list(zip(flat[::2], flat[1::2], strict=True))


def _to_backend(number: Callable[[Any], Any], q: Any, coefficients: Any) -> list[Any]:
    try:
        return [number(c) for c in coefficients]
    except OverflowError:
        raise InputError(
            f"q = {q} was given, but the coefficients of that degree exceed the range of floats: "
            "give a smaller q, or call `.evaluate`, which has no such limit."
        ) from None


def _hypergeometric(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    return sp.hyper((a, b), (sp.S.Half,), rho**2)


_chi = (d + 2 * (2 * q - 1)) * _hypergeometric(1 - q, -q) - 2 * (q - 1) * _hypergeometric(-q, -q)

# (4q-5)!! / [(2q-3)!!]^2, the normalised fourth moment E[z^(4q-4)] / E[z^(2q-2)]^2 of the slope.
_flatness = sp.sqrt(sp.pi) * sp.gamma(2 * q - sp.Rational(3, 2)) / sp.gamma(q - sp.S.Half) ** 2
_square = _flatness * (
    d**2
    - 1
    + 2 * (d - 1) * (4 * q - 3) / (2 * q - 1)
    + (4 * q - 1) * (4 * q - 3) / (2 * q - 1) ** 2
)
_kappa = -_square / 8 - d**2 / 8 + d / 4

chi = Formula(
    "perturbation.chi",
    (d, q, rho),
    _chi,
    _cosine,
    f"{SOURCE}, (E.33); for d = 1 only rho = 1 and -1 occur",
    stable=d + chi_excess(d, q, rho),
)
fluctuation = Formula(
    "perturbation.fluctuation",
    (d, q),
    _kappa,
    citation=f"the term that {SOURCE}, (E.15) leaves out",
    stable=-minus_kappa(d, q),
)
magnification = Formula(
    "perturbation.magnification",
    (d, q, rho, ratio, n),
    1 + ((ratio - 1) * (_chi - d) / 4 + _kappa) / n,
    _cosine,
    f"{SOURCE}, (E.38) corrected; terms of order 1/n^2 are left out",
    stable=1 + ((ratio - 1) * chi_excess(d, q, rho) / 4 - minus_kappa(d, q)) / n,
)


@lru_cache
def derived_chi(degree: int) -> sp.Expr:
    """chi by its definition (E.17): Gaussian moments along x, and across it towards the datum."""
    along, across, leg = sp.symbols("along across leg")
    phi, slope = _monomial(degree)
    product = phi(rho * along + leg * across) ** 2 * slope(along) ** 2
    g_along, g_across = (_mean(slope(along) ** 2 * e) for e in (along**2, sp.S.One))
    total = _mean(product * along**2) / g_along + _mean(product * (across**2 + d - 2)) / g_across
    by_rho = sp.expand(total / _mean(phi(along) ** 2)).subs(leg, sp.sqrt(1 - rho**2))
    return sp.expand(by_rho)


@lru_cache
def derived_fluctuation(degree: int) -> sp.Expr:
    r"""kappa by moments of $T = \phi'(z)^2 w^T\bar g^{-1}w$.

    The n units are independent, so $n E[(\mathrm{tr}A)^2] = E[T^2]-d^2$ and $n E[\mathrm{tr}A^2] = E[T^2]-d$.
    """
    along = sp.Symbol("along")
    _, slope = _monomial(degree)
    g_along, g_across = (_mean(slope(along) ** 2 * e) for e in (along**2, sp.S.One))
    fourth = [_mean(slope(along) ** 4 * along ** (2 * k)) for k in range(3)]
    across = (d - 1, d**2 - 1)  # E[c] and E[c^2] of the squared length c of w across x
    square = (
        fourth[2] / g_along**2
        + 2 * fourth[1] * across[0] / (g_along * g_across)
        + fourth[0] * across[1] / g_across**2
    )
    return sp.expand((square - d**2) / 8 - (square - d) / 4)


def _monomial(degree: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """phi and its derivative."""
    norm = sp.sqrt(polynomials.odd_factorial(2 * degree - 1))
    return lambda z: z**degree / norm, lambda z: degree * z ** (degree - 1) / norm


def _mean(expr: sp.Expr) -> sp.Expr:
    """The average over independent standard normal `along` and `across`, term by term."""
    legs = sp.symbols("along across")
    return sp.Add(
        *(
            c * sp.prod(polynomials.odd_factorial(k - 1) if k % 2 == 0 else 0 for k in powers)
            for powers, c in sp.Poly(expr, *legs).terms()
        )
    )

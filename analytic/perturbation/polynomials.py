r"""Exact polynomials: the perturbation factors in d and t = rho^2, and networks of polynomial phi.

In powers of t about half of the coefficients of chi are negative. As the average of a square it has
no negative terms: $w^T\bar g^{-1}w$ is a sum of squares along and across x, and
$u_a = \rho u + \sqrt{1-\rho^2}\,v$ for independent u and v. The binomial theorem then gives
$\chi = \sum_j \binom qj t^j(1-t)^{q-j}\beta_j$ with every $\beta_j$ positive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, wraps
from itertools import product
from math import comb, perm, prod
from typing import Any, TypeVar

from mpmath import mp

from analytic.expressions.arguments import InputError, Number, exact
from analytic.expressions.symbols import d as dimension
from analytic.expressions.symbols import q as degree_symbol
from analytic.expressions.symbols import rho as overlap_symbol

__all__ = [
    "AffineInDimension", "PolynomialNetwork", "bernstein", "bernstein_line", "exact_chi",
    "exact_fluctuation", "excess", "fluctuation_powers", "gaussian_mean", "monomial_network",
    "odd_factorial", "polynomial", "require_degree", "volume",
]  # fmt: skip

Vector = Sequence[Any]
Result = TypeVar("Result")


@dataclass(frozen=True)
class AffineInDimension:
    """A coefficient slope d + level, as a function of the dimension d."""

    slope: Fraction
    level: Fraction

    def at(self, d: Any) -> Any:
        return self.slope * d + self.level

    def __sub__(self, other: AffineInDimension) -> AffineInDimension:
        return AffineInDimension(self.slope - other.slope, self.level - other.level)

    def __mul__(self, factor: Fraction) -> AffineInDimension:
        return AffineInDimension(self.slope * factor, self.level * factor)


def require_degree(q: Number) -> int:
    """The degree as an int; anything but a whole number >= 1 is refused."""
    return int(exact(degree_symbol, q))


def _of_degree(function: Callable[[int], Result]) -> Callable[[int], Result]:
    """A function of the degree that checks it first, and computes each value once."""
    computed = lru_cache(function)

    @wraps(function)
    def call(q: int) -> Result:
        return computed(require_degree(q))

    return call


def odd_factorial(k: int) -> int:
    """k!! of an odd k, with (-1)!! = 1."""
    return prod(range(1, k + 1, 2))


@_of_degree
def polynomial(q: int) -> tuple[AffineInDimension, ...]:
    """Coefficients of chi = sum over k of (slope_k d + level_k) rho^(2k): (E.33) multiplied out.

    q is the degree of the activation, a whole number at least 1; another is refused with an InputError.
    Returned are q + 1 coefficients as functions of the dimension.

    >>> from analytic.perturbation import polynomial
    >>> [str(line.at(3)) for line in polynomial(2)]  # in three dimensions
    ['7', '20', '-16/3']
    """
    terms, pair = [], Fraction(1)
    for k in range(q + 1):  # pair is the coefficient of 2F1(-q, -q; 1/2; t)
        single = pair * Fraction(q - k, q)  # and this one that of 2F1(1-q, -q; 1/2; t)
        terms.append(AffineInDimension(single, 2 * (2 * q - 1) * single - 2 * (q - 1) * pair))
        pair *= Fraction(2 * (q - k) ** 2, (2 * k + 1) * (k + 1))
    return tuple(terms)


@_of_degree
def bernstein(q: int) -> tuple[AffineInDimension, ...]:
    """The coefficients beta_j of chi in the Bernstein basis of degree q, all positive for d >= 1."""
    return tuple(bernstein_line(q, j) for j in range(q + 1))


def bernstein_line(q: int, j: int) -> AffineInDimension:
    """The coefficient beta_j; beta_q is chi at rho = 1."""
    below = odd_factorial(2 * q - 1) * odd_factorial(2 * j - 1)
    line = AffineInDimension(Fraction(2 * q - 1), Fraction(2 * q * (2 * q - 1) - 4 * j * (q - 1)))
    return line * Fraction(odd_factorial(2 * (q + j) - 3), below)


@_of_degree
def excess(q: int) -> tuple[AffineInDimension, ...]:
    """The coefficients of t^j (1-t)^(q-j) in chi - d; no slope and no level is negative."""
    one = AffineInDimension(Fraction(1), Fraction(0))  # the Bernstein polynomials sum to 1
    return tuple((line - one) * Fraction(comb(q, j)) for j, line in enumerate(bernstein(q)))


@_of_degree
def fluctuation_powers(q: int) -> tuple[Fraction, Fraction, Fraction]:
    """The coefficients of -kappa in powers of d - 1; none is negative."""
    odd = Fraction(2 * q - 1)
    fourth = Fraction(odd_factorial(4 * q - 5), odd_factorial(2 * q - 3) ** 2)
    square = (fourth + 1) / 8
    linear = 2 * square + (fourth * (4 * q - 3) / odd - 1) / 4
    return (fourth * (4 * q - 1) * (4 * q - 3) / odd**2 - 1) / 8, linear, square


def exact_chi(d: int, q: int, rho: Fraction | int | str) -> Fraction:
    """chi of rational arguments, as a fraction.

    d is the dimension, q the degree, and rho the cosine of the angle between the input and the datum.
    A cosine beyond 1, and what is no number, is refused with an InputError.

    >>> from analytic.perturbation import exact_chi
    >>> exact_chi(d=3, q=1, rho="1/2")
    Fraction(5, 1)
    """
    overlap, size = exact(overlap_symbol, rho), exact(dimension, d)
    if abs(overlap) > 1:
        raise InputError(
            f"rho = {rho} was given, but it is the cosine of an angle: give a number in [-1, 1]."
        )
    return sum(
        (line.at(size) * overlap ** (2 * k) for k, line in enumerate(polynomial(q))), Fraction(0)
    )


def exact_fluctuation(d: int, q: int) -> Fraction:
    """kappa, the term of order 1/n that the paper leaves out, as a fraction, in d dimensions at degree q.

    What is no whole number at least 1 is refused with an InputError.

    >>> from analytic.perturbation import exact_fluctuation
    >>> exact_fluctuation(d=2, q=1)
    Fraction(-1, 1)
    """
    across = exact(dimension, d) - 1
    return -sum((c * across**k for k, c in enumerate(fluctuation_powers(q))), Fraction(0))


def gaussian_mean(f: Callable[..., Any], dimension: int, degree: int) -> Any:
    """E[f(w)] over standard normal w for a polynomial f of at most this degree in each component."""
    rule, total = _hermite(degree // 2 + 1, mp.prec), 0
    for nodes in product(rule, repeat=dimension):
        total = total + prod(weight for _, weight in nodes) * f(*(node for node, _ in nodes))
    return total


@lru_cache
def _hermite(count: int, precision: int) -> tuple[tuple[Any, Any], ...]:
    """Gauss-Hermite nodes and weights: eigenvalues of the Jacobi matrix, squared first components."""
    with mp.workprec(precision + 30):
        recurrence = mp.zeros(count)
        for k in range(1, count):
            recurrence[k, k - 1] = recurrence[k - 1, k] = mp.sqrt(k)
        values, vectors = mp.eigsy(recurrence)
        return tuple((values[k], vectors[0, k] ** 2) for k in range(count))


@dataclass(frozen=True)
class PolynomialNetwork:
    """A polynomial phi by its coefficients, an input x and a training input x_a."""

    phi: Vector
    x: Vector
    x_a: Vector

    def at(self, z: Any, order: int = 0) -> Any:
        """The derivative of phi of this order at z."""
        powers = [(k, c) for k, c in enumerate(self.phi) if c and k >= order]
        return sum(c * perm(k, order) * z ** (k - order) for k, c in powers)

    def mean(self, f: Callable[..., Any]) -> Any:
        """E[f(w, z_a, z)] for f of at most the degree of phi^4."""
        return gaussian_mean(
            lambda *w: f(w, mp.fdot(w, self.x_a), mp.fdot(w, self.x)),
            len(self.x),
            4 * len(self.phi) - 4,
        )

    def unit_terms(self, w: Vector, z_a: Any, z: Any) -> tuple[Any, Any]:
        """The contributions of one unit to the kernel at x_a and to the metric at x."""
        slope = self.at(z, 1) ** 2
        return self.at(z_a) ** 2, mp.matrix([[slope * u * v for v in w] for u in w])

    @cached_property
    def average(self) -> tuple[Any, Any]:
        """The kernel at x_a and the metric at x at infinite width."""
        return tuple(self.mean(lambda *unit, k=k: self.unit_terms(*unit)[k]) for k in (0, 1))

    def trace(self, *unit: Any) -> Any:
        r"""$T = \phi'(z)^2 w^T\bar g^{-1}w$."""
        both = self.average[1] ** -1 * self.unit_terms(*unit)[1]
        return mp.fsum(both[k, k] for k in range(both.rows))

    def chi(self) -> Any:
        """(E.17)."""
        return (
            self.mean(lambda *unit: self.unit_terms(*unit)[0] * self.trace(*unit)) / self.average[0]
        )

    def square(self) -> Any:
        """E[T^2]."""
        return self.mean(lambda *unit: self.trace(*unit) ** 2)

    def first_order(self, ratio: Any, read: Callable[[Any], Any]) -> Any:
        r"""The limit of n(<read(g)> - read($\bar g$)) over the posterior, for large n.

        Fitting one datum exactly multiplies the prior by $k^{-1/2}e^{-y^2/2k}$ for the kernel k at
        x_a. The mean of a function of averages over n units exceeds its value at the mean by half
        its second variation over n.
        """
        level, metric = self.average

        def weight(k: Any, g: Any) -> Any:
            return mp.exp(-ratio * level / (2 * k)) / mp.sqrt(k)

        def variation(f: Callable[[Any, Any], Any]) -> Any:
            def along(*unit: Any) -> Any:
                k, g = self.unit_terms(*unit)
                k, g = k - level, g - metric
                return mp.diff(lambda e: f(level + e * k, metric + e * g), 0, 2) / 2

            return self.mean(along)

        both = variation(lambda k, g: weight(k, g) * read(g))
        return (both - read(metric) * variation(weight)) / weight(level, metric)


def monomial_network(q: int, x: Vector, x_a: Vector) -> PolynomialNetwork:
    return PolynomialNetwork([*[0] * q, 1 / mp.sqrt(odd_factorial(2 * q - 1))], x, x_a)


def volume(g: Any) -> Any:
    """sqrt(det g) of an mpmath matrix."""
    return mp.sqrt(mp.det(g))

"""Linear algebra over Fractions, SymPy expressions or mpf, and the sums over minors (B.30)-(B.40)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, combinations_with_replacement, permutations, product
from math import factorial, prod
from numbers import Rational
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from mpmath import mp

from analytic.expressions.arguments import InputError

if TYPE_CHECKING:
    from analytic.finite.units import Units

__all__ = [
    "Minors", "components", "determinant", "fraction", "inverse", "is_negligible", "ldl_factors",
    "number", "symmetric", "to_common_type", "vector", "vector_values",
]  # fmt: skip

SLACK = 100  # a pivot below so many roundings counts as zero


def to_common_type(values: Iterable[Any]) -> tuple[Any, ...]:
    """All as Fractions if all are rational; else as expressions if any is one; else as mpf."""
    values = tuple(values)
    kinds = {_kind(value) for value in values}
    if kinds <= {"rational"}:
        return tuple(map(fraction, values))
    if "expression" in kinds:
        return tuple(map(sp.sympify, values))
    return tuple(map(number, values))


def _kind(value: Any) -> str:
    if isinstance(value, Rational) and not isinstance(value, bool):
        return "rational"
    if isinstance(value, float | sp.Float | mp.mpf) and mp.isfinite(value):
        return "float"
    if isinstance(value, sp.Expr) and value.is_finite is not False and value.is_real is not False:
        return "expression"
    raise InputError(
        f"{value!r} was given where a finite real number or a SymPy expression is needed: "
        "give an int, a float, a Fraction, an mpf or an expression."
    )


def fraction(value: Rational) -> Fraction:
    return Fraction(int(value.numerator), int(value.denominator))


def number(value: Any) -> Any:
    """An mpf of the working precision."""
    if isinstance(value, Rational):
        value = fraction(value)
        return mp.mpf(value.numerator) / value.denominator
    return mp.mpf(sp.N(value, mp.dps + 5) if isinstance(value, sp.Expr) else value)


def determinant(rows: Sequence[Sequence[Any]]) -> Any:
    """Expansion along the first row, without divisions."""
    if len(rows) == 1:
        return rows[0][0]
    parts = (
        (-1) ** m * entry * determinant([[*row[:m], *row[m + 1 :]] for row in rows[1:]])
        for m, entry in enumerate(rows[0])
    )
    return sum(parts, start=0 * rows[0][0])


def ldl_factors(g: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Pivots D and the unit lower triangular L^-1 of g = L D L^T; None if g is singular.

    This needs no square roots, and for positive definite g it is stable without pivoting.
    """
    left, size = g.copy(), range(len(g))
    lower = np.array([[g[0, 0] * 0 + int(a == b) for b in size] for a in size], dtype=object)
    for a in size:
        if is_negligible(left[a, a], g[a, a]):
            return None
        for b in size[a + 1 :]:
            factor = left[b, a] / left[a, a]
            left[b] -= factor * left[a]
            lower[b] -= factor * lower[a]
    return left.diagonal().copy(), lower


def is_negligible(value: Any, scale: Any) -> bool:
    """Whether a value is zero compared to `scale`: exactly for Fractions, else to mpmath's precision."""
    if isinstance(value, Fraction):
        return value == 0
    return bool(abs(_generic(value)) <= SLACK * mp.eps * abs(_generic(scale)))


def _generic(value: Any) -> Any:
    """An expression at arbitrary irrational values of its symbols; a number unchanged."""
    if not isinstance(value, sp.Basic):
        return value
    symbols = sorted(value.free_symbols, key=str)
    at = {symbol: sp.sqrt(sp.prime(k + 9)) / 3 for k, symbol in enumerate(symbols)}
    return mp.mpf(sp.N(value.subs(at), mp.dps + 10, chop=True))


def vector(letter: str, size: int) -> np.ndarray:
    """A vector of real symbols, such as u1, u2."""
    return np.array([sp.Symbol(f"{letter}{k}", real=True) for k in range(1, size + 1)])


def vector_values(values: Mapping[str, Any], letter: str, size: int) -> np.ndarray:
    """The values of the symbols of `vector(letter, size)`, from a mapping by name."""
    return np.array([values[f"{letter}{k}"] for k in range(1, size + 1)], dtype=object)


def inverse(g: np.ndarray) -> np.ndarray:
    """The inverse of a symbolic matrix as adjugate over determinant."""
    matrix = sp.Matrix(g)
    return np.array(matrix.adjugate() / matrix.det(method="berkowitz"), dtype=object)


def components(letter: str, rank: int, d: int) -> list[str]:
    """Names of the components of a symmetric tensor: g11, g12, g22 for rank 2 in two dimensions."""
    indices = combinations_with_replacement(range(1, d + 1), rank)
    return [letter + "".join(map(str, index)) for index in indices]


def symmetric(letter: str, rank: int, d: int, known: Mapping[str, Any] | None = None) -> np.ndarray:
    """The symmetric tensor with components from `known`, by name, or else with real symbols."""
    full = np.empty((d,) * rank, dtype=object)
    if known is None:
        known = {name: sp.Symbol(name, real=True) for name in components(letter, rank, d)}
    for index in np.ndindex(*full.shape):
        full[index] = known[letter + "".join(str(i + 1) for i in sorted(index))]
    return full


@dataclass(frozen=True)
class Minors:
    """The curvature of units by the paper's sums over minors, with its factor 3 corrected to 1.

    The cost grows like n^(3d-1), so this is for proofs and checks; use `Units` otherwise. Sums over
    ordered tuples of d-1 units are written as (d-1)! times sums over sets.
    """

    units: Units

    def riemann(self, m: Any, n: Any, a: Any, b: Any) -> Any:
        """(B.30) along four vectors."""
        w, total = self._rows, 0
        for i, k in self._pairs():
            total += (
                self._pair_coefficient(i, k) * (w[i] @ m) * (w[k] @ n) * self._wedge(i, k, a, b)
            )
        return -total / (self.units.n**2 * self._size())

    def riemann_raised(self, c: Any, n: Any, a: Any, b: Any) -> Any:
        """(B.32) along a covector and three vectors."""
        bordered = {
            l: self._weight(l) * determinant([list(c), *(self.units.weights[j] for j in l)])
            for l in self._sets()
        }
        total = 0
        for i, k in self._pairs():
            up = sum(self._minor(i, l) * inner for l, inner in bordered.items())
            front = self._pair_coefficient(i, k) * (self._rows[k] @ n)
            total += front * up * self._wedge(i, k, a, b)
        return -total / (self.units.n**2 * self._size() ** 2)

    def ricci(self, n: Any, b: Any) -> Any:
        """(B.34) along two vectors."""
        w, M, total = self._rows, self._minor, 0
        for i, k in self._pairs():
            inner = 0
            for l in self._sets():
                bracket = M(i, l) * (w[k] @ b) - (w[i] @ b) * M(k, l)
                inner += self._weight(l) * M(i, l) * bracket
            total += self._pair_coefficient(i, k) * (w[k] @ n) * inner
        return -total / (self.units.n**2 * self._size() ** 2)

    def scalar(self) -> Any:
        """(B.36)."""
        M = self._minor
        total = self._double_sum(
            lambda i, j, l, m: M(i, l) ** 2 * M(j, m) ** 2 - M(i, l) * M(j, l) * M(i, m) * M(j, m)
        )
        return -total / (self.units.n**2 * self._size() ** 3)

    def scalar_by_squares(self) -> Any:
        """(B.40)."""
        M = self._minor
        total = self._double_sum(lambda i, j, l, m: (M(i, l) * M(j, m) - M(i, m) * M(j, l)) ** 2)
        return -total / (2 * self.units.n**2 * self._size() ** 3)

    def _double_sum(self, bracket: Callable[..., Any]) -> Any:
        total = 0
        for i, j in self._pairs():
            inner = 0
            for l, m in product(self._sets(), repeat=2):
                inner += self._weight(l) * self._weight(m) * bracket(i, j, l, m)
            total += self._pair_coefficient(i, j) * inner
        return total

    @property
    def _rows(self) -> list[np.ndarray]:
        return [np.array(row, dtype=object) for row in self.units.weights]

    def _size(self) -> Any:
        """n^(d-1) (d-1)! det g."""
        n, d = self.units.n, self.units.d
        return n ** (d - 1) * factorial(d - 1) * self.units.determinant()

    def _pairs(self) -> Iterator[tuple[int, int]]:
        return permutations(range(self.units.n), 2)  # terms with two equal units vanish

    def _sets(self) -> Iterator[tuple[int, ...]]:
        return combinations(range(self.units.n), self.units.d - 1)

    @cached_property
    def _minors(self) -> dict[tuple[int, tuple[int, ...]], Any]:
        pairs = product(range(self.units.n), self._sets())
        return {(i, rest): self.units.minor(i, *rest) for i, rest in pairs}

    def _minor(self, i: int, rest: tuple[int, ...]) -> Any:
        return self._minors[i, rest]

    @cached_property
    def _weights(self) -> dict[tuple[int, ...], Any]:
        """phi'^2 of each unit of a set, in all orders."""
        squares, orders = [slope**2 for slope in self.units.slopes], factorial(self.units.d - 1)
        return {chosen: orders * prod(squares[j] for j in chosen) for chosen in self._sets()}

    def _weight(self, chosen: tuple[int, ...]) -> Any:
        return self._weights[chosen]

    def _pair_coefficient(self, i: int, k: int) -> Any:
        """phi' phi'' of two units, times the sum of their minors with every set of d-1 units."""
        p, pp, M = self.units.slopes, self.units.second_derivatives, self._minor
        total = sum(self._weight(j) * M(i, j) * M(k, j) for j in self._sets())
        return p[i] * pp[i] * p[k] * pp[k] * total

    def _wedge(self, i: int, k: int, a: Any, b: Any) -> Any:
        """The two-form w_i ^ w_k applied to (a, b)."""
        w = self._rows
        return (w[i] @ a) * (w[k] @ b) - (w[i] @ b) * (w[k] @ a)

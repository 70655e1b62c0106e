"""A shallow network of finite width at one point: metric and curvature from weights and slopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from typing import Any

import numpy as np
import sympy as sp

from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError, RealNumber, whole
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.symbols import z
from analytic.finite.forms import (
    determinant,
    is_negligible,
    ldl_factors,
    number,
    to_common_type,
    vector,
)

__all__ = ["Units"]

Vector = Sequence[RealNumber]


@dataclass(frozen=True)
class Units:
    r"""n hidden units $\phi(w_j\cdot x + b_j)/\sqrt n$ at a point x of d coordinates.

    Row j of `weights` is $w_j$; `slopes` are $\phi'(z_j)$ and `second_derivatives` $\phi''(z_j)$.
    Rational numbers are stored as Fractions, symbols and roots as SymPy expressions; one float
    makes all of them mpf. Tensors are object arrays of the same type.
    """

    weights: tuple[tuple[Any, ...], ...]
    slopes: tuple[Any, ...]
    second_derivatives: tuple[Any, ...]

    def __post_init__(self) -> None:
        rows = _require_rows(self.weights)
        n, d = len(rows), len(rows[0])
        for name in ("slopes", "second_derivatives"):
            _require_count(name, getattr(self, name), n, "units")
        flat = to_common_type((*chain(*rows), *self.slopes, *self.second_derivatives))
        object.__setattr__(self, "weights", tuple(flat[d * j : d * (j + 1)] for j in range(n)))
        object.__setattr__(self, "slopes", flat[n * d : n * (d + 1)])
        object.__setattr__(self, "second_derivatives", flat[n * (d + 1) :])

    @classmethod
    def of(
        cls, activation: Activation, weights: Sequence[Vector], biases: Vector, x: Vector
    ) -> Units:
        """The units of a network at x.

        activation: without open parameters, and without a kink at a preactivation.
        weights, biases: one row and one number for each of n units, (n, d) and (n,).
        x: the point, (d,).

        They are exact if phi' and phi'' are rational or symbolic there, and otherwise rounded to the
        working precision of mpmath. Tables of other shapes, and a kink, are refused with an InputError.

        >>> from analytic.activations import monomial
        >>> from analytic.finite.units import Units
        >>> units = Units.of(monomial(1), [[1, 0], [1, 2]], [0, 0], [3, 4])
        >>> units.metric().tolist() == [[1, 1], [1, 2]], units.n, units.d
        (True, 2, 2)
        """
        if not isinstance(activation, Activation):
            raise InputError(
                f"activation = {activation!r} is none: give an Activation, such as erf."
            )
        rows = _require_rows(weights)
        _require_count("biases", biases, len(rows), "units")
        _require_count("x", x, len(rows[0]), "coordinates")
        numbers = iter(to_common_type((*chain(*rows), *biases, *x)))
        rows = tuple(tuple(next(numbers) for _ in row) for row in rows)
        shifts, at = [next(numbers) for _ in rows], list(numbers)
        sums = [sum(a * b for a, b in zip(w, at)) + c for w, c in zip(rows, shifts)]
        return cls(rows, *(_derivatives(activation, order, sums) for order in (1, 2)))

    @classmethod
    def generic(cls, n: int, d: int) -> Units:
        """Symbolic units: weights w11, w12, ..., slopes p1, ..., second derivatives pp1, ...

        >>> from analytic.finite.units import Units
        >>> Units.generic(n=1, d=1).metric()[0, 0]
        p1**2*w11**2
        """
        n, d = whole("n", n), whole("d", d)
        rows = tuple(tuple(vector(f"w{j}", d)) for j in range(1, n + 1))
        return cls(rows, tuple(vector("p", n)), tuple(vector("pp", n)))

    @property
    def symbols(self) -> tuple[sp.Symbol, ...]:
        """The free symbols of the weights, slopes and second derivatives, in that order."""
        entries = map(sp.sympify, (*chain(*self.weights), *self.slopes, *self.second_derivatives))
        return tuple(dict.fromkeys(s for e in entries for s in sorted(e.free_symbols, key=str)))

    @property
    def n(self) -> int:
        return len(self.weights)

    @property
    def d(self) -> int:
        return len(self.weights[0])

    def metric(self) -> np.ndarray:
        r"""$g_{mn} = \frac1n \sum_j \phi'(z_j)^2 w_{jm} w_{jn}$, (2)."""
        return self._total(self._slopes**2, 2)

    def derivative(self) -> np.ndarray:
        r"""$\partial_a g_{mn} = \frac2n \sum_j \phi'(z_j)\phi''(z_j) w_{ja} w_{jm} w_{jn}$, (B.26)."""
        return 2 * self._total(self._products, 3)

    def minor(self, *units: int) -> Any:
        """The determinant of the weights of d units, (B.24)."""
        return determinant([self.weights[j] for j in units])

    def determinant(self) -> Any:
        r"""$\det g = n^{-d} \sum M_{j_1\cdots j_d}^2 \phi'(z_{j_1})^2\cdots$ over sets of d units, (B.22)."""
        total = 0 * self.slopes[0]
        for units in combinations(range(self.n), self.d):
            total += self.minor(*units) ** 2 * np.prod([self.slopes[j] ** 2 for j in units])
        return total / self.n**self.d

    def inverse(self) -> np.ndarray:
        """g^{mn}."""
        pivots, lower = self._whitening
        return np.einsum("am,an->mn", lower, lower / pivots[:, None])

    def riemann(self) -> np.ndarray:
        r"""$R_{mnab} = -\tfrac14 g^{rl} (\partial_r g_{ma}\partial_l g_{nb} - \partial_r g_{mb}
        \partial_l g_{na})$ as [m, n, a, b]; the paper's (A.12) has -3/4."""
        slope = self.derivative()
        half = np.einsum("mal,nbl->mnab", slope @ self.inverse(), slope)
        return (half.swapaxes(2, 3) - half) / 4

    def ricci(self) -> np.ndarray:
        """$R_{nb} = g^{ma} R_{mnab}$."""
        return np.einsum("ma,mnab->nb", self.inverse(), self.riemann())

    def scalar(self) -> Any:
        r"""$R = \frac1{n^2} \sum_{jk} c_j c_k G_{jk}(G_{jk}^2 - G_{jj}G_{kk})$ in $O(n^2d)$ steps, with
        $G = W g^{-1} W^T$ and $c = \phi'\phi''$."""
        pivots, whitened = self._whitened
        gram = whitened / pivots @ whitened.T
        lengths = gram.diagonal()
        bracket = gram * (gram**2 - np.outer(lengths, lengths))
        return self._products @ bracket @ self._products / self.n**2

    def scalar_by_tensor(self) -> Any:
        r"""$R = \tfrac14(|T|^2 - |\operatorname{tr} T|^2)$ for $T = \partial g$ in a frame, in $O(nd^3)$
        steps."""
        pivots, whitened = self._whitened
        T = 2 * np.einsum("j,ja,jb,jc->abc", self._products / self.n, *[whitened] * 3)
        up = 1 / pivots  # the frame is orthogonal but not normalised, which would need square roots
        square = np.einsum("abc,abc,a,b,c->", T, T, up, up, up)
        trace = np.einsum("aac,a->c", T, up)
        return (square - trace @ (trace * up)) / 4

    @property
    def _rows(self) -> np.ndarray:
        return np.array(self.weights, dtype=object)

    @property
    def _slopes(self) -> np.ndarray:
        return np.array(self.slopes, dtype=object)

    @property
    def _products(self) -> np.ndarray:
        """phi' phi'' of each unit."""
        return self._slopes * np.array(self.second_derivatives, dtype=object)

    def _total(self, values: np.ndarray, rank: int) -> np.ndarray:
        """The mean over units of values times the outer product w w ... w of this rank."""
        letters = "abc"[:rank]
        terms = ",".join(f"j{letter}" for letter in letters)
        return np.einsum(f"j,{terms}->{letters}", values / self.n, *[self._rows] * rank)

    @cached_property
    def _whitening(self) -> tuple[np.ndarray, np.ndarray]:
        """Pivots D and the unit lower triangular L^-1 with g = L D L^T."""
        if self.n < self.d:
            raise InputError(
                f"{self.n} units in {self.d} dimensions were given: their metric is singular, so give "
                f"at least {self.d} units."
            )
        factors = ldl_factors(self.metric())
        if factors is None:
            raise InputError(self._why_singular())
        return factors

    @cached_property
    def _whitened(self) -> tuple[np.ndarray, np.ndarray]:
        """Pivots, and the weights in the frame where the metric is the diagonal matrix of pivots."""
        pivots, lower = self._whitening
        return pivots, self._rows @ lower.T

    def _why_singular(self) -> str:
        rows = self._rows
        if ldl_factors(np.einsum("ja,jb->ab", rows, rows)) is None:
            return (
                f"The metric is singular: the weights of the {self.n} units do not span the {self.d} "
                "dimensions, as collinear ones do not. Give weights that do, or raise mpmath's precision."
            )
        largest = sum(slope**2 for slope in self.slopes)
        idle = [str(j + 1) for j, p in enumerate(self.slopes) if is_negligible(p**2, largest)]
        return (
            f"The metric is singular: phi' is zero, or nearly, at unit {', '.join(idle) or '?'}, and the "
            f"weights of the others do not span the {self.d} dimensions. Move x or the biases."
        )


def _require_rows(weights: Sequence[Vector]) -> tuple[tuple[Any, ...], ...]:
    """The weights as rows of equal length; other input is refused."""
    try:
        rows = tuple(map(tuple, weights))
    except TypeError:
        raise InputError(
            f"weights = {weights!r} is no table: give one row of weights for each unit."
        ) from None
    lengths = sorted({len(row) for row in rows})
    if not rows or lengths == [0]:
        raise InputError("No weights were given: at least one unit and one dimension are needed.")
    if len(lengths) > 1:
        raise InputError(
            f"Rows of {', '.join(map(str, lengths))} weights were given: give every unit as many "
            "weights as x has coordinates."
        )
    return rows


def _require_count(name: str, values: Vector, count: int, what: str) -> None:
    name = name.replace("_", " ")
    if not hasattr(values, "__len__"):
        raise InputError(
            f"{name} = {values!r} is no list: give one number for each of {count} {what}."
        )
    if len(values) != count:
        raise InputError(f"{len(values)} {name} were given for {count} {what}: give one for each.")


def _derivatives(activation: Activation, order: int, at: list[Any]) -> tuple[Any, ...]:
    expr = activation.derivative(order)
    floating = compile_mpmath((z,), expr) if not activation.parameters else None

    def value(preactivation: Any) -> Any:
        exact = sp.sympify(preactivation)
        if any(exact == kink for kink in activation.kinks):
            raise InputError(
                f"A unit has z = {exact}, where {activation.name} has a kink and no curvature: "
                "move x or a bias."
            )
        derivative = expr.subs(z, exact)
        if floating is None or derivative.free_symbols or derivative.is_Rational:
            return derivative
        return floating(number(preactivation))

    return tuple(map(value, at))

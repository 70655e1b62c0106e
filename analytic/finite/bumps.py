r"""The volume element of a shallow erf network as a sum of Gaussian bumps, one for each d units.

With $\phi(z) = \mathrm{erf}(z/\sqrt2)$, any d units J whose weights $W_J$ span the input space add

$$\Big(\frac{2}{\pi n}\Big)^d \det Q\; e^{-(x-c)^T Q (x-c)}, \qquad Q = W_J^T W_J, \quad
c = -W_J^{-1} b_J$$

to det g (curvature paper, (B.55)): the bump sits where the d hyperplanes w.x + b = 0 meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import sympy as sp
from mpmath import mp

from analytic.expressions.arguments import (
    ArrayLike,
    InputError,
    RealNumber,
    exact,
    finite_array,
    listed,
)

__all__ = ["Bump", "bumps", "determinant", "log_determinant"]

Rows = list[list[sp.Expr]]
Entries = Sequence[RealNumber] | np.ndarray
Table = Sequence[Entries] | np.ndarray | sp.MatrixBase
CHUNK = 200_000  # array entries computed at a time, to bound memory


@dataclass(frozen=True)
class Bump:
    """weight exp(-(x - centre)^T precision (x - centre)), exactly."""

    weight: sp.Expr
    centre: sp.ImmutableMatrix  # (d, 1)
    precision: sp.ImmutableMatrix  # (d, d)


def bumps(weights: Table, biases: Entries) -> tuple[Bump, ...]:
    """Every bump of a network, one for each set of d units with linearly independent weights.

    weights: one row for each of n units, (n, d).
    biases: one for each unit, (n,).

    Floats, fractions and strings are read exactly; SymPy expressions stay as they are. Other input, and
    weights that do not span the input space, is refused with an InputError.

    >>> from analytic.finite.bumps import bumps
    >>> [bump.centre.T.tolist() for bump in bumps([[1, 0], [0, 1], [1, 1]], [0, 0, "1/2"])]
    [[[0, 0]], [[0, -1/2]], [[-1/2, 0]]]
    """
    rows, offsets = _exact_network(weights, biases)
    n, d = len(rows), len(rows[0])
    front = (2 / (sp.pi * n)) ** d
    candidates = (
        _bump([rows[j] for j in units], [offsets[j] for j in units], front)
        for units in combinations(range(n), d)
    )
    all_bumps = tuple(bump for bump in candidates if bump is not None)
    if not all_bumps:
        raise InputError(
            f"The {n} weight vectors given do not span {d} dimensions, so det g vanishes everywhere: "
            f"give at least {d} that are linearly independent."
        )
    return all_bumps


def _bump(rows: Rows, offsets: list[sp.Expr], front: sp.Expr) -> Bump | None:
    """The bump of d units, centred by Cramer's rule (B.60); None where they are dependent."""
    d, minor = range(len(rows)), _det(rows)
    if minor.equals(0) if minor.is_zero is None else minor.is_zero:
        return None
    centre = [
        _simplified(
            -_det([[*w[:m], b, *w[m + 1 :]] for w, b in zip(rows, offsets, strict=True)]) / minor
        )
        for m in d
    ]
    precision = [[_expand(sum(w[i] * w[j] for w in rows)) for j in d] for i in d]
    return Bump(
        front * _expand(minor**2), sp.ImmutableMatrix(centre), sp.ImmutableMatrix(precision)
    )


def _det(rows: Rows) -> sp.Expr:
    """Expansion along the first row, a hundred times faster than SymPy's matrices on small minors."""
    if len(rows) == 1:
        return rows[0][0]
    first, *rest = rows
    minors = (_det([[*row[:m], *row[m + 1 :]] for row in rest]) for m in range(len(first)))
    return _expand(sum((-1) ** m * first[m] * minor for m, minor in enumerate(minors)))


def determinant(bumps: Sequence[Bump], x: Entries) -> sp.Expr:
    """det g at a point x, (d,), in symbols or in numbers, which are read exactly.

    A point of another dimension is refused with an InputError.

    >>> from analytic.finite.bumps import bumps, determinant
    >>> determinant(bumps([[1, 0], [0, 1]], [0, 0]), (0, 1))
    exp(-1)/pi**2
    """
    d, coordinates = _require_bumps(bumps), listed("x", x)
    if len(coordinates) != d:
        raise InputError(
            f"A point of {len(coordinates)} coordinates was given, but the bumps need {d}."
        )
    point = sp.Matrix([_exact(f"x{m}", value) for m, value in enumerate(coordinates, 1)])
    return sp.Add(
        *(
            bump.weight * sp.exp(-_quadratic_form(bump.precision, point - bump.centre).expand())
            for bump in bumps
        )
    )


def log_determinant(bumps: Sequence[Bump], x: ArrayLike) -> np.ndarray:
    """log det g in float64 without underflow at any distance, at points x, (..., d) -> (...).

    Points of another dimension, or with NaN, are refused with an InputError.

    >>> from analytic.finite.bumps import bumps, log_determinant
    >>> log_determinant(bumps([[1, 0], [0, 1]], [0, 0]), [[0.0, 0.0], [30.0, 0.0]]).round(2)
    array([  -2.29, -902.29])
    """
    d, points = _require_bumps(bumps), finite_array("x", x)
    if points.ndim == 0 or points.shape[-1] != d:
        raise InputError(
            f"Points of shape {points.shape} were given, but the bumps need a last axis of {d}: "
            f"give an array (..., {d})."
        )
    logarithms, flat = _logarithms(bumps), points.reshape(-1, d)
    parts = np.array_split(flat, 1 + flat.size * len(bumps) // CHUNK)
    return np.concatenate([_log_sum(logarithms(part)) for part in parts]).reshape(points.shape[:-1])


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """log-sum-exp over the bumps, (bumps, m) -> (m)."""
    logs = np.where(np.isnan(logs), -np.inf, logs)  # inf - inf where coordinates exceed 1e150
    highest = logs.max(axis=0)
    shift = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore"):  # log 0 where every exponent overflows to -infinity
        return shift + np.log(np.exp(logs - shift).sum(axis=0))


def _logarithms(bumps: Sequence[Bump]) -> Callable[[np.ndarray], np.ndarray]:
    """The log of each bump at points, (m, d) -> (bumps, m)."""
    heights, factors, offsets = map(np.array, zip(*map(_floats, bumps)))

    def at(points: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            y = points @ factors.swapaxes(1, 2) - offsets[:, None]
            return heights[:, None] - np.einsum("bmi,bmi->bm", y, y)

    return at


def _floats(bump: Bump) -> tuple[float, list[list[float]], list[float]]:
    """log weight, F and F c, where F^T F is the precision.

    The hyperplanes of nearly collinear units meet at a distant c, and x - c would lose digits;
    F x - F c does not, as F c is of the size of the biases.
    """
    if bump.weight.free_symbols | bump.centre.free_symbols | bump.precision.free_symbols:
        raise InputError("Bumps with free symbols were given: substitute numbers to draw them.")
    lower, diagonal = bump.precision.LDLdecomposition(hermitian=False)
    d, offset = range(lower.rows), lower.T * bump.centre
    roots = [mp.sqrt(_mpf(diagonal[i, i])) for i in d]
    factor = [[float(roots[i] * _mpf(lower[j, i])) for j in d] for i in d]
    height = float(mp.log(_mpf(bump.weight)))
    return height, factor, [float(roots[i] * _mpf(offset[i])) for i in d]


def _mpf(number: sp.Expr) -> Any:
    return mp.mpmathify(number.evalf(20))


def _exact_network(weights: Any, biases: Any) -> tuple[Rows, list[sp.Expr]]:
    """Exact numbers, (n, d) and (n)."""
    table = "a table with one row of weights for each unit"
    rows = [listed("weights", row, table) for row in listed("weights", weights, table)]
    offsets = listed("biases", biases, "a list of biases")
    n, lengths = len(rows), sorted({len(row) for row in rows})
    if len(lengths) != 1 or lengths == [0]:
        raise InputError(
            f"Weights of {n} units with rows of lengths {lengths} were given: "
            "give one row for each unit, all of the same length, at least 1."
        )
    if len(offsets) != n:
        raise InputError(f"{n} units but {len(offsets)} biases were given: give one for each unit.")
    W = [[_exact(f"w{j}{m}", v) for m, v in enumerate(row, 1)] for j, row in enumerate(rows, 1)]
    return W, [_exact(f"b{j}", v) for j, v in enumerate(offsets, 1)]


def _exact(name: str, value: Any) -> sp.Expr:
    """A number without rounding; an expression as it is, unless it cannot be real."""
    if isinstance(value, sp.Expr) and not isinstance(value, sp.Float | sp.Rational):
        if value.is_extended_real is False or value.is_finite is False or value.has(sp.nan):
            raise InputError(f"{name} = {value} was given, but it must be a real number.")
        return value
    if isinstance(value, sp.Float):
        return sp.Rational(value)
    number = exact(sp.Symbol(name, real=True), value)
    return sp.Rational(number.numerator, number.denominator)


def _expand(entry: sp.Expr) -> sp.Expr:
    return entry if entry.is_Rational else sp.expand(entry)


def _simplified(entry: sp.Expr) -> sp.Expr:
    return entry if entry.is_Rational else sp.radsimp(sp.cancel(entry))


def _quadratic_form(Q: sp.MatrixBase, y: sp.MatrixBase) -> sp.Expr:
    """y^T Q y."""
    return (y.T * Q * y)[0, 0]


def _require_bumps(bumps: Sequence[Bump]) -> int:
    if not all(isinstance(one, Bump) for one in listed("bumps", bumps)):
        raise InputError(f"{bumps!r} was given where bumps are needed: make them with `bumps`.")
    if not bumps:
        raise InputError("No bump was given: det g vanishes everywhere. Make some with `bumps`.")
    return bumps[0].centre.rows

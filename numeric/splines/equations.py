"""Sparse linear equations between neighbouring data, numbered so that elimination runs along the line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from numeric.inputs import InputError

__all__ = ["UNDETERMINED", "Terms", "equate", "place", "solve"]

Array = NDArray[np.float64]
Terms = list[tuple[Any, Any, Any]]  # equations, unknowns and factors, which broadcast
Given = tuple[Any, Any]  # numbers of equations or unknowns, and a value for each
NOTHING: Given = (np.empty(0, int), np.empty(0))
WIDTH = 8  # unknowns, and equations, of one datum
UNDETERMINED = (
    "The data do not determine an interpolant: some of them lie where no unit has its knot, so that "
    "nothing can bend between them. Use a ridge or a time limit, or a wider law."
)


def place(kind: int, datum: NDArray[np.intp] | int) -> Any:
    """The number of an unknown or of an equation; -1 is before the first datum."""
    return WIDTH * (np.asarray(datum) + 1) + kind


def equate(equations: NDArray[np.intp] | int, *sides: tuple[Any, Any]) -> Terms:
    """Equations, one for each of these numbers, from unknowns and their factors."""
    return [(equations, unknowns, factors) for unknowns, factors in sides]


def solve(terms: Terms, right: Given = NOTHING, known: Given = NOTHING) -> Array:
    """Unknowns by their numbers, from equations whose right-hand sides are 0 but for these."""
    parts = zip(*(np.broadcast_arrays(*term) for term in terms), strict=True)
    rows, columns, factors = (np.concatenate([np.ravel(one) for one in part]) for part in parts)
    solution, sides = np.zeros(columns.max() + 1), np.zeros(rows.max() + 1)
    sides[right[0]], solution[known[0]] = right[1], known[1]
    is_known = np.zeros(len(solution), bool)
    is_known[known[0]] = True
    is_known = is_known[columns]
    np.subtract.at(sides, rows[is_known], factors[is_known] * solution[columns[is_known]])
    numbers, rows = _renumbered(rows[~is_known], len(sides))
    unknowns, columns = _renumbered(columns[~is_known], len(solution))
    solution[unknowns] = _eliminated(rows, columns, factors[~is_known], sides[numbers])
    return solution


def _renumbered(numbers: Any, most: int) -> tuple[Any, Any]:
    """Which numbers occur, and the rank of each among them."""
    occurs = np.zeros(most, bool)
    occurs[numbers] = True
    return occurs, (np.cumsum(occurs) - 1)[numbers]


def _eliminated(rows: Any, columns: Any, factors: Array, right: Array) -> Array:
    """Sparse LU in the given order, with row and column scaling and one step of iterative refinement."""
    by_row = _scales(rows, factors)
    factors = factors * by_row[rows]
    by_column = _scales(columns, factors)
    matrix = sparse.csc_array((factors * by_column[columns], (rows, columns)))
    right = right * by_row
    try:
        solver = splu(matrix, permc_spec="NATURAL")
    except RuntimeError as failure:  # a pivot is 0
        raise InputError(UNDETERMINED) from failure
    solution = solver.solve(right)
    solution = (solution + solver.solve(right - matrix @ solution)) * by_column
    if not np.isfinite(solution).all():
        raise InputError(UNDETERMINED)
    return solution


def _scales(lines: Any, factors: Array) -> Array:
    """The reciprocal of the largest entry of each row or column, as a power of two (no rounding)."""
    largest = np.zeros(lines.max() + 1)
    np.maximum.at(largest, lines, np.abs(factors))
    return 2.0 ** -np.frexp(largest)[1]

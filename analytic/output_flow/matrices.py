"""Arguments as exact matrices and exact shares."""

from __future__ import annotations

import sympy as sp

from analytic.expressions.arguments import InputError, Number, RealNumber, exact

__all__ = ["exact_column", "exact_matrix", "exact_shape", "exact_share", "exact_time"]


def exact_matrix(name: str, value: sp.MatrixBase) -> sp.Matrix:
    """A SymPy matrix without floats, whose rank rounding would decide; others are refused."""
    if not isinstance(value, sp.MatrixBase):
        raise InputError(f"{name} = {value!r} was given, but {name} must be a SymPy matrix.")
    if not value.rows or not value.cols:
        raise InputError(f"{name} of shape {value.shape} was given, but it needs an entry.")
    if value.has(sp.nan, sp.zoo, sp.oo, sp.I):
        raise InputError(f"{name} has entries that are no real numbers.")
    if value.has(sp.Float):
        raise InputError(
            f"{name} has floats, whose rank hangs on rounding: give exact entries, such as sp.Rational(1, 3)."
        )
    return sp.Matrix(value)


def exact_column(name: str, value: sp.MatrixBase, rows: int) -> sp.Matrix:
    """An exact matrix with one column and as many rows; others are refused."""
    return exact_shape(name, value, (rows, 1))


def exact_shape(name: str, value: sp.MatrixBase, shape: tuple[int, int]) -> sp.Matrix:
    """An exact matrix of this shape; others are refused."""
    matrix = exact_matrix(name, value)
    if matrix.shape != shape:
        raise InputError(f"{name} of shape {matrix.shape} was given, but it must be {shape}.")
    return matrix


def exact_share(name: str, value: RealNumber) -> sp.Expr:
    """A rational number in [0, 1], or an expression, which stands for itself; others are refused."""
    symbolic = isinstance(value, sp.Expr) and not value.is_number
    return value if symbolic else exact_time(name, value)


def exact_time(name: str, value: Number) -> sp.Rational:
    """A rational number in [0, 1]; others are refused."""
    number = exact(sp.Symbol(name, real=True), value)
    if not 0 <= number <= 1:
        raise InputError(f"{name} = {value} was given, but {name} must be between 0 and 1.")
    return sp.Rational(number.numerator, number.denominator)

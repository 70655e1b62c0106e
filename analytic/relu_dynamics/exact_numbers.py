"""Arguments as exact numbers: a float is the rational that it stores, an expression stays as it is."""

from __future__ import annotations

from typing import Any

import sympy as sp

from analytic.expressions.arguments import exact


def rational(symbol: sp.Symbol, value: Any) -> sp.Rational:
    """One exact number that the symbol admits."""
    return sp.Rational(*exact(symbol, value).as_integer_ratio())


def real(name: str, value: Any) -> sp.Expr:
    """An exact number, or an expression that may be real."""
    return admitted(sp.Symbol(name, real=True), value)


def admitted(symbol: sp.Symbol, value: Any) -> sp.Expr:
    """The same for a symbol with assumptions, which only numbers are held to."""
    symbolic = isinstance(value, sp.Expr) and not isinstance(value, sp.Number)
    return value if symbolic and value.is_real is not False else rational(symbol, value)

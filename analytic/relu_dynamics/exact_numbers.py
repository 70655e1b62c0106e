"""Arguments as exact numbers: a float is read as the rational number that it stores."""

from __future__ import annotations

import sympy as sp

from analytic.expressions.arguments import RealNumber, exact

__all__ = ["exact_or_symbolic", "exact_rational", "exact_real"]


def exact_rational(symbol: sp.Symbol, value: RealNumber) -> sp.Rational:
    """A rational number that satisfies the assumptions of the symbol."""
    return sp.Rational(*exact(symbol, value).as_integer_ratio())


def exact_real(name: str, value: RealNumber) -> sp.Expr:
    """A rational number, or an expression unless it is known not to be real."""
    return exact_or_symbolic(sp.Symbol(name, real=True), value)


def exact_or_symbolic(symbol: sp.Symbol, value: RealNumber) -> sp.Expr:
    """The same for a symbol with assumptions; these are checked for numbers only."""
    symbolic = isinstance(value, sp.Expr) and not isinstance(value, sp.Number)
    return value if symbolic and value.is_real is not False else exact_rational(symbol, value)

"""What a signal is made of: an activation without open parameters, and numbers kept exact."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError, exact, need


def fixed(act: Any, *parts: str) -> Activation:
    """The activation, refused while a parameter is open or one of the parts needed diverges."""
    if not isinstance(act, Activation):
        raise InputError(f"act must be an Activation such as erf, but {act!r} was given.")
    if act.parameters:
        names = ", ".join(map(str, act.parameters))
        raise InputError(
            f"The activation {act.name} has open parameters ({names}): "
            f"fix them first, as in {act.name}(2)."
        )
    for part in parts:
        act.require(part)
    return act


def number(symbol: sp.Symbol, value: Any) -> sp.Expr:
    """An exact number that the symbol admits: sqrt(2) stays what it is, a float is the number it holds."""
    if not isinstance(value, sp.Expr) or value.is_Rational:
        found = exact(symbol, value)
        return sp.Rational(found.numerator, found.denominator)
    if not (value.is_number and value.is_real and value.is_finite):
        raise InputError(f"{symbol} = {value} is no number: give {need(symbol)}.")
    if value.is_negative or (symbol.is_positive and value.is_zero):
        raise InputError(f"{symbol} = {value} was given, but {symbol} must be {need(symbol)}.")
    return value


def to_mpf(value: sp.Expr) -> Any:
    """An exact number at the working precision."""
    return mp.mpmathify(value.evalf(mp.dps + 5))


def precise(digits: int, more: int = 0) -> AbstractContextManager:
    """A working precision that leaves the digits asked for right."""
    return mp.workdps(digits + 15 + more)


def unless_one(slope: Any, digits: int) -> Any:
    """A slope, or 1 where it cannot be told from 1."""
    return mpf(1) if abs(slope - 1) < mpf(10) ** (5 - digits) else slope

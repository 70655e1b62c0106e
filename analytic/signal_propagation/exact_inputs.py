"""Checks of the inputs of a signal: an activation without free parameters, and exact numbers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.activations.activation import Activation, require_activation
from analytic.expressions.arguments import InputError, RealNumber, exact, need

__all__ = ["exact_number", "require_fixed_parameters", "snap_to_one", "to_mpf", "working_precision"]


def require_fixed_parameters(act: object, *parts: str) -> Activation:
    """Refuse an activation that has free parameters, or lacks one of the Gaussian averages named."""
    known = require_activation(act)
    if known.parameters:
        names = ", ".join(map(str, known.parameters))
        raise InputError(
            f"The activation {known.name} has open parameters ({names}): "
            f"fix them first, as in {known.name}(2)."
        )
    for part in parts:
        known.require(part)
    return known


def exact_number(symbol: sp.Symbol, value: RealNumber) -> sp.Expr:
    """`value` as an exact SymPy number allowed for the symbol.

    sqrt(2) of SymPy stays symbolic; a float is read as the rational number that it stores.
    """
    if not isinstance(value, sp.Expr) or value.is_Rational:
        fraction = exact(symbol, value)
        return sp.Rational(fraction.numerator, fraction.denominator)
    if not (value.is_number and value.is_real and value.is_finite):
        raise InputError(f"{symbol} = {value} is no number: give {need(symbol)}.")
    if value.is_negative or (symbol.is_positive and value.is_zero):
        raise InputError(f"{symbol} = {value} was given, but {symbol} must be {need(symbol)}.")
    return value


def to_mpf(value: sp.Expr) -> Any:
    """An exact number, rounded to the working precision of mpmath."""
    return mp.mpmathify(value.evalf(mp.dps + 5))


def working_precision(digits: int, more: int = 0) -> AbstractContextManager:
    """Set mpmath's precision so that the requested digits of a result are correct."""
    return mp.workdps(digits + 15 + more)


def snap_to_one(slope: Any, digits: int) -> Any:
    """The slope, replaced by exactly 1 where the computed digits do not distinguish it from 1."""
    return mpf(1) if abs(slope - 1) < mpf(10) ** (5 - digits) else slope

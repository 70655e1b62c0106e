"""Which values an argument may take: by the assumptions of its symbol, checked before any arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import sympy as sp
from mpmath import mp, mpf

from analytic.expressions.symbols import r, sigma, xi, zeta

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Array", "ArrayLike", "Domain", "InputError", "Number", "OutsideDomain", "RealNumber", "admits", "bind",
    "check_array", "check_dtype", "exact", "finite_array", "listed", "need", "whole",
]  # fmt: skip


class Array(Protocol):
    """An array of numpy, or a tensor of torch."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> object: ...


Number = int | float | str | Fraction | mpf | sp.Rational  # a text is read exactly, such as "1/3"
RealNumber = Number | sp.Expr  # or an expression, which stands for itself
ArrayLike: TypeAlias = int | float | Fraction | Array | Sequence["ArrayLike"]

SQUARED = frozenset({r, sigma, zeta, xi})  # formulas contain products of two squares of these
LARGEST = 1e75  # up to this, and down to its inverse, such a product is a finite float


class InputError(ValueError):
    """Bad input; the message is one sentence: what was given, what is needed, what to do."""


class OutsideDomain(InputError):
    """Arguments that are numbers of the right kind, but for which a formula has no value."""


@dataclass(frozen=True)
class Domain:
    """Conditions beyond the assumptions of each symbol, and why they are needed."""

    conditions: tuple[sp.Basic, ...] = ()
    why: str = ""

    def check(self, name: str, values: Mapping[sp.Symbol, Any]) -> None:
        """Refuse exact numbers that violate a condition; a condition with open symbols may hold yet."""
        for condition in self.conditions:
            outcome = condition.subs({k: sp.sympify(v) for k, v in values.items()})
            if outcome == False or (not outcome.free_symbols and outcome != True):  # noqa: E712
                raise self._violation(name, condition, values)

    def check_arrays(self, name: str, values: Mapping[sp.Symbol, Any]) -> None:
        """The same for floats, which rounding may put just outside a condition of the form a <= b."""
        import numpy as np

        def at(expr: sp.Basic) -> Any:
            return sp.lambdify(list(values), expr, modules="numpy")(
                *map(np.asarray, values.values())
            )

        for condition in self.conditions:
            if isinstance(condition, sp.Le):
                left, right = at(condition.lhs), at(condition.rhs)
                violated = left - right > 1e-12 * (abs(left) + abs(right))
            else:
                violated = np.logical_not(at(condition))
            if np.any(violated):
                raise self._violation(name, condition, values)

    def _violation(
        self, name: str, condition: sp.Basic, values: Mapping[sp.Symbol, Any]
    ) -> OutsideDomain:
        readable = str(condition).replace("**", "^").replace("*", " ")
        point = ", ".join(f"{k} = {v}" for k, v in values.items() if k in condition.free_symbols)
        why = f" ({self.why})" if self.why else ""
        return OutsideDomain(
            f"{name} needs {readable}{why}, but {point} was given: "
            "change one of them, or give exact numbers such as '0.1' or '1/3'."
        )


def whole(name: str, value: object, least: int = 1) -> int:
    """A count, such as a width or a number of draws, as an int; booleans are refused."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(
            f"{name} = {value!r} was given, but {name} must be a whole number at least {least}."
        )
    return int(value)


def listed(name: str, values: object, need: str = "a list") -> list[Any]:
    """The entries of a list, a tuple or an array; texts, mappings and what has no entries are refused."""
    refusal = InputError(f"{name} = {values!r} was given, but {name} must be {need}.")
    entries = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(entries, str | bytes | Mapping) or not isinstance(entries, Iterable):
        raise refusal
    return list(entries)


def finite_array(name: str, values: ArrayLike) -> np.ndarray:
    """Finite real numbers, in lists, arrays or tensors, as an array of float64."""
    import numpy as np

    values = values.detach().cpu() if hasattr(values, "detach") else values
    try:
        array = np.asarray(values)
        if array.dtype == object:  # of Fractions or mpf, say
            array = np.vectorize(partial(_as_float, name), otypes=[float])(array)
        if array.dtype.kind in "iuf" and np.isfinite(array).all():
            return array.astype(float)
    except (TypeError, ValueError, OverflowError):  # ragged lists, what is no number, 10**400
        pass
    raise InputError(
        f"{name} = {values!r} was given, but {name} must consist of finite real numbers, without NaN."
    )


def _as_float(name: str, value: Any) -> float:
    return float(exact(sp.Symbol(name, real=True), value))


def need(symbol: sp.Symbol) -> str:
    """The assumptions of a symbol in words."""
    kind = "a whole number" if symbol.is_integer else "a number"
    if symbol.is_positive:
        return f"{kind} {'at least 1' if symbol.is_integer else 'above 0'}"
    return (
        f"{kind} at least 0"
        if symbol.is_nonnegative
        else f"{'a whole' if symbol.is_integer else 'a real'} number"
    )


def admits(symbol: sp.Symbol, value: Any) -> bool:
    """Whether one exact number satisfies the assumptions of a symbol."""
    if symbol.is_integer and value != int(value):
        return False
    if symbol.is_positive:
        return bool(value > 0)
    return bool(value >= 0) if symbol.is_nonnegative else True


def exact(symbol: sp.Symbol, value: Any) -> Fraction:
    """The exact value of a number, a float or a text such as '1/3', if the symbol admits it."""
    number = _parse(symbol, value)
    if not admits(symbol, number):
        raise InputError(f"{symbol} = {value} was given, but {symbol} must be {need(symbol)}.")
    return number


def _parse(symbol: sp.Symbol, value: Any) -> Fraction:
    refusal = InputError(
        f"{symbol} = {value!r} is no number: give {need(symbol)}, such as 2, 0.5, '1/3' or '1e-8'."
    )
    if isinstance(value, bool) or "bool" in str(getattr(value, "dtype", "")):
        raise refusal
    if isinstance(value, mp.mpf):
        if not mp.isfinite(value):
            raise refusal
        sign, mantissa, exponent, _ = value._mpf_
        return Fraction((-1) ** sign * int(mantissa)) * Fraction(2) ** exponent
    if isinstance(value, sp.Basic):
        if not value.is_Rational:
            raise refusal
        return Fraction(int(value.p), int(value.q))
    if hasattr(value, "item") and not getattr(value, "ndim", 0):  # numpy and torch scalars
        try:
            value = value.item()
        except (ValueError, RuntimeError):
            raise refusal from None
    power = re.search(r"[eE][+-]?(\d+)\s*$", value) if isinstance(value, str) else None
    if power and int(power[1]) > 100_000:  # a Fraction would write out every zero
        raise refusal
    try:
        return Fraction(value)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise refusal from None


def check_dtype(symbol: sp.Symbol, value: Any) -> None:
    """Refuse complex and boolean tensors by their dtype; the values of tensors are not inspected."""
    kind = str(getattr(value, "dtype", ""))
    if hasattr(value, "requires_grad") and ("complex" in kind or "bool" in kind):
        raise InputError(
            f"{symbol} was given as a tensor of {kind}, but {symbol} must be {need(symbol)}: "
            "give a tensor of real numbers, such as its `.real`."
        )


def check_array(symbol: sp.Symbol, value: Any) -> None:
    """Refuse NaN and values that the symbol's assumptions exclude, in a number or an array."""
    import numpy as np

    array = np.asarray(float(value) if isinstance(value, Fraction) else value)
    if array.dtype.kind not in "iuf":
        raise InputError(f"{symbol} = {value!r} is no number: give {need(symbol)}.")
    array = array.astype(float)
    bad = ~np.isfinite(array)
    if symbol.is_integer:
        bad |= array != np.floor(array)
    if symbol.is_positive:
        bad |= array <= 0
    elif symbol.is_nonnegative:
        bad |= array < 0
    if bad.any():
        first = array[bad].flat[0] if array.ndim else float(array)
        raise InputError(f"{symbol} = {first} was given, but {symbol} must be {need(symbol)}.")
    if (
        symbol in SQUARED
        and array.size
        and not 1 / LARGEST <= array.min() <= array.max() <= LARGEST
    ):
        beyond = (array > LARGEST) | (array < 1 / LARGEST) & (array != 0)
        if beyond.any():
            raise InputError(
                f"{symbol} = {array[beyond].flat[0]} was given, but floats, which must hold products of "
                f"squares, take {symbol} from {1 / LARGEST:g} to {LARGEST:g}: change the units, or use "
                "`.evaluate(...)`."
            )


def bind(
    name: str, args: Sequence[sp.Symbol], positional: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """Positional and keyword values in the order of args; missing or surplus ones are refused."""
    names = [symbol.name for symbol in args]
    if len(positional) > len(names):
        raise InputError(
            f"{name} takes {len(names)} arguments ({', '.join(names)}), got {len(positional)}."
        )
    values = dict(zip(names, positional, strict=False))
    if twice := sorted(set(values) & set(named)):
        raise InputError(f"{name} was given {', '.join(twice)} twice.")
    values |= named
    if surplus := sorted(set(values) - set(names)):
        raise InputError(
            f"{name} has no argument {', '.join(surplus)}; it takes {', '.join(names)}."
        )
    if missing := [n for n in names if n not in values]:
        raise InputError(f"{name} also needs {', '.join(missing)}: give {missing[0]}=VALUE.")
    return [values[n] for n in names]

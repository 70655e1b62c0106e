"""A closed form as a value: what it says, where it holds, and how each backend computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.expressions import backends
from analytic.expressions.arguments import (
    Domain,
    InputError,
    OutsideDomain,
    bind,
    check_array,
    check_dtype,
    exact,
)

MAX_DIGITS = 2_000  # of working precision: a value that needs more is taken for zero or singular


@dataclass(frozen=True)
class Formula:
    """A named expression in declared symbols.

    `expr` is the textbook form: it is differentiated, printed, cited, and evaluated to any
    precision. `stable`, if not None, is the same function written for floats.
    """

    name: str
    args: tuple[sp.Symbol, ...]
    expr: sp.Expr
    domain: Domain = field(default=Domain(), repr=False)
    source: str = field(default="", repr=False)
    stable: sp.Expr | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for form in (self.expr, self.stable):
            if form is not None and (stray := form.free_symbols - set(self.args)):
                names = ", ".join(sorted(map(str, stray)))
                raise ValueError(
                    f"Formula {self.name!r} depends on {names}, but its arguments are {self.args}. "
                    "Add them to `args`, or substitute values first with `.at(...)`."
                )

    def __getstate__(self) -> dict[str, Any]:
        """For pickle, without the compiled functions: another process compiles its own."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @property
    def floating(self) -> sp.Expr:
        """The form that floating-point backends compile."""
        return self.expr if self.stable is None else self.stable

    @cached_property
    def mpmath(self) -> Callable[..., Any]:
        """The textbook form on mpmath numbers at the working precision: the reference for `stable`."""
        return self._named(backends.compile_mpmath(self.args, self.expr))

    @cached_property
    def numpy(self) -> Callable[..., Any]:
        """Float64 on numbers and arrays, which broadcast.

        Arguments outside the domain are refused, and so are those whose value is NaN, because an
        intermediate number leaves the range of floats.
        """
        body = self._named(backends.compile_numpy(self.args, self.floating), check=True)
        return self._named(partial(self._require_numbers, body))

    @cached_property
    def torch(self) -> Callable[..., Any]:
        """Tensors in, tensor out, with their dtype, device and autograd; their values are not inspected."""
        return self._named(backends.compile_torch(self.args, self.floating), check=True)

    def _require_numbers(self, body: Callable[..., Any], *values: Any) -> Any:
        import numpy as np

        result = body(*values)
        bad = np.isnan(result)
        if bad.any():
            where = np.unravel_index(bad.argmax(), bad.shape)
            first = (np.broadcast_to(v, bad.shape)[where] for v in values)
            point = ", ".join(f"{s} = {v}" for s, v in zip(self.args, first, strict=True))
            raise InputError(
                f"{self.name} cannot be computed in floats at {point}, where a number on the way leaves "
                "their range or loses its digits: take values nearer to 1, or `.evaluate(...)`."
            )
        return result

    def _named(self, body: Callable[..., Any], check: bool = False) -> Callable[..., Any]:
        def call(*positional: Any, **named: Any) -> Any:
            values = bind(self.name, self.args, positional, named)
            if not check:
                return body(*values)
            pairs = list(zip(self.args, values, strict=True))
            for symbol, value in pairs:
                check_dtype(symbol, value)
            numbers = {s: v for s, v in pairs if not hasattr(v, "requires_grad")}
            for symbol, value in numbers.items():
                check_array(symbol, value)
            if len(numbers) == len(self.args):
                self.domain.check_arrays(self.name, numbers)
            try:
                return body(*values)
            except OverflowError as error:
                raise InputError(
                    f"{self.name} has constants that no float can hold ({error}): give the parameters that "
                    "it was made with fewer digits, or use `.evaluate(...)`."
                ) from None

        call.__name__ = call.__qualname__ = self.name
        return call

    def evaluate(self, digits: int = 30, **values: Any) -> Any:
        """The value to `digits` digits as an mpf: the precision is raised until the value settles."""
        if isinstance(digits, bool) or not isinstance(digits, int) or digits < 1:
            raise InputError(
                f"digits = {digits!r} was given, but it must be a whole number at least 1."
            )
        numbers = [
            exact(symbol, value)
            for symbol, value in zip(self.args, bind(self.name, self.args, (), values), strict=True)
        ]
        self.domain.check(self.name, dict(zip(self.args, numbers, strict=True)))
        # At |x| = 1e30 curvature is a difference of numbers 1e120 times as large, so start higher there.
        excess = max([0, *(_magnitude(number) - 8 for number in numbers)])
        working = digits + 15 + min(4 * excess, MAX_DIGITS // 4)
        last, enough = None, digits + 8 * max([0, *map(_length, numbers)])
        while working <= max(MAX_DIGITS, 10 * digits):
            with mp.workdps(working):
                value = self._at_precision(numbers)
                if value is not None and last is not None:
                    settled = abs(value - last) <= mpf(10) ** (-digits - 1) * abs(value)
                    if settled and (value != 0 or working > enough):
                        with mp.workdps(digits):
                            return +value
            if value is None and working > max(enough, 4 * digits):
                point = ", ".join(f"{s} = {v}" for s, v in zip(self.args, numbers, strict=True))
                raise InputError(
                    f"{self.name} has no finite real value at {point}: it may be singular there, "
                    "so move away from that point."
                )
            last, working = value, working + 15 if last is None else 2 * working
        raise ArithmeticError(
            f"{self.name} did not settle to {digits} digits at {working // 2} of working precision: "
            "its value there may be exactly zero, which no number of digits can show."
        )

    def _at_precision(self, numbers: list[Fraction]) -> Any | None:
        """The value at the working precision, or None where it has none or is not real."""
        try:
            value = mp.mpmathify(self.mpmath(*map(_to_mpf, numbers)))
        except (ArithmeticError, ValueError):  # mpmath raises ValueError at some poles
            return None
        return mp.re(value) if mp.isfinite(value) and mp.im(value) == 0 else None

    def at(self, **values: Any) -> Formula:
        """The formula with some arguments fixed to exact numbers."""
        fixed = {}
        for name, value in values.items():
            symbol = self._symbol(name)
            fixed[symbol] = _rational(exact(symbol, value))
        left = tuple(symbol for symbol in self.args if symbol not in fixed)
        self.domain.check(self.name, fixed)
        point = ", ".join(f"{n}={v}" for n, v in values.items())
        conditions = tuple(c.subs(fixed) for c in self.domain.conditions)
        domain = replace(self.domain, conditions=conditions)
        stable = None if self.stable is None else self.stable.subs(fixed)
        expr = self.expr.subs(fixed)
        if expr.has(sp.zoo, sp.nan, sp.oo):
            raise OutsideDomain(
                f"{self.name} has no finite real value at {point}: leave that argument open."
            )
        return replace(
            self,
            name=f"{self.name}[{point}]",
            args=left,
            expr=expr,
            domain=domain,
            stable=stable,
        )

    def diff(self, *names: str) -> Formula:
        """The derivative of the textbook form by the named arguments, one after another."""
        if not names:
            return self
        expr = sp.diff(self.expr, *map(self._symbol, names))
        return replace(self, name=f"d({self.name})/d({','.join(names)})", expr=expr, stable=None)

    def _symbol(self, name: str) -> sp.Symbol:
        by_name = {symbol.name: symbol for symbol in self.args}
        if name not in by_name:
            raise InputError(f"{self.name} has no argument {name}; it takes {', '.join(by_name)}.")
        return by_name[name]

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {sp.latex(self.expr)}$"


def _length(number: Fraction) -> int:
    """Decimal digits of a fraction: arguments may cancel to so many digits."""
    return int(max(number.numerator.bit_length(), number.denominator.bit_length()) * 0.302) + 1


def _magnitude(number: Fraction) -> int:
    """Decimal places between a number and 1."""
    top, bottom = number.numerator.bit_length(), number.denominator.bit_length()
    return int(abs(top - bottom) * 0.302) if number else 0


def _rational(number: Fraction) -> sp.Rational:
    return sp.Rational(number.numerator, number.denominator)


def _to_mpf(number: Fraction) -> Any:
    return mpf(number.numerator) / number.denominator

"""A closed form as a value: what it says, where it holds, and how each backend computes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.expressions import backends
from analytic.expressions.arguments import (
    Array,
    ArrayLike,
    Domain,
    InputError,
    Number,
    OutsideDomain,
    bind,
    check_array,
    check_dtype,
    exact,
)

__all__ = ["EvaluatedValue", "Formula", "Symbols"]

MAX_DIGITS = 2_000  # of working precision: a value that needs more is taken for zero or singular


@dataclass(frozen=True)
class Formula:
    """A named expression in declared symbols, which is called with numbers, arrays or tensors.

    name: its dotted name, as in the catalogue.
    args: its symbols in the order of positional arguments; their assumptions say which values they take.
    expr: the textbook form, which is differentiated, printed, cited, and evaluated to any precision.
    domain: conditions on several arguments at once, such as kxy^2 <= kxx kyy.
    citation: where it is printed, and what was corrected.
    stable: if not None, the same function written for floats.

    An expression with a symbol that is not in `args` is refused with a ValueError.

    >>> from analytic import catalogue
    >>> f = catalogue["nngp.erf.ricci"]
    >>> round(f(d=3, sigma=1.0, zeta=0.5, r=2.0), 6)
    -13.59023
    >>> f(d=3, sigma=1.0, zeta=0.5, r=[0.5, 1.0, 2.0]).shape
    (3,)
    >>> print(f.evaluate(digits=20, d=3, sigma=1, zeta="1/2", r=2))
    -13.59022999678132372
    """

    name: str
    args: tuple[sp.Symbol, ...]
    expr: sp.Expr
    domain: Domain = field(default=Domain(), repr=False)
    citation: str = field(default="", repr=False)
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

    def __call__(self, *positional: ArrayLike, **named: ArrayLike) -> float | Array:
        """The value in floating point: by `.torch` if an argument is a tensor, else by `.numpy`.

        Arguments are numbers, lists, arrays or tensors, by position in the order of `args` or by name,
        and broadcast against each other. Returned is a float if all are numbers, else an array or a
        tensor of their common shape. What is missing, unknown, NaN or outside the domain is refused
        with an InputError.

        >>> from analytic import catalogue
        >>> kernel = catalogue["nngp.relu.kernel"]
        >>> kernel(1.0, 0.0, 1.0) == kernel(kxx=1.0, kxy=0.0, kyy=1.0)
        True
        """
        tensors = any(hasattr(v, "requires_grad") for v in (*positional, *named.values()))
        return (self.torch if tensors else self.numpy)(*positional, **named)

    @cached_property
    def symbols(self) -> Symbols:
        """The symbols of the arguments, with their assumptions, as attributes.

        A symbol of the same name without them is another symbol, by which every derivative is 0.
        A name that is no argument is refused with an InputError that lists them.

        >>> import sympy
        >>> from analytic import catalogue
        >>> f = catalogue["nngp.erf.omega"]
        >>> f.symbols.sigma.is_positive
        True
        >>> sympy.diff(f.expr, f.symbols.r) == 0, sympy.diff(f.expr, sympy.Symbol("r")) == 0
        (False, True)
        """
        return Symbols(self.name, self.args)

    @property
    def latex(self) -> str:
        r"""The textbook form in LaTeX, without dollar signs.

        >>> from analytic.activations import erf
        >>> erf.G.latex
        '\\frac{2}{\\pi \\sqrt{2 V + 1}}'
        """
        return sp.latex(self.expr)

    def source(self, language: str) -> str:
        """The text of the program that computes the formula.

        language: "numpy", "torch" or "mpmath" for the Python function behind the property of that name,
            with whatever functions that backend supplies; "C" for a C99 function of doubles, complete in
            itself, which does the operations of `.numpy` and takes its arguments in the order of `args`.

        Returned is a text that defines one function named like the formula, with underscores for dots.
        C is refused with an InputError for what it cannot say: a quadrature, a recursion over layers, or
        a degree that was left open.

        >>> from analytic.activations import erf
        >>> print(erf.slope.at(kxx=1, kyy=1).source("C").splitlines()[4])
        double erf_slope_kxx_1_kyy_1(double kxy)
        >>> erf.G.source("numpy").splitlines()[0]
        'def erf_G(V):'
        """
        if language == "C":
            from analytic.expressions.c_source import c_source  # as rarely needed as it is long

            return c_source(self.name, self.citation, self.args, self.floating)
        if not isinstance(language, str) or language not in backends.COMPILERS:
            raise InputError(
                f"{self.name} has no source in {language!r}: give 'numpy', 'torch', 'mpmath' or 'C'."
            )
        form = self.expr if language == "mpmath" else self.floating
        body = inspect.unwrap(backends.COMPILERS[language](self.args, form))
        return inspect.getsource(body).replace(body.__name__, backends.identifier(self.name), 1)

    @cached_property
    def mpmath(self) -> Callable[..., Any]:
        """The textbook form on mpmath numbers at the working precision: the reference for `stable`.

        >>> from analytic.activations import erf
        >>> from mpmath import mp
        >>> with mp.workdps(30):
        ...     print(mp.nstr(erf.G.mpmath(mp.mpf(1)), 30))
        0.367552596947861365665411697085
        """
        return self._named(backends.compile_mpmath(self.args, self.expr))

    @cached_property
    def numpy(self) -> Callable[..., Any]:
        """Float64 on numbers and arrays, which broadcast.

        Returned is a float, or an array of float64 in the common shape. Arguments outside the domain
        are refused with an InputError, and so are those whose value is NaN, because an intermediate
        number leaves the range of floats.

        >>> from analytic.activations import relu
        >>> relu.F.numpy([1.0, 4.0])
        array([0.5, 2. ])
        """
        body = self._named(backends.compile_numpy(self.args, self.floating), check=True)
        return self._named(partial(self._require_numbers, body))

    @cached_property
    def torch(self) -> Callable[..., Any]:
        """Tensors in, tensor out, with their dtype, device and autograd; their values are not inspected.

        Complex and boolean tensors are refused with an InputError.

        >>> import torch
        >>> from analytic.activations import relu
        >>> variance = torch.tensor([1.0, 4.0], requires_grad=True)
        >>> relu.F.torch(variance).sum().backward()
        >>> variance.grad
        tensor([0.5000, 0.5000])
        """
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

    def evaluate(self, digits: int = 30, **values: Number) -> EvaluatedValue:
        """The value to `digits` correct digits; the precision is raised until the value settles.

        digits: how many significant decimal digits, a whole number at least 1.
        values: a number for each argument, read exactly: "0.1" is one tenth, 0.1 is the float next to it.

        Returned is an mpf that prints its digits. Values outside the domain, and points where the formula
        has no finite real value, are refused with an InputError; a value that seems to be exactly 0
        though no digits show it raises an ArithmeticError.

        >>> from analytic.activations import erf
        >>> erf.F.evaluate(12, V=1)
        mpf('0.333333333333')
        >>> print(erf.F.evaluate(V=1) * 3)
        1.0
        """
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
                        return EvaluatedValue(value, digits)
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

    def at(self, **values: Number) -> Formula:
        """The formula with some arguments fixed to exact numbers.

        Returned is a formula in the others. An unknown name, and a number that the argument does not
        take, is refused with an InputError.

        >>> from analytic import catalogue
        >>> plane = catalogue["nngp.erf.ricci"].at(d=2, sigma="1/3")
        >>> plane.args
        (zeta, r)
        """
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
        """The derivative of the textbook form by the named arguments, one after another.

        Returned is a formula in the same arguments. An unknown name is refused with an InputError.

        >>> from analytic.activations import relu
        >>> relu.F.diff("V").expr
        1/2
        """
        if not names:
            return self
        expr = sp.diff(self.expr, *map(self._symbol, names))
        return replace(self, name=f"d({self.name})/d({','.join(names)})", expr=expr, stable=None)

    def _symbol(self, name: str) -> sp.Symbol:
        if not isinstance(name, str) or name not in dir(self.symbols):
            raise unknown_argument(self.name, self.args, name)
        return getattr(self.symbols, name)

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex}$"


class UnknownSymbol(InputError, AttributeError):
    """A name that is no argument of a formula."""


def unknown_argument(formula: str, args: Sequence[sp.Symbol], name: object) -> UnknownSymbol:
    names = ", ".join(symbol.name for symbol in args) or "none"
    return UnknownSymbol(f"{formula} has no argument {name}; it takes {names}.")


class Symbols:
    """The symbols of a formula by name, which a prompt completes."""

    def __init__(self, formula: str, args: Sequence[sp.Symbol]) -> None:
        vars(self).update({symbol.name: symbol for symbol in args})
        self._formula, self._args = formula, args

    def __getattr__(self, name: str) -> sp.Symbol:  # of what is not there
        if name.startswith("_"):
            raise AttributeError(name)
        raise unknown_argument(self._formula, self._args, name)

    def __dir__(self) -> list[str]:
        return [symbol.name for symbol in self._args]

    def __repr__(self) -> str:
        return f"Symbols({', '.join(symbol.name for symbol in self._args)})"


class EvaluatedValue(mp.mpf):
    """An mpf that prints as many digits as it was computed to; what is computed from it is a plain mpf."""

    digits: int

    def __new__(cls, value: Any = 0, digits: int = 30) -> EvaluatedValue:
        self = super().__new__(cls, value, dps=digits)
        self.digits = digits
        return self

    def __str__(self) -> str:
        return mp.nstr(self, self.digits)

    def __repr__(self) -> str:
        return f"mpf('{self}')"

    def __reduce__(self) -> tuple[Any, ...]:
        return EvaluatedValue, (mp.make_mpf(self._mpf_), self.digits)


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

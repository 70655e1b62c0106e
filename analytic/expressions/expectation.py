"""Gaussian expectations as symbols: they print, differentiate, and compile to quadrature."""

from __future__ import annotations

from typing import Any

import sympy as sp

from analytic.expressions.symbols import z

__all__ = ["Moment", "PairMoment", "one_sided"]


class _Expectation(sp.Expr):
    """Functions of the bound preactivation z, then the covariances they are averaged over."""

    bound: int  # how many leading arguments are functions of z

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """Free symbols of the averaged functions, in a fixed order."""
        inner = sp.Tuple(*self.args[: self.bound]).free_symbols - {z}
        return tuple(sorted(inner, key=lambda symbol: symbol.name))

    @property
    def free_symbols(self) -> set[sp.Symbol]:
        outer = sp.Tuple(*self.args[self.bound :]).free_symbols
        return set(self.parameters) | outer

    def _eval_subs(self, old: Any, new: Any) -> sp.Expr | None:
        return self if old == z else None

    def _eval_is_real(self) -> bool:
        return True


def one_sided(f: sp.Expr, b: sp.Expr, kinks: Any, side: int) -> sp.Expr:
    """The limit of f at a kink from one side (sp.limit ignores the side of a Piecewise)."""
    gaps = [abs(b - other) for other in kinks if other != b]
    probe = b + side * min([sp.S.One, *gaps]) / 2

    def branch(*branches: Any) -> sp.Expr:
        return next(value for value, condition in branches if condition.subs(z, probe) == True)  # noqa: E712

    return sp.limit(f.replace(sp.Piecewise, branch), z, b, "+" if side > 0 else "-")


class Moment(_Expectation):
    r"""$E[t^k f(\sqrt V t)]$ for standard normal t; f may jump or bend at the kinks."""

    bound = 1

    def __new__(cls, f: Any, V: Any, power: Any = 0, kinks: Any = ()) -> Moment:
        return super().__new__(
            cls, sp.sympify(f), sp.sympify(V), sp.Integer(power), sp.Tuple(*kinks)
        )

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        f, V, power, kinks = self.args
        inside = self.func(sp.diff(f, symbol), V, power, kinks) if symbol in self.parameters else 0
        return inside + sp.diff(V, symbol) * self.log_derivative() / V

    def log_derivative(self) -> sp.Expr:
        r"""V d/dV, as $E[t^k z f'(z)]/2$ with $z = \sqrt V t$, and a term for each jump of f.

        It has no second derivative of f, and a jump at zero has no term.
        """
        f, V, power, kinks = self.args
        rate = self.func(z * sp.diff(f, z), V, power, kinks)
        for b in kinks:
            if b != 0 and (jump := one_sided(f, b, kinks, 1) - one_sided(f, b, kinks, -1)) != 0:
                t = b / sp.sqrt(V)
                rate += jump * t ** (power + 1) * sp.exp(-(t**2) / 2) / sp.sqrt(2 * sp.pi)
        return rate / 2

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        f, V, power, _ = self.args
        weight = "" if power == 0 else rf"\left(z/\sqrt{{{printer.doprint(V)}}}\right)^{{{power}}}"
        law = rf"z\sim N(0,\,{printer.doprint(V)})"
        body = rf"\mathbb{{E}}_{{{law}}}\left[{weight}{printer.doprint(f)}\right]"
        return body if exp is None else rf"{body}^{{{exp}}}"


class PairMoment(_Expectation):
    r"""$E[f(u) g(v)]$ for a Gaussian pair with covariance kxx, kxy, kyy; f and g are written in z."""

    bound = 2

    def __new__(cls, f: Any, g: Any, *gram_and_kinks: Any) -> PairMoment:
        *gram, kinks = gram_and_kinks
        return super().__new__(
            cls, sp.sympify(f), sp.sympify(g), *map(sp.sympify, gram), sp.Tuple(*kinks)
        )

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        f, g = (self.args[k].subs(z, sp.Symbol(name)) for k, name in ((0, "u"), (1, "v")))
        body = rf"\mathbb{{E}}_{{u,v}}\left[{printer.doprint(f)}\,{printer.doprint(g)}\right]"
        return body if exp is None else rf"{body}^{{{exp}}}"

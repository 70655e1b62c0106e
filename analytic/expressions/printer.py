"""Expressions as source text that runs on numpy and torch alike, where both use the same names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from importlib import import_module
from typing import Any

import sympy as sp
from sympy.printing.pycode import AbstractPythonCodePrinter

__all__ = ["NAMES", "ArrayPrinter", "numpy_names", "torch_names"]

NAMES = {
    **{name: name for name in ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan2")},
    **{name: name for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "sign", "floor")},
    "Abs": "abs",
    "sqrt": "sqrt",
    "where": "where",
    "maximum": "maximum",
    "minimum": "minimum",
}


class ArrayPrinter(AbstractPythonCodePrinter):
    """One printer for numpy and torch: SymPy's own differ, and refuse unknown functions in torch."""

    share = staticmethod(partial(sp.cse, list=False))  # the search for common subexpressions

    def _print_Function(self, expr: sp.Function) -> str:
        return f"{expr.func.__name__}({', '.join(map(self._print, expr.args))})"

    def _print_Pow(self, expr: sp.Pow, rational: bool = False) -> str:
        base, exponent = expr.as_base_exp()
        if exponent == sp.S.Half:
            return f"sqrt({self._print(base)})"
        if exponent == -sp.S.Half:
            return f"(1/sqrt({self._print(base)}))"
        return f"({self._print(base)})**({self._print(exponent)})"

    def _print_Piecewise(self, expr: sp.Piecewise) -> str:
        *branches, (last, always) = expr.args
        if always != sp.true:
            raise ValueError(f"{expr} leaves a case open: end it with (value, True).")
        text = ""
        for value, condition in branches:
            text += f"where({self._print(condition)}, {self._print(value)}, "
        return text + self._print(last) + ")" * len(branches)

    def _print_Max(self, expr: sp.Max) -> str:
        return reduce(lambda one, other: f"maximum({one}, {other})", map(self._print, expr.args))

    def _print_Min(self, expr: sp.Min) -> str:
        return reduce(lambda one, other: f"minimum({one}, {other})", map(self._print, expr.args))

    def _print_Relational(self, expr: sp.core.relational.Relational) -> str:
        return f"({self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)})"

    def _print_And(self, expr: sp.And) -> str:
        return "(" + " & ".join(map(self._print, expr.args)) + ")"

    def _print_Or(self, expr: sp.Or) -> str:
        return "(" + " | ".join(map(self._print, expr.args)) + ")"


def numpy_names() -> dict[str, Callable[..., Any]]:
    np, special = import_module("numpy"), import_module("scipy.special")
    names = {ours: getattr(np, theirs) for ours, theirs in NAMES.items()}
    return names | {"erf": special.erf, "erfc": special.erfc, "loggamma": special.gammaln}


def torch_names() -> dict[str, Callable[..., Any]]:
    torch = import_module("torch")

    def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
        """The function on tensors and numbers; a number becomes a scalar, which changes no dtype."""

        def call(*args: Any) -> Any:
            return function(
                *(a if torch.is_tensor(a) else torch.tensor(a, dtype=torch.float64) for a in args)
            )

        return call

    def where(condition: Any, yes: Any, no: Any) -> Any:
        yes, no = (
            a
            if torch.is_tensor(a)
            else torch.tensor(a, dtype=torch.float64, device=condition.device)
            for a in (yes, no)
        )
        return torch.where(condition, yes, no)

    names = {ours: lifted(getattr(torch, theirs)) for ours, theirs in NAMES.items()}
    names |= {
        "erf": lifted(torch.erf),
        "erfc": lifted(torch.erfc),
        "loggamma": lifted(torch.lgamma),
    }
    return names | {"where": where}

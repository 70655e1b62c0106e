"""Expressions as functions of twofold numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from analytic.expressions.expectation import Moment
from analytic.expressions.opaque import Table
from analytic.expressions.printer import ArrayPrinter
from analytic.expressions.twofold.functions import NAMES
from analytic.expressions.twofold.number import Twofold, constant


def compile_twofold(
    xp: Any, floats: Table, args: Sequence[sp.Symbol], exprs: sp.Tuple
) -> Callable[..., Sequence[Twofold]]:
    """The expressions on twofold arrays; quadratures, which `floats` compiles, have only 16 digits."""
    averages = sorted(exprs.atoms(Moment), key=sp.default_sort_key)
    stand_ins = [sp.Dummy(f"average_{k}") for k in range(len(averages))]
    exprs, constants = _named_constants(exprs.xreplace(dict(zip(averages, stand_ins, strict=True))))
    for node in exprs.atoms(sp.Function):
        if (name := node.func.__name__) not in NAMES and not isinstance(node, sp.Piecewise):
            raise NotImplementedError(
                f"{name} has no form for twofold numbers: average it instead."
            )
    body = sp.lambdify(
        (*args, *stand_ins, *constants), exprs, modules=[NAMES],
        printer=ArrayPrinter({"fully_qualified_modules": False}), cse=ArrayPrinter.share,
    )  # fmt: skip
    averaged = floats(args, sp.Tuple(*averages)) if averages else None

    def call(*values: Any) -> Sequence[Twofold]:
        more = []
        if averaged is not None:
            plain = (v.high if isinstance(v, Twofold) else v for v in values)
            more = [Twofold(xp, value) for value in averaged(*plain)]
        return body(*values, *more, *constants.values())

    return call


def _named_constants(expr: sp.Basic) -> tuple[sp.Basic, dict[sp.Symbol, Twofold]]:
    """The expression with symbols for its numbers, except integers and exponents, and their values."""
    names: dict[sp.Expr, sp.Symbol] = {}

    def named(node: Any) -> Any:
        if isinstance(node, sp.Expr) and node.is_number:
            return node if node.is_Integer else names.setdefault(node, sp.Dummy("constant"))
        if isinstance(node, sp.Pow) and node.exp.is_number:
            power = node.exp if node.exp.is_Rational else sp.N(node.exp, 17)
            return sp.Pow(named(node.base), power, evaluate=False)
        return node.func(*map(named, node.args)) if node.args else node

    return named(expr), {symbol: constant(sp.N(value, 40)) for value, symbol in names.items()}

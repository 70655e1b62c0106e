"""One layer on a tile in few torch operations, in place: sums become chains of multiply-adds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import sympy as sp
import torch
from torch import Tensor

from analytic.activations.gram_tiles import ARGS, Tile, det
from analytic.expressions.backends import compile_together
from analytic.expressions.printer import ArrayPrinter
from analytic.expressions.symbols import kxx, kyy

theta = sp.Symbol("theta", real=True)
NUMBERS = scale, bias, weights, biases = sp.symbols("scale bias weights biases", real=True)
free = sp.Symbol("free", real=True)
PLACED = ("asin", "atan", "cos", "cosh", "exp", "rsqrt", "sin", "sinh", "sqrt", "tanh")
CHAINED = ("add", "addcmul", "mul")


def layer(tile: Tile, tangent: bool, plain: bool) -> Callable[..., tuple[Tensor, ...]]:
    """From (kxx, kxy, kyy, det, theta, *NUMBERS, free) to the covariance and tangent kernel after it.

    `plain` says that the tangent kernel takes in the covariance as it is. `scale` and `weights` are
    numbers, `bias` and `biases` tensors without a dimension, from which a chain can start. The tiles
    free[0], free[1], ... are written to.
    """
    k = _distribute_constants(scale * tile.kernel) + bias
    outputs = [k]
    if tangent:
        own = k if plain else _distribute_constants(weights * tile.kernel) + biases
        outputs.append(own + scale * tile.slope * theta)
    names = {name: getattr(torch, name) for name in (*PLACED, *CHAINED)}
    return compile_together((*ARGS, theta, *NUMBERS, free), outputs, FusedPrinter, **names)


class FusedPrinter(ArrayPrinter):
    """Prints c f g + d h + e as in-place torch calls: constants are merged, smaller operands come first.

    An intermediate result without a name is overwritten by the next operation on it, and its tile is
    free afterwards; so expressions are printed in the order in which they will run.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self._held: set[int] = set()  # indices of scratch tiles in use
        self._place: int | None = None  # the scratch tile that holds what was printed last, if any

    @staticmethod
    def share(exprs: sp.Tuple) -> tuple[list[tuple[sp.Symbol, sp.Expr]], sp.Tuple]:
        """Common subexpressions, without constant factors, and without rows or columns, which are cheap."""
        common, reduced = ArrayPrinter.share(exprs)
        replaced: dict[sp.Symbol, sp.Expr] = {}
        assignments = []
        for name, expr in common:
            if not isinstance(expr, sp.Expr):  # a condition
                assignments.append((name, expr.xreplace(replaced)))
                continue
            number, rest = _split_constant(expr.xreplace(replaced))
            if rest.is_Symbol or _is_small(rest):
                replaced[name] = number * rest
            else:
                assignments.append((name, rest))
                replaced[name] = number * name
        return assignments, reduced.xreplace(replaced)

    def _print(self, expr: sp.Basic, **settings: Any) -> str:
        before = self._held
        text = super()._print(expr, **settings)
        if not _is_placed(expr):
            self._place = None
        self._held = before if self._place is None else before | {self._place}
        return text

    def _print_Function(self, expr: sp.Function) -> str:
        if (name := expr.func.__name__) not in PLACED:
            return super()._print_Function(expr)
        return self._one(name, *expr.args)

    def _print_Pow(self, expr: sp.Pow, rational: bool = False) -> str:
        if abs(expr.exp) != sp.S.Half:
            return super()._print_Pow(expr, rational)
        return self._one("sqrt" if expr.exp > 0 else "rsqrt", expr.base)

    def _one(self, name: str, arg: sp.Expr) -> str:
        text = self._print(arg)
        if _is_temporary(arg):
            return f"({text}).{name}_()"
        return f"{name}({text})" if _is_small(arg) else f"{name}({text}, {self._new()})"

    def _print_Mul(self, expr: sp.Mul) -> str:
        if not _is_placed(expr):
            return super()._print_Mul(expr)
        number, factors = _split(expr)
        first = next((k for k, factor in enumerate(factors) if _is_temporary(factor)), None)
        rest = factors if number == 1 else [*factors, number]
        if first is None:
            one, other, *rest = rest
            text = f"mul({self._print(one)}, {self._print(other)}, {self._new()})"
        else:
            text = f"({self._print(rest.pop(first))})"
        place = self._place
        text += "".join(f".mul_({self._print(part)})" for part in rest)
        self._place = place
        return text

    def _print_Add(self, expr: sp.Add) -> str:
        if not _is_placed(expr):
            return super()._print_Add(expr)
        first, *rest = _terms(expr)
        text, fresh = f"({self._print(first)})", _is_temporary(first)
        place = self._place
        for term in rest:
            name, arguments = self._link(term)
            if fresh:
                text = f"{text}.{name}_({arguments})"
            else:
                text, fresh = f"{name}({text}, {arguments}, {self._new()})", True
                place = self._place
        self._place = place
        return text

    def _link(self, term: sp.Expr) -> tuple[str, str]:
        """The torch function and arguments that add a number, or a multiple of a tensor or product."""
        if not term.free_symbols:
            return "add", self._print(term)
        number, (one, *more) = _split(term)
        arguments = ", ".join(map(self._print, (one, *([sp.Mul(*more)] if more else []))))
        name, option = ("addcmul", "value") if more else ("add", "alpha")
        return name, arguments if number == 1 else f"{arguments}, {option}={self._print(number)}"

    def _new(self) -> str:
        """The output argument for the first scratch tile that is not in use."""
        self._place = next(k for k in count() if k not in self._held)
        self._held = self._held | {self._place}
        return f"out=free[{self._place}]"


def _terms(expr: sp.Add) -> list[sp.Expr]:
    """Summands in an order in which the first two already have the shape of a tile; constants come last."""
    small = [term for term in expr.args if _is_small(term)]
    rows = sp.Add(*(term for term in small if not term.has(kyy)))
    columns = sp.Add(*(term for term in small if term.has(kyy)))
    large = sorted((term for term in expr.args if term not in small), key=_size)
    if rows.has(kxx):
        parts = [rows, columns, *large]
    else:
        parts = [rows, *large, columns] if rows.free_symbols else [columns, *large, rows]
    return [part for part in parts if part != 0]


def _split(term: sp.Expr) -> tuple[sp.Expr, list[sp.Expr]]:
    """The constant factor, and the factors that are tensors."""
    number, rest = _split_constant(term)
    parts = [part for factor in sp.Mul.make_args(rest) for part in _factors(factor)]
    return number, sorted(parts, key=_size)


def _split_constant(expr: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    parts = sp.Mul.make_args(expr)
    plain = [part for part in parts if part.free_symbols <= {scale, weights}]
    return sp.Mul(*plain), sp.Mul(*(part for part in parts if part not in plain))


def _factors(factor: sp.Expr) -> tuple[sp.Expr, ...]:
    """The root of the determinant, which is above 0 wherever a tile is trusted, as two of them.

    torch hands sqrt to a vector library that takes twice as long as rsqrt.
    """
    return (det, 1 / sp.sqrt(det)) if factor == sp.sqrt(det) else (factor,)


def _distribute_constants(expr: sp.Expr) -> sp.Expr:
    """Distribute constants over the terms of a sum, where a multiply-add applies them at no cost."""
    number, rest = expr.as_independent(*ARGS, as_Add=False)
    if not rest.is_Add:
        return expr
    return sp.Add(*(_distribute_constants(number * term) for term in rest.args))


def _is_small(expr: sp.Expr) -> bool:
    """Whether it is a number, a row or a column, not a whole tile."""
    return any(expr.free_symbols <= {side, *NUMBERS} for side in (kxx, kyy))


def _is_placed(expr: Any) -> bool:
    """Whether it is a tile whose output memory can be chosen."""
    if isinstance(expr, sp.Pow):
        known = abs(expr.exp) == sp.S.Half
    else:
        known = isinstance(expr, sp.Add | sp.Mul) or type(expr).__name__ in PLACED
    return known and not _is_small(expr)


def _is_temporary(expr: sp.Expr) -> bool:
    """Whether it is a temporary tile that may be overwritten."""
    return _is_placed(expr) or (expr.is_Pow and not _is_small(expr))


def _size(expr: sp.Expr) -> tuple[bool, int]:
    """Rows and columns are smaller than tiles, and a tile is simpler than a product of them."""
    return not _is_small(expr), len(sp.Mul.make_args(expr))

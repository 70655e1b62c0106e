"""One layer on a tile in few torch operations: sums become chains of multiply-adds."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp
import torch
from torch import Tensor

from analytic.backends import compile_together
from analytic.printer import ArrayPrinter
from analytic.symbols import kxx, kyy
from analytic.tile import ARGS, Tile, det

theta = sp.Symbol("theta", real=True)
NUMBERS = scale, bias, weights, biases = sp.symbols("scale bias weights biases", real=True)


def layer(tile: Tile, tangent: bool, plain: bool) -> Callable[..., tuple[Tensor, ...]]:
    """From (kxx, kxy, kyy, det, theta, *NUMBERS) to the covariance and tangent kernel after it.

    `plain` says that the tangent kernel takes in the covariance as it is. `scale` and `weights` are
    numbers, `bias` and `biases` tensors without a dimension, from which a chain can start.
    """
    k = _spread(scale * tile.kernel) + bias
    outputs = [k]
    if tangent:
        own = k if plain else _spread(weights * tile.kernel) + biases
        outputs.append(own + scale * tile.slope * theta)
    names = {name: getattr(torch, name) for name in ("add", "addcmul", "rsqrt", "asin")}
    return compile_together((*ARGS, theta, *NUMBERS), outputs, FusedPrinter, **names)


class FusedPrinter(ArrayPrinter):
    """Writes c f g + d h + e for torch: plain numbers are gathered, what is smaller comes first."""

    @staticmethod
    def share(exprs: sp.Tuple) -> tuple[list[tuple[sp.Symbol, sp.Expr]], sp.Tuple]:
        """Common subexpressions, but for numbers, and rows or columns, which cost next to nothing."""
        common, reduced = ArrayPrinter.share(exprs)
        small: dict[sp.Symbol, sp.Expr] = {}
        kept = []
        for name, expr in common:
            expr = expr.xreplace(small)
            if any(expr.free_symbols <= {side, *NUMBERS} for side in (kxx, kyy)):
                small[name] = expr
            else:
                kept.append((name, expr))
        return kept, reduced.xreplace(small)

    def _print_Pow(self, expr: sp.Pow, rational: bool = False) -> str:
        """Roots by rsqrt: torch hands sqrt to a vector library that takes twice as long."""
        base, exponent = expr.as_base_exp()
        if exponent == -sp.S.Half:
            return f"rsqrt({self._print(base)})"
        return super()._print_Pow(expr, rational)

    def _print_Mul(self, expr: sp.Mul) -> str:
        return _product(*self._split(expr))

    def _print_Add(self, expr: sp.Add) -> str:
        terms = [self._split(term) for term in sorted(expr.args, key=_size)]
        numbers = " + ".join(number for number, factors in terms if not factors)
        terms = [term for term in terms if term[1]]
        if expr.has(bias, biases) or not terms:
            text = f"({numbers})"
        else:
            text = _product(*terms.pop(0))
            text = f"add({text}, {numbers})" if numbers else text
        for number, (one, *more) in terms:
            if more:
                text = f"addcmul({text}, {one}, {'*'.join(more)}, value={number})"
            else:
                text = f"add({text}, {one}, alpha={number})"
        return f"({text})"

    def _split(self, term: sp.Expr) -> tuple[str, list[str]]:
        """The plain number in front, and the factors that are tensors."""
        parts = [part for factor in sp.Mul.make_args(term) for part in _factors(factor)]
        parts = sorted(parts, key=_size)
        plain = [part for part in parts if part.free_symbols <= set(NUMBERS)]
        tensors = [f"({self._print(part)})" for part in parts if part not in plain]
        return "*".join(f"({self._print(part)})" for part in plain) or "1", tensors


def _factors(factor: sp.Expr) -> tuple[sp.Expr, ...]:
    """The root of the determinant, which is above 0 wherever a tile is trusted, as two of them."""
    return (det, 1 / sp.sqrt(det)) if factor == sp.sqrt(det) else (factor,)


def _spread(expr: sp.Expr) -> sp.Expr:
    """With plain numbers in front of each term of a sum, where a multiply-add takes them for nothing."""
    number, rest = expr.as_independent(*ARGS, as_Add=False)
    if not rest.is_Add:
        return expr
    return sp.Add(*(_spread(number * term) for term in rest.args))


def _product(number: str, factors: list[str]) -> str:
    return "*".join([*([number] if number != "1" or not factors else []), *factors])


def _size(expr: sp.Expr) -> tuple[bool, int]:
    """Rows and columns are smaller than tiles, and a tile is simpler than a product of them."""
    return not expr.free_symbols <= {kxx, kyy, *NUMBERS}, len(sp.Mul.make_args(expr))

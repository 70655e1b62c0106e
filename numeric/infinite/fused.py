"""One layer on a tile in few torch operations: sums become chains of multiply-adds."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp
import torch
from torch import Tensor

from analytic.backends import compile_together
from analytic.printer import ArrayPrinter
from analytic.symbols import kxx, kyy
from analytic.tile import ARGS, Tile

theta = sp.Symbol("theta", real=True)
NUMBERS = scale, bias, weights, biases = sp.symbols("scale bias weights biases", real=True)


def layer(tile: Tile, tangent: bool, plain: bool) -> Callable[..., tuple[Tensor, ...]]:
    """From (kxx, kxy, kyy, det, theta, *NUMBERS) to the covariance and tangent kernel after it.

    `plain` says that the tangent kernel takes in the covariance as it is.
    """
    k = scale * tile.kernel + bias
    outputs = [k]
    if tangent:
        own = k if plain else weights * tile.kernel + biases
        outputs.append(own + scale * tile.slope * theta)
    return compile_together(
        (*ARGS, theta, *NUMBERS), outputs, FusedPrinter, add=torch.add, addcmul=torch.addcmul
    )


class FusedPrinter(ArrayPrinter):
    """Writes c f g + d h + e for torch: plain numbers are gathered, what is smaller comes first."""

    @staticmethod
    def share(exprs: sp.Tuple) -> tuple[list[tuple[sp.Symbol, sp.Expr]], sp.Tuple]:
        """Common subexpressions, but for those that are plain numbers."""
        common, reduced = ArrayPrinter.share(exprs)
        numbers = {name: expr for name, expr in common if expr.free_symbols <= set(NUMBERS)}
        kept = [(name, expr.xreplace(numbers)) for name, expr in common if name not in numbers]
        return kept, reduced.xreplace(numbers)

    def _print_Mul(self, expr: sp.Mul) -> str:
        return _product(*self._split(expr))

    def _print_Add(self, expr: sp.Add) -> str:
        terms = [self._split(term) for term in sorted(expr.args, key=_size)]
        numbers = " + ".join(number for number, factors in terms if not factors)
        terms = [term for term in terms if term[1]]
        if not terms:
            return f"({numbers})"
        text = _product(*terms[0])
        text = f"add({text}, {numbers})" if numbers else text
        for number, (one, *more) in terms[1:]:
            if more:
                text = f"addcmul({text}, {one}, {'*'.join(more)}, value={number})"
            else:
                text = f"add({text}, {one}, alpha={number})"
        return f"({text})"

    def _split(self, term: sp.Expr) -> tuple[str, list[str]]:
        """The plain number in front, and the factors that are tensors."""
        parts = sorted(sp.Mul.make_args(term), key=_size)
        plain = [part for part in parts if part.free_symbols <= set(NUMBERS)]
        tensors = [f"({self._print(part)})" for part in parts if part not in plain]
        return "*".join(f"({self._print(part)})" for part in plain) or "1", tensors


def _product(number: str, factors: list[str]) -> str:
    return "*".join([*([number] if number != "1" or not factors else []), *factors])


def _size(expr: sp.Expr) -> tuple[bool, int]:
    """Rows and columns are smaller than tiles, and a tile is simpler than a product of them."""
    return not expr.free_symbols <= {kxx, kyy, *NUMBERS}, len(sp.Mul.make_args(expr))

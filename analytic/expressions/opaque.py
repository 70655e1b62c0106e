"""Nodes of an expression that a program computes, because no printer can write them out as code."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import sympy as sp

from analytic.expressions.arguments import InputError

__all__ = ["Opaque", "Table", "to_arrays"]

# A compiler of the backend: from arguments and several expressions to one function of numbers.
Table = Callable[[Sequence[sp.Symbol], sp.Tuple], Callable[..., Any]]


def to_arrays(xp: Any, values: Sequence[Any], plain: Container[int] = ()) -> list[Any]:
    """Numbers among the arrays, such as those of `Formula.at`, as arrays of the same dtype and device.

    The values at the places `plain` remain as they are.
    """
    like = next((v for k, v in enumerate(values) if k not in plain and hasattr(v, "dtype")), None)
    kind = {"dtype": xp.float64 if like is None else like.dtype}
    if like is not None and hasattr(like, "new_tensor"):
        kind["device"] = like.device
    return [
        value if k in plain or hasattr(value, "dtype") else xp.asarray(value, **kind)
        for k, value in enumerate(values)
    ]


class Opaque(sp.Expr):
    """A node that SymPy cannot look into: a program computes its value from those of its inputs."""

    kind = "a program"  # in words
    straight_line = (
        False  # whether the program on arrays does the same operations whatever the values
    )

    @property
    def inputs(self) -> tuple[sp.Expr, ...]:
        """The arguments of the program, as expressions."""
        raise NotImplementedError

    @property
    def host(self) -> frozenset[sp.Symbol]:
        """Inputs that must be plain numbers, never arrays, such as a number of layers."""
        return frozenset()

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        raise InputError(
            f"{type(self).__name__} is computed by a program, and has no symbolic derivative by {symbol}: "
            "differentiate `.torch` by autograd, or `.mpmath` by mpmath.diff."
        )

    def on_mpmath(self, table: Table) -> Callable[..., Any]:
        """The program on mpmath numbers; `table` compiles the expressions that it needs."""
        raise NotImplementedError

    def on_arrays(self, xp: Any, table: Table) -> Callable[..., Any]:
        """The program on arrays of numpy or torch (`xp`)."""
        raise NotImplementedError

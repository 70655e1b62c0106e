"""Symbols that no printer can write out, because a program computes them: what a backend asks of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from analytic.expressions.arguments import InputError

Table = Callable[[Sequence[sp.Symbol], sp.Tuple], Callable[..., Any]]  # (args, exprs) -> function


class Opaque(sp.Expr):
    """A node of an expression that stands for a computation on the values of its inputs."""

    @property
    def inputs(self) -> tuple[sp.Expr, ...]:
        """What the computation needs to know, in the order of its arguments."""
        raise NotImplementedError

    @property
    def host(self) -> frozenset[sp.Symbol]:
        """Inputs that must be plain numbers, such as how often to repeat something."""
        return frozenset()

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        raise InputError(
            f"{type(self).__name__} is computed, and has no derivative by {symbol} in symbols: "
            "differentiate `.torch` by autograd, or `.mpmath` by mpmath.diff."
        )

    def on_mpmath(self, table: Table) -> Callable[..., Any]:
        """The computation on mpmath numbers; `table` compiles expressions for it."""
        raise NotImplementedError

    def on_arrays(self, xp: Any, table: Table) -> Callable[..., Any]:
        """The computation on arrays of numpy or torch."""
        raise NotImplementedError

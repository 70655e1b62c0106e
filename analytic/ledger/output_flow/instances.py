"""Exact matrices of every shape and rank, and pseudoinverses of them by singular values, for the routes.

A statement about matrices is tried on all instances at once: its exact value, contracted with vectors u
and v, times a weight for each instance. Its oracle computes the same from singular values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim
from analytic.expressions.formula import Formula
from analytic.ledger.verification import dot, real_symbols
from analytic.output_flow import range_projector

__all__ = [
    "FULL_ROW_RANK", "ITSELF", "SHARES", "identity", "kernel_projector", "one", "onto", "plus",
]  # fmt: skip

# Outputs by parameters: wide, tall and square, of full and of lower rank.
INSTANCES = tuple(
    map(
        sp.Matrix,
        (
            [[1, 2, 0], [sp.Rational(1, 2), -1, 3]],
            [[2, -1, 1, 0], [1, 1, 0, 3], [3, 0, 1, 3]],
            [[1, -2], [3, 1], [sp.Rational(1, 3), 2]],
            [[1, 2, -1], [2, 4, -2], [0, 1, sp.Rational(1, 2)], [1, 3, sp.Rational(-1, 2)]],
            [[2, 1, 0], [-1, 1, 1], [0, sp.Rational(1, 2), 3]],
            [[1, 2, 3], [2, 4, 6], [-1, -2, -3]],
        ),
    )
)
FULL_ROW_RANK = tuple(k for k, A in enumerate(INSTANCES) if A.rank() == A.rows)
u = real_symbols("u1 u2 u3 u4")
v = real_symbols("v1 v2 v3 v4")
weights = real_symbols("z1 z2 z3 z4 z5 z6")
SHARES = tuple(sp.Rational(k, 5) for k in (0, 1, 2, 3, 4, 5))  # alpha of each instance


def identity(
    name: str,
    exact: Callable[[int, sp.Matrix], sp.Matrix],
    numeric: Callable[[int, Any], Any],
    only: Sequence[int] = tuple(range(len(INSTANCES))),
    route: str = "singular values",
) -> Claim:
    """The claim that a matrix computed exactly from every instance equals one in numbers.

    Both are given the index of the instance, which has its own alpha, and the matrix.
    """
    chosen = tuple(weights[k] for k in only)
    matrices = [exact(k, INSTANCES[k]) for k in only]
    expr = sp.Add(*(z * _contracted(M) for z, M in zip(chosen, matrices, strict=True)))
    formula = Formula(name, (*u, *v, *chosen), expr)

    def oracle(**values: Any) -> Any:
        left, right = ([values[s.name] for s in some] for some in (u, v))
        total = mp.mpf(0)
        for k in only:
            M = numeric(k, in_numbers(INSTANCES[k]))
            total += values[weights[k].name] * sum(
                left[i] * M[i, j] * right[j] for i in range(M.rows) for j in range(M.cols)
            )
        return total

    sides = {"u1": "1.3", "u2": "-0.7", "u3": "2.1", "u4": "0.4"}
    sides |= {"v1": "0.6", "v2": "1.9", "v3": "-1.1", "v4": "-0.3"}
    together = {z.name: w for z, w in zip(chosen, (1, "-0.8", "1.4", "0.9", "-1.7", "0.5"))}
    # One instance at a time, but for matrices that are zero: rounding has no relative error there.
    alone = [
        {z.name: int(z == one) for z in chosen}
        for one, M in zip(chosen, matrices, strict=True)
        if not M.is_zero_matrix
    ]
    points = tuple(sides | z for z in (together, *alone))
    return Claim(formula, route, oracle, points)


def _contracted(M: sp.Matrix) -> sp.Expr:
    """u^T M v, row by row, which compiles quicker than its expansion."""
    return sp.Add(*(u[i] * dot(M.row(i), v[: M.cols]) for i in range(M.rows)))


def kernel_projector(A: sp.Matrix) -> sp.Matrix:
    """The projector onto the kernel, from a basis of it."""
    basis = A.nullspace()
    return range_projector(sp.Matrix.hstack(*basis)) if basis else sp.zeros(A.cols)


ITSELF = "the matrix itself"  # the route to what needs no singular values


def in_numbers(A: sp.Matrix) -> Any:
    return mp.matrix([[mp.mpf(entry.p) / entry.q for entry in A.row(i)] for i in range(A.rows)])


def singular(A: Any) -> list[tuple[Any, Any, Any]]:
    """Singular values that are not zero, each with its left and its right vector."""
    if A.rows < A.cols:
        return [(s, right, left) for s, left, right in singular(A.T)]
    U, S, V = mp.svd_r(A)
    return [(S[k], U[:, k], V[k, :].T) for k in range(A.cols) if S[k] > mp.mpf(10) ** -15]


def plus(A: Any) -> Any:
    """The pseudoinverse by singular values."""
    return _sum(A.cols, A.rows, [right * left.T / s for s, left, right in singular(A)])


def onto(A: Any) -> Any:
    """The projector onto the range, by left singular vectors."""
    return _sum(A.rows, A.rows, [left * left.T for _, left, _ in singular(A)])


def _sum(rows: int, columns: int, terms: Sequence[Any]) -> Any:
    total = mp.zeros(rows, columns)
    for term in terms:
        total += term
    return total


def one(size: int) -> Any:
    return mp.eye(size)

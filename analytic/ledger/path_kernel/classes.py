"""Several outputs and a scalar loss of all of them: (72) to (87)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, sample
from analytic.expressions.formula import Formula
from analytic.ledger.path_kernel.network import (
    LABELLED,
    PAIRS,
    STATES,
    WEIGHTS,
    Run,
    eps,
    labelled,
    put,
    start,
    step_from,
    t,
    x,
)
from analytic.ledger.verification import Verification, dot, holds, real_symbols, shifted

__all__ = ["ROUTES"]

u, v = WEIGHTS
OUTPUTS = sp.Matrix([v * (u * x + 1) ** 2, u**2 * x - v])  # K = 2
F = real_symbols("f1 f2")
label = sp.Symbol("y", real=True)
LOSS = (F[0] - label) ** 2 + F[0] * F[1] + (F[1] + label) ** 2  # its slope mixes the outputs


def _model(w: Sequence[Any], place: Any) -> tuple[Any, Any]:
    return w[1] * (w[0] * place + 1) ** 2, w[0] ** 2 * place - w[1]


def _loss(out: tuple[Any, Any], label: Any) -> Any:
    return (out[0] - label) ** 2 + out[0] * out[1] + (out[1] + label) ** 2


def _jacobian(state: Sequence[sp.Expr], place: Any) -> sp.Matrix:
    """(85)."""
    return OUTPUTS.jacobian(WEIGHTS).applyfunc(lambda slope: put(slope, state, place))


def _at_outputs(expr: sp.Expr, pair: Sequence[sp.Expr], state: Sequence[sp.Expr]) -> sp.Expr:
    """An expression in the outputs and the label, at a training point."""
    outputs = {f: put(one, state, pair[0]) for f, one in zip(F, OUTPUTS, strict=True)}
    return expr.xreplace(outputs | {label: pair[1]})


def _lines() -> dict[str, list[Claim]]:
    """The speed of both outputs within a step, line by line."""
    total = sum(_at_outputs(LOSS, pair, WEIGHTS) for pair in PAIRS)
    descent = sp.Matrix([put(sp.diff(total, w), STATES[0]) for w in WEIGHTS])
    test = _jacobian(shifted(STATES[0], descent, -t * eps), x)  # at w_s(t)
    training = [_jacobian(STATES[0], place) for place, _ in PAIRS]
    rows = [
        sp.Matrix([[_at_outputs(sp.diff(LOSS, f), pair, STATES[0]) for f in F]]) for pair in PAIRS
    ]  # B, (78)
    zero, both = sp.zeros(2, 1), list(zip(rows, training, strict=True))
    lines = {
        "(73)": sum((-eps * test[:, j] * descent[j] for j in (0, 1)), zero),
        "(75)": sum((-eps * test[:, j] * (B * C[:, j]) for j in (0, 1) for B, C in both), zero),
        "(82)": sum((-eps * (B * C[:, j] * test[:, j].T).T for j in (0, 1) for B, C in both), zero),
        "(83)": sum(
            (
                -eps * (B * sum((C[:, j] * test[:, j].T for j in (0, 1)), sp.zeros(2))).T
                for B, C in both
            ),
            zero,
        ),
        "(86)": sum((-eps * (B * C * test.T).T for B, C in both), zero),
    }
    args = (*STATES[0], *LABELLED, x, t, eps)
    return {
        name: [_speed(Formula(f"{name}, output {k + 1}", args, entry[k]), k) for k in (0, 1)]
        for name, entry in lines.items()
    }


def _speed(formula: Formula, k: int) -> Claim:
    def oracle(x: Any, t: Any, eps: Any, **values: Any) -> Any:
        first, second = Run(_model, _loss, labelled(values), eps).states(start(values), 1)
        way = step_from(first, second)
        return mp.diff(lambda time: _model(shifted(first, way, time), x)[k], t)

    return Claim(formula, "differences along a training step", oracle, sample(formula, 2))


def _chain() -> list[Claim]:
    """(72), for weights that move on a line."""
    way = real_symbols("du dv")
    args = (*STATES[0], *way, x)

    def component(k: int) -> Claim:
        row = _jacobian(STATES[0], x)[k, :]
        formula = Formula(f"(72), output {k + 1}", args, dot(row, way))

        def oracle(du: Any, dv: Any, x: Any, **values: Any) -> Any:
            return mp.diff(lambda s: _model(shifted(start(values), (du, dv), s), x)[k], 0)

        return Claim(formula, "differences of the output", oracle, sample(formula, 2))

    return [component(0), component(1)]


def _order() -> list[Claim]:
    """(80) and (81) for K = 3, entry by entry."""
    A, B, C = (real_symbols(f"{name}1 {name}2 {name}3") for name in "abc")
    column, row, other = sp.Matrix(A), sp.Matrix([B]), sp.Matrix(C)
    last = row * other * column.T

    def entry(k: int) -> Claim:
        formula = Formula(f"(B C A^T)^T, row {k + 1}", (*A, *B, *C), last.T[k])

        def oracle(**values: Any) -> Any:
            a, b, c = (mp.matrix([values[s.name] for s in some]) for some in (A, B, C))
            return ((a * b.T) * c)[k]

        return Claim(formula, "A B first", oracle, sample(formula, 2))

    return [entry(k) for k in range(3)]


_steps = _lines()
ROUTES: dict[str, Verification] = {
    "exact-path-kernel/72-76": holds(*_chain(), *_steps["(73)"], *_steps["(75)"]),
    "exact-path-kernel/80-81": holds(*_order()),
    "exact-path-kernel/82-84": holds(*_steps["(82)"], *_steps["(83)"]),
    "exact-path-kernel/86-87": holds(*_steps["(86)"]),
}

"""A model with two outputs and three parameters, in symbols and in numbers, for statements about flows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.ledger.verification import real_symbols, shifted

__all__ = [
    "EXTRAPOLATED", "JACOBIAN", "LABELS", "OUTPUTS", "PLACES", "THETA", "along", "at_input", "flow",
    "jacobian", "outputs",
]  # fmt: skip

Vector = Sequence[Any]
Map = Callable[[Vector], list[Any]]

THETA = real_symbols("p q r")
LABELS = real_symbols("y1 y2")
PLACES = (sp.S.One, -sp.S.Half)  # two training inputs, one output each: Q = 1 and N = 2


def at_input(place: Any) -> sp.Expr:
    """f_theta: a quadratic neuron and a bias."""
    p, q, r = THETA
    return r * (p * place + 1) ** 2 + q


OUTPUTS = sp.Matrix([at_input(place) for place in PLACES])
JACOBIAN = OUTPUTS.jacobian(THETA)


def outputs(theta: Vector) -> list[Any]:
    """`OUTPUTS` in numbers."""
    p, q, r = theta
    return [r * (p * place + 1) ** 2 + q for place in (mp.mpf(1), -mp.mpf(1) / 2)]


def jacobian(of: Map, theta: Vector) -> Any:
    """By differences."""
    columns = []
    for k in range(len(theta)):
        way = [int(j == k) for j in range(len(theta))]
        count = len(of(theta))
        columns.append(
            [mp.diff(lambda s, i=i, w=way: of(shifted(theta, w, s))[i], 0) for i in range(count)]
        )
    return mp.matrix(columns).T


def flow(
    velocity: Callable[[Any, Vector], Vector], start: Vector, begin: Any, end: Any
) -> list[Any]:
    """Where a solution of y' = velocity(t, y) is at the end: the midpoint rule, extrapolated.

    Each of a few steps is divided into 2, 4, 6, ... parts; the error is even in their length.
    """
    state, parts = list(start), range(2, 2 * EXTRAPOLATIONS + 1, 2)
    for k in range(STEPS):
        time, length = begin + (end - begin) * k / STEPS, (end - begin) / STEPS
        table: list[list[Any]] = []
        for n, count in enumerate(parts):
            row = _midpoint(velocity, state, time, length, count)
            table.append(row)
            for m in range(n - 1, -1, -1):
                ratio = (mp.mpf(count) / parts[m]) ** 2 - 1
                table[m] = [
                    b + (b - a) / ratio for a, b in zip(table[m], table[m + 1], strict=True)
                ]
        state = table[0]
    return state


STEPS, EXTRAPOLATIONS = 4, 9
EXTRAPOLATED = "extrapolated midpoint rule"


def _midpoint(velocity: Any, start: Vector, time: Any, length: Any, count: int) -> list[Any]:
    h, last = length / count, list(start)
    here = shifted(last, velocity(time, last), h)
    for k in range(1, count):
        last, here = here, shifted(last, velocity(time + k * h, here), 2 * h)
    return here


def along(of: Map, theta: Vector, velocity: Vector) -> list[Any]:
    """How fast the outputs move while the parameters move at a velocity, by differences."""
    return [
        mp.diff(lambda s, i=i: of(shifted(theta, velocity, s))[i], 0) for i in range(len(of(theta)))
    ]

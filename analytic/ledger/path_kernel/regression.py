"""Gaussian-process regression with the path kernel: (91) and (92)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, Point
from analytic.expressions.formula import Formula
from analytic.ledger.path_kernel.network import PAIRS, SQUARED, runs
from analytic.ledger.path_kernel.positivity import TEST, TRAINING, entry
from analytic.ledger.verification import Verification, holds, real_symbols

__all__ = ["ROUTES"]

NAMES = ("k00", "k01", "k02", "k11", "k12", "k22")  # one test point, 0, and two training points
GRAM = real_symbols(" ".join(NAMES))
LABELS = real_symbols("y1 y2")
MEAN = real_symbols("b")


def _points() -> tuple[Point, ...]:
    """The Gram matrix of a run of two steps, in exact fractions, and its labels."""
    points = []
    for run, place in zip(runs(SQUARED, 2), (sp.Rational(1, 3), sp.Rational(-3, 2)), strict=True):
        nodes = [(place, TEST), *((pair[0], TRAINING) for pair in PAIRS)]
        values = {sp.Symbol(name, real=True): sp.Rational(v) for name, v in run.items()}
        pairs = zip(NAMES, combinations_with_replacement(nodes, 2), strict=True)
        gram = {
            name: sum(entry(one, two, s).xreplace(values) for s in (0, 1))
            for name, (one, two) in pairs
        }
        points.append({**gram, **{label.name: run[label.name] for label in LABELS}})
    return tuple(points)


def _matrices() -> tuple[sp.Matrix, sp.Matrix]:
    """[K(X', X)] and [K(X, X)]."""
    _, k01, k02, k11, k12, k22 = GRAM
    return sp.Matrix([[k01, k02]]), sp.Matrix([[k11, k12], [k12, k22]])


def _moments(v: dict[str, Any]) -> tuple[Any, Any]:
    """Mean and variance of the test value given both labels, from the joint density."""
    rows = [[v["k00"], v["k01"], v["k02"]], [v["k01"], v["k11"], v["k12"]]]
    precision = mp.matrix([*rows, [v["k02"], v["k12"], v["k22"]]]) ** -1
    wide = 12 * mp.sqrt(v["k00"]) * (1 + abs(v["y1"]) + abs(v["y2"]))

    def density(value: Any) -> Any:
        z = mp.matrix([value, v["y1"], v["y2"]])
        return mp.exp(-(z.T * precision * z)[0] / 2)

    def moment(power: int) -> Any:
        cells = mp.linspace(-wide, wide, 41)
        return mp.quad(lambda value: value**power * density(value), cells)

    mass, first, second = (moment(k) for k in range(3))
    return first / mass, second / mass - (first / mass) ** 2


def _about_a_start() -> Claim:
    """(91) for a process of mean b, the output that a network starts with."""
    (b,) = MEAN
    expr = b + (_solved * sp.Matrix([label - b for label in LABELS]))[0]
    formula = Formula("mean of the posterior about b", (*GRAM, *LABELS, b), expr)

    def about(**v: Any) -> Any:
        return v["b"] + _moments(v | {y.name: v[y.name] - v["b"] for y in LABELS})[0]

    points = tuple({**point, "b": "-0.7"} for point in POINTS)
    return Claim(formula, ROUTE, about, points, 20, CUT)


def _claim(name: str, expr: sp.Expr, part: Callable[[Any], Any]) -> Claim:
    formula = Formula(name, (*GRAM, *LABELS), expr)
    return Claim(formula, ROUTE, lambda **v: part(_moments(v)), POINTS, 20, CUT)


ROUTE, CUT = "joint density of labels and value", "quadrature of a density that is cut off"
POINTS = _points()
_cross, _gram = _matrices()
_solved = _cross * _gram.inv()
ROUTES: dict[str, Verification] = {
    "exact-path-kernel/91": holds(
        _claim("mean of the posterior", (_solved * sp.Matrix(LABELS))[0], lambda both: both[0]),
        _about_a_start(),
    ),
    "exact-path-kernel/92-93": holds(
        _claim("variance of the posterior", GRAM[0] - (_solved * _cross.T)[0], lambda both: both[1])
    ),
}

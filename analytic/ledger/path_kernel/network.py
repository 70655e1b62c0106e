"""Small networks trained step by step: one in symbols and exact fractions, any in mpmath numbers.

A statement takes the weights of a recorded training run as arguments, or computes them in symbols. Its
oracle is given the data and the first weights only, and trains again with numerical derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.ledger.univariate.network import Map, Vector, gradient
from analytic.ledger.verification import dot, real_symbols, shifted

__all__ = [
    "BOOLE", "FUNCTION", "LABELLED", "LINEAR", "PAIRS", "SQUARED", "STATES", "WEIGHTS", "Loss", "Model",
    "Run", "between", "ensemble", "eps", "f", "feature", "integral", "kernel", "labelled", "linear",
    "loss_slope", "mean_gradient", "mean_slopes", "neuron", "output", "put", "record", "runs", "slopes",
    "squared", "start", "step_from", "t", "x", "y",
]  # fmt: skip

Model = Callable[[Vector, Any], Any]  # weights and input to output
Loss = Callable[[Any, Any], Any]  # output and label to number
Data = Sequence[tuple[Any, Any]]  # (x, y)

# In symbols: a network with one quadratic neuron, whose gradient is a parabola in time along a step.
u, v = WEIGHTS = real_symbols("u v")
STATES = tuple(real_symbols(f"u{s} v{s}") for s in range(4))  # w_0 to w_3
PAIRS = tuple(real_symbols(f"x{i} y{i}") for i in (1, 2))  # two training points
LABELLED = (*PAIRS[0], *PAIRS[1])
x, t, eps = real_symbols("x t eps")
FUNCTION = v * (u * x + 1) ** 2
f, y = real_symbols("f y")  # output and label in a loss
SQUARED = (y - f) ** 2
LINEAR = -y * f  # the loss whose slope does not change, as in (43)


def neuron(w: Vector, place: Any) -> Any:
    """`FUNCTION` in numbers."""
    return w[1] * (w[0] * place + 1) ** 2


def squared(output: Any, label: Any) -> Any:
    return (output - label) ** 2


def linear(output: Any, label: Any) -> Any:
    return -output * label


def put(expr: sp.Expr, state: Vector, place: Any = x) -> sp.Expr:
    """An expression in the weights and the input, at a state and a place."""
    return expr.xreplace(dict(zip((*WEIGHTS, x), (*state, place), strict=True)))


def output(state: Vector, place: Any) -> sp.Expr:
    return put(FUNCTION, state, place)


def slopes(state: Vector, place: Any) -> list[sp.Expr]:
    """The gradient of the network's output by its weights."""
    return [put(sp.diff(FUNCTION, w), state, place) for w in WEIGHTS]


def between(s: int, at: Any = t) -> list[sp.Expr]:
    """w_s(t), (5)."""
    return [a - at * (a - b) for a, b in zip(STATES[s], STATES[s + 1], strict=True)]


SIMPSON = (1, 4, 1)  # exact for gradients along a step
BOOLE = (7, 32, 12, 32, 7)  # exact for their products


def integral(expr: sp.Expr, rule: Sequence[int] = SIMPSON) -> sp.Expr:
    """Of a polynomial in t from 0 to 1; SIMPSON is exact up to degree three, BOOLE up to five."""
    times = [sp.Rational(k, len(rule) - 1) for k in range(len(rule))]
    terms = (weight * expr.xreplace({t: at}) for weight, at in zip(rule, times, strict=True))
    return sum(terms) / sum(rule)


def mean_slopes(s: int, place: Any) -> list[sp.Expr]:
    """The gradient averaged over step s."""
    return [integral(slope) for slope in slopes(between(s), place)]


def kernel(s: int, place: Any, other: Any) -> sp.Expr:
    """K_EPK of a test point and a training point at step s."""
    return dot(mean_slopes(s, place), slopes(STATES[s], other))


def loss_slope(loss: sp.Expr, s: int, pair: Vector) -> sp.Expr:
    """dL/df of one training point at w_s."""
    at = {f: output(STATES[s], pair[0]), y: pair[1]}
    return sp.diff(loss, f).xreplace(at)


def ensemble(steps: Sequence[int], loss: sp.Expr, place: Any = x) -> sp.Expr:
    """The right-hand side of (7), summed over the given steps."""
    return output(STATES[0], place) + sum(
        -eps * loss_slope(loss, s, pair) * kernel(s, place, pair[0])
        for s in steps
        for pair in PAIRS
    )


@cache
def loss_gradient(loss: sp.Expr) -> Callable[..., list[Any]]:
    """The gradient of the total loss, as a function of the weights and the two training points."""
    total = sum(loss.xreplace({f: output(WEIGHTS, a), y: b}) for a, b in PAIRS)
    return sp.lambdify((*WEIGHTS, *LABELLED), [sp.diff(total, w) for w in WEIGHTS], "math")


def record(
    loss: sp.Expr, start: Vector, data: Vector, step: Any, steps: int = 3, momentum: Any = 0
) -> dict[str, Any]:
    """A training run in exact fractions: all its states, its data and its step size, by name."""
    numbers, descent = [Fraction(value) for value in data], loss_gradient(loss)
    point = dict(zip(map(str, LABELLED), numbers, strict=True)) | {"eps": Fraction(step)}
    w, buffer = [Fraction(value) for value in start], [Fraction(0)] * 2
    for s in range(steps + 1):
        point |= dict(zip(map(str, STATES[s]), w, strict=True))
        buffer = shifted(descent(*w, *numbers), buffer, Fraction(momentum))
        w = shifted(w, buffer, -Fraction(step))
    return point


def runs(loss: sp.Expr, steps: int = 3, **more: Any) -> tuple[dict[str, Any], ...]:
    """Two recorded runs, each with the values `more`, which are pairs."""
    first = record(loss, ("1/2", "3/4"), ("1/2", 1, -1, "3/2"), "1/8", steps)
    second = record(loss, ("-1/3", "1/2"), ("2/3", "-3/2", "3/2", 1), "1/10", steps)
    return tuple(
        point | {name: pair[k] for name, pair in more.items()}
        for k, point in enumerate((first, second))
    )


def labelled(values: dict[str, Any]) -> list[tuple[Any, Any]]:
    """The training points among the values of the arguments."""
    return [(values[a.name], values[b.name]) for a, b in PAIRS]


def start(values: dict[str, Any]) -> list[Any]:
    return [values[w.name] for w in STATES[0]]


# In numbers, for any model and any loss.


@dataclass(frozen=True)
class Run:
    """A model, its loss and its data, trained by gradient descent on the sum of the losses."""

    model: Model
    loss: Loss
    data: Data
    eps: Any

    def total(self, w: Vector) -> Any:
        return sum(self.loss(self.model(w, a), b) for a, b in self.data)

    def states(self, w: Vector, steps: int) -> list[list[Any]]:
        """w_0 to w_N."""
        path = [list(w)]
        for _ in range(steps):
            path.append(shifted(path[-1], gradient(self.total, path[-1]), -self.eps))
        return path

    def trained(self, w: Vector, steps: int, place: Any) -> Any:
        """The output of the trained model."""
        return self.model(self.states(w, steps)[-1], place)

    def coefficient(self, w: Vector, pair: tuple[Any, Any]) -> Any:
        """a_(i,s) by (8), at the weights w."""
        return -self.eps * mp.diff(lambda out: self.loss(out, pair[1]), self.model(w, pair[0]))

    def contributions(self, w: Vector, steps: int, place: Any) -> list[list[Any]]:
        """What every training point added to the output in each step, by quadrature."""
        path, parts = self.states(w, steps), []
        for before, after in pairwise(path):
            test = mean_gradient(self.model, place, before, after)
            parts.append(
                [
                    self.coefficient(before, pair)
                    * dot(test, gradient(lambda w, p=pair[0]: self.model(w, p), before))
                    for pair in self.data
                ]
            )
        return parts

    def rebuilt(self, w: Vector, steps: int, place: Any) -> Any:
        """The start and what every training point added."""
        return self.model(w, place) + sum(map(sum, self.contributions(w, steps, place)))


def step_from(before: Vector, after: Vector) -> list[Any]:
    """The way from one state to another."""
    return [b - a for a, b in zip(before, after, strict=True)]


def feature(model: Model, place: Any, w: Vector) -> list[Any]:
    """The gradient of the output by the weights."""
    return gradient(lambda w: model(w, place), w)


def mean_gradient(model: Model, place: Any, before: Vector, after: Vector) -> list[Any]:
    """The gradient of the output, averaged over a step by quadrature."""
    way = step_from(before, after)

    def component(k: int, time: Any) -> Any:
        return _partial(lambda w: model(w, place), shifted(before, way, time), k)

    return [mp.quad(lambda time, k=k: component(k, time), [0, 1]) for k in range(len(way))]


def _partial(of: Map, w: Vector, k: int) -> Any:
    return mp.diff(lambda value: of([*w[:k], value, *w[k + 1 :]]), w[k])

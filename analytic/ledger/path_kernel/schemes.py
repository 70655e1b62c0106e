"""Algorithm 1, and other steps than those of fixed size: (88) to (90)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, Point, sample
from analytic.expressions.formula import Formula
from analytic.ledger.path_kernel.network import (
    LABELLED,
    PAIRS,
    SQUARED,
    STATES,
    WEIGHTS,
    Run,
    between,
    eps,
    feature,
    labelled,
    loss_slope,
    mean_slopes,
    neuron,
    output,
    put,
    record,
    slopes,
    squared,
    start,
    step_from,
    x,
)
from analytic.ledger.univariate.network import gradient
from analytic.ledger.verification import Verification, dot, real_symbols, shifted

__all__ = ["ROUTES"]

RECORD = (*STATES[0], *STATES[1], *STATES[2], *STATES[3], *LABELLED, x, eps)
T = sp.Symbol("T", integer=True, positive=True)
MEAN = SQUARED / len(PAIRS)  # a loss that is averaged over the training points
FIRST = (*STATES[0], *LABELLED)


def _points(loss: sp.Expr, momentum: Any = 0, **more: Any) -> tuple[Point, ...]:
    run = record(loss, ("1/2", "3/4"), ("1/2", 1, -1, "3/2"), "1/8", 3, momentum)
    return tuple(run | {name: pair[k] for name, pair in more.items()} for k in (0, 1))


def _riemann(s: int) -> list[sp.Expr]:
    """The gradient at x, averaged over T nodes from t = 0: it is a parabola in t."""
    at = [slopes(between(s, sp.Rational(k, 2)), x) for k in range(3)]
    sums = []
    for zero, half, one in zip(*at, strict=True):
        linear, square = 4 * half - 3 * zero - one, 2 * zero - 4 * half + 2 * one
        sums.append(zero + linear * (T - 1) / (2 * T) + square * (T - 1) * (2 * T - 1) / (6 * T**2))
    return sums


def _prediction(tests: Sequence[Sequence[sp.Expr]]) -> sp.Expr:
    """The last line of Algorithm 1, with J^x of each step."""
    total = sum(
        loss_slope(SQUARED, s, pair) * dot(test, slopes(STATES[s], pair[0]))
        for s, test in enumerate(tests)
        for pair in PAIRS
    )
    return output(STATES[0], x) - eps * total / len(PAIRS)


def _algorithm() -> Verification:
    """Algorithm 1 at T nodes against its loops, and in the limit against the network.

    As printed it goes on to a step that was not taken, and never sets J^x back to zero.
    """
    nodes = Formula(
        "Algorithm 1, T nodes", (*RECORD, T), _prediction([_riemann(s) for s in (0, 1)])
    )
    exact = [mean_slopes(s, x) for s in range(3)]
    limit = Formula("Algorithm 1, T to infinity", RECORD, _prediction(exact[:2]))
    grown = [[sum(column) for column in zip(*exact[: s + 1])] for s in range(3)]
    printed = Formula("Algorithm 1 as printed", RECORD, _prediction(grown))

    def loops(x: Any, T: Any, eps: Any, **v: Any) -> Any:
        states = [[v[w.name] for w in state] for state in STATES[:3]]
        total, data = mp.mpf(0), labelled(v)
        for before, after in pairwise(states):
            way = step_from(before, after)
            test = [mp.mpf(0)] * 2
            for k in range(int(T)):
                test = shifted(test, feature(neuron, x, shifted(before, way, k / T)), 1 / T)
            for place, label in data:
                slope = mp.diff(lambda out, y=label: squared(out, y), neuron(before, place))
                total += slope * dot(test, feature(neuron, place, before))
        return neuron(states[0], x) - eps * total / len(data)

    def network(x: Any, **v: Any) -> Any:
        run = Run(neuron, lambda out, label: squared(out, label) / 2, labelled(v), v["eps"])
        return run.trained(start(v), 2, x)

    places = {"x": ("1/3", "-3/2")}
    return Verification(
        (
            Claim(limit, "a network trained on the mean loss", network, _points(MEAN, **places)),
            Claim(nodes, "its loops in numbers", loops, _points(MEAN, **places, T=(3, 8))),
        ),
        printed,
    )


def _descents() -> tuple[list[sp.Expr], list[sp.Expr]]:
    """Gradients of the loss at w_0 and, after a step of size eps0, at w_1."""
    total = sum((output(WEIGHTS, a) - b) ** 2 for a, b in PAIRS)
    by_weights = [sp.diff(total, w) for w in WEIGHTS]
    first = [put(slope, STATES[0]) for slope in by_weights]
    state = shifted(STATES[0], first, -SIZES[0])
    return first, [put(slope, state) for slope in by_weights]


SIZES = real_symbols("eps0 eps1")


def _weight_steps(
    name: str,
    args: Sequence[sp.Symbol],
    exprs: Sequence[sp.Expr],
    way: Callable[[dict[str, Any]], list[Any]],
) -> tuple[Claim, Claim]:
    """A claim for each weight about its second step, which `way` takes in numbers."""

    def component(j: int) -> Claim:
        formula = Formula(f"{name}, weight {j + 1}", tuple(args), exprs[j])
        route = "training with that scheme"
        return Claim(formula, route, lambda **v: way(v)[j], sample(formula, 2))

    return component(0), component(1)


def _variable() -> Verification:
    """(88) in the second of two steps of different size."""
    _, second = _descents()
    args = (*FIRST, *SIZES)
    printed = -SIZES[0] * sum(second)

    def way(v: dict[str, Any]) -> list[Any]:
        first, after = (Run(neuron, squared, labelled(v), v[e.name]) for e in SIZES)
        before = first.states(start(v), 1)[-1]
        return step_from(*after.states(before, 1))

    claims = _weight_steps("step of variable size", args, [-SIZES[1] * g for g in second], way)
    return Verification(claims, Formula("(88) as printed", args, printed))


def _several() -> Verification:
    """(89) and (90) for heavy ball, with eps_(1,1) = eps and eps_(1,0) = mu eps, and for leapfrog."""
    mu = sp.Symbol("mu", real=True)
    first, second = _descents()
    args = (*FIRST, SIZES[0], mu)
    exprs = [-SIZES[0] * (b + mu * a) for a, b in zip(first, second, strict=True)]

    def heavy_ball(v: dict[str, Any]) -> list[Any]:
        run = Run(neuron, squared, labelled(v), v["eps0"])
        w, buffer = start(v), [mp.mpf(0)] * 2
        for _ in range(2):
            before, buffer = w, shifted(gradient(run.total, w), buffer, v["mu"])
            w = shifted(before, buffer, -run.eps)
        return step_from(before, w)

    claims = _weight_steps("step with momentum", args, exprs, heavy_ball)
    printed = Formula("(90) as printed", args, SIZES[0] * (sum(second) + mu * sum(first)))
    return Verification((*claims, *_leapfrog(), _with_momentum()), printed)


def _leapfrog() -> tuple[Claim, Claim]:
    """w_2 = w_0 - 2 eps grad L(w_1) after one Euler step: eps_(1,1) = 2 eps and eps_(1,0) = -eps."""
    first, second = _descents()
    exprs = [-2 * SIZES[0] * b + SIZES[0] * a for a, b in zip(first, second, strict=True)]

    def way(v: dict[str, Any]) -> list[Any]:
        run = Run(neuron, squared, labelled(v), v["eps0"])
        before, middle = run.states(start(v), 1)
        after = shifted(before, gradient(run.total, middle), -2 * run.eps)
        return step_from(middle, after)

    return _weight_steps("leapfrog step", (*FIRST, SIZES[0]), exprs, way)


def _with_momentum() -> Claim:
    """The sum over steps s, earlier steps r <= s and training points rebuilds a network with momentum."""
    mu = sp.Symbol("mu", real=True)
    expr = output(STATES[0], x) - sum(
        eps * mu ** (s - r) * loss_slope(SQUARED, r, pair) * dot(test, slopes(STATES[r], pair[0]))
        for s, test in ((0, mean_slopes(0, x)), (1, mean_slopes(1, x)))
        for r in range(s + 1)
        for pair in PAIRS
    )
    formula = Formula("sum over steps with momentum", (*RECORD, mu), expr)

    def oracle(x: Any, mu: Any, **v: Any) -> Any:
        run = Run(neuron, squared, labelled(v), v["eps"])
        before, after = run.states(start(v), 1)
        way = [mu * (b - a) for a, b in zip(before, after, strict=True)]
        return neuron(shifted(run.states(after, 1)[-1], way, 1), x)

    points = _points(SQUARED, "3/5", x=("1/3", "-3/2"), mu=("3/5", "3/5"))
    return Claim(formula, "training again with momentum", oracle, points)


ROUTES: dict[str, Verification] = {
    "exact-path-kernel/algorithm-1": _algorithm(),
    "exact-path-kernel/88": _variable(),
    "exact-path-kernel/89-90": _several(),
}

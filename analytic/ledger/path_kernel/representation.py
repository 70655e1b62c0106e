"""A trained network as a sum over steps and points: theorem 3.6, (7) to (11), (15), (16), (29) to (42)."""

from __future__ import annotations

from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, sample
from analytic.expressions.formula import Formula
from analytic.ledger.path_kernel.network import (
    FUNCTION,
    LABELLED,
    PAIRS,
    SQUARED,
    STATES,
    WEIGHTS,
    Loss,
    Model,
    Run,
    between,
    ensemble,
    eps,
    f,
    feature,
    integral,
    kernel,
    labelled,
    loss_slope,
    mean_gradient,
    neuron,
    output,
    put,
    runs,
    slopes,
    squared,
    start,
    step_from,
    t,
    x,
    y,
)
from analytic.ledger.univariate.network import rate
from analytic.ledger.verification import Verification, dot, holds, real_symbols, shifted

__all__ = ["ROUTES"]

RECORD = (*STATES[0], *STATES[1], *STATES[2], *STATES[3], *LABELLED, x, eps)
ONE_STEP = (*STATES[0], *STATES[1], *LABELLED, x, t, eps)
PLACES = {"x": ("1/3", "-3/2"), "t": ("3/7", "5/8")}


def _squared_run(values: dict[str, Any]) -> Run:
    return Run(neuron, squared, labelled(values), values["eps"])


def _ensemble() -> Verification:
    """(7) for two steps; the printed sum needs a third."""
    points = runs(SQUARED, x=PLACES["x"])
    formula = Formula("sum over steps 0 and 1", RECORD, ensemble((0, 1), SQUARED))
    printed = Formula("sum over steps 1 and 2", RECORD, ensemble((1, 2), SQUARED))

    def oracle(x: Any, **v: Any) -> Any:
        return _squared_run(v).trained(start(v), 2, x)

    claim = Claim(formula, "training again, with numerical gradients", oracle, points)
    return Verification((claim, _tanh(), _softplus()), printed)


def _trained_twice(function: sp.Expr, loss: sp.Expr) -> sp.Expr:
    """The output after two steps, as an expression in the first weights."""
    total = sum(loss.xreplace({f: function.xreplace({x: a}), y: b}) for a, b in PAIRS)
    state: list[sp.Expr] = list(STATES[0])
    for _ in range(2):
        descent = [put(sp.diff(total, w), state) for w in WEIGHTS]
        state = shifted(state, descent, -eps)
    return put(function, state)


def _rebuilt(name: str, function: sp.Expr, loss: sp.Expr, model: Model, in_numbers: Loss) -> Claim:
    """A network trained in symbols, against (7) with indices s = 0 and 1 by quadrature."""
    args = (*STATES[0], *LABELLED, x, eps)
    formula = Formula(f"{name} after two steps", args, _trained_twice(function, loss))

    def oracle(x: Any, eps: Any, **v: Any) -> Any:
        return Run(model, in_numbers, labelled(v), eps).rebuilt(start(v), 2, x)

    point: dict[str, Any] = {
        "u0": "0.7",
        "v0": "-0.4",
        "x1": "1.2",
        "y1": 1,
        "x2": "-0.8",
        "y2": "0.3",
    }
    points = tuple(point | {"x": place, "eps": "0.3"} for place in ("0.5", "-1.7"))
    return Claim(formula, "path kernels integrated along the steps", oracle, points)


def _tanh() -> Claim:
    u, v = WEIGHTS

    def model(w: Any, place: Any) -> Any:
        return w[1] * mp.tanh(w[0] * place)

    return _rebuilt("tanh network", v * sp.tanh(u * x), SQUARED, model, squared)


def _softplus() -> Claim:
    """Softplus neuron and logistic loss: neither output nor loss is polynomial."""
    u, v = WEIGHTS
    logistic = sp.log(1 + sp.exp(f)) - y * f

    def model(w: Any, place: Any) -> Any:
        return w[1] * mp.log(1 + mp.exp(w[0] * place))

    def loss(out: Any, label: Any) -> Any:
        return mp.log(1 + mp.exp(out)) - label * out

    function = v * sp.log(1 + sp.exp(u * x))
    return _rebuilt("softplus network", function, logistic, model, loss)


def _coefficient() -> tuple[Claim, Claim]:
    """(8): what a training point adds in a step, for a line and for the quadratic neuron."""
    a, b = real_symbols("a b")
    (x1, y1), _ = PAIRS
    line = -2 * eps * (a * x1 + b - y1) * (1 + x * x1)
    linear = Formula("a K of a linear model", (a, b, *LABELLED, x, eps), line)

    def without(a: Any, b: Any, x: Any, eps: Any, **v: Any) -> Any:
        both, other = (
            Run(lambda w, p: w[0] * p + w[1], squared, data, eps)
            for data in (labelled(v), labelled(v)[1:])
        )
        return both.trained((a, b), 1, x) - other.trained((a, b), 1, x)

    weight = -eps * loss_slope(SQUARED, 0, PAIRS[0])
    expr = weight * dot(slopes(STATES[0], x), slopes(STATES[0], x1))
    own = Formula("a K at the start of a step", (*STATES[0], *LABELLED, x, eps), expr)

    def downhill(x: Any, **v: Any) -> Any:
        alone = Run(neuron, squared, labelled(v)[:1], v["eps"])
        first, second = alone.states(start(v), 1)
        way = step_from(first, second)
        return rate(lambda w: neuron(w, x), first, way)

    return (
        Claim(linear, "a step without the training point", without, sample(linear, 2)),
        Claim(own, "output along the point's own gradient", downhill, sample(own, 2)),
    )


def _start() -> Claim:
    """(9): what is left of the trained network's output when all contributions are taken away."""
    args = (*STATES[0], *LABELLED, x, eps)
    formula = Formula("output at the start", args, output(STATES[0], x))

    def oracle(x: Any, **v: Any) -> Any:
        run = _squared_run(v)
        parts = run.contributions(start(v), 2, x)
        return run.trained(start(v), 2, x) - sum(map(sum, parts))

    names = {s.name for s in args}
    points = tuple({k: p[k] for k in p if k in names} for p in runs(SQUARED, 1, x=PLACES["x"]))
    return Claim(formula, "trained output less all contributions", oracle, points)


def _velocity(printed: str, wrong: Any) -> Verification:
    """(15), (33): how fast each weight moves; `wrong` gives the printed form from all partial slopes."""
    args = (*STATES[0], *LABELLED, eps)
    parts = [
        [loss_slope(SQUARED, 0, pair) * slopes(STATES[0], pair[0])[j] for pair in PAIRS]
        for j in (0, 1)
    ]  # of weight j and training point i

    def component(j: int) -> Claim:
        formula = Formula(f"speed of weight {j + 1}", args, -eps * sum(parts[j]))

        def oracle(**v: Any) -> Any:
            first, second = _squared_run(v).states(start(v), 1)
            return mp.diff(lambda t: first[j] - t * (first[j] - second[j]), mp.mpf(1) / 3)

        return Claim(formula, "slope of (5) after a training step", oracle, sample(formula, 2))

    return Verification((component(0), component(1)), Formula(printed, args, -eps * wrong(parts)))


def _chain() -> list[Claim]:
    """(10) or (34), (35), (36) or (11), (37) and (38): the speed of an output within a step."""
    (u0, v0), (u1, v1) = STATES[:2]
    test = slopes(between(0), x)
    total = sum((output(WEIGHTS, a) - b) ** 2 for a, b in PAIRS)
    by_weights = [put(sp.diff(total, w), STATES[0]) for w in WEIGHTS]
    weights = [loss_slope(SQUARED, 0, pair) for pair in PAIRS]
    training = [slopes(STATES[0], pair[0]) for pair in PAIRS]
    by_points = [sum(a * g[j] for a, g in zip(weights, training, strict=True)) for j in (0, 1)]
    lines = {
        "(10) or (34)": dot(test, (u1 - u0, v1 - v0)),
        "(35)": dot(test, [-eps * slope for slope in by_weights]),
        "(11) or (36)": dot(test, [-eps * slope for slope in by_points]),
        "(38)": -eps * sum(a * dot(test, g) for a, g in zip(weights, training, strict=True)),
    }

    def oracle(x: Any, t: Any, **v: Any) -> Any:
        first, second = _squared_run(v).states(start(v), 1)
        way = step_from(first, second)
        return mp.diff(lambda time: neuron(shifted(first, way, time), x), t)

    first, *others = (
        Formula(f"speed of the output, {name}", ONE_STEP, expr) for name, expr in lines.items()
    )
    claim = Claim(first, DIFFERENCES, oracle, runs(SQUARED, 1, **PLACES))
    return [claim, *(claim.about(line) for line in others)]


DIFFERENCES = "differences of the output along a training step"


def _change() -> tuple[Claim, Claim]:
    """(40) and (41), the change of an output by one step."""
    args = tuple(s for s in ONE_STEP if s != t)
    weights = [loss_slope(SQUARED, 0, pair) for pair in PAIRS]
    inside = sum(
        -eps * a * dot(slopes(between(0), x), slopes(STATES[0], pair[0]))
        for a, pair in zip(weights, PAIRS, strict=True)
    )
    outside = -eps * sum(a * kernel(0, x, pair[0]) for a, pair in zip(weights, PAIRS, strict=True))

    def oracle(x: Any, **v: Any) -> Any:
        first, second = _squared_run(v).states(start(v), 1)
        return neuron(second, x) - neuron(first, x)

    one, two = (
        Claim(
            Formula(f"change by a step, {name}", args, expr),
            "outputs before and after",
            oracle,
            runs(SQUARED, 1, x=PLACES["x"]),
        )
        for name, expr in {"(40)": integral(inside), "(41)": outside}.items()
    )
    return one, two


def _line() -> tuple[Claim, Claim]:
    """(29) to (31)."""
    w0, w1 = real_symbols("w0 w1")
    speed = Formula("speed along a step", (w0, w1, t), w1 - w0)
    place = Formula("weight along a step", (w0, w1, t), w0 + t * (w1 - w0))

    def slope(w0: Any, w1: Any, t: Any) -> Any:
        return mp.diff(lambda time: w0 - time * (w0 - w1), t)

    def summed(w0: Any, w1: Any, t: Any) -> Any:
        return w0 + mp.quad(lambda time: w1 - w0, [0, t])

    return (
        Claim(speed, "slope of (5)", slope, sample(speed, 2)),
        Claim(place, "speed summed from the start", summed, sample(place, 2)),
    )


def _small_steps() -> tuple[Claim, ...]:
    """(16): the averaged gradient at eps = 0, its slope there, the largest error, and the text's bound."""
    args = (*STATES[0], *LABELLED, x)
    total = sum((output(WEIGHTS, a) - b) ** 2 for a, b in PAIRS)
    descent = [put(sp.diff(total, w), STATES[0]) for w in WEIGHTS]
    second = [put(sp.diff(FUNCTION, WEIGHTS[0], w), STATES[0]) for w in WEIGHTS]
    limit = Formula("averaged slope at eps = 0", args, slopes(STATES[0], x)[0])
    first_order = Formula("its rate in eps", args, -dot(second, descent) / 2)

    def averaged(x: Any, eps: Any, **v: Any) -> Any:
        first, after = Run(neuron, squared, labelled(v), eps).states(start(v), 1)
        return mean_gradient(neuron, x, first, after)[0]

    def at_zero(**v: Any) -> Any:
        """A parabola in eps, from its values at 1/4, 1/2 and 1."""
        values = [averaged(eps=mp.mpf(1) / k, **v) for k in (4, 2, 1)]
        return dot(values, (mp.mpf(8) / 3, -2, mp.mpf(1) / 3))

    def by_eps(**v: Any) -> Any:
        values = [averaged(eps=mp.mpf(1) / k, **v) for k in (4, 2, 1)]
        return dot(values, (-8, 10, -2))

    route = "quadrature at three steps, extrapolated"
    return (
        Claim(limit, route, at_zero, sample(limit, 1)),
        Claim(first_order, route, by_eps, sample(first_order, 1)),
        _largest_error(),
        _over_the_bound(),
    )


def _largest_error() -> Claim:
    """Of f = (u^2 + v^2) x/2, whose gradient changes at the rate |x|: |x| eps |grad L| / 2, not |x| eps."""
    u0, v0 = STATES[0]
    (x1, y1), _ = PAIRS
    size = 2 * sp.Abs((u0**2 + v0**2) * x1 / 2 - y1) * sp.Abs(x1) * sp.sqrt(u0**2 + v0**2)
    formula = Formula("error of (16)", (u0, v0, x1, y1, x, eps), sp.Abs(x) * eps * size / 2)

    def model(w: Any, place: Any) -> Any:
        return (w[0] ** 2 + w[1] ** 2) * place / 2

    def oracle(u0: Any, v0: Any, x1: Any, y1: Any, x: Any, eps: Any) -> Any:
        first, second = Run(model, squared, [(x1, y1)], eps).states((u0, v0), 1)
        apart = mean_gradient(model, x, first, second), feature(model, x, first)
        return mp.sqrt(sum((p - q) ** 2 for p, q in zip(*apart, strict=True)))

    points = ({"u0": "0.6", "v0": "-1.1", "x1": "0.8", "y1": 2, "x": "-1.3", "eps": "0.2"},)
    return Claim(formula, "averaged gradient less the first", oracle, points)


def _over_the_bound() -> Claim:
    """The error over eps K of f = sin(w x), whose Lipschitz constant K by the weight is |x|: 6.3 here."""
    w0 = STATES[0][0]
    (x1, y1), _ = PAIRS
    w1 = w0 - eps * 2 * (sp.sin(w0 * x1) - y1) * x1 * sp.cos(w0 * x1)
    averaged = (sp.sin(w1 * x) - sp.sin(w0 * x)) / (w1 - w0)
    ratio = sp.Abs(averaged - x * sp.cos(w0 * x)) / (eps * sp.Abs(x))
    formula = Formula("error of (16) over eps K", (w0, x1, y1, x, eps), ratio)

    def model(w: Any, place: Any) -> Any:
        return mp.sin(w[0] * place)

    def oracle(u0: Any, x1: Any, y1: Any, x: Any, eps: Any) -> Any:
        first, second = Run(model, squared, [(x1, y1)], eps).states((u0,), 1)
        apart = mean_gradient(model, x, first, second)[0] - feature(model, x, first)[0]
        return abs(apart) / (eps * abs(x))

    points = ({"u0": "0.25", "x1": 3, "y1": 2, "x": 3, "eps": "0.01"},)
    return Claim(formula, "averaged gradient less the first", oracle, points)


_chain_rule, _seven = _chain(), _ensemble()
ROUTES: dict[str, Verification] = {
    "exact-path-kernel/theorem-3.6": _seven,
    "exact-path-kernel/7": _seven,
    "exact-path-kernel/8": holds(*_coefficient()),
    "exact-path-kernel/9": holds(_start()),
    "exact-path-kernel/10-11": holds(_chain_rule[0], _chain_rule[2]),
    "exact-path-kernel/15": _velocity("speed by one training point", lambda parts: parts[0][0]),
    "exact-path-kernel/16": holds(*_small_steps()),
    "exact-path-kernel/29-32": holds(*_line()),
    "exact-path-kernel/33": _velocity(
        "partial slopes summed over the weights", lambda parts: sum(map(sum, parts))
    ),
    "exact-path-kernel/34-39": holds(*_chain_rule),
    "exact-path-kernel/40-41": holds(*_change()),
    "exact-path-kernel/42": _seven,
}

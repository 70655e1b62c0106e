"""When the ensemble is one kernel machine: theorem 3.7, (12) and (45) to (68)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, sample
from analytic.expressions.formula import Formula
from analytic.ledger.path_kernel.network import (
    BOOLE,
    FUNCTION,
    LABELLED,
    LINEAR,
    PAIRS,
    SQUARED,
    STATES,
    WEIGHTS,
    Run,
    between,
    eps,
    feature,
    integral,
    kernel,
    labelled,
    linear,
    loss_slope,
    mean_gradient,
    mean_slopes,
    neuron,
    output,
    put,
    runs,
    slopes,
    squared,
    start,
    step_from,
    x,
)
from analytic.ledger.verification import Verification, dot, holds, real_symbols, shifted

__all__ = ["ROUTES"]

RECORD = (*STATES[0], *STATES[1], *STATES[2], *STATES[3], *LABELLED, x, eps)
FIRST, LATE = (0, 1), (1, 2)  # the steps of a run of two, and those that the paper sums over


def _summed(steps: tuple[int, ...], place: Any, other: Any) -> sp.Expr:
    """The kernel across all steps, (54)."""
    return sum(kernel(s, place, other) for s in steps)


def _trained(x: Any, **v: Any) -> Any:
    return Run(neuron, linear, labelled(v), v["eps"]).trained(start(v), 2, x)


AGAIN = "training again, with numerical gradients"


def _machine() -> tuple[Claim, ...]:
    """(12) with a loss of constant slope, and (52) with the coefficients (53): b - eps sum_i a_i K."""
    machine = output(STATES[0], x) - eps * sum(
        loss_slope(LINEAR, 0, pair) * _summed(FIRST, x, pair[0]) for pair in PAIRS
    )
    formula = Formula("one kernel machine", RECORD, machine)
    claim = Claim(formula, AGAIN, _trained, runs(LINEAR, x=("1/3", "-3/2")))
    return claim, *_softmax()


def _twice() -> Formula:
    """(12) as printed, with a_(i,0) in the kernel and before it, and s from 1."""
    weights = [-eps * loss_slope(LINEAR, 0, pair) for pair in PAIRS]
    expr = output(STATES[0], x) + sum(
        a**2 * _summed(LATE, x, pair[0]) for a, pair in zip(weights, PAIRS, strict=True)
    )
    return Formula("coefficients counted twice", RECORD, expr)


def _late() -> Formula:
    """(52) and (54) as printed, with s from 1."""
    expr = output(STATES[0], x) - eps * sum(
        loss_slope(LINEAR, 0, pair) * _summed(LATE, x, pair[0]) for pair in PAIRS
    )
    return Formula("one kernel machine without step 0", RECORD, expr)


# A classifier: logits 0 and v tanh(u x), log-softmax in the network, labels 0 and 1.


def _log_softmax(w: Any, place: Any) -> list[Any]:
    logit = w[1] * mp.tanh(w[0] * place)
    return [-mp.log(1 + mp.exp(logit)), -mp.log(1 + mp.exp(-logit))]


CLASSES: dict[str, Any] = {"u0": "0.7", "x1": "1.2", "x2": "-0.8", "x": "0.5", "eps": 1}


def _descended(v: dict[str, Any], steps: int) -> list[list[Any]]:
    """Weights under negative log-likelihood, with the first training point in class 1."""

    def total(w: Any, _: Any) -> Any:
        return -_log_softmax(w, v["x1"])[1] - _log_softmax(w, v["x2"])[0]

    return Run(total, lambda out, _: out, [(0, 0)], v["eps"]).states(start(v), steps)


def _rebuilt(v: dict[str, Any], k: int) -> Any:
    """b_k + eps sum_i K(x, x_i)_(k, y_i), the reduction with a_i = -onehot(y_i)."""
    path, total = _descended(v, 2), _log_softmax(start(v), v["x"])[k]
    for before, after in pairwise(path):
        test = mean_gradient(lambda w, p: _log_softmax(w, p)[k], v["x"], before, after)
        for place, label in ((v["x1"], 1), (v["x2"], 0)):
            train = feature(lambda w, p, c=label: _log_softmax(w, p)[c], place, before)
            total += v["eps"] * dot(test, train)
    return total


def _softmax() -> tuple[Claim, Claim]:
    """Both log-probabilities of the classifier after two steps."""
    u, w = WEIGHTS
    (x1, _), (x2, _) = PAIRS

    def log_probability(k: int, place: Any) -> sp.Expr:
        logit = w * sp.tanh(u * place)
        return -sp.log(1 + sp.exp(-logit if k else logit))

    loss = -log_probability(1, x1) - log_probability(0, x2)
    state: list[sp.Expr] = list(STATES[0])
    for _ in range(2):
        state = shifted(state, [put(sp.diff(loss, a), state) for a in WEIGHTS], -eps)
    args = (*STATES[0], x1, x2, x, eps)

    def component(k: int) -> Claim:
        formula = Formula(f"log-probability of class {k}", args, put(log_probability(k, x), state))
        points = (CLASSES | {"v0": "0.4"}, CLASSES | {"v0": 0, "x": "-1.7"})
        return Claim(formula, "one kernel by quadrature", lambda **v: _rebuilt(v, k), points)

    return component(0), component(1)


def _likelihood(label: int) -> tuple[Claim, Claim]:
    """(45), (46), (48), (49): the loss of a point of class `label`, and when output 1 changes."""
    scores, outputs = real_symbols("z0 z1 z2"), real_symbols("f0 f1 f2")
    delta = sp.Symbol("delta", real=True)
    normaliser = sp.log(sum(sp.exp(score) for score in scores))
    loss = Formula("loss of scores", scores, normaliser - scores[label])
    expr = -outputs[label] - delta if label == 1 else -outputs[label]
    changed = Formula("loss when output 1 grows by delta", (*outputs, delta), expr)

    def cross_entropy(**v: Any) -> Any:
        weights = [mp.exp(v[score.name]) for score in scores]
        return -mp.log(weights[label] / sum(weights))

    def one_hot(f0: Any, f1: Any, f2: Any, delta: Any) -> Any:
        return sum(-int(k == label) * out for k, out in enumerate((f0, f1 + delta, f2)))

    return (
        Claim(loss, "softmax and logarithm", cross_entropy, sample(loss, 2)),
        Claim(changed, "sum over one-hot labels", one_hot, sample(changed, 2)),
    )


def _copies() -> Verification:
    """(56): a test point that equals a training point keeps the test copy's weights w_s(t)."""
    x1 = PAIRS[0][0]
    args = tuple(s for s in RECORD if s != x)

    def machine(test: Any) -> sp.Expr:
        return output(STATES[0], x1) - eps * sum(
            loss_slope(LINEAR, s, pair) * dot(test(s), slopes(STATES[s], pair[0]))
            for s in FIRST
            for pair in PAIRS
        )

    by_copy = machine(lambda s: mean_slopes(s, x1))
    by_membership = machine(lambda s: slopes(STATES[s], x1))
    formula = Formula("kernel machine at a training point", args, by_copy)
    claim = Claim(formula, AGAIN, lambda **v: _trained(v["x1"], **v), runs(LINEAR))
    return Verification((claim,), Formula("the same by membership", args, by_membership))


def _bias() -> Verification:
    """(57): a log-softmax network with a zero last layer starts at -log K; here K = 2."""
    args = (STATES[0][0], PAIRS[0][0], PAIRS[1][0], x, eps)
    formula = Formula("b", args, -sp.log(2))

    def oracle(x: Any, **v: Any) -> Any:
        v |= {"x": x, "v0": mp.mpf(0)}
        added = _rebuilt(v, 1) - _log_softmax(start(v), x)[1]
        return _log_softmax(_descended(v, 2)[-1], x)[1] - added

    claim = Claim(formula, "trained output less all contributions", oracle, (CLASSES,))
    return Verification((claim, _uniform()), Formula("b as printed", args, sp.S.Zero))


def _uniform() -> Claim:
    K = sp.Symbol("K", integer=True, positive=True)
    formula = Formula("log-softmax of zeros", (K,), -sp.log(K))

    def oracle(K: Any) -> Any:
        return -mp.log(sum(mp.exp(0) for _ in range(int(K))))

    return Claim(formula, "sum of exponentials", oracle, ({"K": 2}, {"K": 3}, {"K": 10}))


def _squared_slope() -> Verification:
    """(59)."""
    f, y = args = real_symbols("f y")
    formula = Formula("slope of the squared loss", args, -2 * (y - f))

    def oracle(f: Any, y: Any) -> Any:
        return mp.diff(lambda out: (y - out) ** 2, f)

    claim = Claim(formula, "differences of the loss", oracle, sample(formula, 2))
    return Verification((claim,), Formula("slope as printed", args, 2 * (y - f)))


ONE_POINT = (*STATES[0], *STATES[1], *STATES[2], *LABELLED, x, eps)


def _squared_weights(v: dict[str, Any], place: Any, other: Any, test: bool = False) -> Any:
    """sum_s dL/df K(place, other, s) for the first training point, by quadrature along a new run."""
    run = Run(neuron, squared, labelled(v), v["eps"])
    path, total = run.states(start(v), 2), mp.mpf(0)
    x1, y1 = run.data[0]
    for before, after in pairwise(path):
        way = step_from(before, after)

        def product(s: Any, before: Any = before, way: Any = way) -> Any:
            here = shifted(before, way, s)
            return dot(
                feature(neuron, place, here), feature(neuron, other, here if test else before)
            )

        slope = mp.diff(lambda out: (y1 - out) ** 2, neuron(before, x1))
        total += slope * mp.quad(product, [0, 1])
    return total


SLOPES = "loss slopes and kernels along a new run"


def _lines() -> Verification:
    """(61) to (65): the sum over steps for one training point, with the sign of (59) mended."""
    x1, y1 = PAIRS[0]

    def own(s: int) -> sp.Expr:
        return output(STATES[s], x1)

    def halved(s: int) -> list[sp.Expr]:
        return [put(sp.diff(FUNCTION**2 / 2, w), STATES[s], x1) for w in WEIGHTS]

    def doubled(s: int) -> list[sp.Expr]:
        return [own(s) * slope for slope in slopes(STATES[s], x1)]

    lines = {
        "(62)": [2 * (y1 - own(s)) * kernel(s, x, x1) for s in FIRST],
        "(63)": [2 * (y1 * kernel(s, x, x1) - own(s) * kernel(s, x, x1)) for s in FIRST],
        "(64)": [2 * (y1 * kernel(s, x, x1) - dot(mean_slopes(s, x), doubled(s))) for s in FIRST],
        "(65)": [2 * (y1 * kernel(s, x, x1) - dot(mean_slopes(s, x), halved(s))) for s in FIRST],
    }
    points = runs(SQUARED, 2, x=("1/3", "-3/2"))
    first, *others = (
        Formula(f"corrected {name}", ONE_POINT, -sum(terms)) for name, terms in lines.items()
    )
    claim = Claim(first, SLOPES, lambda **v: _squared_weights(v, v["x"], v["x1"]), points)
    claims = (claim, *(claim.about(line) for line in others))
    return Verification(claims, Formula("(65) as printed", ONE_POINT, sum(lines["(65)"])))


def _usual() -> Verification:
    """(67): between a test point p and a training point q, and between two test points."""
    p, q = real_symbols("p q")
    args = (*STATES[0], *STATES[1], *STATES[2], *LABELLED, p, q, eps)

    def summed(weights: Any) -> sp.Expr:
        return sum(
            loss_slope(SQUARED, s, PAIRS[0])
            * integral(dot(slopes(between(s), p), slopes(weights(s), q)), BOOLE)
            for s in FIRST
        )

    mixed = Formula("test and training point", args, summed(lambda s: STATES[s]))
    tested = Formula("two test points", args, summed(between))
    points = runs(SQUARED, 2, p=("1/3", "-3/2"), q=("2/5", "3/4"))
    claims = (
        Claim(mixed, SLOPES, lambda p, q, **v: _squared_weights(v, p, q), points),
        Claim(tested, SLOPES, lambda p, q, **v: _squared_weights(v, p, q, test=True), points),
    )
    return Verification(claims, Formula("(67) as printed", args, -tested.expr))


_claims = _machine()
_reduced, _shifted = Verification(_claims, _twice()), Verification(_claims, _late())
_right, _wrong = _likelihood(1), _likelihood(2)
_zero = Formula("loss as printed", _wrong[0].statement.args, sp.S.Zero)
ROUTES: dict[str, Verification] = {
    "exact-path-kernel/theorem-3.7": _reduced,
    "exact-path-kernel/12": _reduced,
    "exact-path-kernel/45-47": holds(*_right),
    "exact-path-kernel/48-50": Verification(_wrong, _zero),
    "exact-path-kernel/51-52": _shifted,
    "exact-path-kernel/53": holds(*_claims),
    "exact-path-kernel/54": _shifted,
    "exact-path-kernel/56": _copies(),
    "exact-path-kernel/57": _bias(),
    "exact-path-kernel/59": _squared_slope(),
    "exact-path-kernel/60-66": _lines(),
    "exact-path-kernel/67-68": _usual(),
}

"""What is a kernel and what is not: lemma 3.5, (13), (14), (17) to (28)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, Point
from analytic.expressions.formula import Formula
from analytic.ledger.path_kernel.network import (
    BOOLE,
    LABELLED,
    LINEAR,
    PAIRS,
    SQUARED,
    STATES,
    Run,
    between,
    ensemble,
    eps,
    feature,
    integral,
    kernel,
    labelled,
    linear,
    loss_slope,
    neuron,
    output,
    runs,
    slopes,
    squared,
    start,
    step_from,
    t,
    x,
)
from analytic.ledger.verification import Verification, dot, holds, real_symbols, shifted

__all__ = ["ROUTES", "TEST", "TRAINING", "entry"]

TEST, TRAINING = 0, 1  # the two copies of the input space
places = real_symbols("p q r")
COPIES = (TEST, TRAINING, TEST)  # of p, q and r
alphas = real_symbols("alpha1 alpha2 alpha3")
STEP = (*STATES[0], *STATES[1])
Node = tuple[Any, int]  # a place and its copy
NODES = tuple(zip(places, COPIES, strict=True))


def _slopes(node: Node, s: int = 0) -> list[sp.Expr]:
    """phi_(s,t) by (4) and (6)."""
    return slopes(STATES[s] if node[1] == TRAINING else between(s), node[0])


def entry(one: Node, two: Node, s: int = 0) -> sp.Expr:
    """K_EPK between points of either copy."""
    return integral(dot(_slopes(one, s), _slopes(two, s)), BOOLE)


def _step(values: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The weights before and after a step."""
    before, after = ([values[w.name] for w in state] for state in STATES[:2])
    return before, after


def _feature(values: dict[str, Any], node: Node, time: Any) -> list[Any]:
    before, after = _step(values)
    way = step_from(before, after)
    return feature(neuron, node[0], before if node[1] == TRAINING else shifted(before, way, time))


def _nodes(values: dict[str, Any], count: int = 3) -> list[Node]:
    return [(values[p.name], copy) for p, copy in zip(places[:count], COPIES)]


def _combined(values: dict[str, Any], time: Any) -> list[Any]:
    """sum_i alpha_i phi(x_i)."""
    features = [_feature(values, node, time) for node in _nodes(values)]
    return [dot([values[a.name] for a in alphas], column) for column in zip(*features)]


def _with_places(*names: sp.Symbol) -> tuple[Point, ...]:
    """Two steps that were trained, with values for the other arguments."""
    numbers = {"p": ("1/3", 2), "q": ("-3/4", "1/2"), "r": ("5/4", "-1/3")}
    numbers |= {"alpha1": (1, "-3/2"), "alpha2": ("-2/3", 1), "alpha3": ("1/2", 2)}
    wanted = {s.name for s in names}
    return tuple(
        {name: value for name, value in point.items() if name in wanted}
        for point in runs(SQUARED, 1, **numbers)
    )


def _quadratic() -> list[Claim]:
    """(19), (21), (23) and (25) for two test points and a training point."""
    args = (*STEP, *places, *alphas)
    vectors = [_slopes(node) for node in NODES]
    together = [dot(alphas, column) for column in zip(*vectors, strict=True)]
    pairs = tuple(product(range(3), repeat=2))
    lines = {
        "(19)": sum(alphas[i] * alphas[j] * entry(NODES[i], NODES[j]) for i, j in pairs),
        "(21)": integral(
            sum(alphas[i] * alphas[j] * dot(vectors[i], vectors[j]) for i, j in pairs), BOOLE
        ),
        "(25)": integral(sum(part**2 for part in together), BOOLE),
    }

    def norm(**v: Any) -> Any:
        return mp.quad(lambda time: sum(part**2 for part in _combined(v, time)), [0, 1])

    def pairwise(**v: Any) -> Any:
        nodes, a = _nodes(v), [v[s.name] for s in alphas]

        def k(one: Node, two: Node) -> Any:
            return mp.quad(lambda s: dot(_feature(v, one, s), _feature(v, two, s)), [0, 1])

        return sum(a[i] * a[j] * k(nodes[i], nodes[j]) for i, j in pairs)

    routes = {
        "(19)": (SQUARES, norm),
        "(21)": (SQUARES, norm),
        "(25)": ("kernels of all pairs by quadrature", pairwise),
    }
    points = _with_places(*args)
    return [
        Claim(Formula(f"quadratic form, {name}", args, expr), *routes[name], points)
        for name, expr in lines.items()
    ]


SQUARES = "integral of a squared norm"


def _symmetric() -> Claim:
    """K(x, x') with x tested and x' trained, against K(x', x)."""
    args = (*STEP, *places[:2])
    formula = Formula("K_EPK of a test and a training point", args, entry(NODES[0], NODES[1]))

    def swapped(**v: Any) -> Any:
        one, two = _nodes(v, 2)
        return mp.quad(lambda s: dot(_feature(v, two, s), _feature(v, one, s)), [0, 1])

    return Claim(formula, "quadrature with both points exchanged", swapped, _with_places(*args))


def _determinant() -> Claim:
    """The Gram determinant of two points: half an integral of squared minors, so not negative."""
    args = (*STEP, *places[:2])
    one, two = NODES[:2]
    expr = entry(one, one) * entry(two, two) - entry(one, two) ** 2
    formula = Formula("Gram determinant of a test and a training point", args, expr)

    def minors(**v: Any) -> Any:
        one, two = _nodes(v, 2)

        def squares(s: Any, r: Any) -> Any:
            (a, b), (c, d) = ([_feature(v, node, time) for node in (one, two)] for time in (s, r))
            return sum((p * q - m * n) ** 2 for p, m in zip(a, b) for q, n in zip(d, c)) / 2

        # A polynomial of degree 4 in each time: three nodes of Gauss are exact.
        root = mp.sqrt(mp.mpf(3) / 5) / 2
        nodes = [(mp.mpf(1) / 2 + k * root, w / mp.mpf(18)) for k, w in ((-1, 5), (0, 8), (1, 5))]
        return sum(w * m * squares(s, r) for (s, w), (r, m) in product(nodes, repeat=2))

    return Claim(formula, "squared minors, integrated", minors, _with_places(*args))


def _asymmetric() -> Verification:
    """(13): summed over steps k' rebuilds the network if it is integrated over t, and is not symmetric."""
    args = (*STATES[0], *STATES[1], *STATES[2], *LABELLED, x, t, eps)
    formula = Formula("sum of a k'", args, ensemble((0, 1), SQUARED))
    printed = output(STATES[0], x) + sum(
        -eps * loss_slope(SQUARED, s, pair) * dot(slopes(between(s), x), slopes(STATES[s], pair[0]))
        for s in (0, 1)
        for pair in PAIRS
    )

    def oracle(x: Any, t: Any, **v: Any) -> Any:
        return Run(neuron, squared, labelled(v), v["eps"]).trained(start(v), 2, x)

    points = runs(SQUARED, 2, x=("1/3", "-3/2"), t=("1/2", 0))
    claim = Claim(formula, "training again, with numerical gradients", oracle, points)
    return Verification((claim, _asymmetry()), Formula("sum of a k' at one t", args, printed))


def _asymmetry() -> Claim:
    """k'(x, x') - k'(x', x)."""
    p, q, _ = places
    args = (*STEP, p, q)
    formula = Formula("k'(p, q) - k'(q, p)", args, kernel(0, p, q) - kernel(0, q, p))

    def oracle(p: Any, q: Any, **v: Any) -> Any:
        def k(one: Any, two: Any, time: Any) -> Any:
            return dot(_feature(v, (one, TEST), time), _feature(v, (two, TRAINING), time))

        return mp.quad(lambda s: k(p, q, s) - k(q, p, s), [0, 1])

    return Claim(formula, "quadrature in both orders", oracle, _with_places(*args))


def _condition() -> Verification:
    """(14) for f = (u^2 x + v^2 x^2)/2: k' is a kernel with averaged gradients that differ from the first."""
    (u0, v0), (u1, v1) = STATES[:2]
    p, q, _ = places
    args = (u0, v0, u1, v1, p, q)
    expr = (u0 + u1) / 2 * u0 * p * q + (v0 + v1) / 2 * v0 * p**2 * q**2
    printed = u0**2 * p * q + v0**2 * p**2 * q**2
    formula = Formula("k' = phi . A phi, A = diag((u0 + u1)/(2 u0), ...)", args, expr)

    def model(w: Sequence[Any], place: Any) -> Any:
        return (w[0] ** 2 * place + w[1] ** 2 * place**2) / 2

    def k(one: Any, two: Any, v: dict[str, Any]) -> Any:
        before, after = _step(v)
        way = step_from(before, after)
        return mp.quad(
            lambda s: dot(
                feature(model, one, shifted(before, way, s)), feature(model, two, before)
            ),
            [0, 1],
        )

    # A step of the squared loss at the points (1, 2) and (-1/2, 1), of size 1/10.
    points = (
        {"u0": "1/2", "v0": "3/4", "u1": "1561/2560", "v1": "10509/10240", "p": "1/3", "q": "-3/4"},
    )
    claims = (
        Claim(formula, "quadrature", lambda p, q, **v: k(p, q, v), points),
        Claim(
            formula, "quadrature with both points exchanged", lambda p, q, **v: k(q, p, v), points
        ),
    )
    return Verification(claims, Formula("k' by (14)", args, printed))


def _reduced() -> Verification:
    """(17) with a loss of constant slope, labels of both signs, and steps of size c_s."""
    c = real_symbols("c0 c1")
    args = (*STATES[0], *STATES[1], *STATES[2], *PAIRS[0], *PAIRS[1], eps, *c, *alphas[:2])
    nodes = [(pair[0], TRAINING) for pair in PAIRS]
    pairs = tuple(product(range(2), repeat=2))

    def form(weights: Sequence[sp.Expr]) -> sp.Expr:
        return sum(
            weights[s] * alphas[i] * alphas[j] * entry(nodes[i], nodes[j], s)
            for s in (0, 1)
            for i, j in pairs
        )

    formula = Formula("sum over steps of c_s alpha K alpha", args, form(c))
    slopes_summed = [-eps * sum(loss_slope(LINEAR, s, pair) for pair in PAIRS) for s in (0, 1)]

    def oracle(**v: Any) -> Any:
        """c_s times a squared norm, at the states of a new run."""
        run = Run(neuron, linear, labelled(v), v["eps"])
        total, a = mp.mpf(0), [v["alpha1"], v["alpha2"]]
        for s, state in enumerate(run.states(start(v), 1)):
            features = [feature(neuron, place, state) for place, _ in labelled(v)]
            total += v[f"c{s}"] * sum(dot(a, column) ** 2 for column in zip(*features, strict=True))
        return total

    more = {"c0": (1, "1/2"), "c1": (1, 2), "alpha1": (1, "-3/2"), "alpha2": ("-2/3", 1)}
    claim = Claim(formula, "squared norms at the states of a run", oracle, runs(LINEAR, 2, **more))
    return Verification((claim,), Formula("(17) as printed", args, form(slopes_summed)))


def _flow() -> tuple[Claim, Claim, Claim]:
    """(18) for f = w x and squared loss at one point, whose gradient flow is an exponential.

    It rebuilds the trained model; it is not symmetric; and it is not positive semi-definite either.
    """
    w0, x1, y1, x2, y2, T = real_symbols("w0 x1 y1 x2 y2 T")
    still = y1 / x1

    def K(place: sp.Expr, other: sp.Expr, label: sp.Expr) -> sp.Expr:
        """For a residual that keeps its sign."""
        moved = (1 - sp.exp(-2 * x1**2 * T)) / (2 * x1**2)
        residual = (still * other - label) * T + (w0 - still) * other * moved
        return 2 * sp.sign(w0 * other - label) * residual * place * other

    rebuilt = w0 * x - sp.sign(w0 * x1 - y1) * K(x, x1, y1)
    outputs = Formula("f_0 -+ K", (w0, x1, y1, x, T), rebuilt)
    skew = Formula("K(x1, x2) - K(x2, x1)", (w0, x1, y1, x2, y2, T), K(x1, x2, y2) - K(x2, x1, y1))
    a = real_symbols("a1 a2")
    places = ((x1, y1), (x2, y2))
    form = sum(a[i] * a[j] * K(places[i][0], *places[j]) for i, j in product((0, 1), repeat=2))
    quadratic = Formula("alpha K alpha", (*skew.args, *a), form)

    def weight(w0: Any, x1: Any, y1: Any, time: Any) -> Any:
        return mp.odefun(lambda _, w: [-2 * x1 * (w[0] * x1 - y1)], 0, [w0])(time)[0]

    def flow(w0: Any, x1: Any, y1: Any, x: Any, T: Any) -> Any:
        return x * weight(w0, x1, y1, T)

    def k(v: dict[str, Any], place: Any, other: Any, label: Any) -> Any:
        start = v["w0"], v["x1"], v["y1"]
        path = mp.odefun(lambda _, w: [-2 * start[1] * (w[0] * start[1] - start[2])], 0, [start[0]])
        return mp.quad(
            lambda s: 2 * abs(path(s)[0] * other - label) * place * other, [0, v["T"]], maxdegree=5
        )

    def skewness(**v: Any) -> Any:
        return k(v, v["x1"], v["x2"], v["y2"]) - k(v, v["x2"], v["x1"], v["y1"])

    def summed(**v: Any) -> Any:
        points = ((v["x1"], v["y1"], v["a1"]), (v["x2"], v["y2"], v["a2"]))
        return sum(a * b * k(v, p, q, y) for p, _, a in points for q, y, b in points)

    point = {"w0": "0.3", "x1": "0.8", "y1": 1, "x2": "-0.5", "y2": 2, "T": "0.7"}
    one = {"w0": "0.3", "x1": "0.8", "y1": 1, "x": "-1.4", "T": "0.7"}
    route = "gradient flow by Taylor series"
    return (
        Claim(outputs, route, flow, (one,), 15, SERIES),
        Claim(skew, route, skewness, (point,), 15, SERIES),
        Claim(quadratic, route, summed, (point | {"a1": 1, "a2": "1.2"},), 15, SERIES),
    )


SERIES = "steps of the Taylor series"


def _not_a_square() -> Verification:
    """(27) for k' and two points: two combinations, one at w_s(t) and one at w_s, and no square."""
    args = (*STEP, *places[:2], *alphas[:2])
    a = alphas[:2]

    def combined(state: Sequence[sp.Expr]) -> list[sp.Expr]:
        columns = zip(*(slopes(state, place) for place in places[:2]), strict=True)
        return [dot(a, column) for column in columns]

    expr = integral(dot(combined(between(0)), combined(STATES[0])))
    square = integral(sum(part**2 for part in combined(between(0))), BOOLE)
    formula = Formula("alpha k' alpha", args, expr)

    def pairwise(p: Any, q: Any, **v: Any) -> Any:
        weighted = ((p, v["alpha1"]), (q, v["alpha2"]))

        def k(one: Any, two: Any) -> Any:
            return mp.quad(
                lambda s: dot(_feature(v, (one, TEST), s), _feature(v, (two, TRAINING), s)), [0, 1]
            )

        return sum(b * c * k(one, two) for one, b in weighted for two, c in weighted)

    # After so long a step gradients point the other way, and the form is negative.
    far = {"u0": 1, "v0": 1, "u1": "1/2", "v1": -10, "p": 1, "q": 0, "alpha1": 1, "alpha2": "1/2"}
    points = (*_with_places(*args), far)
    claim = Claim(formula, "k' of all pairs by quadrature", pairwise, points)
    return Verification((claim,), Formula("(27) as printed", args, square))


_form = _quadratic()
ROUTES: dict[str, Verification] = {
    "exact-path-kernel/lemma-3.5": holds(_symmetric(), _determinant(), _form[0]),
    "exact-path-kernel/13": _asymmetric(),
    "exact-path-kernel/14": _condition(),
    "exact-path-kernel/17": _reduced(),
    "exact-path-kernel/18": holds(*_flow()),
    "exact-path-kernel/19-26": holds(*_form),
    "exact-path-kernel/27-28": _not_a_square(),
}

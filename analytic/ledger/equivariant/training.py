"""Training of wide networks: (1), (3) and (4)."""

from __future__ import annotations

from typing import Any

import sympy as sp
from mpmath import mp

from analytic.activations import polynomial
from analytic.checks.claims import Claim, sample
from analytic.equivariant import perceptron
from analytic.expressions.formula import Formula
from analytic.ledger.equivariant.averages import average, phi, rule, slope
from analytic.ledger.output_flow.model import EXTRAPOLATED, along, flow
from analytic.ledger.univariate.network import downhill
from analytic.ledger.verification import Verification, dot, holds, real_symbols

__all__ = ["ROUTES"]

DIGITS = 12  # of flows that are integrated


def _gradient_flow() -> list[Claim]:
    """(1) for two outputs, three parameters, two training points, and a loss that couples the outputs."""
    theta = real_symbols("p q r")
    x, y, eta = real_symbols("x y eta")
    places = (sp.S.One, -sp.S.Half)

    def at(place: Any, p: Any, q: Any, r: Any) -> list[Any]:
        return [r * (p * place + 1) ** 2, q * place + p * r]

    def jacobian(place: Any) -> sp.Matrix:
        return sp.Matrix(at(place, *theta)).jacobian(theta)

    total = sp.zeros(2, 1)
    for place in places:
        one, two = at(place, *theta)
        slopes = sp.Matrix([one - y + two**2, 2 * one * two])
        total -= eta * jacobian(x) * jacobian(place).T * slopes

    def loss(w: Any, label: Any) -> Any:
        pairs = [at(place, *w) for place in (mp.mpf(1), -mp.mpf(1) / 2)]
        return sum((one - label) ** 2 / 2 + one * two**2 for one, two in pairs)

    def speed(values: dict[str, Any]) -> list[Any]:
        w = [values[s.name] for s in theta]
        velocity = downhill(lambda w: loss(w, values["y"]), w, values["eta"])
        return along(lambda w: at(values["x"], *w), w, velocity)

    def component(k: int) -> Claim:
        formula = Formula(f"velocity of output {k + 1}", (*theta, x, y, eta), total[k])
        route = "differences along gradient flow of the parameters"
        return Claim(formula, route, lambda **values: speed(values)[k], sample(formula, 1))

    return [component(0), component(1)]


# Widths, for statements about the shallow network of n neurons, readout over sqrt n.
n = sp.Symbol("n", integer=True, positive=True)


def _tangent(weights: Any, x: Any, y: Any, size: int, f: Any, g: Any) -> Any:
    """The tangent kernel of a network with neurons f of slopes g; weights are w, a, w, a, ..."""
    neurons = zip(weights[::2], weights[1::2], strict=True)
    terms = [f(w * x) * f(w * y) + a**2 * g(w * x) * g(w * y) * x * y for w, a in neurons]
    return sum(terms) / size


def _mean() -> Claim:
    """The mean at initialisation is the infinitely wide one at every width."""
    x, y = real_symbols("x y")
    expr = perceptron(1, [polynomial([0, 1, 2])]).ntk([x], [y])

    def oracle(x: Any, y: Any, n: Any) -> Any:
        size = int(n)
        rules = [rule(3), rule(2)] * size
        return average(lambda w: [_tangent(w, x, y, size, phi, slope)], rules)[0]

    points = tuple({"x": "1.3", "y": "-0.7", "n": size} for size in (1, 2, 3))
    formula = Formula("mean tangent kernel at initialisation", (x, y, n), expr)
    return Claim(formula, "networks averaged over all weights", oracle, points)


def _spread() -> Claim:
    """The mean square deviation from it, for squares of inputs, falls as 1/n."""
    x, y = real_symbols("x y")
    w, a = real_symbols("w a")
    single = w**4 + 4 * a**2 * w**2  # of one neuron at x = y = 1

    def mean(expr: sp.Expr) -> sp.Expr:
        terms = sp.Poly(expr, w, a).as_dict().items()
        return sum(c * sp.factorial2(i - 1) * sp.factorial2(j - 1) for (i, j), c in terms)

    center = mean(single)
    expr = (mean(single**2) - center**2) * x**4 * y**4 / n

    def oracle(x: Any, y: Any, n: Any) -> Any:
        size = int(n)

        def square(weights: Any) -> list[Any]:
            theta = _tangent(weights, x, y, size, lambda u: u**2, lambda u: 2 * u)
            return [(theta - int(center) * x**2 * y**2) ** 2]

        return average(square, [rule(5), rule(3)] * size)[0]

    points = tuple({"x": "1.3", "y": "-0.7", "n": size} for size in (1, 2))
    formula = Formula("mean square deviation at initialisation", (x, y, n), expr)
    return Claim(formula, "networks averaged over all weights", oracle, points)


def _freezing() -> Claim:
    """The tangent kernel of a linear network after training differs from the first one by O(1/n).

    With N = a.w/sqrt n and Theta = (|a|^2 + |w|^2)/n the flow keeps Theta^2 - 4 N^2/n.
    """
    pairs = real_symbols("w1 a1 w2 a2")
    y = real_symbols("y")[0]
    w1, a1, w2, a2 = pairs
    start = sp.sqrt(n) * (w1 * a1 + w2 * a2) / 2
    first = (w1**2 + a1**2 + w2**2 + a2**2) / 2
    expr = sp.sqrt(first**2 + 4 * (y**2 - start**2) / n)

    def oracle(y: Any, n: Any, **values: Any) -> Any:
        """Half of the n neurons are of each kind; the output, which moves to y, serves as the clock."""
        size = int(n)
        weights = [values[s.name] for s in pairs] * (size // 2)

        def output(z: Any) -> Any:
            return dot(z[::2], z[1::2]) / mp.sqrt(size)

        begin = output(weights)

        def velocity(_: Any, z: Any) -> list[Any]:
            gradient = [
                part / mp.sqrt(size) for k in range(0, len(z), 2) for part in (z[k + 1], z[k])
            ]
            return [(y - begin) * part / dot(gradient, gradient) for part in gradient]

        last = flow(velocity, weights, mp.mpf(0), mp.mpf(1))
        return dot(last, last) / size

    point = {"w1": "0.9", "a1": "0.7", "w2": "1.3", "a2": "-0.8", "y": "0.6"}
    formula = Formula("tangent kernel after training", (*pairs, y, n), expr)
    points = tuple({**point, "n": size} for size in (2, 4))
    return Claim(formula, "gradient flow to the label", oracle, points, DIGITS, EXTRAPOLATED)


def _limit() -> Verification:
    """(4): the squared loss ends where printed; other likelihoods, such as that of counts, do not."""
    gram = k01, k02, k11, k12, k22 = real_symbols("k01 k02 k11 k12 k22")
    labels = sp.symbols("y1 y2", positive=True)
    eta = sp.Symbol("eta", positive=True)

    def ends(targets: Any) -> sp.Expr:
        """Theta(x, X) Theta(X, X)^-1 applied to values at the training points."""
        one, two = targets
        determinant = k11 * k22 - k12**2
        return (k01 * (k22 * one - k12 * two) + k02 * (k11 * two - k12 * one)) / determinant

    def decay(eta: Any, **v: Any) -> Any:
        """The velocity of the test output, summed over all times along eigenvectors."""
        values, vectors = mp.eigsy(mp.matrix([[v["k11"], v["k12"]], [v["k12"], v["k22"]]]))
        total = mp.mpf(0)
        for k in (0, 1):
            rate, way = eta * values[k], vectors[:, k]
            front = (v["k01"] * way[0] + v["k02"] * way[1]) * (v["y1"] * way[0] + v["y2"] * way[1])
            total += eta * front * mp.quad(lambda s, rate=rate: mp.exp(-rate * s), [0, mp.inf])
        return total

    def counts(**v: Any) -> Any:
        """The most likely rates e^N of counts y1 and y2, N in the span of the kernel, by Newton's method."""
        K = mp.matrix([[v["k11"], v["k12"]], [v["k12"], v["k22"]]])
        alpha, y = mp.matrix([0, 0]), [v["y1"], v["y2"]]
        for _ in range(60):
            rates = [mp.exp(value) for value in K * alpha]
            hessian = mp.diag(rates) * K
            step = mp.lu_solve(hessian, mp.matrix([a - b for a, b in zip(rates, y, strict=True)]))
            alpha -= step
            if mp.norm(step) < mp.mpf(10) ** (5 - mp.dps):
                break
        return v["k01"] * alpha[0] + v["k02"] * alpha[1]

    point = {"k01": "0.7", "k02": "-0.3", "k11": "1.4", "k12": "0.5", "k22": "1.1"}
    point |= {"y1": "1.6", "y2": "0.8"}
    squared = Formula("mean after training, squared loss", (*gram, *labels, eta), ends(labels))
    likely = Formula(
        "mean after training, counts", (*gram, *labels), ends([sp.log(y) for y in labels])
    )
    claims = (
        Claim(squared, "velocities over all times", decay, ({**point, "eta": "0.9"},)),
        Claim(likely, "maximum of the likelihood", counts, (point,)),
    )
    return Verification(claims, Formula("any likelihood", (*gram, *labels), ends(labels)))


ROUTES: dict[str, Verification] = {
    "equivariant-ntk/1": holds(*_gradient_flow()),
    "equivariant-ntk/3": holds(_mean(), _spread(), _freezing()),
    "equivariant-ntk/4": _limit(),
}

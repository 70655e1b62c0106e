"""Vector fields, metrics and kernels: (2.11) to (2.46), (3.1), (3.2), (3.6), (3.14) to (3.17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, sample
from analytic.expressions.formula import Formula
from analytic.ledger.output_flow.instances import (
    FULL_ROW_RANK,
    ITSELF,
    SHARES,
    identity,
    kernel_projector,
    one,
    onto,
    plus,
)
from analytic.ledger.output_flow.model import (
    JACOBIAN,
    LABELS,
    OUTPUTS,
    PLACES,
    THETA,
    along,
    at_input,
    jacobian,
    outputs,
)
from analytic.ledger.verification import Verification, holds, real_symbols, shifted
from analytic.output_flow import (
    kernel,
    kernel_from_tangents,
    kernel_on_training_set,
    metric,
    preconditioner,
)
from analytic.output_flow import pseudoinverse as pinv
from analytic.output_flow import range_projector as P

__all__ = ["ROUTES"]

N = 2
GRADIENT = 2 * (OUTPUTS - sp.Matrix(LABELS)) / N  # of the cost (2.11)
POINT = (*THETA, *LABELS)


def _read(values: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Parameters and labels."""
    theta, labels = ([values[s.name] for s in some] for some in (THETA, LABELS))
    return theta, labels


def _cost(values: dict[str, Any]) -> Callable[[Any], Any]:
    _, labels = _read(values)
    return lambda theta: sum((a - b) ** 2 for a, b in zip(outputs(theta), labels)) / N


def _slope(cost: Callable[[Any], Any], theta: list[Any]) -> list[Any]:
    """The gradient of the cost by the parameters, by differences."""
    units = ([int(j == k) for j in range(len(theta))] for k in range(len(theta)))
    return [mp.diff(lambda s, w=w: cost(shifted(theta, w, s)), 0) for w in units]


def _components(name: str, column: sp.Matrix, args: Any, route: str, of: Any) -> list[Claim]:
    """A claim for each entry of a column; `of` gives them all from the values."""

    def component(k: int) -> Claim:
        formula = Formula(f"{name}, entry {k + 1}", tuple(args), column[k])
        return Claim(formula, route, lambda **values: of(values)[k], sample(formula, 2))

    return [component(k) for k in range(column.rows)]


def _squares() -> Claim:
    """(2.11) for Q = 2 and N = 3, against the Frobenius norm of (2.7)."""
    outs, labels = (real_symbols(" ".join(f"{n}{k}" for k in range(1, 7))) for n in "xy")
    expr = sum((a - b) ** 2 for a, b in zip(outs, labels, strict=True)) / 3
    formula = Formula("squared loss of a vector", (*outs, *labels), expr)

    def oracle(**values: Any) -> Any:
        apart = mp.matrix(2, 3)
        for k, (a, b) in enumerate(zip(outs, labels, strict=True)):
            apart[k % 2, k // 2] = values[a.name] - values[b.name]
        return mp.mnorm(apart, "f") ** 2 / 3

    return Claim(formula, "Frobenius norm of a matrix", oracle, sample(formula, 2))


def _chain() -> list[Claim]:
    """(2.15)."""
    ways = real_symbols("dp dq dr")

    def speed(values: dict[str, Any]) -> list[Any]:
        theta = [values[s.name] for s in THETA]
        return along(outputs, theta, [values[s.name] for s in ways])

    route = "differences of the outputs"
    return _components("D dtheta", JACOBIAN * sp.Matrix(ways), (*THETA, *ways), route, speed)


def _gradient() -> list[Claim]:
    """(2.16)."""

    def slope(values: dict[str, Any]) -> list[Any]:
        return _slope(_cost(values), _read(values)[0])

    route = "differences of the cost"
    return _components("D^T g", JACOBIAN.T * GRADIENT, POINT, route, slope)


def _critical() -> list[Claim]:
    """(2.17): the gradient by outputs, where that by the parameter is zero, for outputs theta and a theta.

    In a set of the same parameters as on the left of (2.17) it would be zero too.
    """
    a, *labels = args = real_symbols("a y1 y2")
    best = (labels[0] + a * labels[1]) / (1 + a**2)
    gradient = sp.Matrix([best - labels[0], a * best - labels[1]]) * 2 / N

    def apart(values: dict[str, Any]) -> list[Any]:
        a, y1, y2 = (values[s.name] for s in args)

        def cost(theta: Any) -> Any:
            return ((theta - y1) ** 2 + (a * theta - y2) ** 2) / N

        theta = mp.findroot(lambda theta: mp.diff(cost, theta), (mp.mpf(0), mp.mpf(1)))
        outs = ((theta, y1), (a * theta, y2))
        return [mp.diff(lambda out, y=y: (out - y) ** 2 / N, out) for out, y in outs]

    route = "a root of the slope by the parameter"
    return _components("grad_x C where grad_theta C = 0", gradient, args, route, apart)


def _standard() -> list[Claim]:
    """(2.18): outputs under gradient flow of the parameters."""

    def speed(values: dict[str, Any]) -> list[Any]:
        theta, _ = _read(values)
        return along(outputs, theta, [-part for part in _slope(_cost(values), theta)])

    expr = -JACOBIAN * JACOBIAN.T * GRADIENT
    return _components("-D D^T g", expr, POINT, "outputs along gradient flow", speed)


def _adapted() -> list[Claim]:
    """(2.20), (2.47): outputs under the adapted flow, where D has full rank."""

    def speed(values: dict[str, Any]) -> list[Any]:
        theta, _ = _read(values)
        D = jacobian(outputs, theta)
        velocity = -plus(D.T * D) * mp.matrix(_slope(_cost(values), theta))
        return along(outputs, theta, list(velocity))

    return _components("-g", -GRADIENT, POINT, "outputs along the adapted flow", speed)


def _interpolated() -> list[Claim]:
    """(2.38), (2.40): outputs under the flow of any alpha, where D has full rank and P = 1."""
    alpha = sp.Symbol("alpha", real=True)
    expr = -(alpha * sp.eye(2) + (1 - alpha) * JACOBIAN * JACOBIAN.T) * GRADIENT

    def speed(values: dict[str, Any]) -> list[Any]:
        theta, _ = _read(values)
        share, D = values["alpha"], jacobian(outputs, theta)
        A = share * plus(D.T * D) + (1 - share) * one(3)
        velocity = -A * mp.matrix(_slope(_cost(values), theta))
        return along(outputs, theta, list(velocity))

    route = "outputs along the flow of alpha"
    return _components("field of alpha", expr, (*POINT, alpha), route, speed)


def _tangents() -> list[Claim]:
    """(3.14), (3.15): blocks of D D^T at two inputs, against slopes by the parameters."""
    x, y = real_symbols("x y")
    rows = [sp.Matrix([at_input(place)]).jacobian(THETA) for place in (x, y)]
    theta = Formula("tangent kernel", (*THETA, x, y), (rows[0] * rows[1].T)[0])

    def differences(x: Any, y: Any, **values: Any) -> Any:
        D = jacobian(
            lambda w: [w[2] * (w[0] * s + 1) ** 2 + w[1] for s in (x, y)], list(values.values())
        )
        return (D * D.T)[0, 1]

    return [Claim(theta, "slopes by the parameters", differences, sample(theta, 2))]


def _by_inputs() -> Formula:
    """(3.14) with the Jacobian of f_theta at x by its input."""
    x, y = real_symbols("x y")
    slopes = [sp.diff(at_input(place), place) for place in (x, y)]
    return Formula("slopes by the input", (*THETA, x, y), slopes[0] * slopes[1])


def _block() -> Claim:
    """(3.15) on the training set."""
    expr = (JACOBIAN * JACOBIAN.T)[0, 1]
    formula = Formula("block of D D^T", THETA, expr)

    def blocks(**values: Any) -> Any:
        theta = [values[s.name] for s in THETA]
        first, second = (
            jacobian(lambda w, k=k: [outputs(w)[k]], theta) for k in range(len(PLACES))
        )
        return (first * second.T)[0]

    return Claim(formula, "slopes at each input", blocks, sample(formula, 2))


def _share(k: int) -> Any:
    return mp.mpf(SHARES[k].p) / SHARES[k].q


def _numeric_family(k: int, D: Any) -> Any:
    """alpha 1 + (1 - alpha) D D^T, of the alpha that goes with the instance."""
    return _share(k) * one(D.rows) + (1 - _share(k)) * D * D.T


def _preconditioner(k: int, D: Any) -> Any:
    return _share(k) * plus(D.T * D) + (1 - _share(k)) * one(D.cols)


def _chain_of_fields() -> list[Claim]:
    """The lines of (2.39), as matrices that act on -grad_x C; the last one is (2.41)."""

    def numeric(k: int, D: Any) -> Any:
        return D * _preconditioner(k, D) * D.T

    def lines(k: int, D: sp.Matrix) -> list[sp.Matrix]:
        alpha, inner = SHARES[k], pinv(D.T * D)
        return [
            (alpha * D * inner + (1 - alpha) * D) * D.T,
            alpha * D * inner * D.T + (1 - alpha) * D * D.T,
            alpha * P(D * D.T) + (1 - alpha) * D * D.T,
            (alpha * sp.eye(D.rows) + (1 - alpha) * D * D.T) * P(D * D.T),
        ]

    return [
        identity(f"(2.39), line {n + 2}", lambda k, D, n=n: lines(k, D)[n], numeric)
        for n in range(4)
    ]


def _psi() -> list[Claim]:
    """The lines of (2.25), as matrices that act on the gradient by outputs, and both braces."""

    def psi(D: sp.Matrix) -> sp.Matrix:
        return D * pinv(D) * pinv(D * D.T) * pinv(D.T)

    lines: list[Callable[[sp.Matrix], sp.Matrix]] = [
        lambda D: D * D.T * psi(D) * D.T,
        lambda D: D * D.T * pinv(D * D.T) * pinv(D.T) * D.T,
        lambda D: D * D.T * pinv(D.T) * pinv(D) * pinv(D.T) * D.T,
        lambda D: D * D.T * pinv(D * D.T),
    ]
    claims = [
        identity(f"(2.25), line {n}", lambda k, D, f=f: f(D), lambda k, D: onto(D))
        for n, f in enumerate(lines, 1)
    ]
    return [
        *claims,
        identity("D^T D D^+", lambda k, D: D.T * D * pinv(D), lambda k, D: D.T, route=ITSELF),
        identity("D^+ (D^T)^+ D^T", lambda k, D: pinv(D) * pinv(D.T) * D.T, lambda k, D: plus(D)),
    ]


def _rewritten() -> list[Claim]:
    """The lines of (2.26), as matrices that act on the gradient by parameters."""

    def lines(D: sp.Matrix) -> list[sp.Matrix]:
        M, inner = D.T * D, pinv(D.T * D)
        bracket = D * pinv(D) * pinv(D.T) * pinv(D) * pinv(D.T)
        return [
            inner * M * inner,
            M * inner * inner,
            D.T * bracket,
            D.T * (D * pinv(D) * pinv(D * D.T) * pinv(D.T)),
        ]

    return [
        identity(f"(2.26), line {n + 2}", lambda k, D, n=n: lines(D)[n], lambda k, D: plus(D.T * D))
        for n in range(4)
    ]


def _bundle_metric() -> Verification:
    """(2.46) on the line spanned by (a, b), with G = k (a, b)(a, b)^T, at alpha = 0 and above."""
    a, b, k, alpha = args = real_symbols("a b k alpha")
    size = a**2 + b**2
    formula = Formula("h(n, n)", args, size / (alpha + (1 - alpha) * k * size))
    G = k * sp.Matrix([[a * a, a * b], [a * b, b * b]])
    M = alpha * sp.eye(2) + (1 - alpha) * G
    adjugate = sp.Matrix([[M[1, 1], -M[0, 1]], [-M[1, 0], M[0, 0]]])
    n = sp.Matrix([a, b])
    inverse = (n.T * adjugate * n)[0] / (M[0, 0] * M[1, 1] - M[0, 1] * M[1, 0])

    def oracle(a: Any, b: Any, k: Any, alpha: Any) -> Any:
        """The gradient of -C has h(V, n) = -g.n; along the line V = v n."""
        n, g = mp.matrix([a, b]), mp.matrix([mp.mpf(2), mp.mpf(5) / 7])
        G, along = k * n * n.T, n * n.T / (a**2 + b**2)
        V = -(alpha * one(2) + (1 - alpha) * G) * along * g
        return -(g.T * n)[0] / (V[0] / n[0])

    points = (
        {"a": "1.2", "b": "-0.7", "k": "0.8", "alpha": 0},
        {"a": "1.2", "b": "-0.7", "k": "0.8", "alpha": "0.3"},
    )
    claim = Claim(formula, "gradient of the cost along the line", oracle, points)
    exact = identity(
        "metric of alpha, times the field's matrix",
        lambda k, D: metric(D, SHARES[k]) * kernel_on_training_set(D, SHARES[k]),
        lambda k, D: onto(D),
    )
    return Verification((claim, exact), Formula("inverse, then restricted", args, inverse))


_full = FULL_ROW_RANK
_fields, _slopes, _speeds = _chain_of_fields(), _gradient(), _interpolated()
_outputs, _blocks = _adapted(), _tangents()
_projected = identity("D D^T (D D^T)^+", lambda k, D: D * D.T * pinv(D * D.T), lambda k, D: onto(D))
_constrained = identity(
    "D (D^T D)^+ D^T", lambda k, D: D * pinv(D.T * D) * D.T, lambda k, D: onto(D)
)
_euclidean = identity(
    "D D^+ of full rank", lambda k, D: D * pinv(D), lambda k, D: one(D.rows), _full, ITSELF
)
_same_gradient = identity(
    "(D^T)^+ D^T of full rank",
    lambda k, D: pinv(D.T) * D.T,
    lambda k, D: one(D.rows),
    _full,
    ITSELF,
)
_same_zeros = identity(
    "gradient by parameters, from the field",
    lambda k, D: (
        pinv(preconditioner(D, SHARES[k]) * pinv(D) * D) * preconditioner(D, SHARES[k]) * D.T
    ),
    lambda k, D: D.T,
    route=ITSELF,
)
_same_outputs = identity(
    "projected gradient, from the field",
    lambda k, D: metric(D, SHARES[k]) * kernel_on_training_set(D, SHARES[k]),
    lambda k, D: onto(D),
)
_riemannian = identity(
    "metric of full rank",
    lambda k, D: metric(D, SHARES[k]),
    lambda k, D: _numeric_family(k, D) ** -1,
    _full,
    "inverse in numbers",
)
_at_zero = identity(
    "A_0 D^T", lambda k, D: preconditioner(D, 0) * D.T, lambda k, D: D.T, route=ITSELF
)
_at_one = identity(
    "A_1 D^T", lambda k, D: preconditioner(D, 1) * D.T, lambda k, D: plus(D.T * D) * D.T
)
_kernels = [
    identity(
        f"projector onto ker {name}",
        lambda k, D, f=f: kernel_projector(f(D)),
        lambda k, D: one(D.cols) - onto(D.T),
    )
    for name, f in {
        "(D^T D)^+": lambda D: pinv(D.T * D),
        "D^T D": lambda D: D.T * D,
        "D^+ D": lambda D: pinv(D) * D,
    }.items()
]
_test = sp.Matrix([[1, -1, 2, sp.Rational(1, 2)], [0, 3, 1, -2]])  # Jacobians at a test point


def _off_training_set() -> Claim:
    """K_alpha between a test point and the training set, by tangent kernels alone."""

    def by_tangents(k: int, D: sp.Matrix) -> sp.Matrix:
        J = _test[:, : D.cols]
        return kernel_from_tangents(J * D.T, D * D.T, D * D.T, J * D.T, SHARES[k])

    def numeric(k: int, D: Any) -> Any:
        J = mp.matrix(_test[:, : D.cols].tolist())
        return J * _preconditioner(k, D) * D.T

    return identity("K_alpha by tangent kernels", by_tangents, numeric)


_trivial = identity(
    "K_1 on the training set",
    lambda k, D: kernel(D, D, D, 1),
    lambda k, D: one(D.rows),
    _full,
    ITSELF,
)
ROUTES: dict[str, Verification] = {
    "output-space-flow/2.11": holds(_squares()),
    "output-space-flow/2.15": holds(*_chain()),
    "output-space-flow/2.16": holds(*_slopes),
    "output-space-flow/2.17": holds(*_slopes, *_critical(), _same_gradient),
    "output-space-flow/2.18": holds(*_standard()),
    "output-space-flow/lemma-2.2": holds(_euclidean, _projected, *_outputs),
    "output-space-flow/2.20": holds(_euclidean, *_outputs),
    "output-space-flow/2.22": holds(_projected),
    "output-space-flow/2.23": holds(_projected),
    "output-space-flow/2.25": holds(*_psi()),
    "output-space-flow/2.26": holds(*_rewritten()),
    "output-space-flow/2.28": holds(_constrained),
    "output-space-flow/theorem-2.3": holds(_fields[3], _same_zeros, _same_outputs),
    "output-space-flow/2.33": holds(_at_zero),
    "output-space-flow/2.34": holds(_at_one),
    "output-space-flow/2.35": holds(
        identity("D^+ D D^T", lambda k, D: pinv(D) * D * D.T, lambda k, D: D.T, route=ITSELF)
    ),
    "output-space-flow/2.36": holds(*_kernels),
    "output-space-flow/2.38": holds(*_speeds),
    "output-space-flow/2.39": holds(*_fields),
    "output-space-flow/2.40": holds(_fields[3], *_speeds),
    "output-space-flow/2.42": holds(
        _at_zero,
        identity(
            "field of alpha = 0",
            lambda k, D: kernel_on_training_set(D, 0),
            lambda k, D: D * D.T,
            route=ITSELF,
        ),
    ),
    "output-space-flow/2.43": holds(
        identity(
            "field of alpha = 1", lambda k, D: kernel_on_training_set(D, 1), lambda k, D: onto(D)
        )
    ),
    "output-space-flow/2.44": holds(_same_outputs),
    "output-space-flow/2.45": holds(_riemannian),
    "output-space-flow/2.46": _bundle_metric(),
    "output-space-flow/2.47": holds(_euclidean, *_outputs),
    "output-space-flow/3.1": holds(
        identity("D^+ D", lambda k, D: pinv(D) * D, lambda k, D: onto(D.T))
    ),
    "output-space-flow/3.2": holds(
        identity(
            "D^+ D D^T, of a velocity in ran D^T",
            lambda k, D: pinv(D) * D * D.T,
            lambda k, D: D.T,
            route=ITSELF,
        )
    ),
    "output-space-flow/3.6": holds(
        identity(
            "complement of ker D^T",
            lambda k, D: sp.eye(D.rows) - kernel_projector(D.T),
            lambda k, D: onto(D),
        ),
        identity(
            "complement of ker D^+",
            lambda k, D: sp.eye(D.rows) - kernel_projector(pinv(D)),
            lambda k, D: onto(D),
        ),
    ),
    "output-space-flow/3.14": Verification(tuple(_blocks), _by_inputs()),
    "output-space-flow/3.15": holds(*_blocks, _block()),
    "output-space-flow/3.17": holds(_trivial, _off_training_set()),
}

r"""Metrics under a Bayesian posterior, (E.1) to (E.14): against determinants and solvable networks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.checks.claims import Claim, sample
from analytic.expressions.arguments import Domain
from analytic.expressions.formula import Formula
from analytic.ledger.verification import Verification, dot, holds, real_symbols

__all__ = ["ROUTES"]

WIDE = "widths that double seven times, extrapolated in 1/n to the seventh power"  # reason of a tolerance
_temperature = sp.Symbol("temperature", nonnegative=True)


def _symmetric(letter: str, d: int) -> sp.Matrix:
    return sp.Matrix(d, d, lambda i, j: real_symbols(f"{letter}{min(i, j) + 1}{max(i, j) + 1}")[0])


def _perturbed(g: sp.Matrix, power: sp.Rational) -> Claim:
    """(E.1), or (E.2) for the power 1/2: the constant and the linear part in h."""
    h = _symmetric("h", g.rows)
    trace = (g.adjugate() * h).trace() / g.det()
    args = tuple(sorted(g.free_symbols | h.free_symbols, key=str))
    positive = Domain((g.det() > 0,))
    linear = (1 + power * trace) * g.det() ** power
    formula = Formula(f"(det g)^{power}, d={g.rows}", args, linear, positive)

    def differentiated(**values: Any) -> Any:
        start, way = (
            mp.matrix([[values.get(str(entry), 0) for entry in row] for row in m.tolist()])
            for m in (g, h)
        )

        def volume(t: Any) -> Any:
            return mp.det(start + t * way) ** (mpf(power.p) / power.q)

        return volume(0) + mp.diff(volume, 0)

    return Claim(formula, "derivative of the determinant", differentiated, sample(formula, 3))


# In three dimensions the background metric is diagonal, without loss of generality by a rotation.
_BACKGROUNDS = _symmetric("g", 2), sp.diag(*sp.symbols("g1 g2 g3", positive=True))


def _average(expr: sp.Expr, weights: tuple[sp.Symbol, ...]) -> sp.Expr:
    """Over standard normal weights, power by power."""
    terms = sp.Poly(expr, *weights).terms()
    return sum(
        c * sp.prod(0 if k % 2 else sp.factorial2(k - 1) for k in powers) for powers, c in terms
    )


def _covariance() -> Claim:
    """(E.13) for a quadratic network in the plane, for the component g_12."""
    names, n = ("a", "b", "x"), 2
    a, b, x = vectors = [real_symbols(f"{name}1 {name}2") for name in names]
    w = real_symbols("w1 w2")
    kernel = dot(w, a) ** 2 * dot(w, b) ** 2 / 3
    metric = sp.Rational(4, 3) * dot(w, x) ** 2 * w[0] * w[1]
    expr = _average(kernel * metric, w) - _average(kernel, w) * _average(metric, w)
    formula = Formula("n cov[k, g]", tuple(s for vector in vectors for s in vector), expr)

    def enumerated(**values: Any) -> Any:
        """Two units, each of whose weights takes the five values of a rule exact to degree 9."""
        at = {name: (values[f"{name}1"], values[f"{name}2"]) for name in names}
        units = [(*_unit(w, **at), p) for w, p in _plane()]
        both = [
            ((k1 + k2) / n, (g1 + g2) / n, p1 * p2)
            for (k1, g1, p1), (k2, g2, p2) in product(units, units)
        ]
        k, g = (mp.fsum(row[i] * row[2] for row in both) for i in (0, 1))
        return n * mp.fsum((row[0] - k) * (row[1] - g) * row[2] for row in both)

    return Claim(formula, "a network of two units", enumerated, sample(formula, 2))


def _plane() -> list[tuple[tuple[Any, Any], Any]]:
    root = mp.sqrt(10)
    line = [(mpf(0), mpf(8) / 15)]
    for sign, r in product((1, -1), (root, -root)):
        line.append((sign * mp.sqrt(5 + r), (7 - 2 * r) / 60))
    return [((s, t), p * q) for (s, p), (t, q) in product(line, line)]


def _unit(w: Any, a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """phi phi and phi'^2 w_1 w_2 of one unit, with phi = z^2/sqrt(3)."""
    slope = 2 * dot(w, x) / mp.sqrt(3)
    return dot(w, a) ** 2 * dot(w, b) ** 2 / 3, slope**2 * w[0] * w[1]


def _psi(gram: sp.Matrix, labels: sp.Matrix, m: int) -> sp.Matrix:
    """(E.9) to (E.11)."""
    inverse = gram.adjugate() / gram.det()
    return inverse * (labels * labels.T / m) * inverse - inverse


def _log_density(gram: Any, y: Any, t: Any) -> Any:
    """Of the labels y and t of two examples, whose components are independent, up to a constant."""
    (aa, ab), (_, bb) = gram
    det = aa * bb - ab**2
    fit = (bb * dot(y, y) - 2 * ab * dot(y, t) + aa * dot(t, t)) / det
    return -(len(y) * mp.log(det) + fit) / 2


def _two_examples() -> Claim:
    """(E.12) for a linear network in the plane that interpolates two examples with two outputs.

    By Stein's lemma the mean of (S - 1)_uv f(S) over a Wishart matrix S/n is, to order 1/n, the
    derivative of f along u v^T + v u^T; here f is the log density of the data.
    """
    a, b, y, t, u, v = vectors = [
        real_symbols(f"{s}1 {s}2") for s in ("a", "b", "y", "t", "u", "v")
    ]
    inputs, labels, m = sp.Matrix([a, b]), sp.Matrix([y, t]), 2
    psi = _psi(inputs * inputs.T, labels, m)
    cov = sp.Matrix(2, 2, lambda i, j: _isserlis((a, b)[i], (a, b)[j], u, v))
    expr = sp.Rational(m, 2) * sum(psi[i, j] * cov[i, j] for i, j in product(range(2), repeat=2))
    formula = Formula("n(<g> - gbar), two examples", tuple(s for c in vectors for s in c), expr)

    def tilted(**values: Any) -> Any:
        a, b, y, t, u, v = ((values[f"{s}1"], values[f"{s}2"]) for s in "abytuv")

        def gram(e: Any) -> Any:
            """Of the inputs, in the metric 1 + e(u v^T + v u^T)."""
            way = [[dot(p, u) * dot(v, q) + dot(p, v) * dot(u, q) for q in (a, b)] for p in (a, b)]
            return [[dot((a, b)[i], (a, b)[j]) + e * way[i][j] for j in (0, 1)] for i in (0, 1)]

        return mp.diff(lambda e: _log_density(gram(e), y, t), 0)

    return Claim(formula, "derivative of the log density", tilted, sample(formula, 1))


def _isserlis(a: Any, b: Any, u: Any, v: Any) -> Any:
    """n cov[a.S.b, u.S.v] for S = sum w w^T / n."""
    return dot(a, u) * dot(b, v) + dot(a, v) * dot(b, u)


def _infinite_width_limit(value: Callable[[int], Any], start: int = 64, terms: int = 8) -> Any:
    """The limit of a function of the width for n -> oo, by Richardson extrapolation in 1/n."""
    row = [value(start * 2**k) for k in range(terms)]
    for k in range(1, terms):
        row = [(2**k * b - a) / (2**k - 1) for a, b in pairwise(row)]
    return row[0]


def _warm() -> Claim:
    """(E.12) for a linear network on the line, two examples, two outputs and any temperature."""
    a, b = line = real_symbols("a b")
    y, t = labels = [real_symbols(f"{s}1 {s}2") for s in ("y", "t")]
    gram = sp.Matrix(2, 2, lambda i, j: line[i] * line[j]) + _temperature * sp.eye(2)
    psi = _psi(gram, sp.Matrix([y, t]), 2)
    expr = sum(psi[i, j] * 2 * line[i] * line[j] for i, j in product(range(2), repeat=2))
    args = (a, b, *labels[0], *labels[1], _temperature)
    formula = Formula("n(<g> - gbar), two warm examples", args, expr, Domain((_temperature > 0,)))

    def integrated(temperature: Any, **values: Any) -> Any:
        a, b = values["a"], values["b"]
        y, t = ((values[f"{s}1"], values[f"{s}2"]) for s in "yt")

        def log_likelihood(s: Any) -> Any:
            gram = (s * a * a + temperature, s * a * b), (s * a * b, s * b * b + temperature)
            return _log_density(gram, y, t)

        return _infinite_width_limit(lambda n: n * (_mean(n, log_likelihood) - 1))

    points = sample(formula, 2)
    return Claim(formula, "posterior integrated at finite width", integrated, points, 12, WIDE)


def _mean(n: int, log_likelihood: Callable[[Any], Any]) -> Any:
    """Of s = chi^2_n/n under a likelihood, by the trapezoidal rule in log s."""
    step, reach = mp.sqrt(mpf(2) / n) / 2, 28  # fourteen standard deviations either way
    points = [mp.exp(k * step) for k in range(-reach, reach + 1)]
    logs = [n * (mp.log(s) - s) / 2 + log_likelihood(s) for s in points]
    top = max(logs)
    masses = [mp.exp(each - top) for each in logs]
    return dot(points, masses) / mp.fsum(masses)


def _shift(y: sp.Expr, kernel: sp.Expr, covariance: sp.Expr) -> sp.Expr:
    """(E.14) without gbar, times n."""
    return (y**2 / kernel - 1) / 2 * covariance / kernel


def _linear() -> Claim:
    """(E.14) for a linear network in the plane, contracted with two vectors."""
    (y,), a, u, v = real_symbols("y"), *(real_symbols(f"{s}1 {s}2") for s in "auv")
    expr = _shift(y, dot(a, a), _isserlis(a, a, u, v))
    formula = Formula("n(<g> - gbar), linear", (y, *a, *u, *v), expr)

    def by_recurrence(y: Any, **values: Any) -> Any:
        """Only the entry s of g along the example is reweighted; its mean is a ratio of Bessel functions."""
        a, u, v = ((values[f"{s}1"], values[f"{s}2"]) for s in "auv")
        size = dot(a, a)
        along = dot(a, u) * dot(a, v) / size
        return along * _infinite_width_limit(
            lambda n: n * (_inverse_gaussian_mean(n, y**2 / size) - 1), 128
        )

    points = sample(formula, 3)
    return Claim(formula, "Bessel functions by recurrence", by_recurrence, points, 12, WIDE)


def _inverse_gaussian_mean(n: int, t: Any) -> Any:
    """Of the density s^((n-3)/2) exp(-(n s + t/s)/2), from K_(1/2) = K_(-1/2) upwards, for even n."""
    at, ratio = mp.sqrt(n * t), mpf(1)  # K_(k+1/2) / K_(k-1/2), from k = 0
    for k in range(1, n // 2 + 1):
        ratio = 1 / ratio + (2 * k - 1) / at
    return mp.sqrt(t / n) * ratio


def _rectified() -> Claim:
    """(E.14) for a ReLU network on the half-line, where a unit is active or not."""
    y, a = args = tuple(sp.symbols("y a", positive=True))
    half, fourth = sp.S.Half, sp.Rational(3, 2)  # E[max(0, w)^2] and E[max(0, w)^4]
    expr = _shift(y, half * a**2, (fourth - half**2) * a**2)
    formula = Formula("n(<g> - gbar), ReLU", args, expr)

    def by_active_units(y: Any, a: Any) -> Any:
        return _infinite_width_limit(
            lambda n: n * (_mixture_mean(n, (y / a) ** 2) - mpf(1) / 2), 32
        )

    points = sample(formula, 1)
    return Claim(formula, "sum over the number of active units", by_active_units, points, 10, WIDE)


def _mixture_mean(n: int, t: Any) -> Any:
    """Of g = chi^2_j/n with j of n units active, under the likelihood g^(-1/2) exp(-t/(2g)).

    The j-th weight is C(n, j) (x/2)^(j/2) K_((j-1)/2)(x) / Gamma(j/2) at x = sqrt(nt).
    """
    x = mp.sqrt(n * t)
    bessel = [mp.besselk(mpf(k) / 2, x) for k in range(4)]  # of order k/2
    front = [mpf(0), n * mp.sqrt(x / (2 * mp.pi)), mpf(n * (n - 1)) / 2 * x / 2]
    for j in range(3, n + 1):
        bessel.append(bessel[j - 3] + (j - 1) / x * bessel[j - 1])
        chosen = mpf((n - j + 1) * (n - j + 2)) / (j * (j - 1))
        front.append(front[j - 2] * chosen * x / (j - 2))
    return mp.sqrt(t / n) * dot(front[1:], bessel[2 : n + 2]) / dot(front[1:], bessel[:n])


ROUTES: dict[str, Verification] = {
    "curvature/E.1": holds(*(_perturbed(g, sp.S.One) for g in _BACKGROUNDS)),
    "curvature/E.2": holds(*(_perturbed(g, sp.S.Half) for g in _BACKGROUNDS)),
    "curvature/E.12": holds(_two_examples(), _warm()),
    "curvature/E.13": holds(_covariance()),
    "curvature/E.14": holds(_linear(), _rectified()),
}

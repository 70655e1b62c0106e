"""Random features and their kernels: (22), (24), (26), (27), (29), (35), (40)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import sympy as sp
from mpmath import mp
from sympy import Abs, Max, Min, atan, pi

from analytic.checks.claims import Claim, Point, sample
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import A, B, x, y
from analytic.ledger.verification import Verification, dot, holds, real_symbols
from analytic.splines import INITIALISATIONS

__all__ = ["INSIDE", "ROUTES", "biases_first", "pieces", "ramp"]

Unit = Callable[[Any], Any]  # what a unit contributes where it is active
C = sp.Symbol("C", positive=True)
INSIDE: tuple[Point, ...] = (
    {"x": "-0.3", "y": "0.4", "A": "1.6", "B": "0.9"},
    {"x": "0.7", "y": "0.2", "A": "0.5", "B": "1.1"},
)


def ramp(z: Any) -> Any:
    return z


def pieces(f: Callable[[Any], Any], ends: Sequence[Any]) -> Any:
    """The integral by Simpson's rule between neighbouring ends: exact for piecewise cubic functions."""
    total = mp.mpf(0)
    for start, stop in pairwise(ends):
        total += (stop - start) * (f(start) + 4 * f((start + stop) / 2) + f(stop)) / 6
    return total


def at_slope(unit: Unit, a: Any, x: Any, y: Any, B: Any) -> Any:
    """K_a of (29): the mean over biases uniform on [-B, B]."""
    top = max(-B, min(a * x, a * y, B))
    return pieces(lambda b: unit(a * x - b) * unit(a * y - b), [-B, top]) / (2 * B)


def biases_first(unit: Unit, x: Any, y: Any, A: Any, B: Any) -> Any:
    """The mean over uniform slopes and biases; between the ends K_a is one cubic polynomial of a."""
    corners = [B / x, -B / x, B / y, -B / y]
    ends = sorted([-A, mp.mpf(0), A, *(a for a in corners if abs(a) < A)])
    return pieces(lambda a: at_slope(unit, a, x, y, B), ends) / (2 * A)


def _by_conditioning(x: Any, y: Any, sa: Any, sb: Any) -> tuple[Any, Any]:
    """E[u_+ v_+] and P(u, v > 0) for Gaussian slopes and biases: v given u, then u."""
    first, both, second = (sa**2 * p * q + sb**2 for p, q in ((x, x), (x, y), (y, y)))
    width, rest = mp.sqrt(first), mp.sqrt(second - both**2 / first)

    def half_line_mean(inner: Callable[[Any, Any], Any]) -> Any:
        def at(t: Any) -> Any:
            u, mean = width * t, both / width * t
            return mp.npdf(t) * inner(u, mean)

        return mp.quad(at, [0, 1, 3, 6, 10, 15])  # beyond, the density is below 1e-49

    ramps = half_line_mean(lambda u, m: u * (m * mp.ncdf(m / rest) + rest * mp.npdf(m / rest)))
    return ramps, half_line_mean(lambda u, m: mp.ncdf(m / rest))


def _least_norm() -> Claim:
    """(22): |c|^2 of Lagrange's solution for three units and two data, against the flow from zero."""
    p, q, data = real_symbols("p1 p2 p3"), real_symbols("q1 q2 q3"), real_symbols("y1 y2")
    pp, pq, qq = dot(p, p), dot(p, q), dot(q, q)
    expr = (data[0] ** 2 * qq - 2 * data[0] * data[1] * pq + data[1] ** 2 * pp) / (pp * qq - pq**2)
    formula = Formula("least |c|^2 that interpolates", (*p, *q, *data), expr)

    def flow(y1: Any, y2: Any, **units: Any) -> Any:
        features = mp.matrix([[units[f"{row}{k}"] for k in (1, 2, 3)] for row in "pq"])
        gram = features.T * features
        slowest = mp.det(features * features.T) / sum(gram[k, k] for k in range(3))
        system = mp.zeros(4)  # of (c, 1)
        source = features.T * mp.matrix([y1, y2])
        for i in range(3):
            system[i, 3] = source[i]
            for j in range(3):
                system[i, j] = -gram[i, j]
        c = mp.expm(system * (110 / slowest))[:3, 3]  # exp(-110) is below 1e-47
        return sum(value**2 for value in c)

    return Claim(formula, "gradient flow from c = 0", flow, sample(formula, 3))


def _interpolant() -> Claim:
    """(24) for slopes 1 and biases uniform on [0, 1], where the norm is that of f'' alone."""
    x1, x2 = sp.symbols("x1 x2", positive=True)
    at, y1, y2 = sp.Symbol("x", positive=True), *real_symbols("y1 y2")

    def kernel(s: sp.Expr, t: sp.Expr) -> sp.Expr:
        return Min(s, t) ** 2 * (3 * Max(s, t) - Min(s, t)) / 6

    k11, k22, k12 = x1**3 / 3, x2**3 / 3, kernel(x1, x2)
    first, second = y1 * k22 - y2 * k12, y2 * k11 - y1 * k12
    expr = (first * kernel(x1, at) + second * kernel(x2, at)) / (k11 * k22 - k12**2)
    formula = Formula("interpolant by K_RF", (at, x1, x2, y1, y2), expr)

    def spline(x: Any, x1: Any, x2: Any, y1: Any, y2: Any) -> Any:
        """The minimiser of int f''^2: a cubic spline clamped at 0, without curvature beyond x2."""
        h = x2 - x1
        rows = [[x1**2, x1**3, 0], [x2**2, x2**3, h**3], [2, 6 * x2, 6 * h]]
        c = mp.lu_solve(mp.matrix(rows), mp.matrix([y1, y2, 0]))
        near = min(x, x2)
        value = c[0] * near**2 + c[1] * near**3 + c[2] * max(near - x1, 0) ** 3
        slope = 2 * c[0] * x2 + 3 * c[1] * x2**2 + 3 * c[2] * h**2
        return value + slope * (x - near)

    data = {"x1": "0.35", "x2": "0.8", "y1": "1.3", "y2": "-0.6"}
    points = tuple({"x": place, **data} for place in ("0.2", "0.6", "0.95"))
    return Claim(formula, "clamped spline", spline, points)


def _closed() -> sp.Expr:
    """Of (26), for any order of x and y."""
    return C / (4 * pi) * ((pi - Abs(atan(x) - atan(y))) * (1 + x * y) + Abs(x - y))


def _bracket(low: sp.Expr, high: sp.Expr) -> sp.Expr:
    """The fourth line of (40) between two angles."""

    def at(angle: sp.Expr) -> sp.Expr:
        wave = sp.sin(2 * angle) / 4
        return x * y * (angle / 2 + wave) + angle / 2 - wave + (x + y) / 2 * sp.sin(angle) ** 2

    return C / (2 * pi) * (at(high) - at(low))


def _polar(x: Any, y: Any, C: Any) -> Any:
    """For weights of uniform direction with a norm uniform on [0, R], R^2 = 3C."""
    R = mp.sqrt(3 * C)
    low, high = max(-mp.atan(x), -mp.atan(y)), min(mp.pi - mp.atan(x), mp.pi - mp.atan(y))

    def at(t: Any) -> Any:
        return (mp.cos(t) * x + mp.sin(t)) * (mp.cos(t) * y + mp.sin(t))

    return mp.quad(lambda r: r**2 / R, [0, R]) * mp.quad(at, [low, 1, high]) / (2 * mp.pi)


def _normal(x: Any, y: Any, C: Any) -> Any:
    return _by_conditioning(x, y, mp.sqrt(C / 2), mp.sqrt(C / 2))[0]


def _radial(name: str, expr: sp.Expr, printed: sp.Expr) -> Verification:
    formula = Formula(name, (x, y, C), expr)
    points = ({"x": "-0.7", "y": "0.3", "C": 2}, {"x": "0.4", "y": "1.9", "C": "0.8"})
    claims = (
        Claim(formula, "quadrature over norm and angle", _polar, points),
        Claim(formula, "Gaussian slopes and biases one after another", _normal, points),
    )
    return Verification(claims, Formula(f"{name} as printed", (x, y, C), printed))


def _printed_radial() -> sp.Expr:
    """The right-hand side of (26) and the last line of (40)."""
    turn = (pi - atan(y) + atan(x)) * (x * y + 1)
    mid = (y / (1 + y**2) - x / (1 + x**2)) * (x * y - 1)
    last = (x + y) * (y**2 / (1 + y**2) - x**2 / (1 + x**2))
    return C / (4 * pi) * (turn + mid + last)


def _gradients() -> Claim:
    """(27) for two units: products of ramps and of steps against derivatives of the network."""
    a, b, c = real_symbols("a1 a2"), real_symbols("b1 b2"), real_symbols("c1 c2")
    total = sp.S.Zero
    for slope, bias, readout in zip(a, b, c, strict=True):
        left, right = slope * x - bias, slope * y - bias
        inside = left * right + readout**2 * (1 + x * y)
        total += sp.Piecewise((inside, sp.And(left > 0, right > 0)), (0, True)) / 2
    formula = Formula("tangent kernel of two units", (*a, *b, *c, x, y), total)
    names = ("a1", "a2", "b1", "b2", "c1", "c2")

    def network(at: Any, z: Sequence[Any]) -> Any:
        units = (z[k + 4] * max(z[k] * at - z[k + 2], 0) for k in (0, 1))
        return sum(units) / mp.sqrt(2)

    def gradient(at: Any, z: list[Any], k: int) -> Any:
        return mp.diff(lambda t: network(at, [*z[:k], t, *z[k + 1 :]]), z[k])

    def oracle(x: Any, y: Any, **units: Any) -> Any:
        z = [units[name] for name in names]
        return sum(gradient(x, z, k) * gradient(y, z, k) for k in range(6))

    point = {"a1": "1.3", "a2": "-0.8", "b1": "0.2", "b2": "-0.9", "c1": "0.7", "c2": "-1.6"}
    places = (("0.5", "0.9"), ("-0.6", "0.7"), ("0.4", "1.7"), ("-0.3", "-1.2"))
    points = tuple(point | {"x": p, "y": q} for p, q in places)
    return Claim(formula, "derivatives by every parameter", oracle, points)


def _limits() -> tuple[Claim, Claim]:
    """(27) for infinitely many units of two laws."""
    uniform, gaussian = (INITIALISATIONS[name].ntk for name in ("uniform", "gaussian"))

    def pieced(x: Any, y: Any, A: Any, B: Any, ec2: Any) -> Any:
        steps = biases_first(lambda z: 1, x, y, A, B)
        return biases_first(ramp, x, y, A, B) + ec2 * (1 + x * y) * steps

    def normal(x: Any, y: Any, sa: Any, sb: Any, ec2: Any) -> Any:
        ramps, steps = _by_conditioning(x, y, sa, sb)
        return ramps + ec2 * (1 + x * y) * steps

    outside = ({"x": "-1.9", "y": "2.3", "A": "0.8", "B": "0.7"},)
    one_out = ({"x": "0.1", "y": "1.4", "A": "1.2", "B": "0.9"},)
    points = tuple({**p, "ec2": "0.4"} for p in (*INSIDE, *outside, *one_out))
    return (
        Claim(uniform, "exact rule on cubic pieces", pieced, points),
        Claim(gaussian, "slopes and biases one after another", normal, sample(gaussian, 2)),
    )


def _by_slopes() -> Claim:
    """(29) for uniform slopes and biases, where |x|, |y| <= B/A."""
    expr = (A**2 * x * y + B**2) / 6 + A**3 * Abs(x - y) ** 3 / (96 * B)
    formula = Formula("K_RF of uniform weights", (x, y, A, B), expr)

    def oracle(x: Any, y: Any, A: Any, B: Any) -> Any:
        return biases_first(ramp, x, y, A, B)

    return Claim(formula, "mean of K_a over slopes", oracle, INSIDE)


def _finite() -> Claim:
    """(35) for uniform slopes and biases, at any x."""
    formula = Formula("mean of K_a(x, x)", (x, A, B), (A**2 * x**2 + B**2) / 6)

    def oracle(x: Any, A: Any, B: Any) -> Any:
        return biases_first(ramp, x, x, A, B)

    return Claim(formula, "exact rule on cubic pieces", oracle, sample(formula, 4))


ROUTES: dict[str, Verification] = {
    "univariate-relu/22": holds(_least_norm()),
    "univariate-relu/24": holds(_interpolant()),
    "univariate-relu/26": _radial("radial kernel", _closed(), _printed_radial()),
    "univariate-relu/27": holds(_gradients(), *_limits()),
    "univariate-relu/29": holds(_by_slopes()),
    "univariate-relu/35": holds(_finite()),
    "univariate-relu/40": _radial(
        "radial kernel between angles",
        _bracket(-atan(x), pi - atan(y)),
        _bracket(atan(y), pi + atan(x)),
    ),
}

"""Norms of kernels: theorem 5, corollary 6, (25), (28), (30), (32) to (34), (36) to (39)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sympy as sp
from mpmath import mp
from sympy import Abs

from analytic.checks.claims import Claim, sample
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import A, B, ec2, u, x, y
from analytic.ledger.univariate.kernels import INSIDE, biases_first, pieces, ramp
from analytic.ledger.verification import Verification, holds, real_symbols

__all__ = ["ROUTES"]

edge = B / A


def _against(claims: tuple[Claim, ...], printed: sp.Expr) -> Verification:
    true = claims[0].statement
    return Verification(claims, replace(true, name=f"{true.name} as printed", expr=printed))


def _taylor() -> Claim:
    """(30) for f(t) = (t - s)^2 e^t, which vanishes at s with its slope."""
    a, s = real_symbols("a s")
    formula = Formula("f(ax)", (a, x, s), (a * x - s) ** 2 * sp.exp(a * x))

    def oracle(a: Any, x: Any, s: Any) -> Any:
        def curvature(t: Any) -> Any:
            return (2 + 4 * (t - s) + (t - s) ** 2) * mp.exp(t)

        return mp.quad(lambda t: (a * x - t) * curvature(t), [s, a * x])

    points = ({"a": "1.4", "x": "0.9", "s": "-0.3"}, {"a": "-0.7", "x": "-1.1", "s": "0.2"})
    return Claim(formula, "quadrature of (ax - u) f''(u)", oracle, points)


def _gap() -> Verification:
    """(32) on [0, 1] and from 1 + g on: f = p u^2, then a parabola with f'' = 2k, at 1 + g + t."""
    p, k, g, t = args = real_symbols("p k g t")
    after = 2 * p * t + k * t**2
    formula = Formula("what (32) gives beyond a gap", args, p + 2 * p * g + after)

    def oracle(p: Any, k: Any, g: Any, t: Any) -> Any:
        at = 1 + g + t
        first = mp.quad(lambda u: (at - u) * 2 * p, [0, 1])
        return first + mp.quad(lambda u: (at - u) * 2 * k, [1 + g, at])

    points = ({"p": "0.8", "k": "-1.3", "g": "0.6", "t": "0.9"}, {"p": -1, "k": 2, "g": 1, "t": 2})
    claim = Claim(formula, "quadrature over both intervals", oracle, points)
    return Verification((claim,), Formula("f by (31)", args, p + after))


def _represented(a: Any, height: Any, p: Any, k: Any) -> Any:
    r"""The norm in H_a of the h with h'' = p + k|u|, for biases of density `height` on [0, 1/height].

    The g = g0 + g1 b with $h(x) = \int [ax - b]_+ g(b) \mu(b) db$ is found at two places.
    """
    top = 1 / height
    places = [top / (2 * a), top / a]
    rows, values = [], []
    for place in places:
        z = a * place
        rows.append([height * pieces(lambda b, z=z, n=n: (z - b) * b**n, [0, z]) for n in (0, 1)])
        values.append(p * place**2 / 2 + k * abs(place) ** 3 / 6)
    g = mp.lu_solve(mp.matrix(rows), mp.matrix(values))
    return height * pieces(lambda b: (g[0] + g[1] * b) ** 2, [0, top])


def _unit_cost(a: Any, height: Any) -> Any:
    """The squared norm in H_a of a unit of curvature, per unit of length."""
    return _represented(a, height, mp.mpf(1), 0) * abs(a) * height


def _projected() -> Verification:
    """(33) and (34) for f'' = p + k|u| and biases uniform on [0, B]."""
    a, p, k = real_symbols("a p k")
    length = B / Abs(a)
    total = B * (p**2 * length + p * k * length**2 + k**2 * length**3 / 3)
    formula = Formula("norm of the projection to H_a", (a, p, k, B), total / Abs(a) ** 3)

    def oracle(a: Any, p: Any, k: Any, B: Any) -> Any:
        return _represented(a, 1 / B, p, k)

    claim = Claim(formula, "representation found at two places", oracle, sample(formula, 3))
    return _against((claim,), total / Abs(a))


def _split() -> tuple[Verification, Verification, Verification]:
    """(37), (38), (39) at one u for two slopes, of densities m1, m2 and probabilities q1, q2."""
    a1, a2, F, beta1, beta2 = real_symbols("a1 a2 F beta1 beta2")
    m1, m2, q1, q2 = sp.symbols("m1 m2 q1 q2", positive=True)
    law = (a1, a2, m1, m2, q1, q2)

    def objective(n: int) -> sp.Expr:
        first, second = q1 * beta1**2 / (m1 * Abs(a1) ** n), q2 * beta2**2 / (m2 * Abs(a2) ** n)
        return first + second

    def weight(n: int) -> sp.Expr:
        return q1 * Abs(a1) ** n * m1 + q2 * Abs(a2) ** n * m2

    def cost_of_split(
        beta1: Any, beta2: Any, a1: Any, a2: Any, m1: Any, m2: Any, q1: Any, q2: Any
    ) -> Any:
        return q1 * beta1**2 * _unit_cost(a1, m1) + q2 * beta2**2 * _unit_cost(a2, m2)

    def stationary(F: Any, a1: Any, a2: Any, m1: Any, m2: Any, q1: Any, q2: Any) -> Any:
        first, second = 2 * _unit_cost(a1, m1), 2 * _unit_cost(a2, m2)
        lagrange = mp.matrix([[first, 0, 1], [0, second, 1], [q1, q2, 0]])
        return mp.lu_solve(lagrange, mp.matrix([0, 0, F]))[0]

    def vertex(F: Any, q1: Any, q2: Any, **law: Any) -> Any:
        """The minimum of the parabola through the costs of three admissible splits."""
        left, mid, right = (
            cost_of_split(t, (F - q1 * t) / q2, q1=q1, q2=q2, **law) for t in (-1, 0, 1)
        )
        slope, bend = (right - left) / 2, (right + left) / 2 - mid
        return mid - slope**2 / (4 * bend)

    def verification(
        name: str,
        args: tuple[sp.Symbol, ...],
        at: Callable[[int], sp.Expr],
        route: str,
        oracle: Any,
    ) -> Verification:
        formula = Formula(name, (*args, *law), at(3))
        return _against((Claim(formula, route, oracle, sample(formula, 3)),), at(1))

    return (
        verification(
            "cost of a split", (beta1, beta2), objective, "norms in each H_a", cost_of_split
        ),
        verification(
            "the cheapest f_a''",
            (F,),
            lambda n: Abs(a1) ** n * m1 * F / weight(n),
            "Lagrange's equations",
            stationary,
        ),
        verification(
            "the least cost", (F,), lambda n: F**2 / weight(n), "parabola of splits", vertex
        ),
    )


def _pairs() -> Verification:
    """Theorem 5 for uniform weights and |x|, |y| <= B/A: <K(., x), K(., y)> has to be K(x, y).

    There f'' = nu |u - x|/2, f' and f differ from those of the integral by E[a^2] x/4 and E[b^2]/4.
    """
    curvature_part = (A**2 * x * y + B**2) / 12 + A**3 * Abs(x - y) ** 3 / (96 * B)
    affine = A**2 * x * y / 12 + B**2 / 12
    formula = Formula("inner product of two sections", (x, y, A, B), curvature_part + affine)
    tail = 2 * edge**3 / 3 + 2 * edge * x * y / 5
    among = 2 * edge**3 / 3 + 2 * edge * x * y + Abs(x - y) ** 3 / 3
    printed = A**5 / (64 * B) * (among + tail)

    def oracle(x: Any, y: Any, A: Any, B: Any) -> Any:
        return biases_first(ramp, x, y, A, B)

    return _against((Claim(formula, "mean over units", oracle, INSIDE), _not_cubic()), printed)


def _not_cubic() -> Claim:
    """Beyond |u| = B/A the curvature of K(., y) decays like u^(-3): it is no cubic spline."""
    expr = A**3 / (8 * B) * (edge / u) ** 4 * Abs(u - y) / 2
    formula = Formula("curvature of a section beyond B/A", (u, y, A, B), expr)

    def oracle(u: Any, y: Any, A: Any, B: Any) -> Any:
        with mp.workdps(110):  # second differences lose two thirds of the digits
            h = mp.mpf(10) ** -30
            values = [biases_first(ramp, u + n * h, y, A, B) for n in (-1, 0, 1)]
            return (values[0] - 2 * values[1] + values[2]) / h**2

    points = ({"u": "1.7", "y": "0.3", "A": "1.2", "B": "0.9"}, {"u": -3, "y": -2, "A": 1, "B": 1})
    return Claim(formula, "second differences of the mean over units", oracle, points)


def _parabola() -> Verification:
    """(25) for slopes 1 and -1, biases uniform on [-B, B] and f = c0 + c1 x + c2 x^2 there."""
    c = real_symbols("c0 c1 c2")
    curvature_part = 16 * B**2 * c[2] ** 2
    affine = 4 * c[1] ** 2 + 12 * (c[0] - B**2 * c[2]) ** 2 / B**2
    formula = Formula("norm of a parabola", (*c, B), curvature_part + affine)

    def oracle(c0: Any, c1: Any, c2: Any, B: Any) -> Any:
        """The least E[g^2] of all g, quadratic in b for each slope, with f(x) = E[g [ax - b]_+]."""
        powers = [(a, n) for a in (1, -1) for n in range(3)]
        places = [B * mp.mpf(k) / 2 for k in range(-2, 3)]  # f is of degree four at most
        system, values = mp.zeros(11), mp.zeros(11, 1)
        for i, (a, n) in enumerate(powers):
            for j, (slope, m) in enumerate(powers):
                if a == slope and (n + m) % 2 == 0:
                    system[i, j] = B ** (n + m) / (2 * (n + m + 1))
            for j, at in enumerate(places):
                reach = pieces(lambda b, z=a * at, n=n: (z - b) * b**n, [-B, a * at]) / (4 * B)
                system[i, 6 + j] = system[6 + j, i] = reach
        for j, at in enumerate(places):
            values[6 + j] = c0 + c1 * at + c2 * at**2
        g = mp.lu_solve(system, values)[:6]
        return sum(g[i] * system[i, j] * g[j] for i in range(6) for j in range(6))

    claim = Claim(formula, "least mean square of a representation", oracle, sample(formula, 3))
    return _against((claim,), curvature_part)


def _tangent() -> Claim:
    """(28) for slopes 1, biases uniform on [0, 1] and K_NTK(., x), 0 < x < 1."""
    at = sp.Symbol("x", positive=True)
    formula = Formula("tangent norm of a section", (at, ec2), at**3 / 3 + ec2 * (at + at**3))

    def oracle(x: Any, ec2: Any) -> Any:
        ramps = pieces(lambda b: (x - b) ** 2, [0, x])
        return ramps + ec2 * (1 + x**2) * pieces(lambda b: mp.mpf(1), [0, x])

    points = ({"x": "0.6", "ec2": "1/3"}, {"x": "0.9", "ec2": "1.7"})
    return Claim(formula, "K_NTK(x, x)", oracle, points)


def _any_split() -> Verification:
    """Corollary 6: the same section with p u^2 moved from f2 to f1, which always costs more."""
    at, p = sp.Symbol("x", positive=True), real_symbols("p")[0]
    least = at**3 / 3 + ec2 * (at + at**3)
    more = 4 * p**2 + 4 * p**2 / (3 * ec2)
    formula = Formula("tangent cost of a split", (at, p, ec2), least + more)
    first = at**4 / 4 - 7 * at**5 / 60 + p * (at**2 - at**4 / 6) + 4 * p**2 / 3
    printed = first + ec2**3 * (at + at**5 / 3) - 2 * p * ec2**2 * at**2 + 4 * p**2 * ec2 / 3

    def oracle(x: Any, p: Any, ec2: Any) -> Any:
        def active(u: Any) -> Any:
            return (x - u + 2 * p) ** 2 + ((ec2 - 2 * p * u) ** 2 + (ec2 * x) ** 2) / ec2

        def beyond(u: Any) -> Any:
            return (2 * p) ** 2 + (2 * p * u) ** 2 / ec2

        return pieces(active, [0, x]) + pieces(beyond, [x, 1])

    points = ({"x": "0.6", "p": "0.7", "ec2": "1/3"}, {"x": "0.9", "p": -2, "ec2": "1.7"})
    claim = Claim(formula, "f1'', f2' and (f3/u)' of that split", oracle, points)
    return _against((claim, _tangent()), printed)


_projection, _ntk, (_cost, _cheapest, _least) = _projected(), _any_split(), _split()
ROUTES: dict[str, Verification] = {
    "univariate-relu/theorem-5": _pairs(),
    "univariate-relu/25": _parabola(),
    "univariate-relu/corollary-6": _ntk,
    "univariate-relu/28": _ntk,
    "univariate-relu/30": holds(_taylor()),
    "univariate-relu/32": _gap(),
    "univariate-relu/33": _projection,
    "univariate-relu/34": _projection,
    "univariate-relu/36": _cost,
    "univariate-relu/37": _cost,
    "univariate-relu/38": _cheapest,
    "univariate-relu/39": _least,
}

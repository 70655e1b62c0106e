"""Metrics of learned kernels, (F.5) to (F.11), (F.20) and (F.21): against kernels and features.

These statements hold for any kernel, so a claim's statement and its oracle start from the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, sample
from analytic.checks.oracles import determinant
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.formula import Formula
from analytic.ledger.verification import Verification, dot, holds, metric_along, real_symbols

__all__ = ["ROUTES"]

Vector = Sequence[Any]
Kernel = Callable[[Vector, Vector], Any]
KernelOf = Callable[[dict[str, Any]], Kernel]  # the kernel, from the values of the arguments

x, u, v = (real_symbols(f"{name}1 {name}2") for name in "xuv")
M, ROOT, Q = (real_symbols(f"{name}11 {name}12 {name}22") for name in "msq")
c, t, h0, h1, h2 = real_symbols("c t h0 h1 h2")
eps = sp.Symbol("eps", positive=True)
PAIR = (
    real_symbols("a1 a2"),
    real_symbols("b1 b2"),
)  # a positive pair; (F.19) sums over pairs of anchors


def _vector(values: dict[str, Any], name: str, d: int = 2) -> list[Any]:
    return [values[f"{name}{k}"] for k in range(1, d + 1)]


def _times(S: Vector, a: Vector) -> list[Any]:
    """A symmetric matrix of the plane, as its entries 11, 12 and 22, times a vector."""
    return [S[0] * a[0] + S[1] * a[1], S[1] * a[0] + S[2] * a[1]]


def _by_kernel(kernel: Kernel) -> sp.Expr:
    """u.g.v by (F.5): half of d_u d_v k(x, x), less d_u d_v k(x, y) by y at y = x."""
    p, q = real_symbols("p q")
    displaced = [a + p * b + q * e for a, b, e in zip(x, u, v, strict=True)]
    one, both = kernel(x, displaced), kernel(displaced, displaced)
    return sp.diff(both / 2 - one, p, q).xreplace({p: sp.S.Zero, q: sp.S.Zero})


def _by_differences(name: str, args: Vector, expr: sp.Expr, kernel_of: KernelOf) -> Claim:
    """A claim about u.g.v, with differences of the two-point kernel in both arguments as oracle."""
    formula = Formula(name, (*args, *x, *u, *v), expr)

    def oracle(**values: Any) -> Any:
        return metric_along(kernel_of(values), *(_vector(values, letter) for letter in "xuv"))

    return Claim(formula, "differences of the kernel", oracle, sample(formula, 2))


def _cubic(bias: Any) -> Kernel:
    """A kernel that is not translation-invariant."""
    return lambda a, b: (bias + dot(a, b)) ** 3


def _from_features() -> Claim:
    """(F.5) for (c^2 + x.y)^2, whose features are monomials, against their derivatives."""
    expr = _by_kernel(lambda a, b: (c**2 + dot(a, b)) ** 2)
    formula = Formula("(F.5), by features", (c, *x, *u, *v), expr)

    def oracle(c: Any, **values: Any) -> Any:
        at, *ways = (_vector(values, letter) for letter in "xuv")

        def features(t: Any, way: Vector) -> list[Any]:
            a, b = (start + t * step for start, step in zip(at, way, strict=True))
            root = mp.sqrt(2)
            return [root * c * a, root * c * b, a**2, b**2, root * a * b]

        first, second = (
            [mp.diff(lambda t, way=way, k=k: features(t, way)[k], 0) for k in range(5)]
            for way in ways
        )
        return dot(first, second)

    return Claim(formula, "derivatives of the features", oracle, sample(formula, 2))


def _from_kernel() -> Claim:
    """(F.5) for a kernel of infinitely many features."""

    def kernel_of(values: dict[str, Any]) -> Kernel:
        return lambda a, b: mp.exp(dot(a, b)) / (1 + dot(a, a) + dot(b, b))

    expr = _by_kernel(lambda a, b: sp.exp(dot(a, b)) / (1 + dot(a, a) + dot(b, b)))
    return _by_differences("(F.5)", (), expr, kernel_of)


def _distance(S: Vector, a: Vector, b: Vector) -> Any:
    """The squared Mahalanobis distance (F.2)."""
    apart = [one - two for one, two in zip(a, b, strict=True)]
    return dot(apart, _times(S, apart))


def _translation(*args: sp.Symbol, h: sp.Expr) -> tuple[Claim, Claim]:
    """(F.6) and (F.7) for a profile h(t)."""
    profile = compile_mpmath((t, *args), h)

    def kernel_of(values: dict[str, Any]) -> Kernel:
        at, numbers = ([values[symbol.name] for symbol in some] for some in (M, args))
        return lambda a, b: profile(_distance(at, a, b), *numbers)

    by_kernel = _by_kernel(lambda a, b: h.subs(t, _distance(M, a, b)))
    flat = -2 * sp.diff(h, t).subs(t, 0) * dot(u, _times(M, v))
    return (
        _by_differences("(F.6)", (*args, *M), by_kernel, kernel_of),
        _by_differences("(F.7)", (*args, *M), flat, kernel_of),
    )


# The 2-jet of a general profile h, on which alone the metric depends; and a smoothed Laplace kernel.
JET, SMOOTHED = h0 + h1 * t + h2 * t**2, sp.exp(-sp.sqrt(t + eps**2))


def _transformed(name: str, expr: sp.Expr) -> Claim:
    """(F.9) or (F.10) for the cubic kernel of M^(1/2) x, whose entries are the arguments."""

    def kernel_of(values: dict[str, Any]) -> Kernel:
        S, base = [values[symbol.name] for symbol in ROOT], _cubic(values["c"])
        return lambda a, b: base(_times(S, a), _times(S, b))

    return _by_differences(name, (c, *ROOT), expr, kernel_of)


def _congruent() -> sp.Expr:
    """(F.10): the cubic kernel has the metric 3 b^2 I + 6 b x x^T, b = c + |x|^2, taken at M^(1/2) x."""
    at, one, two = (_times(ROOT, a) for a in (x, u, v))
    b = c + dot(at, at)
    return 3 * b**2 * dot(one, two) + 6 * b * dot(at, one) * dot(at, two)


def _volume(d: int) -> Claim:
    """(F.11): det(M) det(g) in symbols, against the determinant of the transformed kernel's metric."""
    at = real_symbols(" ".join(f"x{k}" for k in range(1, d + 1)))
    names = {(i, j): f"s{i + 1}{j + 1}" for j in range(d) for i in range(j + 1)}
    S = sp.Matrix(d, d, lambda i, j: sp.Symbol(names[min(i, j), max(i, j)], real=True))
    far = S * sp.Matrix(at)
    b = c + far.dot(far)
    base = 3**d * b ** (2 * d - 1) * (b + 2 * far.dot(far))
    symbols = tuple(sp.Symbol(name, real=True) for name in names.values())
    formula = Formula(f"(F.11), d={d}", (c, *symbols, *at), S.det() ** 2 * base)

    def oracle(**values: Any) -> Any:
        rows = [[values[names[min(i, j), max(i, j)]] for j in range(d)] for i in range(d)]
        kernel = _cubic(values["c"])

        def transformed_kernel(a: Vector, b: Vector) -> Any:
            return kernel([dot(row, a) for row in rows], [dot(row, b) for row in rows])

        here, units = _vector(values, "x", d), [[int(i == j) for j in range(d)] for i in range(d)]
        return determinant(
            [[metric_along(transformed_kernel, here, one, two) for two in units] for one in units]
        )

    return Claim(formula, "determinant of the differences", oracle, sample(formula, 2))


def _cauchy(a: Vector, b: Vector) -> Any:
    apart = [one - two for one, two in zip(a, b, strict=True)]
    return 1 / (1 + dot(apart, apart))


def _quadratic(anchors: Sequence[Vector], weights: Vector) -> Kernel:
    """(F.19) for the Cauchy kernel, one positive pair and any symmetric Q."""

    def kernel(a: Vector, b: Vector) -> Any:
        left, right = ([_cauchy(one, anchor) for anchor in anchors] for one in (a, b))
        return dot(left, _times(weights, right))

    return kernel


def _self_supervised(name: str, expr: sp.Expr) -> Claim:
    def kernel_of(values: dict[str, Any]) -> Kernel:
        anchors = [_vector(values, name) for name in "ab"]
        return _quadratic(anchors, [values[symbol.name] for symbol in Q])

    return _by_differences(name, (*PAIR[0], *PAIR[1], *Q), expr, kernel_of)


def _gradients() -> sp.Expr:
    """(F.21): the base kernel's derivatives along u and v at both anchors, with Q between them."""

    def slopes(way: Vector) -> list[sp.Expr]:
        apart = [[e - a for a, e in zip(anchor, x, strict=True)] for anchor in PAIR]
        return [-2 * dot(far, way) / (1 + dot(far, far)) ** 2 for far in apart]

    return dot(slopes(u), _times(Q, slopes(v)))


ROUTES: dict[str, Verification] = {
    "curvature/F.5": holds(_from_features(), _from_kernel()),
    "curvature/F.6-F.7": holds(*_translation(h0, h1, h2, h=JET), *_translation(eps, h=SMOOTHED)),
    "curvature/F.9-F.10": holds(
        _transformed("(F.9)", _by_kernel(lambda a, b: _cubic(c)(_times(ROOT, a), _times(ROOT, b)))),
        _transformed("(F.10)", _congruent()),
    ),
    "curvature/F.11": holds(_volume(2), _volume(3)),
    "curvature/F.20-F.21": holds(
        _self_supervised("(F.20)", _by_kernel(_quadratic(PAIR, Q))),
        _self_supervised("(F.21)", _gradients()),
    ),
}

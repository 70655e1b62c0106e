"""Are the jets of sums, products and layers of kernels those that differentiation in coordinates finds?"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
import sympy as sp
from mpmath import mp, mpf
from sympy import Rational

from analytic.activations import erf, exponential, gaussian, gelu, monomial, sine
from analytic.checks.kernel_oracles import metric_by_differences
from analytic.checks.oracles import Vector
from analytic.expressions.symbols import V, d, s
from analytic.geometry.kernel_jet import Dual, KernelJet, LayerMoments, linear
from analytic.geometry.layer_moments import textbook_layer_moments
from analytic.geometry.radial import RadialMetric

Kernel = Callable[[Any, Any, Any], Any]  # of x.x, x.y and y.y
DIGITS = 40
POINTS = (Rational(4, 49), Rational(9, 4))  # values of s
DIRECTION = (Rational(3, 5), Rational(4, 5))

KERNELS: dict[str, Kernel] = {
    "linear": lambda xx, xy, yy: xy,
    "quadratic": lambda xx, xy, yy: xy**2 + 3 * xy + 1,
    "exponential": lambda xx, xy, yy: mp.exp(xy / 3),
    "rational": lambda xx, xy, yy: 1 / (1 + xx + yy - xy),
    "weighted": lambda xx, xy, yy: (1 + xx) * (1 + yy) * (2 + xy),
    "indefinite": lambda xx, xy, yy: xx + yy + xx * yy - xy / 5,
}
LAYERS = (erf, exponential(Rational(1, 2)), gaussian, monomial(3), sine(Rational(4, 5)), gelu)
kernels = pytest.mark.parametrize("name", KERNELS)
DERIVATIVES = [
    sp.symbols(f"{name}0:3") for name in "Tab"
]  # each with theta = s d/ds once and twice


def _definitions() -> list[sp.Expr]:
    """Every number of a jet by the formula of its docstring, and theta of it."""
    log_s = sp.Symbol("l", real=True)
    T, a, b = (sp.Function(name)(log_s) for name in "Tab")
    norm = sp.exp(log_s)
    slope = T.diff(log_s) / norm  # dT/ds
    t, alpha = (f.diff(log_s) / f for f in (T, a))
    gamma, pi = alpha - norm * b / (2 * a), 1 - slope / a
    excess = (a + norm * b) / a - norm * slope**2 / (T * a)
    values = {
        "T": T, "t": t, "A": norm * a, "alpha": alpha, "gamma": gamma, "pi": pi, "one_minus_pi": 1 - pi,
        "beta": alpha - gamma, "excess": excess,
    }  # fmt: skip
    orders = [(f.diff(log_s, n), x[n]) for n in (2, 1, 0) for f, x in zip((T, a, b), DERIVATIVES)]
    both = [(v, v.diff(log_s)) for v in (values[f.name] for f in fields(KernelJet))]
    return [e.subs(orders).subs(norm, s) for pair in both for e in pair]


DEFINED = _definitions()


def kernel_jet(derivatives: Sequence[Sequence[sp.Expr]], at: sp.Expr) -> KernelJet:
    """From T, a and b, each with theta of it once and twice."""
    symbols = {
        x: v for names, values in zip(DERIVATIVES, derivatives) for x, v in zip(names, values)
    }
    numbers = (expr.xreplace(symbols | {s: at}) for expr in DEFINED)
    duals = {f.name: Dual(next(numbers), next(numbers)) for f in fields(KernelJet)}
    values_only = [f.name for f in fields(KernelJet) if f.type != "Dual"]
    return KernelJet(**duals | {name: duals[name].value for name in values_only})


def on_vectors(kernel: Kernel) -> Callable[[Vector, Vector], Any]:
    return lambda x, y: kernel(mp.fdot(x, x), mp.fdot(x, y), mp.fdot(y, y))


@cache
def derivatives_of(kernel: Kernel, at: sp.Rational) -> list[list[sp.Float]]:
    """By differences in coordinates, along the ray x = c u; then theta = (c/2) d/dc."""
    with mp.workdps(DIGITS + 15):
        norm = mpf(at.p) / at.q
        c, (u, v) = mp.sqrt(norm), (mpf(part.p) / part.q for part in DIRECTION)
        metric = metric_by_differences(on_vectors(kernel), [c * u, c * v])
        g, dg, ddg = (np.array(part) for part in (metric.g, metric.dg, metric.ddg))
        orders = g, dg @ [u, v], ddg @ [u, v] @ [u, v]
        across = [m[0, 0] - u / v * m[0, 1] for m in orders]
        mixed = [m[0, 1] / (u * v) for m in orders]  # s b
        diagonal = [mp.diff(lambda x: kernel(x * x, x * x, x * x), c, n) for n in range(3)]
        T, a, sb = (
            (f, c / 2 * f1, c / 4 * (f1 + c * f2)) for f, f1, f2 in (diagonal, across, mixed)
        )
        b = [sb[0] / norm, (sb[1] - sb[0]) / norm, (sb[2] - 2 * sb[1] + sb[0]) / norm]
        return [[sp.Float(x, mp.dps) for x in part] for part in (T, a, b)]


def jet_of(kernel: Kernel, at: sp.Rational) -> KernelJet:
    return kernel_jet(derivatives_of(kernel, at), at)


def equal(value: Any, expected: Any) -> bool:
    """Exactly, or to 40 digits; a number that vanishes is measured against 1."""
    if isinstance(value, Dual):
        return equal(value.value, expected.value) and equal(value.rate, expected.rate)
    gap = sp.sympify(value) - expected
    return gap == 0 if gap.is_Rational else bool(abs(gap) < 10**-DIGITS * (1 + abs(expected)))


def differences(jet: KernelJet, expected: KernelJet) -> list[tuple]:
    pairs = [(f.name, getattr(jet, f.name), getattr(expected, f.name)) for f in fields(KernelJet)]
    return [pair for pair in pairs if not equal(*pair[1:])]


def wrong(jet: KernelJet, kernel: Kernel, at: sp.Rational) -> list[tuple]:
    return differences(jet, jet_of(kernel, at))


@pytest.mark.parametrize(
    "names", [*combinations_with_replacement(KERNELS, 2)], ids=lambda names: "-".join(names)
)
def test_sums_and_products_in_either_order(names) -> None:
    one, two = (KERNELS[name] for name in names)

    def total(*dots: Any) -> Any:
        return one(*dots) + two(*dots)

    def product(*dots: Any) -> Any:
        return one(*dots) * two(*dots)

    for at in POINTS:
        p, q = jet_of(one, at), jet_of(two, at)
        assert wrong(p + q, total, at) == wrong(q + p, total, at) == []
        assert wrong(p * q, product, at) == wrong(q * p, product, at) == []


@kernels
def test_factors_and_constants(name) -> None:
    kernel, factor, level = KERNELS[name], Rational(7, 3), Rational(2, 5)
    for at in POINTS:
        here = jet_of(kernel, at)
        assert wrong(here.scaled(factor), lambda *dots: mpf(7) / 3 * kernel(*dots), at) == []
        assert wrong(here.plus_constant(level), lambda *dots: mpf(2) / 5 + kernel(*dots), at) == []
        assert wrong(here + jet_of(KERNELS["weighted"], at).scaled(0), kernel, at) == []


def test_the_linear_kernel() -> None:
    for at in POINTS:
        assert wrong(linear(at), KERNELS["linear"], at) == []


@pytest.mark.parametrize("act", LAYERS, ids=lambda act: act.name)
@pytest.mark.parametrize("name", ["linear", "quadratic", "exponential"])
def test_layers(name, act) -> None:
    kernel = KERNELS[name]

    def composed(xx: Any, xy: Any, yy: Any) -> Any:
        return act.kernel.mpmath(kernel(xx, xx, xx), kernel(xx, xy, yy), kernel(yy, yy, yy))

    for at in POINTS:
        here = jet_of(kernel, at)
        assert wrong(here.through(layer_at(act, here.T)), composed, at) == []


def layer_at(act: Any, variance: sp.Expr) -> LayerMoments:
    exprs = (sp.sympify(getattr(textbook_layer_moments(act), f.name)) for f in fields(LayerMoments))
    return LayerMoments(*(sp.N(e.subs(V, variance), DIGITS + 15) for e in exprs))


@kernels
def test_the_eigenvalue_ratio_and_the_curvature_are_those_of_the_metric(name) -> None:
    kernel = KERNELS[name]
    for at, size in ((POINTS[0], 2), (POINTS[1], 3)):
        here, (_, (a, *_), (b, *_)) = jet_of(kernel, at), derivatives_of(kernel, at)
        assert equal(here.eigenvalue_ratio, (a + at * b) / a)
        with mp.workdps(DIGITS + 15):
            unit = [mpf(k) / (7 if size == 3 else 5) for k in ((3, -4), (2, -3, 6))[size - 2]]
            metric = metric_by_differences(
                on_vectors(kernel), [mp.sqrt(mpf(at.p) / at.q) * v for v in unit]
            )
            assert equal(here.ricci(size), sp.Float(metric.scalar(), mp.dps))


def polynomial(rng: np.random.Generator) -> Kernel:
    """9 + xy^3 and symmetric monomials with coefficients k/7, |k| <= 5."""
    w = [Rational(int(k), 7) for k in rng.integers(-5, 6, size=5)]
    return lambda xx, xy, yy: (
        9 + w[0] * xy + w[1] * (xx + yy) + w[2] * xy**2 + w[3] * xx * yy + w[4] * xy * (xx + yy) + xy**3
    )  # fmt: skip


def exact_coefficients(kernel: Kernel) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """T, a and b of a polynomial kernel as polynomials in s, by derivatives in coordinates."""
    (x1, x2), (y1, y2), c = sp.symbols("x1:3"), sp.symbols("y1:3"), sp.Symbol("c", positive=True)
    k = sp.expand(kernel(x1**2 + x2**2, x1 * y1 + x2 * y2, y1**2 + y2**2))
    point = {y1: x1, y2: x2, x1: c * DIRECTION[0], x2: c * DIRECTION[1]}
    across, mixed = (sp.diff(k, x1, y).subs({y1: x1, y2: x2}).subs(point) for y in (y1, y2))
    b = mixed / (point[x1] * point[x2])
    coefficients = (kernel(c**2, c**2, c**2), across - b * point[x1] ** 2, b)
    return tuple(sp.expand(sp.expand(f).subs(c, sp.sqrt(s))) for f in coefficients)


def exact_jet(kernel: Kernel, at: sp.Rational) -> KernelJet:
    def orders(f: sp.Expr) -> list[sp.Rational]:
        once = sp.expand(s * sp.diff(f, s))
        return [sp.sympify(g).subs(s, at) for g in (f, once, s * sp.diff(once, s))]

    return kernel_jet([orders(f) for f in exact_coefficients(kernel)], at)


@pytest.mark.parametrize("seed", range(3))
def test_random_polynomial_kernels_without_rounding(seed) -> None:
    rng = np.random.default_rng(seed)
    one, two = polynomial(rng), polynomial(rng)

    def mixed(*dots: Any) -> Any:
        return (2 * one(*dots) + two(*dots)) * two(*dots) + 1

    for at in POINTS:
        p, q = exact_jet(one, at), exact_jet(two, at)
        assert p.scaled(1) == p.plus_constant(0) == p
        assert p + q == q + p
        jet, (_, a, b) = ((p.scaled(2) + q) * q).plus_constant(1), exact_coefficients(mixed)
        assert differences(jet, exact_jet(mixed, at)) == []
        radial = RadialMetric(a, b).scalar_curvature().subs(s, at)
        for size in (1, 2, 3, 40):
            assert jet.ricci(size) == radial.subs(d, size)
        assert jet.ricci(2).is_Rational


def test_the_cauchy_schwarz_excess_is_positive() -> None:
    """Kernels of networks are positive definite, so the excess cannot fall below 0 in any layer."""
    for act in (erf, gelu, monomial(2)):
        here = linear(Rational(9, 4)).plus_constant(Rational(1, 3))
        for _ in range(4):
            here = here.through(layer_at(act, here.T)).plus_constant(Rational(1, 10))
            assert here.excess > 0

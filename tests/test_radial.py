"""Is the curvature of a(s) I + b(s) x x^T right in every dimension?"""

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

from analytic.expressions.symbols import d, s
from analytic.geometry.radial import RadialMetric, origin_curvature
from analytic.geometry.riemann import curvature_at

X = sp.symbols("x1:5", real=True)
rho = sp.Symbol("rho", positive=True)
f = sp.Function("f")(s)
DIMENSIONS = (2, 3, 4)


def random_metric(rng) -> RadialMetric:
    """Cubics a, b with coefficients k/7, |k| <= 5; 3 more in a(0) keep a > 0 for s < 1."""
    a, b = (sp.Poly(list(map(int, row)), s).as_expr() / 7 for row in rng.integers(-5, 6, (2, 4)))
    return RadialMetric(a + 3, b)


def random_point(rng, dimension) -> tuple[sp.Rational, ...]:
    return tuple(sp.Rational(int(k), 11) for k in rng.integers(1, 6, size=dimension))


def square(point) -> sp.Expr:
    return sum(c**2 for c in point)


def rescaled(metric, g) -> RadialMetric:
    """The same space in the chart y with x = y g(|y|^2): dx = g dy + 2 g' y (y . dy)."""
    a, b = (c.subs(s, s * g**2).doit() for c in (metric.a, metric.b))
    slope = sp.diff(g, s)
    cross = 4 * g * slope + 4 * s * slope**2
    return RadialMetric(a * g**2, a * cross + b * g**2 * (g + 2 * s * slope) ** 2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_curvature_is_that_of_the_definition_in_exact_rationals(dimension, seed) -> None:
    rng = np.random.default_rng([dimension, seed])
    metric, chart, point = random_metric(rng), X[:dimension], random_point(rng, dimension)
    scalar = curvature_at(metric.at(chart), chart, dict(zip(chart, point))).scalar
    assert isinstance(scalar, Fraction)  # so the comparison below is exact
    assert scalar != 0
    assert metric.scalar_curvature().subs({s: square(point), d: dimension}) == scalar


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_curvature_at_the_origin_is_that_of_the_definition(dimension) -> None:
    metric, chart = random_metric(np.random.default_rng(dimension)), X[:dimension]
    scalar = curvature_at(metric.at(chart), chart, dict.fromkeys(chart, 0)).scalar
    assert metric.scalar_curvature().subs({s: 0, d: dimension}) == scalar


def test_curvature_has_a_limit_at_an_origin_where_the_metric_rises_as_r() -> None:
    a0, a1, a2, c, c1 = sp.symbols("a0 a1 a2 c c1", positive=True)
    r = sp.sqrt(s)
    a = a0 + a1 * r + a2 * s
    metric = RadialMetric(a, 2 * (sp.diff(a, s) - c - c1 * r))
    limit = sp.limit(metric.scalar_curvature(), s, 0)
    assert sp.simplify(limit - origin_curvature(a0, c, a1)) == 0


SPHERES = {
    "graph of a hemisphere": (RadialMetric(sp.S.One, 1 / (rho**2 - s)), 1),
    "stereographic": (RadialMetric(4 * rho**4 / (rho**2 + s) ** 2, sp.S.Zero), 1),
    "Poincare ball": (RadialMetric(4 * rho**4 / (rho**2 - s) ** 2, sp.S.Zero), -1),
    "graph of a hyperboloid": (RadialMetric(sp.S.One, -1 / (rho**2 + s)), -1),
}


@pytest.mark.parametrize(("metric", "sign"), SPHERES.values(), ids=SPHERES)
def test_a_space_of_constant_curvature_has_d_d_minus_1_over_its_squared_radius(
    metric, sign
) -> None:
    assert sp.simplify(metric.scalar_curvature() - sign * d * (d - 1) / rho**2) == 0


def test_flat_space_is_flat_in_any_radial_chart_and_any_dimension() -> None:
    flat = rescaled(RadialMetric(sp.S.One, sp.S.Zero), f)
    assert sp.simplify(flat.scalar_curvature()) == 0


def test_a_chart_does_not_move_the_curvature() -> None:
    stretched = rescaled(SPHERES["stereographic"][0], 1 + s / 3)
    assert sp.simplify(stretched.scalar_curvature() - d * (d - 1) / rho**2) == 0


def test_a_cone_is_flat_as_a_surface_and_curved_beyond() -> None:
    """dr^2 + k r^2 dOmega^2 is a cone: R = (d - 1)(d - 2)(1/k - 1)/r^2."""
    k = sp.Symbol("k", positive=True)
    cone = RadialMetric(k, (1 - k) / s)
    assert sp.simplify(cone.scalar_curvature() - (d - 1) * (d - 2) * (1 / k - 1) / s) == 0


def test_a_curve_has_no_curvature() -> None:
    metric = random_metric(np.random.default_rng(7))
    assert metric.scalar_curvature().subs(d, 1) == 0


def test_a_constant_factor_divides_the_curvature() -> None:
    metric = random_metric(np.random.default_rng(8))
    larger = RadialMetric(9 * metric.a, 9 * metric.b)
    assert sp.simplify(9 * larger.scalar_curvature() - metric.scalar_curvature()) == 0


@pytest.mark.parametrize("dimension", [1, *DIMENSIONS])
def test_matrix_determinant_inverse_and_eigenvalues_agree(dimension) -> None:
    rng = np.random.default_rng(dimension)
    metric, point = random_metric(rng), random_point(rng, dimension)
    values = {s: square(point), d: dimension}
    g = metric.at(point)
    x = sp.Matrix(point)
    assert g == metric.a.subs(values) * sp.eye(dimension) + metric.b.subs(values) * x * x.T
    assert metric.determinant().subs(values) == g.det()
    assert metric.inverse().at(point) == g.inv()
    assert g * x == metric.along.subs(values) * x

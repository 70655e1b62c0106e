"""Is curvature right on known spaces, lawful on random ones, and alert to known mistakes?"""

from itertools import combinations_with_replacement

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

from analytic.geometry.riemann import (
    christoffel,
    curvature_at,
    curvature_of_jet,
    hessian_curvature,
    inverse,
    ricci,
    riemann,
    riemann_lowered,
    scalar_curvature,
)

X = x, y, z, a, b = sp.symbols("x y z a b", real=True)
r, t, u, v = sp.symbols("r t u v", positive=True)


def pullback(embedding, chart) -> sp.Matrix:
    jacobian = sp.Matrix(embedding).jacobian(chart)
    return jacobian.T * jacobian


def sphere(dimension) -> sp.Matrix:
    """The unit sphere as the graph of its last Cartesian coordinate."""
    chart = X[:dimension]
    return pullback([*chart, sp.sqrt(1 - sum(c**2 for c in chart))], chart)


def polynomial(rng, chart, *degrees) -> sp.Expr:
    """Random coefficients k/7 with |k| <= 5 on every monomial of the given degrees."""
    monomials = [sp.prod(c) for n in degrees for c in combinations_with_replacement(chart, n)]
    return sum(int(rng.integers(-5, 6)) * monomial for monomial in monomials) / 7


def random_metric(rng, chart, *degrees) -> sp.Matrix:
    half = sp.Matrix(len(chart), len(chart), lambda i, j: polynomial(rng, chart, *degrees))
    return 7 * sp.eye(len(chart)) + half + half.T


def random_point(rng, chart) -> dict[sp.Symbol, sp.Rational]:
    return {c: sp.Rational(int(rng.integers(1, 6)), 11) for c in chart}


def flipped_scalar_curvature(g, chart) -> sp.Expr:
    """The mistake in the paper's public code: the sign of the Gamma Gamma terms is turned over."""
    gamma = np.array(christoffel(g, chart))
    dgamma = np.array([[[[e.diff(c) for c in chart] for e in f] for f in k] for k in gamma])
    half = np.einsum("kjli->klij", dgamma) - np.einsum("kim,mjl->klij", gamma, gamma)
    return np.einsum("lj,klkj->", inverse(g), half - half.swapaxes(2, 3))


POLAR = sp.diag(1, r**2), (r, t)
SPHERICAL = sp.diag(1, r**2, r**2 * sp.sin(t) ** 2), (r, t, u)
KNOWN = {
    "line": (sp.Matrix([[1 + x**2]]), (x,), 0),
    "plane, polar": (*POLAR, 0),
    "plane, oblique curvilinear": (pullback([u + v**2, v + u * v], (u, v)), (u, v), 0),
    "space, spherical": (*SPHERICAL, 0),
    "2-sphere, graph": (sphere(2), X[:2], 2),
    "3-sphere, graph": (sphere(3), X[:3], 6),
    "hyperbolic half-plane": (sp.eye(2) / v**2, (u, v), -2),
    "hyperbolic half-space": (sp.eye(3) / v**2, (t, u, v), -6),
    "paraboloid": (pullback([x, y, (x**2 + y**2) / 2], X[:2]), X[:2], 2 / (1 + x**2 + y**2) ** 2),
    "catenoid": (sp.cosh(x) ** 2 * sp.eye(2), X[:2], -2 / sp.cosh(x) ** 4),
    "torus": (sp.diag(1, (2 + sp.cos(t)) ** 2), (t, u), 2 * sp.cos(t) / (2 + sp.cos(t))),
}


@pytest.mark.parametrize(("g", "chart", "expected"), KNOWN.values(), ids=KNOWN)
def test_scalar_curvature_of_known_spaces(g, chart, expected) -> None:
    assert sp.simplify(scalar_curvature(g, chart) - expected) == 0


@pytest.mark.parametrize(("g", "chart", "expected"), KNOWN.values(), ids=KNOWN)
def test_oracle_on_known_spaces_to_forty_digits(g, chart, expected) -> None:
    point = random_point(np.random.default_rng(0), chart)
    with mp.workdps(45):
        scalar = sp.sympify(curvature_at(g, chart, point).scalar)
    assert abs(sp.N(scalar - sp.sympify(expected).subs(point), 45)) < 1e-40


@pytest.mark.parametrize("dimension", [2, 3, 4, 5])
def test_unit_spheres_pin_the_sign_and_the_index_order(dimension) -> None:
    chart = X[:dimension]
    at = curvature_at(sphere(dimension), chart, random_point(np.random.default_rng(1), chart))
    outer = np.einsum("ki,lj->klij", at.metric, at.metric)
    assert (at.riemann == outer - outer.swapaxes(2, 3)).all()
    assert (at.ricci == (dimension - 1) * at.metric).all()
    assert at.scalar == dimension * (dimension - 1)


@pytest.mark.parametrize("dimension", [2, 3, 4])
def test_laws_of_the_lowered_riemann_tensor(dimension) -> None:
    rng, chart = np.random.default_rng(dimension), X[:dimension]
    at = curvature_at(random_metric(rng, chart, 1, 2, 3), chart, random_point(rng, chart))
    low = at.riemann
    assert (low != 0).any()
    assert (low == -low.transpose(1, 0, 2, 3)).all()
    assert (low == -low.transpose(0, 1, 3, 2)).all()
    assert (low == low.transpose(2, 3, 0, 1)).all()
    assert (low + low.transpose(0, 2, 3, 1) + low.transpose(0, 3, 1, 2) == 0).all()
    assert (at.ricci == at.ricci.T).all()
    assert (at.metric @ at.inverse == np.eye(dimension)).all()


def test_scalar_curvature_is_invariant_under_a_change_of_coordinates() -> None:
    rng, chart = np.random.default_rng(5), X[:2]
    g, here = random_metric(rng, chart, 1, 2), random_point(rng, chart)
    image = {c: c + polynomial(rng, chart, 2) for c in chart}
    there = {c: e.subs(here) for c, e in image.items()}
    jacobian = sp.Matrix(list(image.values())).jacobian(chart)
    moved = jacobian.T * g.xreplace(image) * jacobian
    assert curvature_at(moved, chart, here).scalar == curvature_at(g, chart, there).scalar


@pytest.mark.parametrize("dimension", [2, 3])
def test_symbolic_tensors_equal_the_oracle_in_every_component(dimension) -> None:
    rng, chart = np.random.default_rng(dimension), X[:dimension]
    g = pullback([*chart, polynomial(rng, chart, 1, 2)], chart)
    point = random_point(rng, chart)
    at = curvature_at(g, chart, point)

    def value(tensor) -> np.ndarray:
        return np.array(tensor.xreplace(point))

    mixed = np.einsum("km,mlij->klij", at.inverse, at.riemann)
    assert (value(inverse(g)) == at.inverse).all()
    assert (value(christoffel(g, chart)) == at.christoffel).all()
    assert (value(riemann(g, chart)) == mixed).all()
    assert (value(riemann_lowered(g, chart)) == at.riemann).all()
    assert (value(ricci(g, chart)) == at.ricci).all()


@pytest.mark.parametrize("seed", range(3))
def test_symbolic_scalar_equals_the_oracle_at_random_points(seed) -> None:
    rng, chart = np.random.default_rng(seed), X[:2]
    g = random_metric(rng, chart, 1, 2, 3)
    symbolic = scalar_curvature(g, chart)
    for point in (random_point(rng, chart) for _ in range(5)):
        assert symbolic.subs(point) == curvature_at(g, chart, point).scalar


def test_oracle_keeps_the_working_precision_of_mpmath() -> None:
    g = sp.Matrix([[sp.erf(x) + 2, x * y / 5], [x * y / 5, sp.sqrt(1 + x**2 + y**2)]])
    with mp.workdps(50):
        at = curvature_at(g, (x, y), {x: mp.mpf("0.3"), y: mp.mpf("0.7")})
        exact = {x: sp.Rational(3, 10), y: sp.Rational(7, 10)}
        error = at.scalar - mp.mpf(sp.N(scalar_curvature(g, (x, y)).subs(exact), 50))
    assert isinstance(at.scalar, mp.mpf)
    assert abs(error) < 1e-47


def test_oracle_judges_a_metric_known_only_by_its_jet() -> None:
    def entry(i, j, *directions) -> mp.mpf:  # the 2-sphere in latitude and longitude
        def g(p, q) -> mp.mpf:
            return mp.diag([1, mp.cos(p) ** 2])[i, j]

        orders = directions.count(0), directions.count(1)
        return mp.diff(g, (mp.mpf("0.4"), mp.mpf("0.9")), orders)

    with mp.workdps(30):
        jet = (np.frompyfunc(entry, n, 1)(*np.indices((2,) * n)) for n in (2, 3, 4))
        assert abs(curvature_of_jet(*jet).scalar - 2) < 1e-20


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_hessian_metrics_decide_for_a_quarter_against_three_quarters(dimension, seed) -> None:
    rng, chart = np.random.default_rng(seed), X[:dimension]
    potential = 5 * sum(c**2 for c in chart) + polynomial(rng, chart, 2, 3, 4)
    g, point = sp.hessian(potential, chart), random_point(rng, chart)
    low = curvature_at(g, chart, point).riemann
    jet = g.subs(point), sp.derive_by_array(g, chart).subs(point)
    assert (low != 0).any()
    assert (hessian_curvature(*jet) == low).all()
    printed = hessian_curvature(*jet, factor=sp.Rational(-3, 4))
    assert (printed != low).any()
    assert (printed == 3 * low).all()


def test_flipped_sign_is_caught_by_space_in_spherical_coordinates() -> None:
    assert sp.simplify(flipped_scalar_curvature(*SPHERICAL)) == 4 / r**2


def test_flipped_sign_is_not_caught_by_the_plane_in_polar_coordinates() -> None:
    assert sp.simplify(flipped_scalar_curvature(*POLAR)) == 0


def test_flipped_sign_is_the_factor_three_of_a_hessian_metric() -> None:
    rng, chart = np.random.default_rng(7), X[:2]
    g = sp.hessian(5 * (x**2 + y**2) + polynomial(rng, chart, 3, 4), chart)
    point = random_point(rng, chart)
    scalar = curvature_at(g, chart, point).scalar
    assert flipped_scalar_curvature(g, chart).subs(point) == 3 * scalar != 0


REFUSED = {
    "singular": (sp.Matrix([[1, x], [x, x**2]]), X[:2], "singular"),
    "singular by an identity": (
        sp.Matrix([[sp.cos(x) ** 2 + sp.sin(x) ** 2, 1], [1, 1]]),
        X[:2],
        "singular",
    ),
    "not square": (sp.ones(2, 3), X[:2], "2 x 3"),
    "not symmetric": (sp.Matrix([[1, x], [y, 2]]), X[:2], "symmetric"),
    "too many coordinates": (sp.eye(2), X[:3], "3 coordinates"),
}


@pytest.mark.parametrize(("g", "chart", "reason"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("function", [christoffel, riemann, ricci, scalar_curvature])
def test_what_is_no_metric_is_refused(function, g, chart, reason) -> None:
    with pytest.raises(ValueError, match=reason):
        function(g, chart)


@pytest.mark.parametrize(
    ("g", "point", "reason"),
    [
        (POLAR[0], {r: 0, t: 1}, "not invertible"),
        (POLAR[0], {t: 1}, r"r\*\*2 is not a real number"),
        (sp.diag(sp.sqrt(r - t), 1), {r: 1, t: 2}, "I is not a real number"),
        (sp.diag(1 / r, 1), {r: 0}, "not a real number"),
        (sp.eye(3), {r: 1, t: 1}, "2 coordinates"),
    ],
)
def test_a_point_outside_the_chart_is_refused(g, point, reason) -> None:
    with pytest.raises(ValueError, match=reason):
        curvature_at(g, (r, t), point)


def test_a_jet_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="every axis"):
        curvature_of_jet(np.eye(2), np.zeros((3, 3, 3)), np.zeros((2, 2, 2, 2)))


def test_a_metric_that_is_no_hessian_is_refused() -> None:
    with pytest.raises(ValueError, match="totally symmetric"):
        hessian_curvature([[1, 0], [0, 4]], [[[0, 0], [0, 0]], [[0, 0], [4, 0]]])

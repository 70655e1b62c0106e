"""Are a finite network's metric and curvature textbook ones, in exact numbers and in symbols?"""

import random
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from mpmath import mp

from analytic.activations import erf, monomial, relu_power, sine
from analytic.activations.activation import Activation, activation
from analytic.checks.oracles import network_jet
from analytic.expressions.arguments import InputError
from analytic.expressions.symbols import z
from analytic.finite.forms import Minors, to_common_type
from analytic.finite.units import Units
from analytic.geometry.riemann import Curvature, curvature_at, hessian_curvature

SHAPES = [(2, 2), (3, 2), (5, 2), (4, 3), (5, 3), (4, 4), (5, 4), (3, 1)]
TETRAHEDRON = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))
quadratic = activation("quadratic", z + z**2 / 2)


def rational(rng: random.Random) -> Fraction:
    return Fraction(rng.choice((-1, 1)) * rng.randint(1, 9), rng.randint(1, 7))


def some(n: int, d: int, seed: int = 0) -> Units:
    rng = random.Random(seed + 10 * n + d)
    rows = [[rational(rng) for _ in range(d)] for _ in range(n)]
    return Units(rows, *([rational(rng) for _ in range(n)] for _ in range(2)))


def textbook(units: Units) -> Curvature:
    """By the definition, from the metric's 2-jet; any third derivative of phi does."""
    slopes = [
        (p, pp, Fraction(5, 3))
        for p, pp in zip(units.slopes, units.second_derivatives, strict=True)
    ]
    return network_jet(slopes, units.weights).curvature()


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_every_form_is_textbook_curvature_exactly(n: int, d: int) -> None:
    units = some(n, d)
    at = textbook(units)
    assert (units.metric() == at.metric).all()
    assert (units.inverse() == at.inverse).all()
    assert (units.riemann() == at.riemann).all()
    assert (units.ricci() == at.ricci).all()
    assert units.scalar() == units.scalar_by_tensor() == at.scalar
    assert isinstance(units.scalar(), Fraction)
    assert units.determinant() == Fraction(str(sp.Matrix(at.metric).det()))
    assert (units.scalar() != 0) == (n > d > 1)


@pytest.mark.parametrize(("n", "d"), [(3, 2), (4, 3), (5, 3), (5, 4)])
def test_sums_over_minors_are_textbook_curvature_exactly(n: int, d: int) -> None:
    units, basis = some(n, d), np.eye(d, dtype=int).astype(object)
    at, sums = textbook(units), Minors(units)
    if d < 4:  # cubes of the number of sets
        assert sums.scalar() == sums.scalar_by_squares() == at.scalar
    assert sums.ricci(basis[0], basis[1]) == at.ricci[0, 1]
    assert sums.riemann(*basis[[0, 1, 0, 1]]) == at.riemann[0, 1, 0, 1]
    assert sums.riemann_raised(*basis[[0, 1, 0, 1]]) == (at.inverse @ at.riemann[:, 1, 0, 1])[0]


def test_riemann_is_that_of_a_hessian_metric_and_not_three_times_it() -> None:
    units = some(4, 3)
    jet = units.metric(), units.derivative()
    assert (units.riemann() == hessian_curvature(*jet)).all()
    assert (units.riemann() != hessian_curvature(*jet, factor=Fraction(-3, 4))).any()


@pytest.mark.parametrize("d", [2, 3])
def test_as_many_units_as_dimensions_are_flat(d: int) -> None:
    """The features are then coordinates of a flat space themselves."""
    assert not some(d, d).riemann().any()
    assert some(d + 1, d).riemann().any()


def test_symbols_give_the_same_as_numbers() -> None:
    units = Units.generic(3, 2)
    known = some(3, 2)
    numbers = [v for row in known.weights for v in row] + [*known.slopes, *known.second_derivatives]
    point = {s: sp.Rational(v) for s, v in zip(units.symbols, numbers, strict=True)}
    assert [str(s) for s in units.symbols[:7]] == ["w11", "w12", "w21", "w22", "w31", "w32", "p1"]
    assert units.scalar().subs(point) == sp.Rational(known.scalar())
    assert units.determinant().subs(point) == sp.Rational(known.determinant())
    assert units.scalar_by_tensor().subs(point) == sp.Rational(known.scalar())


def test_regular_simplex_touches_a_sphere() -> None:
    """With phi' = 1 and phi'' = k at every unit all principal curvatures are k: R = d(d-1)k^2."""
    k = sp.Symbol("k", real=True)
    assert Units(TETRAHEDRON, (1,) * 4, (k,) * 4).scalar() == 6 * k**2
    half, root = sp.Rational(1, 2), sp.sqrt(3) / 2
    flat = Units(((1, 0), (-half, root), (-half, -root)), (1,) * 3, (k,) * 3)
    assert sp.simplify(flat.scalar() - 2 * k**2) == 0
    assert (Units(TETRAHEDRON, (1,) * 4, (3,) * 4).ricci() == 18 * np.eye(3)).all()


def test_change_of_coordinates_moves_tensors_and_keeps_the_scalar() -> None:
    units = some(5, 3)
    A = np.array([[2, 1, 0], [Fraction(1, 3), -1, 4], [0, 5, Fraction(1, 2)]], dtype=object)
    transformed = Units(np.array(units.weights) @ A, units.slopes, units.second_derivatives)
    assert transformed.scalar() == units.scalar()
    assert (transformed.ricci() == A.T @ units.ricci() @ A).all()
    assert transformed.determinant() == units.determinant() * Fraction(str(sp.Matrix(A).det())) ** 2


def test_order_and_repetition_of_units_do_not_matter() -> None:
    units = some(4, 2)
    shuffled = Units(*([part[j] for j in (2, 0, 3, 1) * 2] for part in vars_of(units)))
    assert (shuffled.metric() == units.metric()).all()
    assert shuffled.scalar() == units.scalar() == shuffled.scalar_by_tensor()
    assert shuffled.determinant() == units.determinant()


def vars_of(units: Units) -> tuple[tuple, ...]:
    return units.weights, units.slopes, units.second_derivatives


@pytest.mark.parametrize("scale", [Fraction(10**60), Fraction(1, 10**60)])
def test_scales_from_tiny_to_huge_are_exact(scale: Fraction) -> None:
    units = some(4, 3)
    R, (rows, slopes, second) = units.scalar(), vars_of(units)
    longer = [[scale * w for w in row] for row in rows]
    assert Units(longer, slopes, second).scalar() == R
    assert Units(rows, [scale * p for p in slopes], second).scalar_by_tensor() == R / scale**4
    assert Units(rows, slopes, [scale * p for p in second]).scalar() == R * scale**2
    assert Units(longer, slopes, second).determinant() == units.determinant() * scale**6


@pytest.mark.parametrize("act", [erf, sine(1), monomial(3)], ids=lambda act: act.name)
def test_units_of_a_network_against_its_features(act: Activation) -> None:
    """phi' and phi'' are looked up; the curvature of the features' pullback is not."""
    x = sp.symbols("x1 x2", real=True)
    rows, bias = ((1, 2), (-1, Fraction(1, 2)), (Fraction(3, 4), -1)), (Fraction(1, 5), 0, 1)
    sums = [
        sum(sp.Rational(w) * c for w, c in zip(row, x)) + sp.Rational(b)
        for row, b in zip(rows, bias)
    ]
    jacobian = sp.Matrix([act.phi.expr.subs(z, s) / sp.sqrt(3) for s in sums]).jacobian(x)
    point = {x[0]: Fraction(1, 3), x[1]: Fraction(-2, 7)}
    with mp.workdps(40):
        units = Units.of(act, rows, bias, list(point.values()))
        at = curvature_at(jacobian.T * jacobian, x, point)
        assert max(abs(units.metric() - at.metric).flat) < mp.mpf(10) ** -37
        for computed in (units.scalar(), units.scalar_by_tensor()):
            assert abs(computed - at.scalar) < mp.mpf(10) ** -34 * abs(at.scalar)


def test_rational_slopes_stay_exact_and_open_symbols_stay_open() -> None:
    rows = ((1, 0), (0, 1), (1, 1))
    exact = Units.of(quadratic, rows, (0, 0, 1), (Fraction(1, 2), 2))
    assert exact.slopes == (Fraction(3, 2), 3, Fraction(9, 2))
    assert exact.second_derivatives == (1, 1, 1)
    assert isinstance(exact.scalar(), Fraction)
    t = sp.Symbol("t", real=True)
    assert Units.of(quadratic, rows, (0, 0, 1), (t, 2)).slopes == (1 + t, 3, 4 + t)
    assert (
        abs(Units.of(erf, rows, (0, 0, 1), (sp.sqrt(2), 2)).slopes[0] ** 2 * mp.e**2 * mp.pi - 2)
        < 1e-13
    )
    (w,) = sine().parameters
    assert Units.of(sine(), rows, (0, 0, 1), (1, 2)).slopes[0] == w * sp.cos(w)
    tilted = activation("tilted", sp.sin(z) + w * z, parameters=(w,))  # phi'' is free of w
    assert Units.of(tilted, rows, (0, 0, 1), (1, 2)).second_derivatives[0] == -sp.sin(1)


def test_kinds_of_numbers() -> None:
    assert to_common_type((1, np.int64(2), sp.Rational(1, 3))) == (1, 2, Fraction(1, 3))
    assert all(isinstance(v, mp.mpf) for v in to_common_type((1, 0.5, Fraction(1, 3))))
    assert all(isinstance(v, sp.Expr) for v in to_common_type((1, 0.5, sp.sqrt(2))))


SINGULAR = {
    "2 units in 3 dimensions": (((1, 0, 0), (0, 1, 0)), (1, 1)),
    "do not span the 2 dimensions": (((1, 2), (2, 4), (-3, -6)), (1, 1, 1)),
    "the 3 dimensions, as collinear": (((1, 0, 1), (0, 1, 1), (1, 1, 2), (1, -1, 0)), (1,) * 4),
    "zero, or nearly, at unit 1, 3": (((1, 0), (0, 1), (1, 1)), (0, 1, 0)),
    "raise mpmath's precision": (((1.0, 0.1), (3.0, 0.3), (7.0, 0.7)), (1, 1, 1)),
    "weights of the 3 units": (
        (sp.symbols("a b"), sp.symbols("a b"), sp.symbols("a b")),
        (1, 1, 1),
    ),
}


@pytest.mark.parametrize(("message", "arguments"), SINGULAR.items(), ids=SINGULAR)
def test_singular_metrics_are_refused_with_the_reason(message: str, arguments: tuple) -> None:
    rows, slopes = arguments
    units = Units(rows, slopes, slopes)
    assert units.metric().shape == (units.d, units.d)  # which is no reason to refuse
    if not units.symbols:
        assert abs(units.determinant()) < 1e-15
    for curvature in (units.scalar, units.scalar_by_tensor, units.riemann, units.inverse):
        with pytest.raises(InputError, match=message):
            curvature()


BAD = {
    "No weights": ((), (), ()),
    "one dimension": (((),), (1,), (1,)),
    "Rows of 1, 2 weights": (((1, 2), (3,)), (1, 1), (1, 1)),
    "no table": (3, (1,), (1,)),
    "1 slopes were given for 2 units": (((1, 2), (3, 4)), (1,), (1, 1)),
    "3 second derivatives were given for 2 units": (((1, 2), (3, 4)), (1, 1), (1, 1, 1)),
    "nan was given": (((1, float("nan")), (3, 4)), (1, 1), (1, 1)),
    "inf": (((1, 2), (3, 4)), (mp.inf, 1), (1, 1)),
    "'2' was given": (((1, "2"), (3, 4)), (1, 1), (1, 1)),
    "True was given": (((1, True), (3, 4)), (1, 1), (1, 1)),
    "I was given": (((1, sp.I), (3, 4)), (1, 1), (1, 1)),
}


@pytest.mark.parametrize(("message", "arguments"), BAD.items(), ids=BAD)
def test_bad_units_are_refused(message: str, arguments: tuple) -> None:
    with pytest.raises(InputError, match=message):
        Units(*arguments)


def test_bad_networks_are_refused() -> None:
    rows = ((1, 0), (0, 1))
    with pytest.raises(InputError, match="3 biases were given for 2 units"):
        Units.of(erf, rows, (0, 0, 0), (1, 1))
    with pytest.raises(InputError, match="1 x were given for 2 coordinates"):
        Units.of(erf, rows, (0, 0), (1,))
    with pytest.raises(InputError, match=r"z = 0, where .* has a kink"):
        Units.of(relu_power(2), rows, (0, 0), (0, 1))
    with pytest.raises(InputError, match=r"biases = 0 is no list: .* each of 2 units"):
        Units.of(erf, rows, 0, (0, 1))
    for bad in ("erf", relu_power):
        with pytest.raises(InputError, match="give an Activation, such as erf"):
            Units.of(bad, rows, (0, 0), (0, 1))

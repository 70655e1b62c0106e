"""Spline interpolants against dense kernel regression in 40 digits, and what is known of their shape."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from mpmath import mp
from scipy.interpolate import CubicSpline

from analytic.expressions.arguments import InputError
from analytic.splines import INITIALISATIONS
from numeric.splines import SplineInterpolant
from numeric.splines.norms import norm_by_integral

SIGNS, UNIFORM, GAUSSIAN, ONESIDED = INITIALISATIONS.values()
VALUES = {"signs": {"B": 1.0}, "uniform": {"A": 1.0, "B": 1.0}, "gaussian": {"sa": 1.0, "sb": 1.0}}
X, Y = np.array([-0.8, -0.4, 0.0, 0.5, 0.9]), np.array([0.3, -0.2, 0.5, 0.1, -0.4])
EVERY = pytest.mark.parametrize("init", INITIALISATIONS.values(), ids=INITIALISATIONS)
KINDS = pytest.mark.parametrize("readout", [0.0, 1 / 3], ids=["features", "tangent"])
RIDGES = pytest.mark.parametrize("ridge", [0.0, 0.01])
DATA = {
    "core": (X, Y),
    "outside the core": (np.array([-3.0, -0.5, 0.2, 0.7, 2.0]), Y),
    "two": (np.array([-0.3, 0.6]), np.array([1.0, 2.0])),
    "close": (np.array([-0.5, 0.1, 0.1 + 1e-6, 0.8]), np.array([1.0, 0.2, 0.3, -1.0])),
    "tiny": (1e-3 * X, 1e3 * Y),
    "huge": (1e3 * X, 1e-3 * Y),
}
RIGHT = {
    "core": (np.array([0.1, 0.4, 0.5, 0.9]), Y[:4]),
    "outside the core": (np.array([0.2, 0.5, 1.5, 2.0]), Y[:4]),
    "two": (np.array([0.3, 0.6]), np.array([1.0, 2.0])),
    "close": (np.array([0.3, 0.3 + 1e-6, 0.8]), Y[:3]),
    "tiny": (np.array([1e-4, 5e-4, 1e-3]), 1e3 * Y[:3]),
    "huge": (np.array([0.5, 1e3]), np.array([2.0, 1.0])),
}


def model(init, readout=0.0, ridge=0.0, **more) -> SplineInterpolant:
    return SplineInterpolant(init, VALUES.get(init.name), readout, ridge, **more)


def dense(init, x, y, readout, ridge=0.0, time=math.inf) -> tuple[Callable, float]:
    """A function of places, and its squared norm: 40 digits, from the kernel alone."""
    values = {name: mp.mpf(value) for name, value in VALUES.get(init.name, {}).items()}
    kernel = init.ntk.mpmath

    def gram(rows, columns) -> mp.matrix:
        return mp.matrix([[kernel(x=mp.mpf(p), y=mp.mpf(q), **values, ec2=mp.mpf(readout))
                           for q in columns] for p in rows])  # fmt: skip

    with mp.workdps(40):
        K, right = gram(x, x), mp.matrix(list(map(mp.mpf, y)))
        system = K + mp.mpf(ridge) * mp.eye(len(x))
        alpha = _flow(system, right, time) if math.isfinite(time) else mp.lu_solve(system, right)
        norm = (alpha.T * K * alpha)[0]

    def function(at) -> np.ndarray:
        with mp.workdps(40):
            return np.array([float(v) for v in gram(at, x) * alpha])

    return function, float(norm)


def _flow(system, right, time) -> mp.matrix:
    """Where alpha' = right - system alpha leads from 0, also if the system is singular."""
    n = system.rows
    both = mp.zeros(n + 1)
    both[:n, :n], both[:n, n] = -system * time, right * time
    return mp.expm(both)[:n, n]


def places(x) -> np.ndarray:
    """At the data, between them, and up to far beyond them."""
    low, width = x.min(), np.ptp(x)
    steps = np.array([-40, -2, -0.1, 0.07, 0.37, 0.61, 0.93, 1.2, 3, 50])
    return np.concatenate([x[:2], low + steps * width])


@EVERY
@KINDS
@RIDGES
@pytest.mark.parametrize("name", DATA)
def test_agrees_with_dense_regression(init, readout, ridge, name) -> None:
    x, y = (RIGHT if init is ONESIDED else DATA)[name]
    fitted = model(init, readout, ridge).fit(x, y)
    function, norm = dense(init, x, y, readout, ridge)
    wanted = function(places(x))
    size = np.abs(y).max() + np.abs(wanted)
    # Fields between points 1e-6 apart know the share of knots there as a difference of rounded ones.
    tolerance = 1e-10 if name == "close" and readout else 1e-12
    assert np.abs(fitted.predict(places(x)) - wanted) / size == pytest.approx(0, abs=tolerance)
    assert fitted.norm == pytest.approx(norm, rel=10 * tolerance)
    assert norm_by_integral(fitted) == pytest.approx(norm, rel=10 * tolerance)
    if not ridge:
        assert np.abs(fitted.predict(x) - y).max() < 1e-13 * np.abs(y).max()


@pytest.mark.parametrize("init", [UNIFORM, GAUSSIAN], ids=lambda init: init.name)
@KINDS
def test_far_from_all_knots(init, readout) -> None:
    x, y = np.array([1000.0, 1001.0, 1003.0, 1010.0]), Y[:4]
    fitted = model(init, readout).fit(x, y)
    function, norm = dense(init, x, y, readout)
    near, through = np.array([990.0, 1000.4, 1007.0, 1050.0]), np.array([-900.0, 0.0, 1.0, 500.0])
    assert fitted.predict(near) == pytest.approx(function(near), rel=1e-9)
    # m is 1e12 times smaller at the knots than at the data, so that digits are lost on the way there.
    assert fitted.predict(through) == pytest.approx(function(through), rel=1e-8)
    assert [fitted.norm, norm_by_integral(fitted)] == pytest.approx([norm, norm], rel=1e-9)


@EVERY
@KINDS
@RIDGES
@pytest.mark.parametrize("time", [0.0, 0.3, 50.0])
def test_early_stopping(init, readout, ridge, time) -> None:
    x, y = RIGHT["core"] if init is ONESIDED else (X, Y)
    fitted = model(init, readout, ridge, time=time).fit(x, y)
    function, norm = dense(init, x, y, readout, ridge, time)
    assert fitted.predict(places(x)) == pytest.approx(function(places(x)), rel=1e-9, abs=1e-11)
    assert fitted.norm == pytest.approx(norm, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(("count", "time"), [(5, 1e12), (200, 1e300)])
def test_after_a_long_time_the_flow_has_arrived(count, time) -> None:
    """What is left is 1/time over the least rate, which is 1e-11 of the largest for 200 points."""
    x = np.linspace(-0.8, 0.9, count)
    y = np.sin(9 * x)
    late, fitted = model(UNIFORM, time=time).fit(x, y), model(UNIFORM).fit(x, y)
    assert late.predict(places(x)) == pytest.approx(fitted.predict(places(x)), rel=1e-12)


@EVERY
@KINDS
def test_two_thousand_points(init, readout) -> None:
    x = np.random.default_rng(1).uniform(0.001, 0.999, 2000)
    x = x if init is ONESIDED else 3 * x - 1.5
    x = x[np.abs(x) < 1] if init is SIGNS else x  # beyond its knots nothing can bend
    y = np.sin(9 * x) + x
    fitted = model(init, readout).fit(x, y)
    assert np.abs(fitted.predict(x) - y).max() < 1e-10
    assert norm_by_integral(fitted) == pytest.approx(fitted.norm, rel=1e-11)


@EVERY
def test_two_thousand_points_in_clusters(init) -> None:
    """Where targets are rough only the tangent kernel stays in bounds, and its two norms agree."""
    rng = np.random.default_rng(0)
    x = (rng.choice([0.15, 0.5, 0.9], 2000) + 1e-4 * rng.normal(size=2000)).clip(0.01, 0.99)
    y = np.sin(9 * x) + 0.1 * rng.normal(size=2000)
    fitted = model(init, 1 / 3).fit(x, y)
    assert np.abs(fitted.predict(x) - y).max() < 1e-13
    assert norm_by_integral(fitted) == pytest.approx(fitted.norm, rel=1e-12)


@pytest.mark.parametrize("init", [SIGNS, UNIFORM, GAUSSIAN], ids=lambda init: init.name)
@KINDS
@pytest.mark.parametrize(("ridge", "time"), [(0.01, math.inf), (0.0, 2.0)])
@pytest.mark.parametrize("gap", [0.0, 5e-17, 1e-9])
def test_data_may_be_close_unless_they_are_interpolated(init, readout, ridge, time, gap) -> None:
    """Each of two targets at one place counts, as if the places were apart by more than rounding."""
    x, y = np.array([-0.5, 0.1, 0.3, 0.3 + gap, 0.8]), np.array([1.0, 0.0, 0.5, 0.6, -1.0])
    assert (x[3] > x[2]) == (gap > 0)
    fitted = model(init, readout, ridge, time=time).fit(x, y)
    function, norm = dense(init, x, y, readout, ridge, time)
    assert fitted.predict(places(x)) == pytest.approx(function(places(x)), rel=1e-12, abs=1e-14)
    assert [fitted.norm, norm_by_integral(fitted)] == pytest.approx([norm, norm], rel=1e-12)


def test_a_difference_within_rounding_is_not_interpolated_by_the_tangent_kernel() -> None:
    x = [-0.5, 0.3, 0.1 + 0.2, 0.8]
    with pytest.raises(InputError, match="so close"):
        model(UNIFORM, 1 / 3).fit(x, [1.0, 0.5, 0.6, -1.0])
    assert model(UNIFORM, 1 / 3).fit(x, [1.0, 0.5, 0.5, -1.0]).predict(0.3) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("init", "values", "distance", "first", "last"),
    [
        (SIGNS, {"B": 1.0}, 1.47e-2, -1.85, 0.665),
        (SIGNS, {"B": 2.0}, 4.56e-3, -0.571, 0.438),
        (SIGNS, {"B": 10.0}, 7.07e-4, -0.0869, 0.0858),
        (SIGNS, {"B": 1000.0}, 6.85e-6, -8.32e-4, 8.32e-4),
        (UNIFORM, {"A": 1.0, "B": 1.0}, 7.84e-3, -0.981, 0.718),
        (UNIFORM, {"A": 1.0, "B": 4.0}, 1.36e-3, -0.169, 0.165),
        (UNIFORM, {"A": 1.0, "B": 100.0}, 5.15e-5, -6.26e-3, 6.26e-3),
    ],
)
def test_distance_from_the_natural_spline(init, values, distance, first, last) -> None:
    fitted = SplineInterpolant(init, values).fit(X, Y)
    x = np.linspace(-0.8, 0.9, 2001)
    natural = CubicSpline(X, Y, bc_type="natural")(x)
    # Known to three digits.
    assert np.abs(fitted.predict(x) - natural).max() == pytest.approx(distance, rel=5e-3)
    assert fitted.derivative([-0.8, 0.9], 2) == pytest.approx([first, last], rel=5e-3)
    density, law = float(init.density.numpy(u=0.0, **values)), fitted.curve_.law
    half_sum, half_moment = fitted.curve_.outer[1][0], -fitted.curve_.outer[1][1]  # of coefficients
    p0, p1 = law.biases * half_sum, law.slopes * half_moment
    ends = density * (X[[0, -1]] * p0 / law.biases - p1 / law.slopes) * [-1, 1]
    assert fitted.derivative(X[[0, -1]], 2) == pytest.approx(ends, rel=1e-8)
    affine = fitted.predict(x) - density / 12 * np.abs(x[:, None] - X) ** 3 @ fitted.coefficients_
    assert affine == pytest.approx(p0 + p1 * x, abs=1e-11)


@pytest.mark.parametrize(("y", "power"), [(Y, 1), (np.array([1.0, -0.5, 0.7, -0.5, 1.0]), 3)])
@pytest.mark.parametrize("init", [SIGNS, UNIFORM], ids=lambda init: init.name)
def test_rate_towards_the_natural_spline(init, y, power) -> None:
    x = X if power == 1 else np.array([-0.9, -0.4, 0.0, 0.4, 0.9])
    at = np.linspace(x[0], x[-1], 501)

    def distance(B) -> float:
        values = {"A": 1.0, "B": B} if init is UNIFORM else {"B": B}
        natural = CubicSpline(x, y, bc_type="natural")(at)
        return np.abs(SplineInterpolant(init, values).fit(x, y).predict(at) - natural).max()

    # The next term is smaller by 1 / B.
    assert math.log10(distance(50.0) / distance(500.0)) == pytest.approx(power, abs=0.02)


def test_where_no_unit_is_active_the_function_is_zero() -> None:
    fitted = model(ONESIDED, 1 / 3).fit([-2.0, 0.0, 0.4, 0.9], [0.0, 0.0, 1.0, -1.0])
    for part in (fitted.predict, fitted.smooth_part, fitted.derivative):
        assert np.abs(part([-1e6, -1.0, 0.0])).max() < 1e-14
    beyond = fitted.smooth_part([1.0, 2.0, 3.0, 1e3])
    assert beyond[3] == pytest.approx(beyond[0] + 999 * (beyond[1] - beyond[0]), rel=1e-12)
    for x, y in (([-1.0, 0.5], [0.1, 1.0]), ([0.0, 0.5], [0.1, 1.0]), ([-1.0, 0.0], [0.0, 0.0])):
        with pytest.raises(InputError, match="no unit is active"):
            model(ONESIDED).fit(x, y)


@KINDS
def test_nothing_bends_beyond_the_knots(readout) -> None:
    x, y = [0.0, 2.0, 3.0, 4.0], [0.1, 0.5, -0.3, 0.2]
    for init in (SIGNS, ONESIDED):
        with pytest.raises(InputError, match="nothing can bend"):
            model(init, readout).fit(x if init is SIGNS else [0.5, *x[1:]], y)
    for ridge, time in ((0.01, math.inf), (0.0, 2.0)):
        function, _ = dense(SIGNS, x, y, readout, ridge, time)
        fitted = model(SIGNS, readout, ridge, time=time).fit(x, y)
        assert fitted.predict(places(X)) == pytest.approx(function(places(X)), rel=1e-11)

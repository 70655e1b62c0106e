"""Do signals settle where quadrature, algebra and the layers themselves say that they do?"""

import numpy as np
import pytest
import sympy as sp
from mpmath import mp, mpf

from analytic.activations import (
    cosine,
    erf,
    exponential,
    gaussian,
    gelu,
    monomial,
    relu,
    sign,
    sine,
    tanh,
)
from analytic.activations.activation import activation
from analytic.checks.oracles import squared_moment, two_point_average
from analytic.expressions.arguments import InputError
from analytic.expressions.symbols import z
from analytic.signal_propagation import Signal, critical_sigma, trajectory
from analytic.signal_propagation.mehler import kernel_at, slope_at

PLAIN = activation("plain erf", sp.erf(z / sp.sqrt(2)))  # every average of it is a quadrature
ROOT2 = sp.sqrt(2)
LINE = "zeta = 0: ask for the fixed_point of a start"


def near(value: object, other: object, digits: float) -> bool:
    return abs(mpf(value) - other) <= mpf(10) ** -digits * abs(mpf(other))


def values(points: tuple) -> list[float]:
    return [float(point.value) for point in points]


# Variance


@pytest.mark.parametrize(
    ("act", "sigma", "zeta"),
    [(erf, "2", "0.3"), (gelu, "1.2", "0.5"), (sine(1), "2", "0"), (tanh, "1.5", "0.2")],
    ids=lambda value: getattr(value, "name", value),
)
def test_variance_settles_where_quadrature_of_phi_says(act, sigma, zeta) -> None:
    signal = Signal(act, sigma, zeta)
    with mp.workdps(35):
        average, slopes = squared_moment(act, 0), squared_moment(act, 1)

        def next_variance(V: object) -> object:
            return mpf(sigma) ** 2 * average(V, 0) + mpf(zeta) ** 2

        V = mp.findroot(
            lambda V: next_variance(V) - V, (mpf("0.1"), mpf(4)), solver="anderson", tol=1e-33
        )
        assert near(signal.variance.value, V, 29)
        assert near(signal.chi_1, mpf(sigma) ** 2 * slopes(V, 0), 28)
        step = mpf("1e-8")
        assert near(
            signal.chi_V, (next_variance(V + step) - next_variance(V - step)) / (2 * step), 12
        )
    assert signal.variance.stable


def test_every_fixed_variance_of_a_quadratic_is_found() -> None:
    below, above = Signal(monomial(2), 1, "0.3").variance_map.fixed_points
    assert near(below.value, mpf(1) / 10, 29)  # V = V^2 + 0.09
    assert near(above.value, mpf(9) / 10, 29)
    assert below.stable
    assert near(above.slope, mpf(9) / 5, 28)
    assert above.depth_scale < 0
    assert Signal(monomial(2), 1, "0.3", start="0.899").variance == below
    with pytest.raises(ArithmeticError, match="grows without bound from 1"):
        _ = Signal(monomial(2), 1, "0.3").variance


@pytest.mark.parametrize("digits", [15, 40])
def test_exponentials_rest_on_both_branches_of_lambert(digits) -> None:
    points = Signal(exponential(1), "0.3", digits=digits).variance_map.fixed_points
    with mp.workdps(digits + 5):  # V = 0.09 exp(2V)
        for point, branch in zip(points, (0, -1), strict=True):
            assert near(point.value, -mp.lambertw(-mpf(18) / 100, branch).real / 2, digits - 1)


def test_a_double_fixed_point_and_a_pair_close_to_it() -> None:
    touch = sp.exp(sp.Rational(-1, 2)) / ROOT2  # sigma^2 = 1/(2e): tangent at V = 1/2
    (point,) = Signal(exponential(1), touch).variance_map.fixed_points
    assert near(point.value, mpf(1) / 2, 28)
    assert point.slope == 1
    assert not point.stable
    pair = Signal(exponential(1), touch * (1 - sp.Rational(1, 10**8))).variance_map.fixed_points
    assert [p.stable for p in pair] == [True, False]
    assert (
        Signal(exponential(1), touch * (1 + sp.Rational(1, 10**8))).variance_map.fixed_points == ()
    )


def test_relu_settles_grows_or_keeps_every_variance() -> None:
    assert near(Signal(relu, 1, "0.5").variance.value, mpf(1) / 2, 29)  # zeta^2 / (1 - sigma^2/2)
    assert Signal(relu, "1.5", "0.1").variance_map.fixed_points == ()
    neutral = Signal(relu, ROOT2, start=7)
    assert (neutral.variance.value, neutral.phase, neutral.xi_V) == (7, "critical", mp.inf)
    assert (neutral.correlation.value, neutral.xi_c) == (1, mp.inf)
    with pytest.raises(InputError, match=LINE):
        _ = neutral.variance_map.fixed_points
    with pytest.raises(ArithmeticError, match="without bound"):
        _ = Signal(relu, 2**0.5).variance  # the float is larger than the root, by 1e-16


@pytest.mark.parametrize("act", [gaussian, cosine(2)], ids=lambda act: act.name)
def test_a_falling_variance_map_never_overshoots(act) -> None:
    for sigma in ("0.1", "1", "3", "30"):
        assert -0.5 <= Signal(act, sigma).chi_V < 0
    V = Signal(gaussian, 3).variance.value  # V^2 (1 + 2V) = sigma^4
    with mp.workdps(40):
        assert near(V, max(mp.re(r) for r in mp.polyroots([2, 1, 0, -81], extraprec=99)), 29)


def test_vanishing_signals_have_no_correlation_map() -> None:
    signal = Signal(erf, 1)
    assert (signal.variance.value, signal.phase) == (0, "ordered")
    assert near(signal.chi_1, 2 / mp.pi, 14)
    with pytest.raises(ArithmeticError, match="vanishes"):
        _ = signal.correlation
    assert Signal(erf, 1, "0.1").phase == "ordered"
    assert Signal(erf, 2).phase == "chaotic"


# Correlation


@pytest.mark.parametrize("act", [erf, tanh], ids=lambda act: act.name)
def test_the_correlation_rests_where_quadrature_in_the_plane_says(act) -> None:
    signal = Signal(act, "1.7", "0.2", digits=15)
    V, point = signal.variance.value, signal.correlation
    assert 0 < point.value < 1
    with mp.workdps(16):
        kernel, slope = (two_point_average(act, order)(V, point.value * V, V) for order in (0, 1))
        assert near((mpf("1.7") ** 2 * kernel + mpf("0.2") ** 2) / V, point.value, 13)
        assert near(mpf("1.7") ** 2 * slope, point.slope, 13)


@pytest.mark.parametrize(
    "signal",
    [
        Signal(erf, 2),
        Signal(erf, 2, "0.3"),
        Signal(erf, "1.2", "0.1"),
        Signal(gelu, "1.3", "0.4"),
        Signal(gaussian, 3),
        Signal(gaussian, 1),
        Signal(cosine(1), 3),
        Signal(sine(1), 2, "0.5"),
        Signal(relu, 1, 1),
        Signal(monomial(3), 1),
        Signal(monomial(2), "0.5", 1, start=0),
    ],
    ids=lambda s: f"{s.act.name}-{s.sigma}-{s.zeta}",
)
def test_no_other_correlation_is_fixed(signal) -> None:
    c = np.linspace(-1, 1, 4001)[1:-1] + 1e-5  # no fixed point lies on this grid
    c = c[c < 1 - 1e-4]
    gap = signal.correlation_map(c) - c
    crossings = c[1:][np.sign(gap[1:]) != np.sign(gap[:-1])]
    inside = [v for v in values(signal.correlation_map.fixed_points) if abs(v) < 1]
    np.testing.assert_allclose(crossings, inside, atol=1e-3)
    one = signal.correlation_map.fixed_points[-1]
    assert (one.value, one.slope) == (1, signal.chi_1)
    odd = abs(signal.correlation_map(-1) + 1) < 1e-20
    assert odd == (signal.correlation_map.fixed_points[0].value == -1)


@pytest.mark.parametrize("act", [erf, gelu, gaussian], ids=lambda act: act.name)
def test_chi_1_is_the_slope_of_the_correlation_map_at_one(act) -> None:
    signal = Signal(act, "1.3", "0.4")
    with mp.workdps(30):
        h = mpf("1e-8")
        steps = [(1 - signal.correlation_map(1 - k * h)) / (k * h) for k in (1, 2)]
        assert near(2 * steps[0] - steps[1], signal.chi_1, 13)
    assert near(signal.lyapunov, mp.log(signal.chi_1) / 2, 14)


def test_near_the_boundary_no_digit_is_lost() -> None:
    edge = critical_sigma(erf, "0.3", digits=60)
    with mp.workdps(60):
        signal = Signal(erf, edge * (1 + mpf("1e-12")), "0.3", digits=40)
        V, beyond = signal.variance.value, signal.chi_1 - 1
        bend = mpf(signal.sigma.p) ** 2 / mpf(signal.sigma.q) ** 2 * V * erf.G2.mpmath(V)
        assert near(1 - signal.correlation.value, 2 * beyond / bend, 10)  # f'' = sigma^2 V G2
        assert near(1 / signal.xi_c, beyond, 10)


@pytest.mark.parametrize("c", ["0", "0.4", "-0.9"])
def test_mehlers_series_is_the_closed_form(c) -> None:
    with mp.workdps(25):
        V, c = mpf(2), mpf(c)
        assert abs(kernel_at(PLAIN, V, c) - erf.kernel.mpmath(V, c * V, V)) < mpf("1e-24")
        assert near(slope_at(PLAIN, V, c), erf.slope.mpmath(V, c * V, V), 24)


# Layers


@pytest.mark.parametrize(
    "signal",
    [
        Signal(erf, "1.2", "0.1"),
        Signal(erf, 2, "0.3"),
        Signal(gelu, "1.3", "0.4"),
        Signal(sine(1), 2),
    ],
    ids=lambda s: f"{s.act.name}-{s.phase}",
)
def test_layers_approach_rest_at_the_rates_of_the_depth_scales(signal) -> None:
    s = (float(signal.variance.value) - float(signal.zeta) ** 2) / float(signal.sigma) ** 2
    far = trajectory(signal.act, float(signal.sigma), float(signal.zeta), 1.2 * s, 0.5 * s, 200)
    at_rest = trajectory(signal.act, float(signal.sigma), float(signal.zeta), s, 0.5 * s, 200)
    for path, limit, scale in (
        (far.Vx, signal.variance.value, signal.xi_V),
        (at_rest.correlation, signal.correlation.value, signal.xi_c),
    ):
        gap = abs(path - float(limit))
        in_range = (gap < 1e-5) & (gap > 1e-10)
        slope = np.polyfit(np.flatnonzero(in_range), np.log(gap[in_range]), 1)[0]
        assert -1 / slope == pytest.approx(float(scale), rel=1e-3)


def test_at_criticality_correlations_approach_one_like_one_over_depth() -> None:
    sigma = float(critical_sigma(erf, "0.3"))
    V = float(Signal(erf, sigma, "0.3").variance.value)
    s = (V - 0.09) / sigma**2
    gap = 1 - trajectory(erf, sigma, 0.3, s, 0.5 * s, 1000).correlation
    bend = sigma**2 * V * erf.G2.numpy(V)  # 1 - c falls by bend (1 - c)^2 / 2 in a layer
    assert 1 / gap[999] - 1 / gap[499] == pytest.approx(250 * bend, rel=0.01)


def test_each_layer_has_its_own_weights() -> None:
    path = trajectory(gelu, [1.0, 2.0, 0.5], [0.0, 0.1, 0.2], (1.0, 2.0), np.array([0.5, -1.0]), 3)
    assert path.C.shape == path.correlation.shape == (3, 2)
    x, y, c = 1.0, 2.0, -1.0
    for layer, (w, b) in enumerate([(2.0, 0.1), (0.5, 0.2)], start=1):
        with mp.workdps(20):
            inputs = [
                gelu.F.mpmath(mpf(x)),
                gelu.F.mpmath(mpf(y)),
                gelu.kernel.mpmath(mpf(x), mpf(c), mpf(y)),
            ]
        x, y, c = (float(w**2 * value + b**2) for value in inputs)
        computed = path.Vx[layer], path.Vy[layer], path.C[layer, 1]
        np.testing.assert_allclose(computed, (x, y, c), rtol=1e-13)
    assert trajectory(sign, 1, 0, 1, 0.5, 2).C[1] == pytest.approx(1 / 3)  # 2/pi asin(1/2)

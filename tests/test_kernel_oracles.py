"""Do the oracles of tangent kernels and of depth agree with each other, and with what is known?"""

from collections.abc import Iterator

import numpy as np
import pytest
from mpmath import mp, mpf
from sympy import Rational

from analytic import catalogue
from analytic.activations import elu, erf, gaussian, gelu, monomial, relu, relu_power, sine
from analytic.activations.activation import Activation
from analytic.checks.kernel_oracles import (
    WideNetwork,
    metric_by_differences,
    nngp_by_differences,
    nngp_by_layer_averages,
    ntk_by_differences,
    ntk_by_layer_averages,
    ntk_by_weight_average,
    oracle_at_radius,
)  # fmt: skip
from analytic.checks.kernel_oracles.layer_averages import moment_derivatives
from analytic.checks.kernel_oracles.power_series import Series, coordinates, norm_squared
from analytic.checks.oracles import MetricJet, Vector, nngp_jet, point_at_radius

TIGHT = mpf(10) ** -30  # of the 35 digits that each route works with
SMOOTH = [erf, gaussian, sine(Rational(13, 10)), gelu, monomial(3)]
POINT = {"sigma": mpf(3) / 4, "zeta": mpf(1) / 2, "xi": mpf(5) / 4}
shallow_and_deep = pytest.mark.parametrize("depth", [1, 2, 3])


def named(act: Activation) -> str:
    return act.name


@pytest.fixture(autouse=True)
def thirty_five_digits() -> Iterator[None]:
    with mp.workdps(35):
        yield


def network(act: Activation, depth: int = 1, **changes: object) -> WideNetwork:
    return WideNetwork(act, **{**POINT, "depth": depth, **changes})


def distance(one: MetricJet, two: MetricJet) -> object:
    """The largest difference between two jets, each derivative measured by its largest entry."""
    pairs = [(np.array(getattr(one, k)), np.array(getattr(two, k))) for k in ("g", "dg", "ddg")]
    return max(abs(p - q).max() / abs(q).max() for p, q in pairs)


@shallow_and_deep
@pytest.mark.parametrize("act", SMOOTH, ids=named)
def test_differences_of_the_kernel_agree_with_averages_layer_by_layer(act, depth) -> None:
    net, x = network(act, depth), point_at_radius(mpf(7) / 5, 2)
    assert distance(nngp_by_differences(net, x), nngp_by_layer_averages(net, x)) < TIGHT
    assert distance(ntk_by_differences(net, x), ntk_by_layer_averages(net, x)) < TIGHT


@pytest.mark.parametrize("act", [*SMOOTH, relu_power(3)], ids=named)
def test_the_average_over_weights_is_the_shallow_tangent_metric(act) -> None:
    net, x = network(act), point_at_radius(mpf(4) / 5, 3)
    assert distance(ntk_by_differences(net, x), ntk_by_weight_average(net, x)) < TIGHT


@pytest.mark.parametrize("act", [elu, relu_power(Rational(7, 4))], ids=named)
def test_averages_agree_at_a_kink_that_differences_do_not_reach(act) -> None:
    """phi'' jumps or has a pole, which only the two kinds of averages can follow."""
    with mp.workdps(25):
        net, x = network(act, zeta=mpf(0)), point_at_radius(mpf(4) / 5, 2)
        assert (
            distance(ntk_by_layer_averages(net, x), ntk_by_weight_average(net, x)) < mpf(10) ** -20
        )


def test_a_kink_leaves_differences_right_as_long_as_the_metric_is_smooth() -> None:
    with mp.workdps(25):
        net, x = network(relu_power(3), 2), point_at_radius(mpf(4) / 5, 2)
        assert (
            distance(nngp_by_differences(net, x), nngp_by_layer_averages(net, x)) < mpf(10) ** -20
        )
        assert distance(ntk_by_differences(net, x), ntk_by_layer_averages(net, x)) < mpf(10) ** -20


@pytest.mark.parametrize("d", [2, 3, 4])
def test_one_hidden_layer_is_the_shallow_catalogue(d) -> None:
    point = {"d": d, "sigma": "0.75", "zeta": "0.5", "r": "1.4"}
    for act in (erf, gelu):
        net, x = network(act), point_at_radius(mpf(7) / 5, d)
        for jet in (nngp_by_differences(net, x), nngp_by_layer_averages(net, x)):
            for what, value in (("ricci", jet.scalar()), ("magnification", jet.volume())):
                stated = catalogue[f"nngp.{act.name}.{what}"].evaluate(33, **point)
                assert abs(value / stated - 1) < TIGHT


def test_one_hidden_layer_is_the_route_of_the_shallow_metric() -> None:
    net, x = network(elu), point_at_radius(mpf(4) / 5, 3)
    assert distance(nngp_by_layer_averages(net, x), nngp_jet(elu, x, net.sigma, net.zeta)) < TIGHT


@shallow_and_deep
def test_a_linear_network_is_flat_at_any_depth(depth) -> None:
    """Layers multiply x.y by sigma^2, and each of the depth + 1 layers of weights adds a tangent."""
    net, x = network(monomial(1), depth), point_at_radius(mpf(7) / 5, 3)
    stretch = net.sigma ** (2 * depth)
    tangent = stretch + depth * net.xi**2 * net.sigma ** (2 * depth - 2)
    for expected, jets in (
        (stretch, (nngp_by_differences, nngp_by_layer_averages)),
        (tangent, (ntk_by_differences, ntk_by_layer_averages)),
    ):
        for jet in jets:
            metric = jet(net, x)
            assert abs(np.array(metric.g) - expected * np.eye(3, dtype=int)).max() < TIGHT
            assert abs(metric.scalar()) < TIGHT


def test_a_relu_network_is_flat_at_any_depth() -> None:
    metric = nngp_by_layer_averages(network(relu, 3), point_at_radius(mpf(7) / 5, 2))
    assert (
        abs(np.array(metric.g) - (POINT["sigma"] ** 2 / 2) ** 3 * np.eye(2, dtype=int)).max()
        < TIGHT
    )
    assert abs(metric.scalar()) < TIGHT


@pytest.mark.parametrize("d", [2, 3, 4])
def test_differences_find_the_sphere(d) -> None:
    """The inner product of two points of the unit sphere, in stereographic coordinates."""

    def kernel(x: Vector, y: Vector) -> object:
        s, t = mp.fdot(x, x), mp.fdot(y, y)
        return (4 * mp.fdot(x, y) + (s - 1) * (t - 1)) / ((1 + s) * (1 + t))

    metric = metric_by_differences(kernel, point_at_radius(mpf(4) / 5, d))
    assert abs(metric.scalar() / (d * (d - 1)) - 1) < TIGHT
    assert abs(metric.volume() / (2 / (1 + mpf(16) / 25)) ** d - 1) < TIGHT


@pytest.mark.parametrize(
    "jet", [nngp_by_differences, nngp_by_layer_averages, ntk_by_differences, ntk_by_layer_averages]
)
def test_a_route_notices_whatever_changes(jet) -> None:
    oracle = oracle_at_radius(jet, erf)(MetricJet.scalar)
    point = {**POINT, "d": mpf(2), "r": mpf(7) / 5, "depth": mpf(2)}
    tangent = jet in (ntk_by_differences, ntk_by_layer_averages)
    with mp.workdps(15):
        here = oracle(**point)
        for name, value in point.items():
            other = value + 1 if name in ("d", "depth") else value * mpf("1.01")
            change = abs(oracle(**{**point, name: other}) / here - 1)
            assert (change > mpf(10) ** -4) == (tangent or name != "xi"), name


def test_routes_of_one_call_share_their_jets() -> None:
    precisions = []

    def jet(net: WideNetwork, x: Vector) -> MetricJet:
        precisions.append(mp.dps)
        return nngp_by_layer_averages(net, x)

    oracle = oracle_at_radius(jet, monomial(2))
    point = {"d": 2, "sigma": mpf(1), "zeta": mpf(0), "r": mpf(1)}
    oracle(MetricJet.volume)(**point), oracle(MetricJet.scalar)(**point)
    with mp.workdps(20):
        oracle(MetricJet.volume)(**point)
    assert precisions == [35, 20]


def test_an_average_has_derivatives_by_the_variance() -> None:
    """E[z^6] = 15 V^3."""
    for kinks in ((), (0,)):
        result = moment_derivatives(lambda v: v**6, mpf(2), kinks)
        assert max(abs(p - q) for p, q in zip(result, (120, 180, 180, 90), strict=True)) < TIGHT


def test_an_average_that_diverges_is_refused() -> None:
    with mp.workdps(15), pytest.raises(ArithmeticError, match="diverges"):
        moment_derivatives(lambda v: 1 / abs(v), mpf(1), (0,))


def test_series_multiply_differentiate_and_compose() -> None:
    """exp(|x|^2) and its third derivatives by hand: (12 x + 8 x^3) and (4 + 8 x^2) y, times it."""
    x, y = mpf(2) / 5, mpf(-1) / 2
    s = norm_squared(coordinates([x, y]))
    value = mp.exp(x**2 + y**2)
    result = s.compose([value] * 4)
    assert abs(result.at_point() - value) < TIGHT
    assert abs(result.at_point(0, 0, 0) - (12 * x + 8 * x**3) * value) < TIGHT
    assert abs(result.at_point(0, 1, 0) - (4 + 8 * x**2) * y * value) < TIGHT
    assert abs((s * s).at_point(0, 1) - 8 * x * y) < TIGHT
    assert (Series({(): 1, (0,): 2}) + 3).terms == {(): 4, (0,): 2}

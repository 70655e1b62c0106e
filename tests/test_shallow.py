"""The moment form of a shallow network's curvature, against the textbook definition."""

import pytest
import sympy as sp
import torch
from mpmath import mp

from analytic.activations import erf, gelu, monomial, relu, sine
from analytic.activations.activation import Activation, activation
from analytic.checks.oracles import MetricJet, network_jet
from analytic.expressions.arguments import InputError
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.symbols import z
from numeric.models.shallow import ShallowNetwork


def network(act: Activation, width: int, d: int, seed: int = 0) -> ShallowNetwork:
    generator = torch.Generator().manual_seed(seed)
    return ShallowNetwork.gaussian(act, width, d, 0.9, 0.6, generator=generator)


def textbook(net: ShallowNetwork, x: torch.Tensor) -> MetricJet:
    """The metric and its derivatives at one point in 40 digits, from the very same weights."""
    rows = [[mp.mpf(v) for v in row] for row in net.weights.tolist()]
    derivatives = [compile_mpmath((z,), net.activation.derivative(k)) for k in (1, 2, 3)]
    units = []
    for row, bias in zip(rows, net.biases.tolist(), strict=True):
        at = mp.fdot(row, [mp.mpf(v) for v in x.tolist()]) + mp.mpf(bias)
        units.append(tuple(f(at) for f in derivatives))
    return network_jet(units, rows)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("act", [erf, gelu, monomial(3), sine(1.5)], ids=lambda act: act.name)
def test_ricci_and_magnification_are_the_textbooks(act: Activation, d: int) -> None:
    net = network(act, 12, d)
    x = torch.linspace(-1, 1.3, d, dtype=torch.float64)[None]
    with mp.workdps(40):
        jet = textbook(net, x[0])
        scalar, volume = jet.scalar(), jet.volume()
        condition = mp.cond(mp.matrix(jet.g))
    assert abs(net.magnification(x).item() / volume - 1) < 1e-14 * condition
    assert abs(net.ricci_scalar(x).item() - scalar) <= 1e-13 * condition * (1 + abs(scalar))


def test_two_units_in_the_plane_are_a_change_of_coordinates() -> None:
    """The paper, below (4): with n = 2 the feature map only relabels the plane, so R = 0."""
    weights = torch.tensor([[1.0, 0.2], [-0.3, 0.9]], dtype=torch.float64)
    net = ShallowNetwork(erf, weights, torch.tensor([0.1, -0.4], dtype=torch.float64))
    x = torch.tensor([[0.3, -0.8], [1.1, 0.4]], dtype=torch.float64)
    assert net.ricci_scalar(x).abs().max() < 1e-13


def test_a_line_has_no_curvature() -> None:
    assert (
        network(gelu, 9, 1).ricci_scalar(torch.tensor([[0.7]], dtype=torch.float64)).abs() < 1e-13
    )


def test_relu_networks_are_flat_between_kinks() -> None:
    x = torch.tensor([[0.3, -0.8]], dtype=torch.float64)
    assert network(relu, 40, 2).ricci_scalar(x).item() == 0


def test_a_stack_is_its_networks_one_by_one() -> None:
    generator = torch.Generator().manual_seed(3)
    stack = ShallowNetwork.gaussian(erf, 30, 3, 1.0, 0.5, generator=generator, stack=4)
    x = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    one = ShallowNetwork(erf, stack.weights[2], stack.biases[2])
    assert stack.ricci_scalar(x).shape == (4, 5)
    torch.testing.assert_close(
        stack.ricci_scalar(x)[2], one.ricci_scalar(x), rtol=1e-12, atol=1e-12
    )
    torch.testing.assert_close(stack.metric(x)[2], one.metric(x), rtol=1e-14, atol=1e-16)


def test_metric_is_the_pullback_by_autograd() -> None:
    net = network(gelu, 15, 3)
    x = torch.tensor([0.2, -0.4, 1.0], dtype=torch.float64)
    phi = net.activation.phi.torch
    jacobian = torch.func.jacrev(lambda at: phi(net.weights @ at + net.biases))(x) / 15**0.5
    torch.testing.assert_close(
        net.metric(x[None])[0], jacobian.mT @ jacobian, rtol=1e-13, atol=1e-15
    )


def test_same_generator_gives_the_same_network_in_single_precision_too() -> None:
    a, b = (network(erf, 5, 2, seed=7).weights for _ in range(2))
    assert torch.equal(a, b)
    single = ShallowNetwork.gaussian(
        erf, 50, 2, 1.0, 1.0, generator=torch.Generator().manual_seed(1), dtype=torch.float32
    )
    assert single.ricci_scalar(torch.ones(3, 2)).dtype == torch.float32


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: network(erf, 0, 2), "at least 1"),
        (lambda: network(monomial(), 5, 2), "fix it"),
        (lambda: network(erf, 5, 2).metric(torch.ones(3, 4, dtype=torch.float64)), r"\(m, 2\)"),
        (
            lambda: network(erf, 2, 3).ricci_scalar(torch.ones(1, 3, dtype=torch.float64)),
            "singular",
        ),
        (lambda: ShallowNetwork(erf, torch.ones(3, 2), torch.ones(4)), "biases of shape"),
    ],
)
def test_bad_input_is_refused_with_a_reason(make: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_kinks_away_from_zero_are_refused_for_curvature_only() -> None:
    kinked = activation(
        "bent", sp.Piecewise((z**2 / 4 + z - 1, z > 1), (z**2 / 4, True)), kinks=(1,)
    )
    net, x = network(kinked, 50, 2), torch.tensor([[0.3, -0.8]], dtype=torch.float64)
    assert net.magnification(x).item() > 0
    with pytest.raises(InputError, match="kinks"):
        net.ricci_scalar(x)

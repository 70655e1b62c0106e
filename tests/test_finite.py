"""Finite networks are the modules they claim to be, and their kernels those of autograd."""

import math

import pytest
import torch
from torch.func import functional_call, jacrev

from analytic.activations import elu, erf, gelu, relu, sine, tanh
from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError
from numeric.estimate import Estimate
from numeric.infinite.finite_width import FiniteNetwork
from numeric.infinite.network import FullyConnected
from numeric.infinite.parametrisation import NTK, Standard

BOTH = pytest.mark.parametrize("parametrisation", [NTK(), Standard(7)], ids=["ntk", "standard"])
SCALES = ((1.5, 0.8, 1.2, 0.9), (0.3, 0.0, 0.7, 0.2))  # the second layer has no biases


def points(m: int, d: int = 3, seed: int = 1, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(m, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def network(
    acts: Activation | list[Activation] = (erf, gelu, relu),
    width: int = 11,
    parametrisation: NTK | Standard = NTK(),  # noqa: B008
    scales: tuple = SCALES,
    **kind: object,
) -> FiniteNetwork:
    described = FullyConnected(acts, 3, *scales, parametrisation)
    generator = torch.Generator().manual_seed(0)
    return FiniteNetwork(described, width, 3, generator=generator, **kind)


def by_autograd(net: FiniteNetwork, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    parameters = dict(net.named_parameters())

    def rows(at: torch.Tensor) -> torch.Tensor:
        parts = jacrev(lambda p: functional_call(net, p, (at,)))(parameters)
        return torch.cat([part.flatten(1) for part in parts.values()], 1)

    return rows(x) @ rows(y).T


@BOTH
@pytest.mark.parametrize(
    "acts", [(erf, gelu, relu), (elu, tanh, sine(1.3))], ids=["erf-gelu-relu", "elu-tanh-sine"]
)
def test_tangent_kernel_is_that_of_autograd(
    acts: tuple[Activation, ...], parametrisation: NTK | Standard
) -> None:
    net, x, y = network(acts, parametrisation=parametrisation), points(4), points(5, seed=2)
    tight = {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(net.ntk(x, y), by_autograd(net, x, y), **tight)
    torch.testing.assert_close(net.ntk(x), by_autograd(net, x, x), **tight)


@BOTH
def test_a_small_step_of_sgd_moves_outputs_along_the_tangent_kernel(
    parametrisation: NTK | Standard,
) -> None:
    net, x, y = network(parametrisation=parametrisation), points(4), points(6, seed=2)
    targets, rate = torch.tensor([1.0, -1.0, 0.5, 0.0], dtype=torch.float64), 1e-7
    before, at_x, kernel = net(y).detach(), net(x), net.ntk(y, x)
    (0.5 * (at_x - targets).square().sum()).backward()
    torch.optim.SGD(net.parameters(), lr=rate).step()
    moved = (net(y).detach() - before) / rate
    expected = -kernel @ (at_x.detach() - targets)
    # The second order is of the size of the rate, beside rounding of 1e-16 / rate.
    assert (moved - expected).abs().max() < 1e-4 * expected.abs().max()


def test_the_function_is_the_textbooks() -> None:
    net, x = network([erf, gelu, relu]), points(5)
    functions = (lambda t: torch.erf(t / math.sqrt(2)), torch.nn.functional.gelu, torch.relu)
    h, (sigma_w, sigma_b) = x, SCALES
    for layer, w, b, phi in zip(net.layers, sigma_w, sigma_b, (*functions, None), strict=True):
        assert (layer.bias is None) == (b == 0)
        z = w / math.sqrt(h.shape[1]) * h @ layer.weight.T + (b * layer.bias if b else 0)
        h = z if phi is None else phi(z)
    torch.testing.assert_close(net(x), h[:, 0], rtol=1e-13, atol=1e-14)


def test_both_parametrisations_draw_the_same_function() -> None:
    a, b = (network(parametrisation=p) for p in (NTK(), Standard(3)))
    torch.testing.assert_close(a(points(5)), b(points(5)), rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(a.nngp(points(5)), b.nngp(points(5)), rtol=1e-13, atol=1e-14)


@BOTH
def test_parameters_have_the_declared_law(parametrisation: NTK | Standard) -> None:
    net = network(width=40, parametrisation=parametrisation, stack=300)
    for layer, w, b in zip(net.layers, *SCALES, strict=True):
        standard = isinstance(parametrisation, Standard)
        laws = [(layer.weight, w / math.sqrt(layer.weight.shape[-1]) if standard else 1.0)]
        if b:
            laws.append((layer.bias, b if standard else 1.0))
        for drawn, std in laws:
            flat = drawn.detach().flatten() / std
            for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3)):
                assert Estimate.of(flat**power).sigmas_from(torch.tensor(moment)) < 4.5


def test_nngp_is_the_covariance_over_readouts() -> None:
    net, x = network(stack=1), points(3)
    generator, draws = torch.Generator().manual_seed(5), 40_000
    exact = net.nngp(x)[0].detach()
    readout = net.layers[-1]
    kind = {"generator": generator, "dtype": torch.float64}
    with torch.no_grad():
        readout.weight = torch.nn.Parameter(torch.randn(draws, 1, 11, **kind))
        readout.bias = torch.nn.Parameter(torch.randn(draws, 1, **kind))
        outputs = net(x)
    products = Estimate.of(outputs[:, :, None] * outputs[:, None, :])
    assert products.sigmas_from(exact).max() < 4.5
    assert products.sigmas_from(1.05 * exact).max() > 4.5


@BOTH
def test_a_stack_is_its_networks(parametrisation: NTK | Standard) -> None:
    stack, one = (network(parametrisation=parametrisation, stack=k) for k in (3, None))
    x, y = points(4), points(2, seed=3)
    for k in range(3):
        one.load_state_dict({name: value[k] for name, value in stack.state_dict().items()})
        for of in (lambda n: n(x), lambda n: n.nngp(x, y), lambda n: n.ntk(x, y)):
            torch.testing.assert_close(of(stack)[k], of(one), rtol=1e-12, atol=1e-13)


def test_same_generator_gives_the_same_network_in_single_precision_too() -> None:
    x = points(4)
    assert torch.equal(network()(x), network()(x))
    single = network(dtype=torch.float32)
    assert single.ntk(x.float()).dtype == torch.float32
    torch.testing.assert_close(single.ntk(x.float()).double(), network().ntk(x), rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: network(width=0),
            "width = 0 was given, but width must be a whole number at least 1",
        ),
        (lambda: network(width=2.5), "width"),
        (lambda: network(stack=0), "stack"),
        (lambda: network()(points(3, d=4)), r"\(m, 3\)"),
        (lambda: network().ntk(points(3)[0]), r"\(m, 3\)"),
        (lambda: network().nngp(points(3, dtype=torch.float32)), "convert"),
        (lambda: network().ntk(points(3) / 0), "NaN"),
        (lambda: network().nngp(points(3), points(3) * math.nan), "NaN"),
    ],
)
def test_bad_input_is_refused_with_a_reason(make: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()

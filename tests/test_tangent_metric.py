"""The metric of empirical tangent kernels: by the layer below, by differences, and at large width."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from analytic.activations import erf
from numeric import geometry
from numeric.estimate import Estimate
from numeric.infinite import FullyConnected
from numeric.tangents import EmpiricalNTK
from refusals import require_refusals

EPS = torch.finfo(torch.float64).eps


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(*widths: int, phi: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    parts: list[nn.Module] = []
    for k, (d, n) in enumerate(pairwise(widths)):
        layer = nn.Linear(d, n, dtype=torch.float64)
        layer.weight.data, layer.bias.data = normal(n, d, seed=k), normal(n, seed=k + 9)
        parts += [layer, phi()]
    return nn.Sequential(*parts[:-1])


@pytest.mark.parametrize("phi", [nn.Tanh, nn.ReLU])
def test_a_readout_alone_sees_the_metric_of_its_features(phi: type[nn.Module]) -> None:
    """k(x, y) = h(x).h(y) + 1 for the weights and biases of the last layer."""
    net, x = network(3, 7, 2, phi=phi), normal(5, 3, seed=5)
    kernel = EmpiricalNTK(net, modules="2")
    expected = geometry.metric(net, x, layer="1", progress=False)
    scale = expected.diagonal(dim1=1, dim2=2).amax()
    torch.testing.assert_close(
        geometry.metric(kernel, x), expected, rtol=0, atol=float(64 * EPS * scale)
    )


def test_jets_are_differences_of_the_kernel() -> None:
    """On images, with other parameters than the model's own: central differences are off by h^2."""
    net = nn.Sequential(
        nn.Conv2d(1, 2, 2, dtype=torch.float64), nn.Tanh(), nn.Flatten(), network(8, 2)
    )
    other = {name: normal(*value.shape, seed=3) for name, value in net.named_parameters()}
    kernel, x, h = EmpiricalNTK(net, other), normal(1, 1, 3, 3, seed=4), 1e-3
    jet = kernel.jet(x)
    steps = h * torch.eye(9, dtype=torch.float64).reshape(9, 1, 3, 3)
    gram = kernel(torch.cat([x + steps, x - steps, x]))
    up, down, here = gram[:9], gram[9:18], gram[18]
    mixed = (up[:, :9] - up[:, 9:18] - down[:, :9] + down[:, 9:18]) / (4 * h * h)
    size = float(mixed.diagonal().max())
    torch.testing.assert_close(jet.metric[0], mixed, rtol=0, atol=1e-4 * size)
    torch.testing.assert_close(
        jet.drift[0], (here[:9] - here[9:18]) / (2 * h), rtol=0, atol=1e-4 * size
    )
    torch.testing.assert_close(jet.value, kernel.diagonal(x), rtol=64 * EPS, atol=0)


def test_wide_networks_approach_the_metric_of_infinite_width() -> None:
    """In standard errors of 12 draws, which at width 128 exceed the bias; 1.5 times the limit is not."""
    net, x = FullyConnected(erf, 2, 1.5, 0.1), normal(2, 2, seed=6)
    draws = [EmpiricalNTK(net.finite(128, seed, d=2)).metric(x) for seed in range(12)]
    estimate, limit = Estimate.of(torch.stack(draws)), net.ntk.metric(x)
    assert estimate.sigmas_from(limit).max() < 4
    assert estimate.sigmas_from(1.5 * limit).diagonal(dim1=1, dim2=2).min() > 4


def test_wrong_calls_are_refused() -> None:
    kernel = EmpiricalNTK(network(3, 4, 1))
    require_refusals([
        ("other points", lambda: kernel.metric(normal(2, 4))),
        ("text", lambda: kernel.metric("abc")),
        ("NaN", lambda: kernel.metric(math.nan * normal(2, 3))),
        ("names", lambda: EmpiricalNTK(network(3, 4, 1), {"w": normal(1)}).metric(normal(2, 3))),
    ])  # fmt: skip

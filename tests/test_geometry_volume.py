"""Log volumes and spectra of feature maps, against SVD where it is accurate and mpmath where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from mpmath import mp
from torch import Tensor, nn
from torch.func import jacrev, vmap

from analytic.activations import erf
from drawn_networks import WIDE, deep, drawn, points, spectrum_of, volume_of
from numeric.geometry.scaled_qr import graded
from numeric.geometry.volume import MILD, SAFE
from numeric.models.shallow import ShallowNetwork


def _by_svd(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.linalg.svdvals(vmap(jacrev(lambda y: f(y[None])[0].flatten()))(x).double())


def _agree(f: Callable, x: Tensor, digits: float = 1e-12, **kwargs: Any) -> None:
    values = _by_svd(f, x)
    volume, spectrum = volume_of(f, x, **kwargs), spectrum_of(f, x, **kwargs)
    assert (volume.value - values.log().sum(1)).abs().max() < digits
    assert (spectrum.log_singular - values.log()).abs().max() < digits
    assert (volume.rank == values.shape[1]).all()
    assert (spectrum.rank == values.shape[1]).all()
    exact = values[:, 0] / values[:, -1]
    assert (spectrum.condition / exact - 1).abs().max() < 1e-9
    assert (volume.condition <= exact * (1 + 1e-9)).all()
    assert (volume.condition >= 0.8 * exact).all()


@pytest.mark.parametrize(
    "net",
    [
        drawn(nn.Sequential(nn.Linear(3, 40), nn.Tanh())),  # closed form
        drawn(nn.Sequential(nn.Linear(9, 4), nn.Sigmoid())),  # closed form, more inputs than units
        deep(2, 30, 30),  # forward mode
        deep(12, 30, 5),  # reverse mode
        deep(6, 6, 6),
        deep(1, 5, 3),
        deep(4, 5, 1),
        drawn(nn.Sequential(nn.Linear(3, 40), nn.ReLU(), nn.Linear(40, 7))),
    ],
    ids=["hidden", "wide", "forward", "reverse", "square", "line", "function", "relu"],
)
def test_any_map_agrees_with_svd(net: nn.Sequential) -> None:
    _agree(net, points(7, net[0].in_features))


def test_a_layer_is_picked_by_name_and_points_may_be_images() -> None:
    net = drawn(
        nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(48, 5))
    )
    x = points(3, 16).reshape(3, 1, 4, 4)
    values = torch.linalg.svdvals(vmap(jacrev(lambda y: net(y[None])[0]))(x).flatten(2))
    assert (volume_of(net, x).value - values.log().sum(1)).abs().max() < 1e-12
    inner = torch.linalg.svdvals(vmap(jacrev(lambda y: net[:2](y[None]).flatten()))(x).flatten(2))
    result = spectrum_of(net, x, layer="1").log_singular
    assert result.shape == (3, 16)
    assert (result - inner.log()).abs().max() < 1e-12


def test_no_mode_flag_or_graph_is_left_behind() -> None:
    net = drawn(nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout()))
    net[0].eval()
    before = [
        (part.training, *(p.requires_grad for p in part.parameters())) for part in net.modules()
    ]
    x = points(4, 3)
    result = volume_of(net, x)
    assert before == [
        (part.training, *(p.requires_grad for p in part.parameters())) for part in net.modules()
    ]
    assert all(p.grad is None for p in net.parameters())
    assert not x.requires_grad
    assert not result.value.requires_grad


def test_a_float32_model_is_factorised_in_float64() -> None:
    net = deep(6, 20, 6)
    x = points(3, 6).float()
    exact = volume_of(net, x.double())
    result = volume_of(net.float(), x)
    assert result.value.dtype == torch.float64
    assert (result.value - exact.value).abs().max() < 1e-5 * exact.condition.max()


ACTIVATIONS = {  # log phi' in mpmath
    "tanh": (nn.Tanh(), lambda z: -2 * mp.log(mp.cosh(z))),
    "sigmoid": (nn.Sigmoid(), lambda z: -mp.log(4) - 2 * mp.log(mp.cosh(z / 2))),
    "gelu": (nn.GELU(), lambda z: mp.log(abs(mp.ncdf(z) + z * mp.npdf(z)))),
    "silu": (nn.SiLU(), lambda z: mp.log(abs(mp.diff(lambda t: t / (1 + mp.exp(-t)), z)))),
    "softplus": (nn.Softplus(), lambda z: -mp.log(1 + mp.exp(-z))),
}


def _saturated(
    slope: Callable, weights: Tensor, biases: Tensor, x: Tensor, factor: Any = 1
) -> list:
    with mp.workdps(2000):
        W, b, x = mp.matrix(weights.tolist()), mp.matrix(biases.tolist()), mp.matrix(x.tolist())
        z = W * x + b
        for j in range(W.rows):
            with mp.workdps(60):
                log = slope(z[j])
            W[j, :] = W[j, :] * (factor * mp.exp(log))
        values = mp.eigsy(W.T * W, eigvals_only=True)
        return sorted((mp.log(abs(v)) / 2 for v in values), reverse=True)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_units_whose_derivatives_underflow_still_count(name: str) -> None:
    phi, slope = ACTIVATIONS[name]
    weights = 8 * points(7, 3, 4)
    biases = torch.tensor([-40.0, -90.0, -800.0, -850.0, -900.0, -910.0, -920.0], **WIDE)
    biases = biases / 16 if name == "gelu" else biases  # its tail is that of a Gaussian
    linear = nn.Linear(3, 7, **WIDE)
    with torch.no_grad():
        linear.weight.copy_(weights)
        linear.bias.copy_(biases)
    x = torch.tensor([[0.25, -0.5, 0.125]], **WIDE)
    net = nn.Sequential(linear, phi)
    exact = _saturated(slope, weights, biases, x[0])
    volume, spectrum = volume_of(net, x), spectrum_of(net, x)
    assert volume.rank.item() == spectrum.rank.item() == 3
    assert abs(volume.value.item() - mp.fsum(exact)) < 1e-9
    result = spectrum.log_singular[0].tolist()
    assert max(abs(a - b) for a, b in zip(result, exact, strict=True)) < 1e-9
    assert exact[-1] < -750  # the least positive float is e^-744


def test_erf_units_of_the_suite_with_their_normalisation() -> None:
    weights, biases = 4 * points(6, 2, 5), 5 * points(1, 6, 6)[0]
    x = torch.tensor([[3.0, -7.0]], **WIDE)
    root = mp.sqrt(2 / mp.pi) / mp.sqrt(6)
    exact = _saturated(lambda z: -z * z / 2, weights, biases, x[0], root)
    result = spectrum_of(ShallowNetwork(erf, weights, biases), x)
    off = [abs(a - b) for a, b in zip(result.log_singular[0].tolist(), exact, strict=True)]
    assert max(off) < 1e-9


def test_directions_that_the_map_ignores_lower_the_rank() -> None:
    A = torch.tensor([[3.0, 0.0, 4.0], [0.0, 5.0, 0.0], [6.0, 0.0, 8.0]], **WIDE)
    result = volume_of(lambda x: x @ A.T, points(2, 3))
    exact = torch.tensor([125.0**0.5, 5.0], **WIDE)  # sqrt(25 + 100), 5
    assert (result.value - exact.log().sum()).abs().max() < 1e-14
    assert result.rank.tolist() == [2, 2]
    assert (result.condition / (exact[0] / exact[1]) - 1).abs().max() < 1e-12
    spectrum = spectrum_of(lambda x: x @ A.T, points(2, 3))
    assert spectrum.log_singular[0, 2] == -torch.inf
    assert (spectrum.log_singular[:, :2] - exact.log()).abs().max() < 1e-14
    net = drawn(nn.Sequential(nn.Linear(4, 30), nn.ReLU()))
    with torch.no_grad():
        net[0].bias.copy_(torch.cat([torch.full((2,), 99.0), torch.full((28,), -99.0)]))
    assert volume_of(net, 0.1 * points(3, 4)).rank.tolist() == [2, 2, 2]


def test_a_point_without_derivatives_has_rank_zero() -> None:
    net = drawn(nn.Sequential(nn.Linear(2, 5), nn.ReLU()))
    with torch.no_grad():
        net[0].bias.fill_(-1.0)
    x = torch.tensor([[0.0, 0.0], [50.0, 80.0]], **WIDE)
    result = volume_of(net, x)
    assert result.rank[0] == 0
    assert result.rank[1] > 0
    assert (result.value[0], result.condition[0]) == (0, 1)


@pytest.mark.parametrize("condition", [1e2, 0.5 * SAFE, 2 * SAFE, 1e9, 1e13])
def test_ill_conditioned_maps_to_what_their_entries_determine(condition: float) -> None:
    left, _ = torch.linalg.qr(points(9, 5, 2))
    right, _ = torch.linalg.qr(points(5, 5, 3))
    A = left * torch.logspace(0, -torch.tensor(condition).log10().item(), 5, **WIDE) @ right
    with mp.workdps(60):
        J = mp.matrix(A.tolist())
        exact = mp.log(mp.det(J.T * J)) / 2
    result = volume_of(lambda x: x @ A.T, points(1, 5))
    assert abs(result.value.item() - exact) < 20 * torch.finfo(A.dtype).eps * condition
    assert abs(result.condition.item() / condition - 1) < 0.01


@pytest.mark.parametrize(("largest", "digits"), [(MILD, 1e-12), (SAFE, 1e-10)], ids=["gram", "qr"])
def test_each_factor_is_left_before_it_errs(largest: float, digits: float) -> None:
    """Rows of two scales at the largest condition number left to a Gram matrix, or to a plain QR."""
    rows = points(150, 70, 7)
    rows[30:] *= 3 / largest
    exact = graded(torch.zeros(150, **WIDE), rows).log_volume  # see test_scaled_qr
    result = volume_of(lambda x: x @ rows.T, points(1, 70))
    assert largest / 2 < result.condition < largest
    assert abs(result.value.item() - exact) < digits

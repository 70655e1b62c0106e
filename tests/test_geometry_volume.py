"""Log volumes and spectra of feature maps, against SVD where it is right and mpmath where it is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from mpmath import mp
from torch import Tensor, nn
from torch.func import jacrev, vmap

from analytic.activations import erf
from analytic.domain import InputError
from numeric import geometry
from numeric.geometry.meter import Meter
from numeric.geometry.rows import COPIES
from numeric.geometry.volume import SAFE
from numeric.shallow import ShallowNetwork

WIDE = {"dtype": torch.float64}


def _points(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), **WIDE)


def _drawn(module: nn.Module, scale: float = 1.0) -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    for weight in module.double().parameters():
        fan = weight.shape[-1] if weight.ndim > 1 else 1
        nn.init.normal_(weight, 0, scale / fan**0.5, generator=generator)
    return module


def _deep(d: int, *widths: int) -> nn.Module:
    sizes = (d, *widths)
    pairs = zip(sizes, widths, strict=False)
    return _drawn(nn.Sequential(*(m for a, b in pairs for m in (nn.Linear(a, b), nn.GELU()))))


def _by_svd(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.linalg.svdvals(vmap(jacrev(lambda y: f(y[None])[0].flatten()))(x).double())


def _volume(*args: Any, **kwargs: Any) -> geometry.LogVolume:
    return geometry.log_volume(*args, progress=False, **kwargs)


def _spectrum(*args: Any, **kwargs: Any) -> geometry.Spectrum:
    return geometry.spectrum(*args, progress=False, **kwargs)


def _agree(f: Callable, x: Tensor, digits: float = 1e-12, **kwargs: Any) -> None:
    values = _by_svd(f, x)
    volume, spectrum = _volume(f, x, **kwargs), _spectrum(f, x, **kwargs)
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
        _drawn(nn.Sequential(nn.Linear(3, 40), nn.Tanh())),  # closed form
        _drawn(nn.Sequential(nn.Linear(9, 4), nn.Sigmoid())),  # closed form, more inputs than units
        _deep(2, 30, 30),  # forward mode
        _deep(12, 30, 5),  # reverse mode
        _deep(6, 6, 6),
        _drawn(nn.Sequential(nn.Linear(3, 40), nn.ReLU(), nn.Linear(40, 7))),
    ],
    ids=["hidden", "wide", "forward", "reverse", "square", "relu"],
)
def test_any_map_agrees_with_svd(net: nn.Sequential) -> None:
    _agree(net, _points(7, net[0].in_features))


def test_a_layer_is_picked_by_name_and_points_may_be_images() -> None:
    net = _drawn(
        nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(48, 5))
    )
    x = _points(3, 16).reshape(3, 1, 4, 4)
    values = torch.linalg.svdvals(vmap(jacrev(lambda y: net(y[None])[0]))(x).flatten(2))
    assert (_volume(net, x).value - values.log().sum(1)).abs().max() < 1e-12
    inner = torch.linalg.svdvals(vmap(jacrev(lambda y: net[:2](y[None]).flatten()))(x).flatten(2))
    found = _spectrum(net, x, layer="1").log_singular
    assert found.shape == (3, 16)
    assert (found - inner.log()).abs().max() < 1e-12


def test_no_mode_flag_or_graph_is_left_behind() -> None:
    net = _drawn(nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout()))
    net[0].eval()
    before = [
        (part.training, *(p.requires_grad for p in part.parameters())) for part in net.modules()
    ]
    x = _points(4, 3)
    result = _volume(net, x)
    assert before == [
        (part.training, *(p.requires_grad for p in part.parameters())) for part in net.modules()
    ]
    assert all(p.grad is None for p in net.parameters())
    assert not x.requires_grad
    assert not result.value.requires_grad


def test_a_float32_model_is_factorised_in_float64() -> None:
    net = _deep(6, 20, 6)
    x = _points(3, 6).float()
    exact = _volume(net, x.double())
    found = _volume(net.float(), x)
    assert found.value.dtype == torch.float64
    assert (found.value - exact.value).abs().max() < 1e-5 * exact.condition.max()


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
    weights = 8 * _points(7, 3, 4)
    biases = torch.tensor([-40.0, -90.0, -800.0, -850.0, -900.0, -910.0, -920.0], **WIDE)
    biases = biases / 16 if name == "gelu" else biases  # its tail is that of a Gaussian
    linear = nn.Linear(3, 7, **WIDE)
    with torch.no_grad():
        linear.weight.copy_(weights)
        linear.bias.copy_(biases)
    x = torch.tensor([[0.25, -0.5, 0.125]], **WIDE)
    net = nn.Sequential(linear, phi)
    exact = _saturated(slope, weights, biases, x[0])
    volume, spectrum = _volume(net, x), _spectrum(net, x)
    assert volume.rank.item() == spectrum.rank.item() == 3
    assert abs(volume.value.item() - mp.fsum(exact)) < 1e-9
    found = spectrum.log_singular[0].tolist()
    assert max(abs(a - b) for a, b in zip(found, exact, strict=True)) < 1e-9
    assert exact[-1] < -750  # the least positive float is e^-744


def test_erf_units_of_the_suite_with_their_normalisation() -> None:
    weights, biases = 4 * _points(6, 2, 5), 5 * _points(1, 6, 6)[0]
    x = torch.tensor([[3.0, -7.0]], **WIDE)
    root = mp.sqrt(2 / mp.pi) / mp.sqrt(6)
    exact = _saturated(lambda z: -z * z / 2, weights, biases, x[0], root)
    found = _spectrum(ShallowNetwork(erf, weights, biases), x)
    off = [abs(a - b) for a, b in zip(found.log_singular[0].tolist(), exact, strict=True)]
    assert max(off) < 1e-9


def test_directions_that_the_map_ignores_lower_the_rank() -> None:
    A = torch.tensor([[3.0, 0.0, 4.0], [0.0, 5.0, 0.0], [6.0, 0.0, 8.0]], **WIDE)
    result = _volume(lambda x: x @ A.T, _points(2, 3))
    exact = torch.tensor([125.0**0.5, 5.0], **WIDE)  # sqrt(25 + 100), 5
    assert (result.value - exact.log().sum()).abs().max() < 1e-14
    assert result.rank.tolist() == [2, 2]
    assert (result.condition / (exact[0] / exact[1]) - 1).abs().max() < 1e-12
    spectrum = _spectrum(lambda x: x @ A.T, _points(2, 3))
    assert spectrum.log_singular[0, 2] == -torch.inf
    assert (spectrum.log_singular[:, :2] - exact.log()).abs().max() < 1e-14
    net = _drawn(nn.Sequential(nn.Linear(4, 30), nn.ReLU()))
    with torch.no_grad():
        net[0].bias.copy_(torch.cat([torch.full((2,), 99.0), torch.full((28,), -99.0)]))
    assert _volume(net, 0.1 * _points(3, 4)).rank.tolist() == [2, 2, 2]


def test_a_point_without_derivatives_has_rank_zero() -> None:
    net = _drawn(nn.Sequential(nn.Linear(2, 5), nn.ReLU()))
    with torch.no_grad():
        net[0].bias.fill_(-1.0)
    x = torch.tensor([[0.0, 0.0], [50.0, 80.0]], **WIDE)
    result = _volume(net, x)
    assert result.rank[0] == 0
    assert result.rank[1] > 0
    assert (result.value[0], result.condition[0]) == (0, 1)


@pytest.mark.parametrize("condition", [1e2, 0.5 * SAFE, 2 * SAFE, 1e9, 1e13])
def test_ill_conditioned_maps_to_what_their_entries_determine(condition: float) -> None:
    left, _ = torch.linalg.qr(_points(9, 5, 2))
    right, _ = torch.linalg.qr(_points(5, 5, 3))
    A = left * torch.logspace(0, -torch.tensor(condition).log10().item(), 5, **WIDE) @ right
    with mp.workdps(60):
        J = mp.matrix(A.tolist())
        exact = mp.log(mp.det(J.T * J)) / 2
    found = _volume(lambda x: x @ A.T, _points(1, 5))
    assert abs(found.value.item() - exact) < 20 * torch.finfo(A.dtype).eps * condition
    assert abs(found.condition.item() / condition - 1) < 0.01


def test_plain_qr_is_left_before_it_errs() -> None:
    """Rows of two scales at the largest condition that a plain QR still gets."""
    rows = _points(40, 8, 7)
    rows[4:] /= 0.5 * SAFE
    with mp.workdps(60):
        J = mp.matrix(rows.tolist())
        exact = mp.log(mp.det(J.T * J)) / 2
    found = _volume(lambda x: x @ rows.T, _points(1, 8))
    assert found.condition < SAFE
    assert abs(found.value.item() - exact) < 1e-10


WIDENING = _deep(5, 20, 600)
NARROWING = _deep(40, 30, 6)
HIDDEN = _drawn(nn.Sequential(nn.Linear(20, 50), nn.Tanh()))


@pytest.mark.parametrize("net", [WIDENING, NARROWING, HIDDEN], ids=["forward", "reverse", "hidden"])
def test_a_budget_bounds_memory_and_changes_nothing(net: nn.Sequential) -> None:
    x = _points(30, net[0].in_features)
    free = _spectrum(net, x)
    peaks = []
    for memory in (400_000, 4_000_000):
        with Meter() as meter:
            found = _spectrum(net, x, memory=memory)
        assert (found.log_singular - free.log_singular).abs().max() < 1e-12
        assert meter.peak <= memory
        peaks.append(meter.peak)
    assert peaks[1] > 1.5 * peaks[0]  # what is given is used


def test_more_features_than_memory_holds_are_reduced_on_the_way() -> None:
    net, x, memory = _deep(12, 20, 700), _points(2, 12), 300_000
    with Meter() as meter:
        found = _spectrum(net, x, memory=memory)
    assert meter.peak <= memory < COPIES * 8 * 700 * 12
    assert (found.log_singular - _by_svd(net, x).log()).abs().max() < 1e-12

    rows = _points(700, 12, 8) * 10.0 ** -(torch.arange(700, **WIDE) % 151)[:, None]  # in no order
    whole = _spectrum(lambda x: x @ rows.T, x)
    parts = _spectrum(lambda x: x @ rows.T, x, memory=memory)
    assert (whole.log_singular - parts.log_singular).abs().max() < 1e-12


@pytest.mark.parametrize("net", [WIDENING, NARROWING, HIDDEN], ids=["reduced", "reverse", "hidden"])
def test_a_budget_below_one_row_is_refused_with_the_number_needed(net: nn.Sequential) -> None:
    x = _points(2, net[0].in_features)
    with pytest.raises(InputError, match="memory = 1000 bytes was given") as refused:
        _volume(net, x, memory=1000)
    need = int(re.search(r"needs? (\d+)", str(refused.value))[1])
    assert (_volume(net, x, memory=need).value - _volume(net, x).value).abs().max() < 1e-12
    with pytest.raises(InputError, match=f"needs? {need}"):
        _volume(net, x, memory=need - 1)
    for wrong in (0, -5, 2.5, True, "2 GB"):
        with pytest.raises(InputError, match="memory"):
            _volume(net, x, memory=wrong)


class _OneWay(torch.autograd.Function):
    """A cube that torch can pull back, one row at a time, but not push forward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


def test_functions_that_torch_differentiates_in_one_way_only() -> None:
    A = _points(9, 4, 3)
    x = _points(3, 4)
    exact = _volume(lambda x: (x @ A.T) ** 3, x)
    found = _volume(lambda x: _OneWay.apply(x @ A.T), x)
    assert (found.value - exact.value).abs().max() < 1e-13


BAD: dict[str, tuple[Callable, str]] = {
    "wrong shape": (lambda x: x.sum(), "shape"),
    "one row for all": (lambda x: x.mean(0, keepdim=True), "shape"),
    "rows that mix": (lambda x: x - x.mean(0), "alone"),
    "no tensor": (lambda x: [x], "list"),
    "nan": (lambda x: (x - 9).log(), "NaN"),
    "detached": (lambda x: x.detach() * 2, "torch"),
    "detached in part": (lambda x: x * x.detach(), "derivative"),
    "without a graph": (torch.no_grad()(lambda x: x**2), "torch"),
    "numpy": (lambda x: torch.from_numpy(x.detach().numpy() ** 2), "torch"),
    "rounded": (lambda x: (8 * x).round(), "steps|derivative|0 at all"),
    "constant": (lambda x: 0 * x + 1, "0 at all"),
    "integers": (lambda x: (x > 0).long(), "int64"),
    "no slope": (lambda x: (x - x.detach()).abs().sqrt(), "slope|derivative"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("call", [_volume, _spectrum], ids=["volume", "spectrum"])
def test_maps_that_cannot_be_measured_are_refused(call: Callable, name: str) -> None:
    features, words = BAD[name]
    with pytest.raises(InputError, match=words):
        call(features, _points(3, 2))


def test_a_point_with_infinite_derivatives_is_named() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]], **WIDE)
    with pytest.raises(InputError, match="point 2"):
        _volume(lambda x: x.sqrt(), x)


@pytest.mark.parametrize("x", [torch.zeros(0, 2, **WIDE), torch.zeros(3, **WIDE), [[1.0, 2.0]]])
def test_an_empty_batch_and_other_shapes_are_refused(x: Any) -> None:
    for features in (lambda x: x**2, _drawn(nn.Sequential(nn.Linear(2, 4), nn.Tanh()))):
        with pytest.raises(InputError, match="x"):
            _volume(features, x)


def test_progress_is_shown_and_hidden(capfd: pytest.CaptureFixture) -> None:
    net, x = _deep(3, 6, 6), _points(2, 3)
    geometry.log_volume(net, x)
    assert "derivatives" in capfd.readouterr().err
    geometry.log_volume(net, x, progress=False)
    assert not capfd.readouterr().err

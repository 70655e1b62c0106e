"""Log volumes within a budget of memory, and input that is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from analytic.domain import InputError
from numeric import geometry
from numeric.geometry.meter import Meter
from numeric.geometry.rows import COPIES

WIDE = {"dtype": torch.float64}


def _points(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), **WIDE)


def _drawn(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    for weight in module.double().parameters():
        nn.init.normal_(weight, 0, weight.shape[-1] ** -0.5, generator=generator)
    return module


def _deep(d: int, *widths: int) -> nn.Module:
    pairs = zip((d, *widths), widths, strict=False)
    return _drawn(nn.Sequential(*(m for a, b in pairs for m in (nn.Linear(a, b), nn.GELU()))))


def _volume(*args: Any, **kwargs: Any) -> geometry.LogVolume:
    return geometry.log_volume(*args, progress=False, **kwargs)


def _spectrum(*args: Any, **kwargs: Any) -> geometry.Spectrum:
    return geometry.spectrum(*args, progress=False, **kwargs)


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
    assert (found.log_singular - _spectrum(net, x).log_singular).abs().max() < 1e-12

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
    "numpy": (lambda x: torch.from_numpy(x.numpy() ** 2), "torch"),
    "numpy, detached": (lambda x: torch.from_numpy(x.detach().numpy() ** 2), "torch"),
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

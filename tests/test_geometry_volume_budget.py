"""Log volumes within a budget of memory, and input that is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from analytic.expressions.arguments import InputError
from drawn_networks import WIDE, deep, drawn, points, spectrum_of, volume_of
from numeric import geometry
from numeric.geometry.jacobians import COPIES
from numeric.models.memory import Meter
from test_progress import terminal_for

WIDENING = deep(5, 20, 600)
NARROWING = deep(40, 30, 6)
HIDDEN = drawn(nn.Sequential(nn.Linear(20, 50), nn.Tanh()))


@pytest.mark.parametrize("net", [WIDENING, NARROWING, HIDDEN], ids=["forward", "reverse", "hidden"])
def test_a_budget_bounds_memory_and_changes_nothing(net: nn.Sequential) -> None:
    x = points(30, net[0].in_features)
    free = spectrum_of(net, x)
    peaks = []
    for memory in (400_000, 4_000_000):
        with Meter() as meter:
            result = spectrum_of(net, x, memory=memory)
        assert (result.log_singular - free.log_singular).abs().max() < 1e-12
        assert meter.peak <= memory
        peaks.append(meter.peak)
    assert peaks[1] > 1.5 * peaks[0]  # a larger budget is used


def test_more_features_than_memory_holds_are_reduced_on_the_way() -> None:
    net, x, memory = deep(12, 20, 700), points(2, 12), 300_000
    with Meter() as meter:
        result = spectrum_of(net, x, memory=memory)
    assert meter.peak <= memory < COPIES * 8 * 700 * 12
    assert (result.log_singular - spectrum_of(net, x).log_singular).abs().max() < 1e-12

    rows = points(700, 12, 8) * 10.0 ** -(torch.arange(700, **WIDE) % 151)[:, None]  # in no order
    whole = spectrum_of(lambda x: x @ rows.T, x)
    parts = spectrum_of(lambda x: x @ rows.T, x, memory=memory)
    assert (whole.log_singular - parts.log_singular).abs().max() < 1e-12


@pytest.mark.parametrize("net", [WIDENING, NARROWING, HIDDEN], ids=["reduced", "reverse", "hidden"])
def test_a_budget_below_one_row_is_refused_with_the_number_needed(net: nn.Sequential) -> None:
    x = points(2, net[0].in_features)
    with pytest.raises(InputError, match="memory = 1000 bytes was given") as refused:
        volume_of(net, x, memory=1000)
    need = int(re.search(r"needs? (\d+)", str(refused.value))[1])
    assert (volume_of(net, x, memory=need).value - volume_of(net, x).value).abs().max() < 1e-12
    with pytest.raises(InputError, match=f"needs? {need}"):
        volume_of(net, x, memory=need - 1)
    for wrong in (0, -5, 2.5, True, "2 GB"):
        with pytest.raises(InputError, match="memory"):
            volume_of(net, x, memory=wrong)


def test_one_copy_of_a_wide_jacobian_in_float32_is_enough() -> None:
    """Fewer features than inputs, and memory for one copy but not for the factors of a whole Jacobian."""
    # of rank 30, so that half of the singular values are rounding
    net = deep(20_000, 30, 60).float()
    x = points(2, 20_000).float()
    free = spectrum_of(net, x)
    memory = 60_000_000
    assert memory < COPIES * 8 * 60 * 20_000
    with Meter() as meter:
        result = spectrum_of(net, x, memory=memory)
    assert meter.peak <= memory
    assert result.rank.tolist() == free.rank.tolist() == [30, 30]
    # A singular value s is known to a few ulps of the largest one, so its logarithm to as many of s_1 / s.
    exact, off = free.log_singular[:, :30], (result.log_singular - free.log_singular)[:, :30].abs()
    condition = (exact.max(1, keepdim=True).values - exact).exp()
    assert (off / condition).max() < 8 * torch.finfo(torch.float32).eps
    with pytest.raises(InputError, match="memory = 30000000 bytes was given"):
        spectrum_of(net, x, memory=30_000_000)


def test_features_of_no_slope_and_of_little_are_no_directions_of_a_wide_jacobian() -> None:
    """As behind rectifiers that are off: rounding of the long rows must not fill the short ones."""
    scales = torch.ones(60)
    scales[::3], scales[1::3] = 0, 1e-9
    net = nn.Sequential(deep(20_000, 30, 60).float(), _Scaled(scales))
    x = points(1, 20_000).float()
    free, result = spectrum_of(net, x), spectrum_of(net, x, memory=60_000_000)
    assert result.rank.tolist() == free.rank.tolist() == [30]
    torch.testing.assert_close(result.log_singular, free.log_singular, rtol=0, atol=1e-3)


class _Scaled(nn.Module):
    def __init__(self, scales: Tensor) -> None:
        super().__init__()
        self.scales = nn.Parameter(scales)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scales


class _OneWay(torch.autograd.Function):
    """A cube with reverse-mode derivatives, one row at a time, but no forward mode."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


def test_functions_that_torch_differentiates_in_one_way_only() -> None:
    A = points(9, 4, 3)
    x = points(3, 4)
    exact = volume_of(lambda x: (x @ A.T) ** 3, x)
    result = volume_of(lambda x: _OneWay.apply(x @ A.T), x)
    assert (result.value - exact.value).abs().max() < 1e-13


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
@pytest.mark.parametrize("call", [volume_of, spectrum_of], ids=["volume", "spectrum"])
def test_maps_that_cannot_be_measured_are_refused(call: Callable, name: str) -> None:
    features, words = BAD[name]
    with pytest.raises(InputError, match=words):
        call(features, points(3, 2))


def test_a_point_with_infinite_derivatives_is_named() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]], **WIDE)
    with pytest.raises(InputError, match="point 2"):
        volume_of(lambda x: x.sqrt(), x)


@pytest.mark.parametrize(
    "x", [torch.zeros(0, 2, **WIDE), torch.zeros(3, **WIDE), [1.0, 2.0], "[[1.0, 2.0]]"]
)
def test_an_empty_batch_and_other_shapes_are_refused(x: Any) -> None:
    for features in (lambda x: x**2, drawn(nn.Sequential(nn.Linear(2, 4), nn.Tanh()))):
        with pytest.raises(InputError, match="x"):
            volume_of(features, x)


def test_progress_is_shown_and_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal_for(monkeypatch)
    net, x = deep(3, 6, 6), points(2, 3)
    geometry.log_volume(net, x, progress=False)
    assert not shown.getvalue()
    geometry.log_volume(net, x)
    assert "derivatives" in shown.getvalue()

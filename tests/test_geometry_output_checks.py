"""Checks of a map's outputs: in any units of the coordinates, for the derivatives of every feature."""

import pytest
import torch
from torch import Tensor, nn

from analytic.expressions.arguments import InputError
from drawn_networks import WIDE, deep, points, volume_of
from numeric import geometry
from numeric.models import output_checks

NET = deep(2, 7, 6)


@pytest.mark.parametrize(
    "units", [(1e-30, 1e-30), (1.0, 1e-10), (1.0, 1e8), (1e-4, 1e8), (1e30, 1e30)]
)
def test_coordinates_may_have_any_units(units: tuple[float, float]) -> None:
    scale, x = torch.tensor(units, **WIDE), points(3, 2)

    def measured(y: Tensor) -> Tensor:
        return NET(y / scale)

    torch.testing.assert_close(
        geometry.ricci_scalar(measured, x * scale).value,
        geometry.ricci_scalar(NET, x).value, rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    result = geometry.metric(measured, x * scale) * scale * scale[:, None]
    torch.testing.assert_close(result, geometry.metric(NET, x), rtol=1e-12, atol=1e-14)
    volume = volume_of(measured, x * scale)
    off = volume.value + scale.log().sum() - volume_of(NET, x).value
    assert (off.abs() < 20 * torch.finfo(x.dtype).eps * (100 + volume.condition)).all()


@pytest.mark.parametrize("share", [1.0, 1e-3, 1e-6])
def test_one_feature_without_its_derivative_is_enough(share: float) -> None:
    def features(x: Tensor) -> Tensor:
        return torch.cat([NET(x), share * x.detach()[:, :1] ** 2], 1)

    for quantity in (geometry.metric, geometry.log_volume, geometry.ricci_scalar):
        with pytest.raises(InputError, match="not that of its values"):
            quantity(features, points(3, 2), progress=False)


def test_units_do_not_hide_a_wrong_derivative() -> None:
    for scale in (1e-10, 1.0, 1e10):
        with pytest.raises(InputError, match="not that of its values"):
            geometry.metric(
                lambda y, s=scale: NET(y / s) * (y / s).detach()[:, :1], points(3, 2) * scale
            )
    with pytest.raises(InputError, match="second derivative"):
        geometry.ricci_scalar(_Halved.apply, 1e-10 * points(3, 2))


class _Halved(torch.autograd.Function):
    """sin(1e10 x) with a correct first derivative, half of which counts as constant in the second."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.cat([torch.sin(1e10 * x), x], 1)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def jvp(ctx, u: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        slope = torch.cos(1e10 * x)
        return torch.cat([1e10 * (slope + slope.detach()) / 2 * u, u], 1)


def test_deep_networks_in_float32_pass() -> None:
    layers = [part for _ in range(6) for part in (nn.Linear(20, 20), nn.LayerNorm(20), nn.GELU())]
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(2, 20), *layers), points(4, 2).float()
    assert geometry.ricci_scalar(net, x).value.isfinite().all()
    assert geometry.metric(net, x).isfinite().all()


def test_a_kink_nearer_than_any_difference_is_no_wrong_derivative() -> None:
    """In float32 no step is shorter than 1e-5; a large network has kinks within it, in some features."""
    x = torch.randn(1, 50, generator=torch.Generator().manual_seed(0))

    def bent(y: Tensor) -> Tensor:
        return torch.cat([y, (y[:, :2] - x[:, :2] - 1e-6).relu() + y[:, :2]], 1)

    def wrong(y: Tensor) -> Tensor:
        return torch.cat([bent(y), y.detach()[:, :1] + y[:, :1]], 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_checks, "NEAR_KINKS", 0.0)
        with pytest.raises(InputError, match="not that of its values"):
            geometry.log_volume(bent, x, progress=False)
    assert geometry.log_volume(bent, x, progress=False).rank == 50
    with pytest.raises(InputError, match="not that of its values"):
        geometry.log_volume(wrong, x, progress=False)

"""Second derivatives that torch lacks or gets wrong, and their replacements."""

import pytest
import torch
from torch import Tensor, nn

from analytic.expressions.arguments import InputError
from numeric import geometry
from numeric.geometry.derivatives import along_two
from numeric.models import activation_derivatives
from numeric.models.repaired_operations import ReplacedOperations
from numeric.models.saturating_activations import SATURATION_SAFE

DOUBLE = {"dtype": torch.float64}


def points(n: int = 4) -> Tensor:
    return torch.randn(n, 2, generator=torch.Generator().manual_seed(0), **DOUBLE)


def plain_norm(x: Tensor) -> Tensor:
    centred = x - x.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()


SPELT_OUT = {
    "layer_norm": (lambda x: nn.functional.layer_norm(x, (6,)), plain_norm),
    "torch.layer_norm": (lambda x: torch.layer_norm(x, (6,)), plain_norm),
    "LayerNorm": (nn.LayerNorm(6, **DOUBLE), plain_norm),
    "InstanceNorm": (
        nn.Sequential(nn.Unflatten(1, (1, 6)), nn.InstanceNorm1d(1, affine=True, **DOUBLE)), plain_norm,
    ),
    "SiLU": (nn.SiLU(), lambda x: x / (1 + torch.exp(-x))),
    "Mish": (nn.Mish(), lambda x: x * torch.tanh(torch.log1p(torch.exp(x)))),
    "GLU": (nn.GLU(), lambda x: x[:, :3] / (1 + torch.exp(-x[:, 3:]))),
}  # fmt: skip


@pytest.mark.parametrize("operation", SPELT_OUT)
def test_operations_without_right_second_derivatives_are_composed(operation: str) -> None:
    torch.manual_seed(2)
    into, out = nn.Linear(2, 6).double(), nn.Linear(3 if operation == "GLU" else 6, 5).double()
    operation_tested, plain = SPELT_OUT[operation]
    x = points(3)
    result = geometry.ricci_scalar(
        lambda y: torch.tanh(out(operation_tested(into(y)).flatten(1))), x
    )
    expected = geometry.ricci_scalar(lambda y: torch.tanh(out(plain(into(y)))), x)
    torch.testing.assert_close(result.value, expected.value, rtol=1e-10, atol=1e-12)


def test_a_wrong_second_derivative_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in torch's own layer norm, whose second derivatives treat mean and variance as constants."""
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(2, 6), nn.LayerNorm(6), nn.Linear(6, 5), nn.Tanh()).double()
    geometry.ricci_scalar(net, points())
    monkeypatch.setattr("numeric.models.model.REPAIRED", {})
    with pytest.raises(InputError, match="second derivative"):
        geometry.ricci_scalar(net, points())


OUT = torch.tensor([-300.3, -30.2, -8.1, -2.0, -1e-3, 0.0, 1e-3, 2.0, 8.1, 30.2, 300.3], **DOUBLE)
TAILS = {
    "sigmoid": (torch.sigmoid, activation_derivatives.sigmoid),
    "sigmoid method": (lambda z: z.sigmoid(), activation_derivatives.sigmoid),
    "tanh": (nn.Tanh(), activation_derivatives.tanh),
    "softplus": (nn.Softplus(), activation_derivatives.softplus),
    "log sigmoid": (nn.LogSigmoid(), activation_derivatives.log_sigmoid),
    "gelu": (nn.GELU(), activation_derivatives.gelu),
    "gelu tanh": (nn.GELU("tanh"), activation_derivatives.gelu_tanh),
    "silu": (nn.SiLU(), activation_derivatives.silu),
}


@pytest.mark.parametrize("name", TAILS)
def test_derivatives_by_torch_survive_saturation(name: str) -> None:
    phi, triple = TAILS[name]
    z = OUT / 25 if name == "gelu tanh" else OUT / 10 if name == "gelu" else OUT
    one = torch.ones_like(z)
    with ReplacedOperations(SATURATION_SAFE):
        slope, bend = along_two(phi, z, one, one)
        value = phi(z)
    log_scale, *exact = triple(z)
    torch.testing.assert_close(value, phi(z), rtol=1e-13, atol=1e-15)
    for result, part in zip((slope, bend), exact, strict=True):
        torch.testing.assert_close(result, part * log_scale.exp(), rtol=2e-13, atol=1e-300)


def test_torchs_own_derivatives_do_not() -> None:
    one = torch.ones(1, **DOUBLE)
    slope, _ = along_two(torch.tanh, 20 * one, one, one)
    assert slope.item() == 0


def test_saturated_maps_have_the_curvature_of_the_closed_form() -> None:
    """As modules they have closed forms, as functions they are differentiated by torch."""
    for seed, act in enumerate((nn.Tanh(), nn.Sigmoid(), nn.Softplus())):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(2, 8), act).double()
        net[0].weight.data *= 30
        closed = geometry.ricci_scalar(net, points())
        result = geometry.ricci_scalar(lambda y, net=net: net(y), points())
        assert net[0](points()).abs().max() > 20
        torch.testing.assert_close(result.value, closed.value, rtol=1e-10, atol=0)

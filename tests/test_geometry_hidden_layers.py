"""Which networks are recognised as hidden layers, and that both methods agree on their curvature."""

import pytest
import torch
from torch import nn
from torch.autograd.functional import jacobian
from torch.nn.utils import prune

from analytic.activations import erf
from analytic.expressions.arguments import InputError
from numeric import geometry
from numeric.models.hidden_layers import HiddenLayer, hidden_layer
from numeric.models.shallow import ShallowNetwork

DOUBLE = {"dtype": torch.float64}


TABLE = {
    "Sigmoid": nn.Sigmoid(), "Tanh": nn.Tanh(), "GELU": nn.GELU(), "GELU tanh": nn.GELU("tanh"),
    "SiLU": nn.SiLU(), "Softplus": nn.Softplus(2.0), "LogSigmoid": nn.LogSigmoid(), "ELU": nn.ELU(),
    "CELU": nn.CELU(0.5), "Softsign": nn.Softsign(), "Tanhshrink": nn.Tanhshrink(),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_modules_of_the_table_have_the_curvature_of_any_map(name: str) -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(3, 10), TABLE[name]).double()
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), **DOUBLE)
    assert hidden_layer(net) is not None
    ours, any_map = geometry.ricci_scalar(net, x), geometry.ricci_scalar(lambda y: net(y), x)
    torch.testing.assert_close(ours.value, any_map.value, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.condition, any_map.condition, rtol=1e-11, atol=0)


def test_what_is_recognised_as_a_hidden_layer() -> None:
    linear, tail = nn.Linear(4, 5), (nn.Linear(5, 2), nn.Tanh())
    yes = [
        (nn.Sequential(linear, nn.Tanh()), None),
        (nn.Sequential(linear, nn.Tanh(), *tail), "1"),
        (nn.Sequential(nn.Flatten(), nn.Linear(4, 5, bias=False), nn.GELU()), None),
        (ShallowNetwork(erf, torch.ones(5, 4), torch.ones(5)), None),
    ]
    no = [
        (nn.Sequential(linear, nn.Tanh(), *tail), None),
        (nn.Sequential(linear, nn.Tanh(), *tail), "3"),
        (nn.Sequential(linear, nn.Tanh()), "0"),
        (nn.Sequential(linear, nn.ReLU()), None),
        (nn.Sequential(nn.LayerNorm(4), nn.Tanh()), None),
        (nn.Sequential(linear), None),
        (nn.Sequential(), None),
        (nn.Sequential(linear, nn.Flatten(), nn.Tanh()), None),
        (nn.Tanh(), None),
        (torch.tanh, None),
    ]
    assert all(isinstance(hidden_layer(net, layer), HiddenLayer) for net, layer in yes)
    assert all(hidden_layer(net, layer) is None for net, layer in no)


def test_images_come_to_a_hidden_layer_through_flatten() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 2)).double()
    x = torch.randn(3, 1, 2, 2, generator=torch.Generator().manual_seed(0), **DOUBLE)
    ours = geometry.ricci_scalar(net, x, layer="2")
    torch.testing.assert_close(
        ours.value, geometry.ricci_scalar(net[:3].forward, x).value, rtol=1e-11, atol=0
    )


def test_a_layer_that_is_repeated_over_parts_of_a_point_has_no_closed_form() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 5), nn.Tanh()).double()
    x = torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(0), **DOUBLE)
    g = geometry.metric(net, x)
    assert g.shape == (3, 4, 4)
    blocks = torch.stack([geometry.metric(net, x[:, k]) for k in range(2)], 1)
    torch.testing.assert_close(g[:, :2, :2], blocks[:, 0], rtol=1e-13, atol=1e-15)
    both = sum(
        geometry.ricci_scalar(net, x[:, k]).value for k in range(2)
    )  # of a product of spaces
    torch.testing.assert_close(geometry.ricci_scalar(net, x).value, both, rtol=1e-11, atol=1e-12)
    volumes = [geometry.log_volume(net, x[:, k], progress=False).value for k in range(2)]
    whole = geometry.log_volume(net, x, progress=False).value
    torch.testing.assert_close(whole, sum(volumes), rtol=1e-12, atol=1e-12)
    for quantity in (geometry.metric, geometry.log_volume, geometry.ricci_scalar):
        with pytest.raises(InputError, match="fails on a batch"):  # as the network does
            quantity(net, x[:, 0, :, None])


def twice(_: nn.Module, __: object, output: torch.Tensor) -> torch.Tensor:
    return 2 * output


CHANGED = {
    "hook": lambda net: net[0].register_forward_hook(twice),
    "hook of the whole": lambda net: net.register_forward_pre_hook(lambda _, x: (2 * x[0],)),
    "hook of phi": lambda net: net[1].register_forward_hook(twice),
    "pruned": lambda net: prune.l1_unstructured(net[0], "weight", 5).weight_orig.data.mul_(3),
    "patched": lambda net: setattr(net[1], "forward", torch.sin),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_runs_beside_the_weights_counts(name: str) -> None:
    """Hooks change what a layer computes; pruned weights are updated only in a forward pass."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 9), nn.Tanh()).double()
    x = torch.randn(3, 2, generator=torch.Generator().manual_seed(0), **DOUBLE)
    CHANGED[name](net)
    result, volume = geometry.metric(net, x), geometry.log_volume(net, x, progress=False)
    expected = torch.stack([jacobian(lambda y: net(y[None])[0], point) for point in x])
    expected = expected.mT @ expected
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(volume.value, torch.logdet(expected) / 2, rtol=1e-11, atol=1e-12)


def test_a_stack_of_networks_is_no_feature_map() -> None:
    rng = torch.Generator().manual_seed(0)
    stack = ShallowNetwork.gaussian(erf, 5, 2, 1.0, 1.0, generator=rng, stack=3)
    with pytest.raises(InputError, match="one by one"):
        geometry.ricci_scalar(stack, torch.ones(1, 2, **DOUBLE))

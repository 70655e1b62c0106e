"""Modules that write into their inputs or buffers, and any memory layout: right results, no side effects."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from analytic.expressions.arguments import InputError
from drawn_networks import WIDE, drawn, points
from numeric import geometry

LINEAR = drawn(nn.Linear(2, 6))


def pulled_back(f: Callable, x: Tensor) -> Tensor:
    J = torch.stack([jacobian(lambda y: f(y[None])[0].flatten(), point).flatten(1) for point in x])
    return J.mT @ J


def agrees(f: Callable, plain: Callable, x: Tensor) -> None:
    exact = pulled_back(plain, x)
    torch.testing.assert_close(geometry.metric(f, x), exact, rtol=1e-12, atol=1e-14)
    volume = geometry.log_volume(f, x, progress=False).value
    torch.testing.assert_close(volume, torch.logdet(exact) / 2, rtol=1e-10, atol=1e-11)
    curved = geometry.ricci_scalar(plain, x).value
    torch.testing.assert_close(geometry.ricci_scalar(f, x).value, curved, rtol=1e-10, atol=1e-12)


def test_a_map_may_write_into_its_input() -> None:
    def writes(y: Tensor) -> Tensor:
        y *= 2
        return torch.tanh(LINEAR(y))

    x = points(3, 2)
    agrees(writes, lambda y: torch.tanh(LINEAR(2 * y)), x)
    agrees(
        nn.Sequential(nn.SiLU(inplace=True), LINEAR, nn.Tanh()),
        nn.Sequential(nn.SiLU(), LINEAR, nn.Tanh()),
        x,
    )
    assert torch.equal(x, points(3, 2))


@pytest.mark.parametrize("phi", [F.silu, F.mish], ids=["silu", "mish"])
def test_activations_in_place_change_what_they_are_given(phi: Callable) -> None:
    """Although torch's own functions are replaced, since they lack second derivatives."""

    def overwritten(y: Tensor) -> Tensor:
        h = LINEAR(y)
        phi(h, inplace=True)
        return torch.cat([h, h**2], 1)

    def plain(y: Tensor) -> Tensor:
        h = phi(LINEAR(y))
        return torch.cat([h, h**2], 1)

    agrees(overwritten, plain, points(3, 2))


def test_saturated_units_survive_in_place_and_by_keyword() -> None:
    far = nn.Sequential(nn.Linear(2, 6), nn.Tanh())
    drawn(far)[0].weight.data *= 20
    x = points(3, 2)
    closed = geometry.ricci_scalar(far, x).value
    for f in (lambda y: far[0](y).tanh_(), lambda y: torch.tanh(input=far[0](y))):
        torch.testing.assert_close(geometry.ricci_scalar(f, x).value, closed, rtol=1e-10, atol=0)


class Moving(nn.Module):
    """Keeps a running mean of its inputs, in eval mode too, that does not affect its output."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 6, **WIDE)
        self.register_buffer("mean", torch.zeros(6, **WIDE))
        self.register_buffer("count", torch.zeros((), **WIDE))

    def forward(self, x: Tensor) -> Tensor:
        h = self.linear(x)
        self.mean = 0.9 * self.mean + 0.1 * h.detach().mean(0)
        with torch.no_grad():
            self.count.add_(1)
        return torch.tanh(h)


def test_buffers_are_as_they_were() -> None:
    net, x = Moving(), points(3, 2)
    mean, count = net.mean, net.count
    exact = torch.logdet(pulled_back(Moving.forward.__get__(net), x)) / 2
    net.mean = mean
    net.count.zero_()
    result = geometry.log_volume(net, x, progress=False)
    torch.testing.assert_close(result.value, exact, rtol=1e-11, atol=1e-12)
    assert net.mean is mean
    assert net.count is count
    assert count == 0
    assert not mean.any()


def test_a_graph_from_before_can_still_be_followed() -> None:
    net = drawn(nn.Sequential(nn.Linear(2, 5), nn.BatchNorm1d(5), nn.Tanh())).eval()
    loss = net(points(3, 2)).sum()
    geometry.metric(net, points(3, 2))
    loss.backward()
    assert net[0].weight.grad.isfinite().all()


def test_points_lie_in_memory_in_any_way() -> None:
    x = points(1, 2)
    for one in (x.expand(3, 2), points(2, 3).T, points(6, 2)[::2]):
        agrees(lambda y: torch.tanh(LINEAR(y.view(-1, 2))), lambda y: torch.tanh(LINEAR(y)), one)
    image = points(2, 12).view(2, 3, 2, 2).to(memory_format=torch.channels_last)
    result = geometry.metric(lambda y: torch.tanh(y.view(len(y), -1)), image)
    expected = torch.diag_embed((1 - image.flatten(1).tanh() ** 2) ** 2)
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-15)
    with pytest.raises(InputError, match="to_dense"):
        geometry.metric(torch.tanh, x.to_sparse())


def test_models_may_be_made_and_used_in_inference_mode() -> None:
    with torch.inference_mode():
        net, x = drawn(nn.Sequential(nn.Linear(2, 5), nn.BatchNorm1d(5), nn.Tanh())), points(3, 2)
        result = geometry.metric(net, x)
    normal = drawn(nn.Sequential(nn.Linear(2, 5), nn.BatchNorm1d(5), nn.Tanh()))
    torch.testing.assert_close(result, geometry.metric(normal, points(3, 2)))
    volume = geometry.log_volume(normal, x, progress=False).value
    with torch.inference_mode():
        again = geometry.log_volume(normal, points(3, 2), progress=False).value
    assert torch.equal(volume, again)


def test_features_of_fewer_digits_than_the_points_count_as_such() -> None:
    """A direction that consists of rounding alone does not count."""
    single = drawn(nn.Linear(2, 6)).float()
    single.weight.data[:, 1] = 0.7 * single.weight.data[:, 0]

    def rounded(y: Tensor) -> Tensor:
        return torch.tanh(single(y.float()))

    assert geometry.log_volume(rounded, points(3, 2), progress=False).rank.tolist() == [1, 1, 1]
    for quantity in (geometry.ricci_scalar, geometry.ricci_estimate):
        with pytest.raises(InputError, match="rank 1 of 2"):
            quantity(rounded, points(3, 2))


def test_half_precision_inside_is_distinguished_from_a_wrong_derivative() -> None:
    net = drawn(nn.Sequential(nn.Linear(2, 6), nn.Tanh())).float()

    def mixed(y: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return net(y)

    x = points(3, 2).float()
    result, exact = geometry.metric(mixed, x), geometry.metric(net, x)
    assert mixed(x).dtype == torch.bfloat16
    assert (result - exact).abs().max() < 0.05 * exact.abs().max()


def test_numbers_for_names_and_names_for_numbers_are_refused() -> None:
    net = nn.Sequential(LINEAR, nn.Tanh())
    with pytest.raises(InputError, match="write '1'"):
        geometry.metric(net, points(3, 2), layer=1)
    for seed in (1.5, "a", -1):
        with pytest.raises(InputError, match="seed"):
            geometry.ricci_estimate(net, points(3, 2), seed=seed)

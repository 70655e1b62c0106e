"""Deep saturated networks, whose Jacobians do not fit into one float matrix, against a thousand digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from mpmath import mp
from torch import Tensor, nn

from drawn_networks import WIDE, drawn, points, spectrum_of, volume_of
from numeric.geometry.layerwise_volume import LayerStack
from numeric.models.memory import Meter
from numeric.models.model import Model

PHI: dict[type[nn.Module], tuple[Callable, Callable]] = {  # in mpmath, with derivatives
    nn.Tanh: (mp.tanh, lambda z: 1 / mp.cosh(z) ** 2),
    nn.Sigmoid: (lambda z: 1 / (1 + mp.exp(-z)), lambda z: 1 / (4 * mp.cosh(z / 2) ** 2)),
    nn.GELU: (lambda z: z * mp.ncdf(z), lambda z: mp.ncdf(z) + z * mp.npdf(z)),
}


def network(act: type[nn.Module], gain: float, *widths: int) -> nn.Sequential:
    pairs = pairwise(widths)
    net = drawn(nn.Sequential(*(part for a, b in pairs for part in (nn.Linear(a, b), act()))))
    for linear in net[::2]:
        linear.weight.data *= gain
    return net


def exact(net: nn.Sequential, x: Tensor) -> list[float]:
    """Logs of all singular values of the Jacobian, descending."""
    with mp.workdps(1200):
        h, J = mp.matrix(x.tolist()), mp.eye(len(x))
        for linear, phi in zip(net[::2], net[1::2], strict=True):
            value, slope = PHI[type(phi)]
            W = mp.matrix(linear.weight.tolist())
            h, J = W * h + mp.matrix(linear.bias.tolist()), W * J
            for i in range(h.rows):
                J[i, :] = J[i, :] * slope(h[i])
                h[i] = value(h[i])
        gram = J.T * J if J.rows >= J.cols else J * J.T
        result = mp.eigsy(gram, eigvals_only=True)
        return sorted((float(mp.log(abs(v)) / 2) for v in result), reverse=True)


SHAPES = {
    "widening": (3, 5, 6),
    "narrowing": (5, 6, 3),
    "waisted": (5, 6, 3, 6, 4),
    "deep": (3, 6, 6, 5),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("act", "gain"), [(nn.Tanh, 30), (nn.Sigmoid, 40), (nn.GELU, 3)])
def test_volume_spectrum_and_condition_of_deep_saturated_networks(
    act: type[nn.Module], gain: float, shape: str
) -> None:
    if (act, shape) == (nn.GELU, "waisted"):
        gain = 2  # the tail is Gaussian: at a larger gain the digits would not suffice
    net, x = network(act, gain, *SHAPES[shape]), points(2, SHAPES[shape][0])
    volume, spectrum = volume_of(net, x), spectrum_of(net, x)
    for k, point in enumerate(x):
        values = exact(net, point)[: min(SHAPES[shape])]
        assert volume.rank[k] == spectrum.rank[k] == len(values)
        assert abs(volume.value[k].item() - math.fsum(values)) < 1e-10
        result = spectrum.log_singular[k].tolist()
        assert max(abs(a - b) for a, b in zip(result, values, strict=False)) < 1e-10
        spread = values[0] - values[-1]
        assert abs(volume.condition[k].log().item() - spread) < 0.1
        assert abs(spectrum.condition[k].log().item() - spread) < 1e-10


def test_one_matrix_would_not_do() -> None:
    """The same function as an opaque map: directions are lost, and the rank shows it."""
    net, x = network(nn.Tanh, 30, 3, 6, 6, 5), points(2, 3)
    volume = volume_of(lambda y: net(y), x)
    assert (volume.rank < 3).all()
    assert (volume_of(net, x).rank == 3).all()


def test_derivatives_of_any_map_survive_in_volumes() -> None:
    """Torch's own slope of tanh is 0 beyond 19; the last layer scales rows, which keep their digits."""
    net, x = network(nn.Tanh, 1, 3, 6, 5), points(2, 3)
    net[2].weight.data *= 40
    net[2].bias.data += torch.linspace(-90, 90, 5, **WIDE)
    result = spectrum_of(lambda y: net(y), x)
    for k, point in enumerate(x):
        values = exact(net, point)
        assert values[-1] < -38
        assert abs(result.log_singular[k] - torch.tensor(values, **WIDE)).max() < 1e-9


def test_all_may_underflow() -> None:
    net, x = network(nn.Sigmoid, 1, 2, 4, 3), points(2, 2)
    net[2].bias.data += 900
    for k, point in enumerate(x):
        values = exact(net, point)
        assert abs(volume_of(net, x).value[k].item() - math.fsum(values)) < 1e-10
        assert abs(spectrum_of(net, x).log_singular[k] - torch.tensor(values, **WIDE)).max() < 1e-10


def test_layers_whose_scales_come_in_the_opposite_order() -> None:
    """Volumes are right for any order of scales; singular values come from the Jacobian here."""
    net = network(nn.Tanh, 1, 2, 2, 2)
    for linear, biases in zip(net[::2], ([0.0, 60.0], [90.0, 0.0]), strict=True):
        linear.weight.data = torch.eye(2, **WIDE)
        linear.bias.data = torch.tensor(biases, **WIDE)
    x = points(1, 2)
    values = exact(net, x[0])
    assert abs(volume_of(net, x).value.item() - math.fsum(values)) < 1e-12
    assert abs(spectrum_of(net, x).log_singular[0] - torch.tensor(values, **WIDE)).max() < 1e-12
    product = LayerStack.of(Model.of(net), x).at(x[0])
    assert product.log_singular() is None
    assert abs(product.log_condition() - (values[0] - values[1])) < 1e-9


def test_layers_that_lose_directions_are_left_to_the_jacobian() -> None:
    net, x = network(nn.Tanh, 20, 3, 6, 5), points(2, 3)
    net[2].weight.data[:, 3:] = 0
    net[0].weight.data[2] = net[0].weight.data[0] + net[0].weight.data[1]
    assert LayerStack.of(Model.of(net), x).at(x[0]) is None
    assert (volume_of(net, x).rank <= 2).all()


@pytest.mark.parametrize("shape", [(50, 200, 200, 5), (40, 60, 90), (20, 30, 30, 30, 30, 20)])
def test_memory_is_foreseen(shape: tuple[int, ...]) -> None:
    net, x = network(nn.Tanh, 5, *shape), points(1, shape[0])
    stack = LayerStack.of(Model.of(net), x)
    with Meter() as meter:
        product = stack.at(x[0])
        values = product.log_singular()
        product.log_condition()
    assert stack.bytes() / 4 < meter.peak < stack.bytes()
    assert abs(values.sum().item() - product.log_volume) < 1e-10
    short = volume_of(net, x, memory=stack.bytes() - 1)  # from the Jacobian alone
    assert abs(short.value.item() - product.log_volume) < 1e-15 * short.condition.item()


def test_what_is_recognised_as_a_chain() -> None:
    one, two = nn.Linear(4, 5), nn.Linear(5, 3)
    flat, image = points(2, 4), points(2, 4).view(2, 1, 2, 2)
    hooked = nn.Sequential(one, nn.Tanh(), nn.Linear(5, 3))
    hooked[2].register_forward_hook(lambda *_: None)
    yes = [
        (nn.Sequential(one, nn.Tanh(), two), None, flat),
        (nn.Sequential(one, nn.Dropout(), nn.GELU(), two, nn.Softmax(1)), "3", flat),
        (nn.Sequential(nn.Flatten(), one, two, nn.Tanh()), None, image),
    ]
    no = [
        (nn.Sequential(one, nn.Tanh()), None, flat),
        (nn.Sequential(one, nn.ReLU(), two), None, flat),
        (nn.Sequential(nn.Sequential(one, nn.Tanh()), two), "0.1", flat),
        (nn.Sequential(one, nn.Tanh(), nn.Tanh(), two), None, flat),
        (nn.Sequential(one, nn.Tanh(), two), None, points(2, 8).view(2, 2, 4)),
        (hooked, None, flat),
        (nn.Tanh(), None, flat),
    ]
    assert all(LayerStack.of(Model.of(net, layer), x) is not None for net, layer, x in yes)
    assert all(LayerStack.of(Model.of(net, layer), x) is None for net, layer, x in no)

"""Residual networks: known sizes, seeds, and the geometry of a small one against plain autograd."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import jacrev
from torch.overrides import TorchFunctionMode

from analytic.activations import erf
from analytic.expressions.arguments import InputError
from numeric import geometry
from numeric.models import ResNet, cifar_resnet, resnet18, resnet34, resnet50, resnet101
from numeric.models.resnet import Basic, Bottleneck


def _small(dtype: torch.dtype = torch.float64, seed: int = 0) -> ResNet:
    return ResNet((1, 1, 2, 1), 2, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def _image(n: int = 1, side: int = 8) -> Tensor:
    return torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(0)).double()


BUILDS = {  # for ten classes: parameters as published, convolutions, activations, features
    "resnet18": (resnet18, 11_173_962, 20, 17, 512),
    "resnet34": (resnet34, 21_282_122, 36, 33, 512),
    "resnet50": (resnet50, 23_520_842, 53, 49, 2048),
    "resnet101": (resnet101, 42_512_970, 104, 100, 2048),
    "20 layers": (partial(cifar_resnet, 20), 269_722, 19, 19, 64),
    "32 layers": (partial(cifar_resnet, 32), 464_154, 31, 31, 64),
    "44 layers": (partial(cifar_resnet, 44), 658_586, 43, 43, 64),
    "56 layers": (partial(cifar_resnet, 56), 853_018, 55, 55, 64),
}


AFFINE = {
    "conv2d", "batch_norm", "linear", "mean", "add", "pad", "__getitem__",
    "dim", "empty", "eval",  # which compute nothing
}  # fmt: skip


class _Called(TorchFunctionMode):
    """Counts the torch functions that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names[func.__name__] += 1
        return func(*args, **(kwargs or {}))


def calls(net: nn.Module) -> Counter[str]:
    """The torch functions that one pass runs, counted; on no data."""
    net = net.eval().to("meta")
    with torch.device("meta"), _Called() as called:
        net(torch.empty(1, 3, 32, 32))
    return called.names


@pytest.mark.parametrize("name", BUILDS)
def test_sizes_are_the_published_ones_and_every_place_has_the_activation(name: str) -> None:
    """What runs is counted, not what is declared; beside activations there are affine operations only."""
    build, published, convolutions, places, features = BUILDS[name]
    net = build(classes=10, activation=nn.Softplus())
    assert sum(p.numel() for p in net.parameters()) == published
    assert net.features == features
    called = calls(net)
    assert called["softplus"] == places
    assert called["conv2d"] == called["batch_norm"] == convolutions
    assert set(called) <= AFFINE | {"softplus"}


@pytest.mark.parametrize("block", [Basic, Bottleneck])
@pytest.mark.parametrize(
    ("activation", "function"),
    [(None, "gelu"), (nn.ReLU(), "relu"), (nn.PReLU(init=0.5), "prelu"), (erf, "erf")],
    ids=["default", "ReLU", "with parameters", "of the suite"],
)
def test_any_activation_is_in_every_block(block: type, activation: Any, function: str) -> None:
    generator = torch.Generator().manual_seed(0)
    net = ResNet((1, 2), 2, generator=generator, activation=activation, block=block)
    assert all(part.weight.item() == 0.5 for part in net.modules() if type(part) is nn.PReLU)
    called = calls(net)
    assert called[function] == 1 + 3 * (2 if block is Basic else 3)
    assert set(called) <= AFFINE | {function, "mul", "as_tensor", "__get__"}


def test_resnet50_takes_small_images_to_2048_features() -> None:
    net = resnet50().eval()
    shapes = []
    for stage in net.stages:
        stage.register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape)))
    with torch.no_grad():
        out = net(_image(2, 32).float())
    assert out.shape == (2, 2048)
    assert shapes == [(2, 256, 32, 32), (2, 512, 16, 16), (2, 1024, 8, 8), (2, 2048, 4, 4)]
    assert out.isfinite().all()


def test_a_seed_is_a_network_and_leaves_the_global_one_alone() -> None:
    state = torch.get_rng_state()
    one, again, other = _small(), _small(), _small(seed=1)
    same = [torch.equal(a, b) for a, b in zip(one.parameters(), again.parameters(), strict=True)]
    assert all(same)
    assert not torch.equal(one.conv1.weight, other.conv1.weight)
    assert torch.equal(torch.get_rng_state(), state)


def test_weights_follow_the_law_of_torch() -> None:
    for part in resnet50().modules():
        if isinstance(part, nn.Conv2d):
            half = part.weight[0].numel() ** -0.5
            assert part.weight.abs().max() <= half
            n = part.weight.numel()
            assert abs(part.weight.var() / (half**2 / 3) - 1) < 5 * (0.8 / n) ** 0.5  # kurtosis 9/5


def test_untrained_batch_normalisation_only_divides() -> None:
    net, bare = _small().eval(), _small().eval()
    for name, part in list(bare.named_modules()):
        if isinstance(part, nn.BatchNorm2d):
            bare.set_submodule(name, nn.Identity())
        if isinstance(part, nn.Conv2d):
            part.weight.data /= (1 + 1e-5) ** 0.5
    x = _image(3)
    assert (net(x) - bare(x)).abs().max() < 1e-12 * net(x).abs().max()


@pytest.mark.parametrize("memory", [3_000_000, 100_000_000])
def test_log_volume_of_a_small_one(memory: int) -> None:
    net, x = _small(), _image(2)
    with torch.no_grad():
        net.eval()
        J = torch.stack([jacrev(lambda y: net(y[None])[0])(point).flatten(1) for point in x])
        net.train()
    values = torch.linalg.svdvals(J)
    rank = int((values[0] > 1e-12 * values[0, 0]).sum())
    assert rank < 64  # the last stage has one pixel, and its block adds fewer channels than it has
    result = geometry.spectrum(net, x, memory=memory, progress=False)
    assert net.training
    assert result.rank.tolist() == [rank, rank]
    assert (result.log_singular - values.log())[:, :rank].abs().max() < 1e-9
    inside = geometry.log_volume(net, x[:1], "layer2", memory=100_000_000, progress=False)
    assert inside.rank.item() == 2 * 8 * 8  # all that two channels of the first layer let through


def test_float32_gives_what_its_derivatives_know() -> None:
    net, x = _small(), _image()
    wide = geometry.log_volume(net, x, progress=False)
    narrow = geometry.log_volume(net.float(), x.float(), progress=False)
    assert (wide.value - narrow.value).abs().item() < 1e-6 * wide.condition.item()


@pytest.mark.parametrize("blocks", [(), (1, 1, 0, 1), (1, 1, 1.5, 1)])
def test_stages_without_blocks_are_refused(blocks: tuple) -> None:
    with pytest.raises(InputError, match="blocks"):
        ResNet(blocks, generator=torch.Generator())

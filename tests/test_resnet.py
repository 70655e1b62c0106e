"""Residual networks: known sizes, seeds, and the geometry of a small one against plain autograd."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import jacrev

from analytic.expressions.arguments import InputError
from numeric import geometry
from numeric.models import ResNet, resnet50, resnet101

READOUT = 2048 * 10 + 10  # parameters of the published networks for ten classes


def _small(dtype: torch.dtype = torch.float64, seed: int = 0) -> ResNet:
    return ResNet((1, 1, 2, 1), 2, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def _image(n: int = 1, side: int = 8) -> Tensor:
    return torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(0)).double()


@pytest.mark.parametrize(
    ("build", "published", "convolutions"),
    [(resnet50, 23_520_842, 53), (resnet101, 42_512_970, 104)],
)
def test_sizes_are_the_published_ones(build: type, published: int, convolutions: int) -> None:
    net = build()
    assert sum(p.numel() for p in net.parameters()) == published - READOUT
    assert sum(isinstance(part, nn.Conv2d) for part in net.modules()) == convolutions
    assert not any(isinstance(part, nn.ReLU) for part in net.modules())
    assert net.features == 2048


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
    assert not torch.equal(one.stem[0].weight, other.stem[0].weight)
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
    for part in bare.modules():
        if isinstance(part, nn.Sequential) and isinstance(part[-1], nn.BatchNorm2d):
            part[-1] = nn.Identity()
            part[0].weight.data /= (1 + 1e-5) ** 0.5
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
    inside = geometry.log_volume(net, x[:1], "stages.1", memory=100_000_000, progress=False)
    assert inside.rank.item() == 2 * 8 * 8  # all that two channels of the first layer let through


def test_float32_gives_what_its_derivatives_know() -> None:
    net, x = _small(), _image()
    wide = geometry.log_volume(net, x, progress=False)
    narrow = geometry.log_volume(net.float(), x.float(), progress=False)
    assert (wide.value - narrow.value).abs().item() < 1e-6 * wide.condition.item()


@pytest.mark.parametrize("blocks", [(1, 1, 1), (1, 1, 0, 1), (1, 1, 1.5, 1)])
def test_other_than_four_stages_are_refused(blocks: tuple) -> None:
    with pytest.raises(InputError, match="blocks"):
        ResNet(blocks, generator=torch.Generator())

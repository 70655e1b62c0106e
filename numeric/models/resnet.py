"""Residual networks of bottleneck blocks for small images, smooth in their input.

The first layer is a 3 x 3 convolution of stride 1 without pooling, as is usual for 32 x 32 pixels, and
every ReLU is a GELU. The output is the feature map: the mean over pixels of the last block's channels.

Weights are uniform within 1/sqrt(fan-in), which is torch's own law; batch normalisation starts with
scale 1, shift 0, mean 0 and variance 1. An untrained network in eval mode therefore does not normalise
anything: it divides by sqrt(1 + 1e-5) and is otherwise the network without batch normalisation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from numeric.inputs import InputError, require_float_dtype, require_instance, whole

EXPANSION = 4  # channels that leave a block, over those of its 3 x 3 convolution


class Bottleneck(nn.Module):
    """1 x 1 to fewer channels, 3 x 3, 1 x 1 to more, and a shortcut around them."""

    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        out = EXPANSION * inner
        self.reduce = _convolution(channels, inner, 1)
        self.mix = _convolution(inner, inner, 3, stride)
        self.expand = _convolution(inner, out, 1)
        same = stride == 1 and channels == out
        self.shortcut = nn.Identity() if same else _convolution(channels, out, 1, stride)
        self.phi = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) -> (n, 4 inner, h / stride, w / stride)."""
        h = self.phi(self.mix(self.phi(self.reduce(x))))
        return self.phi(self.expand(h) + self.shortcut(x))


class ResNet(nn.Module):
    """Four stages of blocks, each with half the pixels a side and twice the channels of the last.

    `blocks` counts those of each stage and `width` is the channels of the first one; weights are drawn from
    the generator, on its device. Images (n, 3, h, w) go to features (n, 32 width). Refused are other than
    four stages, sizes that are no whole numbers above 0, and a dtype that is not real.

    >>> net = ResNet((1, 1, 1, 1), width=2, generator=torch.Generator().manual_seed(0))
    >>> net.eval()(torch.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 64])
    """

    def __init__(
        self,
        blocks: tuple[int, int, int, int],
        width: int = 64,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if not isinstance(blocks, tuple | list) or len(blocks) != 4:
            raise InputError(
                f"blocks = {blocks!r} was given, but four stages are needed, as (3, 4, 6, 3)."
            )
        require_instance(
            "generator", generator, torch.Generator, "torch.Generator().manual_seed(0)"
        )
        require_float_dtype(dtype)
        for count in blocks:
            whole("blocks", count)
        self.features = 8 * EXPANSION * whole("width", width)
        stages, channels = [], width
        with torch.device("meta"):  # where nothing is drawn from the global generator
            self.stem = _convolution(3, width, 3)
            for stage, count in enumerate(blocks):
                inner, parts = width * 2**stage, []
                for block in range(count):
                    stride = 2 if stage and not block else 1
                    parts.append(Bottleneck(channels, inner, stride))
                    channels = EXPANSION * inner
                stages.append(nn.Sequential(*parts))
        self.stages = nn.Sequential(*stages)
        self.phi = nn.GELU()
        self.to(dtype).to_empty(device=generator.device)
        for part in self.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.reset_parameters()
            elif isinstance(part, nn.Conv2d):
                half = 1 / math.sqrt(part.weight[0].numel())
                nn.init.uniform_(part.weight, -half, half, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, h, w) -> (n, 32 width)."""
        return self.stages(self.phi(self.stem(x))).mean((2, 3))


def resnet50(seed: int = 0, dtype: torch.dtype = torch.float32) -> ResNet:
    """50 layers, 23.5 million parameters: images (n, 3, h, w) -> 2048 features.

    The seed fixes the weights; one that is no whole number at least 0 is refused.

    >>> resnet50().features  # doctest: +SKIP
    2048
    """
    return _seeded((3, 4, 6, 3), seed, dtype)


def resnet101(seed: int = 0, dtype: torch.dtype = torch.float32) -> ResNet:
    """101 layers, 42.5 million parameters: images (n, 3, h, w) -> 2048 features; otherwise as `resnet50`."""
    return _seeded((3, 4, 23, 3), seed, dtype)


def _seeded(blocks: tuple[int, int, int, int], seed: int, dtype: torch.dtype) -> ResNet:
    generator = torch.Generator().manual_seed(whole("seed", seed, 0))
    return ResNet(blocks, generator=generator, dtype=dtype)


def _convolution(channels: int, out: int, size: int, stride: int = 1) -> nn.Sequential:
    """Without bias, since batch normalisation has one."""
    kernel = nn.Conv2d(channels, out, size, stride, padding=size // 2, bias=False)
    return nn.Sequential(kernel, nn.BatchNorm2d(out))

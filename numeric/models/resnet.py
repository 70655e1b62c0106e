"""Residual networks for small images, smooth in their input or with ReLU, of two and of three layers a block.

The first layer is a 3 x 3 convolution of stride 1 without pooling, as is usual for 32 x 32 pixels. The
feature map is the mean over pixels of the last block's channels, the layer "pool"; with `classes` a linear
readout follows it. Layers bear the names of the usual code for these images (conv1, layer1.0.bn2, ...,
linear), so that weights trained by it fit.

The shortcut of a block that changes the number of pixels or channels is a 1 x 1 convolution (`projection`),
or every second pixel with further channels of zeros (`padding`), as in the networks of 20 to 56 layers of
He et al. (2016), section 4.2, for CIFAR-10.

Weights are uniform within 1/sqrt(fan-in), which is torch's own law; batch normalisation starts with
scale 1, shift 0, mean 0 and variance 1. An untrained network in eval mode therefore does not normalise
anything: it divides by sqrt(1 + 1e-5) and is otherwise the network without batch normalisation.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from analytic.activations.activation import Activation
from numeric.inputs import (
    InputError,
    require_float_dtype,
    require_instance,
    require_seed,
    shown,
    whole,
)

__all__ = [
    "Basic",
    "Bottleneck",
    "Elementwise",
    "Padding",
    "PixelMean",
    "ResNet",
    "cifar_resnet",
    "padding",
    "projection",
    "resnet18",
    "resnet20",
    "resnet32",
    "resnet34",
    "resnet44",
    "resnet50",
    "resnet56",
    "resnet101",
]  # fmt: skip

Phi = Callable[[], nn.Module]  # makes the activation of one place
Shortcut = Callable[[int, int, int], nn.Module]  # from channels, to channels, stride


class Elementwise(nn.Module):
    """An activation of `analytic.activations` as a torch module; one with open parameters is refused.

    >>> from analytic.activations import erf
    >>> Elementwise(erf)(torch.zeros(2)).tolist()
    [0.0, 0.0]
    """

    def __init__(self, activation: Activation) -> None:
        super().__init__()
        if activation.parameters:
            names = ", ".join(map(str, activation.parameters))
            raise InputError(f"{activation.name} leaves {names} open: fix it, as in monomial(2).")
        self.activation = activation

    def forward(self, z: Tensor) -> Tensor:
        return self.activation.phi.torch(z)

    def extra_repr(self) -> str:
        return self.activation.name


class Padding(nn.Module):
    """Every `stride`-th pixel, between channels of zeros: a shortcut without parameters."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.stride, self.before = stride, (out - channels) // 2
        self.after = out - channels - self.before

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) -> (n, out, h / stride, w / stride)."""
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.before, self.after))


def padding(channels: int, out: int, stride: int) -> nn.Module:
    """A shortcut without parameters."""
    return Padding(channels, out, stride)


def projection(channels: int, out: int, stride: int) -> nn.Module:
    """A shortcut by a 1 x 1 convolution and batch normalisation."""
    kernel = nn.Conv2d(channels, out, 1, stride, bias=False)
    return nn.Sequential(kernel, nn.BatchNorm2d(out))


class Basic(nn.Module):
    """Two 3 x 3 convolutions, and a shortcut around them."""

    expansion = 1  # channels that leave a block, over those of its 3 x 3 convolution

    def __init__(
        self, channels: int, inner: int, stride: int, phi: Phi, shortcut: Shortcut
    ) -> None:
        super().__init__()
        self.conv1, self.bn1 = _convolution(channels, inner, 3, stride), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = _convolution(inner, inner, 3), nn.BatchNorm2d(inner)
        same = stride == 1 and channels == inner
        self.shortcut = nn.Identity() if same else shortcut(channels, inner, stride)
        self.phi1, self.phi2 = phi(), phi()

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) -> (n, inner, h / stride, w / stride)."""
        h = self.phi1(self.bn1(self.conv1(x)))
        return self.phi2(self.bn2(self.conv2(h)) + self.shortcut(x))


class Bottleneck(nn.Module):
    """1 x 1 to fewer channels, 3 x 3, 1 x 1 to more, and a shortcut around them."""

    expansion = 4

    def __init__(
        self, channels: int, inner: int, stride: int, phi: Phi, shortcut: Shortcut
    ) -> None:
        super().__init__()
        out = self.expansion * inner
        self.conv1, self.bn1 = _convolution(channels, inner, 1), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = _convolution(inner, inner, 3, stride), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = _convolution(inner, out, 1), nn.BatchNorm2d(out)
        same = stride == 1 and channels == out
        self.shortcut = nn.Identity() if same else shortcut(channels, out, stride)
        self.phi1, self.phi2, self.phi3 = phi(), phi(), phi()

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) -> (n, 4 inner, h / stride, w / stride)."""
        h = self.phi1(self.bn1(self.conv1(x)))
        h = self.phi2(self.bn2(self.conv2(h)))
        return self.phi3(self.bn3(self.conv3(h)) + self.shortcut(x))


class PixelMean(nn.Module):
    """The mean over pixels: (n, channels, h, w) -> (n, channels)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


class ResNet(nn.Module):
    """Stages of blocks, each with half the pixels a side and twice the channels of the last.

    `blocks` counts those of each stage and `width` is the channels of the first one; a block is `Basic` or
    `Bottleneck`, its shortcut `projection` or `padding`. The activation is a torch module, of which each
    place has a copy, or one of `analytic.activations`; by default GELU. Weights are drawn from the generator,
    on its device. Images (n, colours, h, w) go to `features` numbers, or with `classes` to as many. Refused
    are no stages, sizes that are no whole numbers above 0, activations that are no modules, and a dtype that
    is not real.

    >>> net = ResNet((1, 1, 1, 1), width=2, generator=torch.Generator().manual_seed(0))
    >>> net.eval()(torch.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 64])
    """

    def __init__(
        self,
        blocks: Sequence[int],
        width: int = 64,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        activation: nn.Module | Activation | None = None,
        block: type[Basic] | type[Bottleneck] = Bottleneck,
        shortcut: Shortcut = projection,
        classes: int | None = None,
        colours: int = 3,
    ) -> None:
        super().__init__()
        if not isinstance(blocks, tuple | list) or not blocks:
            raise InputError(
                f"blocks = {blocks!r} was given, but a count for each stage is needed, as (3, 4, 6, 3)."
            )
        require_instance(
            "generator", generator, torch.Generator, "torch.Generator().manual_seed(0)"
        )
        require_float_dtype(dtype)
        if block not in (Basic, Bottleneck):
            raise InputError(
                f"block = {shown(block)} was given, but Basic or Bottleneck is needed."
            )
        for count in blocks:
            whole("blocks", count)
        phi = _places(nn.GELU() if activation is None else activation)
        self.features = 2 ** (len(blocks) - 1) * block.expansion * whole("width", width)
        channels = width
        with torch.device("meta"):  # where nothing is drawn from the global generator
            self.conv1 = _convolution(whole("colours", colours), width, 3)
            self.bn1 = nn.BatchNorm2d(width)
            self.phi = phi()
            for stage, count in enumerate(blocks):
                inner, parts = width * 2**stage, []
                for place in range(count):
                    stride = 2 if stage and not place else 1
                    parts.append(block(channels, inner, stride, phi, shortcut))
                    channels = block.expansion * inner
                self.add_module(f"layer{stage + 1}", nn.Sequential(*parts))
            self.pool = PixelMean()
            if classes is not None:
                self.linear = nn.Linear(channels, whole("classes", classes))
        self._depth, self._read_out = len(blocks), classes is not None
        self.to(dtype)
        for part in self.modules():
            if any(value.is_meta for value in part.parameters(recurse=False)):
                part.to_empty(device=generator.device, recurse=False)
                _draw(part, generator)
        self.to(generator.device)  # with activations, which bring the values of their parameters

    @property
    def stages(self) -> tuple[nn.Module, ...]:
        return tuple(self.get_submodule(f"layer{k + 1}") for k in range(self._depth))

    def forward(self, x: Tensor) -> Tensor:
        """(n, colours, h, w) -> (n, features), or with classes (n, classes)."""
        h = self.phi(self.bn1(self.conv1(x)))
        for stage in self.stages:
            h = stage(h)
        h = self.pool(h)
        return self.linear(h) if self._read_out else h


def resnet18(
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    *,
    activation: nn.Module | Activation | None = None,
    classes: int | None = None,
) -> ResNet:
    """18 layers, 11.2 million parameters: images (n, 3, h, w) -> 512 features, or with `classes` as many.

    The activation is a torch module or one of `analytic.activations`, by default GELU; the seed fixes the
    weights. Refused are a seed that is no whole number at least 0, and what `ResNet` refuses.

    >>> resnet18(activation=nn.ReLU(), classes=10).features
    512
    """
    return _seeded((2, 2, 2, 2), seed, dtype, activation, classes, Basic)


def resnet34(
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    *,
    activation: nn.Module | Activation | None = None,
    classes: int | None = None,
) -> ResNet:
    """34 layers, 21.3 million parameters: images (n, 3, h, w) -> 512 features, or with `classes` as many.

    Parameters and refusals are those of `resnet18`.

    >>> resnet34().features
    512
    """
    return _seeded((3, 4, 6, 3), seed, dtype, activation, classes, Basic)


def resnet50(
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    *,
    activation: nn.Module | Activation | None = None,
    classes: int | None = None,
) -> ResNet:
    """50 layers, 23.5 million parameters: images (n, 3, h, w) -> 2048 features, or with `classes` as many.

    Parameters and refusals are those of `resnet18`.

    >>> resnet50().features
    2048
    """
    return _seeded((3, 4, 6, 3), seed, dtype, activation, classes, Bottleneck)


def resnet101(
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    *,
    activation: nn.Module | Activation | None = None,
    classes: int | None = None,
) -> ResNet:
    """101 layers, 42.5 million parameters: images (n, 3, h, w) -> 2048 features, or with `classes` as many.

    Parameters and refusals are those of `resnet18`.

    >>> resnet101().features
    2048
    """
    return _seeded((3, 4, 23, 3), seed, dtype, activation, classes, Bottleneck)


def cifar_resnet(
    depth: int,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    *,
    activation: nn.Module | Activation | None = None,
    classes: int | None = 10,
) -> ResNet:
    """The residual network of 6 n + 2 layers that He et al. train on CIFAR-10: 20, 32, 44, 56 or more.

    Three stages of 16, 32 and 64 channels, with shortcuts without parameters. Images (n, 3, h, w) go to
    `classes` numbers, or with None to the 64 features of the layer "pool". The activation is a torch module
    or one of `analytic.activations`, by default ReLU; the seed fixes the weights. Refused are other depths,
    and what `ResNet` refuses.

    >>> net = cifar_resnet(20).eval()
    >>> net(torch.zeros(1, 3, 32, 32)).shape, net.features
    (torch.Size([1, 10]), 64)
    """
    count, rest = divmod(whole("depth", depth, 8) - 2, 6)
    if rest:
        raise InputError(
            f"depth = {depth} was given, but these networks have 6 n + 2 layers: 20, 32, 44, 56, ..."
        )
    phi = nn.ReLU() if activation is None else activation
    return _seeded((count,) * 3, seed, dtype, phi, classes, Basic, 16, padding)


def resnet20() -> ResNet:
    """`cifar_resnet(20)`: 20 layers, 0.27 million parameters, images (n, 3, h, w) -> 10 numbers.

    Without arguments, so that the command line can name it as a model.

    >>> resnet20().features
    64
    """
    return cifar_resnet(20)


def resnet32() -> ResNet:
    """`cifar_resnet(32)`: 32 layers, 0.46 million parameters, images (n, 3, h, w) -> 10 numbers.

    Without arguments, so that the command line can name it as a model.

    >>> resnet32().features
    64
    """
    return cifar_resnet(32)


def resnet44() -> ResNet:
    """`cifar_resnet(44)`: 44 layers, 0.66 million parameters, images (n, 3, h, w) -> 10 numbers.

    Without arguments, so that the command line can name it as a model.

    >>> resnet44().features
    64
    """
    return cifar_resnet(44)


def resnet56() -> ResNet:
    """`cifar_resnet(56)`: 56 layers, 0.85 million parameters, images (n, 3, h, w) -> 10 numbers.

    Without arguments, so that the command line can name it as a model.

    >>> resnet56().features
    64
    """
    return cifar_resnet(56)


def _seeded(
    blocks: tuple[int, ...],
    seed: int,
    dtype: torch.dtype,
    activation: nn.Module | Activation | None,
    classes: int | None,
    block: type[Basic] | type[Bottleneck],
    width: int = 64,
    shortcut: Shortcut = projection,
) -> ResNet:
    return ResNet(
        blocks,
        width,
        generator=torch.Generator().manual_seed(require_seed(seed)),
        dtype=dtype,
        activation=activation,
        block=block,
        shortcut=shortcut,
        classes=classes,
    )


def _places(activation: nn.Module | Activation) -> Phi:
    """What makes the activation of one place: a copy of a module, or a module around a formula."""
    if isinstance(activation, Activation):
        return lambda: Elementwise(activation)
    if not isinstance(activation, nn.Module):
        raise InputError(
            f"activation = {shown(activation)} was given, but a torch module such as nn.GELU(), or one of "
            "analytic.activations is needed."
        )
    return lambda: copy.deepcopy(activation)


def _convolution(channels: int, out: int, size: int, stride: int = 1) -> nn.Conv2d:
    """Without bias, since the batch normalisation after it has one."""
    return nn.Conv2d(channels, out, size, stride, padding=size // 2, bias=False)


def _draw(part: nn.Module, generator: torch.Generator) -> None:
    if isinstance(part, nn.BatchNorm2d):
        part.reset_parameters()
        return
    values = list(part.parameters(recurse=False))
    half = 1 / math.sqrt(values[0][0].numel())  # weights come before biases
    for value in values:
        nn.init.uniform_(value, -half, half, generator=generator)

"""Finite twins of layers: torch modules of random weights, whose empirical kernels converge."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from numeric.infinite.composition.signal import Scales

__all__ = ["Draw", "Function", "Sum", "Weights"]


@dataclass(frozen=True)
class Draw:
    """How the weights of a finite network are drawn: its width, scales, random numbers and dtype."""

    width: int
    scales: Scales
    generator: torch.Generator
    dtype: torch.dtype

    def with_scales(self, sigma_w: float | None, sigma_b: float | None) -> Draw:
        """The same with a layer's own scales, where it has them."""
        return Draw(self.width, self.scales.of(sigma_w, sigma_b), self.generator, self.dtype)

    def normal(self, *shape: int) -> Tensor:
        kind = {"device": self.generator.device, "dtype": self.dtype}
        return torch.randn(*shape, generator=self.generator, **kind)


Contract = Callable[
    [Tensor, Tensor], Tensor
]  # inputs, weights (out, in, ...) -> outputs (n, out, ...)


class Weights(nn.Module):
    r"""$z = a\,(W * h) + c\,b$ with a product of weights and signals that a layer defines.

    Weights are (out, in, *support); biases, one for each channel, are left out where sigma_b is 0.
    """

    def __init__(
        self, draw: Draw, inputs: int, outputs: int, support: tuple[int, ...], contract: Contract
    ) -> None:
        super().__init__()
        scales, fan_in = draw.scales, inputs * math.prod(support)
        weights, biases = scales.parametrisation.rates(fan_in, scales.sigma_w, scales.sigma_b)
        self.a, self.c, self.contract = math.sqrt(weights / fan_in), math.sqrt(biases), contract
        weight = draw.normal(outputs, inputs, *support) * (scales.sigma_w / math.sqrt(weights))
        self.weight = nn.Parameter(weight)
        bias = draw.normal(outputs) * (scales.sigma_b / self.c) if self.c else None
        self.bias = None if bias is None else nn.Parameter(bias)

    def forward(self, h: Tensor) -> Tensor:
        z = self.a * self.contract(h, self.weight)
        if self.bias is None:
            return z
        return z + self.c * self.bias.reshape(-1, *[1] * (z.ndim - 2))


class Function(nn.Module):
    """A function without parameters."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, h: Tensor) -> Tensor:
        return self.function(h)


class Sum(nn.Module):
    """The sum of branches."""

    def __init__(self, branches: list[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, h: Tensor) -> Tensor:
        return torch.stack([branch(h) for branch in self.branches]).sum(0)

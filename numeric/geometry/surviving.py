r"""Activations whose first and second derivatives, taken by torch, keep their digits in both tails.

Torch takes $1 - \tanh^2$ and $s(1 - s)$ for slopes, which have no digits left where $e^{-|z|}$ is below the
last one. The same functions, written in $e = e^{-|z|}$ on either side of 0, have all of them in any number of
derivatives. Where no unit is far out, torch's own serve as well and faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from numeric.geometry.composed import written

FAR = 3.0  # torch's slopes have lost one digit there


def _near(x: Tensor) -> bool:
    return bool(x.detach().abs().amax() < FAR)


def _side(x: Tensor) -> Tensor:
    """1 to the left of 0 and -1 to the right; the product with x has a slope at 0 too, where |x| has none."""
    return 1 - 2 * (x.detach() >= 0).to(x.dtype)


def sigmoid(input: Tensor) -> Tensor:
    if _near(input):
        return torch.sigmoid(input)
    side = _side(input)
    tail = torch.exp(side * input)
    return torch.addcmul((1 - side) / 2, side, tail / (1 + tail))


def tanh(input: Tensor) -> Tensor:
    if _near(input):
        return torch.tanh(input)
    side = _side(input)
    tail = torch.exp(2 * side * input)
    return side * ((tail - 1) / (tail + 1))


def softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Without the threshold, beyond which torch takes a straight line and drops the curvature."""
    side = _side(x)
    return (1 - side) / 2 * x + torch.log1p(torch.exp(beta * side * x)) / beta


def logsigmoid(x: Tensor) -> Tensor:
    return -softplus(-x)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        return x * sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))
    if _near(x):
        return F.gelu(x)
    return x * torch.erfc(-x / math.sqrt(2)) / 2


def silu(x: Tensor, inplace: bool = False) -> Tensor:
    return written(silu, x) if inplace else x * sigmoid(x)


def mish(x: Tensor, inplace: bool = False) -> Tensor:
    return written(mish, x) if inplace else x * tanh(softplus(x))


def sigmoid_(input: Tensor) -> Tensor:
    return written(sigmoid, input)


def tanh_(input: Tensor) -> Tensor:
    return written(tanh, input)


SURVIVING: dict[Callable[..., Any], Callable[..., Tensor]] = {
    **dict.fromkeys((torch.sigmoid, torch.Tensor.sigmoid, F.sigmoid, torch.special.expit), sigmoid),
    **dict.fromkeys((torch.tanh, torch.Tensor.tanh, F.tanh), tanh),
    **dict.fromkeys((torch.sigmoid_, torch.Tensor.sigmoid_), sigmoid_),
    **dict.fromkeys((torch.tanh_, torch.Tensor.tanh_), tanh_),
    F.softplus: softplus,
    F.logsigmoid: logsigmoid,
    F.gelu: gelu,
    F.silu: silu,
    F.mish: mish,
}

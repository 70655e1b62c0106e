r"""Activations whose first and second derivatives, taken by torch, keep their digits in both tails.

Torch takes $1 - \tanh^2$ and $s(1 - s)$ for slopes, which have no digits left where $e^{-|z|}$ is below the
last one. The same functions, written in $e = e^{-|z|}$ on either side of 0, have all of them in any number of
derivatives. Where no unit is far out, torch's own serve as well and faster.

So it is with softmax: torch takes $p_k(t_k - \sum_j p_j t_j)$ for slopes, which for the largest p is a
difference of numbers as good as equal. Written in $e^{z_k - z_m}$ of the others, it has all of its digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from numeric.models.repaired_operations import written

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


def _against_largest(z: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Where the largest entry is, the others less it, and the sum of their exponentials."""
    at = z.detach().argmax(dim, keepdim=True)
    below = z - z.gather(dim, at)
    return at, below, torch.exp(below).scatter(dim, at, 0.0).sum(dim, keepdim=True)


def softmax(input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    z = input if dtype is None else input.to(dtype)
    at, below, rest = _against_largest(z, dim)
    return torch.exp(below).scatter(dim, at, 1.0) / (1 + rest)


def log_softmax(input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    _, below, rest = _against_largest(input if dtype is None else input.to(dtype), dim)
    return below - torch.log1p(rest)


def _functional(own: Callable[..., Tensor], sign: int = 1) -> Callable[..., Tensor]:
    """With the arguments of torch.nn.functional, where the axis may be left out."""

    def call(
        input: Tensor,
        dim: int | None = None,
        _stacklevel: int = 3,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        if dim is None:  # as torch chooses it
            dim = 0 if input.ndim in (0, 1, 3) else 1
        return own(sign * input, dim, dtype)

    return call


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if dropout_p or enable_gqa:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    scores = query @ key.mT * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return softmax(scores, -1) @ value


# Torch's own function would not see a TorchFunctionMode again from within: a copy that calls ours.
multi_head_attention = FunctionType(
    F.multi_head_attention_forward.__code__,
    {
        **F.multi_head_attention_forward.__globals__,
        "has_torch_function": lambda _: False,
        "softmax": _functional(softmax),
        "scaled_dot_product_attention": attention,
    },
    argdefs=F.multi_head_attention_forward.__defaults__,
)


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
    **dict.fromkeys((torch.softmax, torch.Tensor.softmax, torch.special.softmax), softmax),
    **dict.fromkeys(
        (torch.log_softmax, torch.Tensor.log_softmax, torch.special.log_softmax), log_softmax
    ),
    F.softmax: _functional(softmax),
    F.softmin: _functional(softmax, -1),
    F.log_softmax: _functional(log_softmax),
    F.scaled_dot_product_attention: attention,
    F.multi_head_attention_forward: multi_head_attention,
}

r"""Activations whose first and second derivatives, taken by torch, keep their digits in both tails.

Torch computes slopes as $1 - \tanh^2$ and $s(1 - s)$, which cancel completely where $e^{-|z|}$ is below the
rounding unit. The same functions, written in $e = e^{-|z|}$ on either side of 0, keep all digits in
derivatives of any order. Where no unit is saturated, torch's own functions are as accurate, and faster.

Likewise for softmax: torch computes slopes as $p_k(t_k - \sum_j p_j t_j)$, which cancels for the largest p.
Written in $e^{z_k - z_m}$ relative to the largest entry $z_m$, it keeps all digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from numeric.models.repaired_operations import write_in_place

__all__ = [
    "SATURATION_SAFE", "attention", "gelu", "log_softmax", "logsigmoid", "mish", "sigmoid", "sigmoid_",
    "silu", "softmax", "softplus", "tanh", "tanh_",
]  # fmt: skip

FAR = 3.0  # |z| where torch's slopes have lost about one digit


def _all_moderate(x: Tensor) -> bool:
    return bool(x.detach().abs().amax() < FAR)


def _side(x: Tensor) -> Tensor:
    """1 for x < 0 and -1 for x >= 0: side * x is -|x|, but with a derivative at 0."""
    return 1 - 2 * (x.detach() >= 0).to(x.dtype)


def sigmoid(input: Tensor) -> Tensor:
    if _all_moderate(input):
        return torch.sigmoid(input)
    side = _side(input)
    tail = torch.exp(side * input)
    return torch.addcmul((1 - side) / 2, side, tail / (1 + tail))


def tanh(input: Tensor) -> Tensor:
    if _all_moderate(input):
        return torch.tanh(input)
    side = _side(input)
    tail = torch.exp(2 * side * input)
    return side * ((tail - 1) / (tail + 1))


def softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Without the threshold beyond which torch replaces it by a straight line without curvature."""
    side = _side(x)
    return (1 - side) / 2 * x + torch.log1p(torch.exp(beta * side * x)) / beta


def logsigmoid(x: Tensor) -> Tensor:
    return -softplus(-x)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        return x * sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))
    if _all_moderate(x):
        return F.gelu(x)
    return x * torch.erfc(-x / math.sqrt(2)) / 2


def silu(x: Tensor, inplace: bool = False) -> Tensor:
    return write_in_place(silu, x) if inplace else x * sigmoid(x)


def mish(x: Tensor, inplace: bool = False) -> Tensor:
    return write_in_place(mish, x) if inplace else x * tanh(softplus(x))


def sigmoid_(input: Tensor) -> Tensor:
    return write_in_place(sigmoid, input)


def tanh_(input: Tensor) -> Tensor:
    return write_in_place(tanh, input)


def _against_largest(z: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Index of the largest entry, differences to it, and the sum of the exponentials of the others."""
    largest = z.detach().argmax(dim, keepdim=True)
    differences = z - z.gather(dim, largest)
    return (
        largest,
        differences,
        torch.exp(differences).scatter(dim, largest, 0.0).sum(dim, keepdim=True),
    )


def softmax(input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    z = input if dtype is None else input.to(dtype)
    largest, differences, rest = _against_largest(z, dim)
    return torch.exp(differences).scatter(dim, largest, 1.0) / (1 + rest)


def log_softmax(input: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    _, differences, rest = _against_largest(input if dtype is None else input.to(dtype), dim)
    return differences - torch.log1p(rest)


def _with_functional_signature(
    operation: Callable[..., Tensor], sign: int = 1
) -> Callable[..., Tensor]:
    """Give an operation the signature of torch.nn.functional, where `dim` may be None."""

    def call(
        input: Tensor,
        dim: int | None = None,
        _stacklevel: int = 3,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        if dim is None:  # the axis that torch chooses
            dim = 0 if input.ndim in (0, 1, 3) else 1
        return operation(sign * input, dim, dtype)

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


# Inside torch's own function a TorchFunctionMode is disabled, so this copy of it calls ours directly.
multi_head_attention = FunctionType(
    F.multi_head_attention_forward.__code__,
    {
        **F.multi_head_attention_forward.__globals__,
        "has_torch_function": lambda _: False,
        "softmax": _with_functional_signature(softmax),
        "scaled_dot_product_attention": attention,
    },
    argdefs=F.multi_head_attention_forward.__defaults__,
)


SATURATION_SAFE: dict[Callable[..., Any], Callable[..., Tensor]] = {
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
    F.softmax: _with_functional_signature(softmax),
    F.softmin: _with_functional_signature(softmax, -1),
    F.log_softmax: _with_functional_signature(log_softmax),
    F.scaled_dot_product_attention: attention,
    F.multi_head_attention_forward: multi_head_attention,
}

"""Operations whose second derivatives torch lacks or gets wrong, rewritten in operations that it gets right.

Nested derivatives of `layer_norm` and `instance_norm` are silently wrong in torch 2.13, in forward mode
(pytorch issue 196700) and in reverse: the saved mean and variance are treated as constants. Those of `silu`,
`mish` and `glu` have no forward mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = [
    "REPAIRED", "ReplacedOperations", "glu", "instance_norm", "layer_norm", "mish", "silu",
    "write_in_place",
]  # fmt: skip

Operation = Callable[..., Any]


class ReplacedOperations(TorchFunctionMode):
    """A context in which torch functions are replaced according to a table."""

    def __init__(self, table: Mapping[Operation, Operation]) -> None:
        super().__init__()
        self.table = table

    def __torch_function__(
        self, func: Operation, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self.table.get(func, func)(*args, **(kwargs or {}))


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    return _affine(_standard(input, tuple(range(-len(normalized_shape), 0)), eps), weight, bias)


def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if not use_input_stats:  # an affine map
        running = (running_mean, running_var, weight, bias)
        return F.instance_norm(x, *running, use_input_stats, momentum, eps)
    places = (-1,) + (1,) * (x.ndim - 2)
    weight, bias = (part if part is None else part.view(places) for part in (weight, bias))
    return _affine(_standard(x, tuple(range(2, x.ndim)), eps), weight, bias)


def silu(x: Tensor, inplace: bool = False) -> Tensor:
    return write_in_place(silu, x) if inplace else x * torch.sigmoid(x)


def mish(x: Tensor, inplace: bool = False) -> Tensor:
    return write_in_place(mish, x) if inplace else x * torch.tanh(F.softplus(x))


def write_in_place(phi: Operation, x: Tensor) -> Tensor:
    """phi(x) written into x, since the caller may go on using x; the graph saves a copy of the old x."""
    return x.copy_(phi(x.clone()))


def glu(x: Tensor, dim: int = -1) -> Tensor:
    value, gate = x.chunk(2, dim)
    return value * torch.sigmoid(gate)


def _standard(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    centred = x - x.mean(dims, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(dims, keepdim=True) + eps)


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


REPAIRED: dict[Operation, Operation] = {
    F.layer_norm: layer_norm,
    torch.layer_norm: layer_norm,
    F.instance_norm: instance_norm,
    F.silu: silu,
    F.mish: mish,
    F.glu: glu,
}

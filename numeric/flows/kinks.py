"""Rectifiers of a model: which run, their inputs, and the model with slopes that are given instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from numeric.flows.output_map import OutputMap
from numeric.inputs import InputError

RECTIFIERS: set[Callable[..., Any]] = {
    F.relu,
    F.relu_,
    torch.relu,
    torch.relu_,
    Tensor.relu,
    Tensor.relu_,
}
OTHERS = {
    "relu6", "leaky_relu", "prelu", "rrelu", "selu", "hardtanh", "hardsigmoid", "hardswish", "hardshrink",
    "softshrink", "threshold", "max_pool1d", "max_pool2d", "max_pool3d", "abs", "clamp", "clip", "maximum",
    "minimum", "sign", "round", "floor", "ceil",
}  # fmt: skip


class Rectifiers(TorchFunctionMode):
    """Record the inputs and outputs of all rectifiers; with slopes, multiply by those instead.

    A model with given slopes is a smooth function of its parameters, which agrees with the model where every
    slope is that of its input's sign.
    """

    def __init__(self, slopes: Sequence[Tensor] | None = None) -> None:
        super().__init__()
        self.slopes = slopes
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.others: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in RECTIFIERS:
            preactivation = args[0] if args else kwargs["input"]
            if self.slopes is None:
                output = torch.relu(preactivation)
            else:
                output = self.slopes[len(self.inputs)].view(preactivation.shape) * preactivation
            self.inputs.append(preactivation)
            self.outputs.append(output)
            return output
        name = getattr(func, "__name__", "").strip("_")
        if name in OTHERS:
            self.others.append(name)
        return func(*args, **(kwargs or {}))


def kinked_functions(map: OutputMap, theta: Tensor) -> tuple[int, list[str]]:
    """The number of rectifiers that run, and the names of other functions with kinks."""
    with Rectifiers() as record:
        map.outputs(theta)
    return len(record.inputs), list(dict.fromkeys(record.others))


def require_smooth(map: OutputMap, theta: Tensor) -> None:
    """Refuse models with kinks: their Jacobian jumps, and the flow slides along the jumps."""
    rectifiers, others = kinked_functions(map, theta)
    names = [*(["relu"] if rectifiers else []), *others]
    if names:
        raise InputError(
            f"The model has kinks, by {', '.join(names[:3])}: its Jacobian jumps, and the flow solves no "
            "smooth equation. Take a smooth activation such as Tanh or GELU; for ReLU, flows.slide gives the "
            "limit of smooth activations and flows.euler that of short steps, which differ."
        )


@dataclass(frozen=True, eq=False)
class Slopes:
    """Slopes of all rectifiers at all examples, (N, U): 0 or 1, and 0 where the flow slides."""

    values: Tensor  # (N, U)
    sizes: list[int] = field(repr=False)  # units of each rectifier

    def split(self) -> list[Tensor]:
        return list(self.values.split(self.sizes, 1))

    def name(self, unit: int) -> tuple[int, int]:
        """Which rectifier, and which of its units, a column is."""
        layer = 0
        while unit >= self.sizes[layer]:
            unit -= self.sizes[layer]
            layer += 1
        return layer, unit

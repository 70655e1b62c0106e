"""Rectifiers of a model: which run, their inputs, and the model with slopes that are given instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from numeric.flows.costs import Objective, require_consistent_labels, require_objective
from numeric.flows.output_map import OutputMap, require_enough_parameters
from numeric.inputs import ArrayLike, InputError
from numeric.models import Model

__all__ = ["Rectifiers", "Slopes", "kinked_functions", "require_rectified", "require_smooth"]

RECTIFIERS: set[Callable[..., Any]] = {
    F.relu,
    F.relu_,
    torch.relu,
    torch.relu_,
    Tensor.relu,
    Tensor.relu_,
}
OTHERS = {  # names of other functions with kinks or jumps, in-place ones and operators without underscores
    "relu6", "leaky_relu", "prelu", "rrelu", "selu", "hardtanh", "hardsigmoid", "hardswish", "hardshrink",
    "softshrink", "threshold", "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "fractional_max_pool2d", "fractional_max_pool3d", "abs",
    "absolute", "clamp", "clamp_min", "clamp_max", "clip", "max", "min", "amax", "amin", "aminmax", "maximum",
    "minimum", "fmax", "fmin", "topk", "sort", "msort", "argsort", "kthvalue", "median", "nanmedian", "mode",
    "quantile", "nanquantile", "cummax", "cummin", "argmax", "argmin", "sign", "sgn", "heaviside", "round",
    "floor", "ceil", "trunc", "fix", "frac", "fmod", "remainder", "gt", "ge", "lt", "le", "greater",
    "greater_equal", "less", "less_equal", "signbit",
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
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").strip("_")
        if (name in OTHERS or _bent_elu(name, args, kwargs)) and _moves((*args, *kwargs.values())):
            self.others.append(name)
        return func(*args, **kwargs)


def _bent_elu(name: str, args: Any, kwargs: Any) -> bool:
    """Whether it is an ELU whose slopes at 0, 1 and alpha, differ."""
    alpha = kwargs.get("alpha", args[1] if len(args) > 1 else 1.0)
    return name == "elu" and alpha != 1


def _moves(values: Iterable[Any]) -> bool:
    """Whether an argument depends on the parameters: kinks in the inputs alone do not move."""
    return any(
        (isinstance(value, Tensor) and value.requires_grad)
        or (isinstance(value, tuple | list) and _moves(value))
        for value in values
    )


def kinked_functions(map: OutputMap, theta: Tensor) -> tuple[int, list[str]]:
    """How many rectifiers run on what depends on the parameters, and names of other functions with kinks.

    Known are functions of torch by their names. Kinks within custom functions, or of tables, are not seen.
    """
    with Rectifiers() as record:
        map.graph(theta)
    rectified = [z for z in record.inputs if z.requires_grad]
    return len(rectified), list(dict.fromkeys(record.others))


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


def require_rectified(map: OutputMap, y: ArrayLike, model: Model) -> Objective:
    """Refuse what `integrate` refuses of labels, models without rectifiers, and those with other kinks."""
    theta = map.pack(map.run.leaves)
    objective = require_objective(None, y, map.outputs(theta).detach(), model)
    require_consistent_labels(map.run.points, objective.labels)
    require_enough_parameters(map)
    rectifiers, others = kinked_functions(map, theta)
    if others or not rectifiers:
        defect = f"kinks by {', '.join(others)}" if others else "no rectifiers"
        raise InputError(
            f"The model has {defect}, but a network of rectifiers (ReLU) and smooth functions is needed: for "
            "smooth models take flows.integrate."
        )
    return objective

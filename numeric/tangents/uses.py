"""Where a model uses its parameters: calls of layers with a rule, recorded as the model runs.

A `Recorder` is told the tensors that are meant. In each call with a rule it hands the layer copies of them,
which share memory but not the graph, and keeps the call's input and where its output stands in the graph. A
parameter that is still connected to the outputs afterwards has a use without a rule, and the record of it is
not complete: no such use can be missed.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode

from numeric.tangents.factors import Dense, Factor, Outer, TableRows

__all__ = ["LAYERS", "LayerRule", "Recorder", "Use", "batch_axis", "by_example"]


@dataclass(frozen=True, eq=False)
class Use:
    """One call of a layer with a rule."""

    layer: LayerRule
    arguments: Mapping[str, Any]
    names: tuple[str | None, str | None]  # of weight and bias, if they are meant
    copies: tuple[Tensor | None, Tensor | None]  # of both, that the layer was handed
    input: Tensor
    version: int  # of the input, which a model may overwrite later
    edge: GradientEdge  # the output in the graph

    @property
    def overwritten(self) -> bool:
        return self.input._version != self.version

    def call(self, axis: int | None, n: int) -> tuple[Any, ...]:
        """What is the same in every call at this place: the layer, its options, and the shape at one of n
        examples, which lie on an axis; with no axis the call has no rule, and its shape is of no use."""
        options = [
            value.shape if isinstance(value, Tensor) else value
            for name, value in self.arguments.items()
            if name != "input"
        ]
        shape = [s / n if k == axis else s for k, s in enumerate(self.input.shape)]
        return self.layer, self.names, options, axis is None or shape, self.overwritten


class Recorder(TorchFunctionMode):
    """A context that records the uses of parameters, given by name."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.names = {id(value): name for name, value in parameters.items()}
        self.uses: list[Use] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        layer = LAYERS.get(func) if torch.is_grad_enabled() else None
        if layer is None:
            return func(*args, **(kwargs or {}))
        call = layer.signature.bind(*args, **(kwargs or {}))
        call.apply_defaults()
        arguments = dict(call.arguments)
        weight, bias = (self.names.get(id(arguments.get(part))) for part in ("weight", "bias"))
        if (weight is None and bias is None) or not layer.leading(arguments):
            return func(*args, **(kwargs or {}))
        copies = (_copy(arguments, "weight", weight), _copy(arguments, "bias", bias))
        for part, copy in zip(("weight", "bias"), copies, strict=True):
            if copy is not None:
                call.arguments[part] = copy
        output = func(*call.args, **call.kwargs)
        inputs = arguments["input"].detach()
        edge = get_gradient_edge(output)
        self.uses.append(
            Use(layer, arguments, (weight, bias), copies, inputs, inputs._version, edge)
        )
        return output


def _copy(arguments: Mapping[str, Any], part: str, name: str | None) -> Tensor | None:
    """The same numbers with no connection to the parameter."""
    return None if name is None else arguments[part].detach().requires_grad_()


@dataclass(frozen=True, eq=False)
class LayerRule:
    """What is known of a layer: its arguments, which calls have a rule, and the gradients of one.

    Inputs come as (n, r, ...) and signals as (n, c, r, ...), where r rows of a batch belong to each of n
    examples.
    """

    signature: inspect.Signature
    leading: Callable[
        [Mapping[str, Any]], int
    ]  # axes of the input that may be the batch; 0: no rule
    weight: Callable[[Mapping[str, Any], Tensor, Tensor], Factor]
    bias: Callable[[Mapping[str, Any], Tensor], Tensor]  # (n, c, o)


def _outer(signals: Tensor, inputs: Tensor, arguments: Mapping[str, Any]) -> Outer:
    return Outer(signals, inputs, arguments["weight"].shape, bias=False)


def _linear(arguments: Mapping[str, Any], inputs: Tensor, signals: Tensor) -> Outer:
    positions = inputs.flatten(1, -2)[:, None]  # (n, 1, P, a)
    return _outer(signals.flatten(2, -2)[:, :, None], positions, arguments)


def _linear_bias(_: Mapping[str, Any], signals: Tensor) -> Tensor:
    return signals.flatten(2, -2).sum(2)


def _convolution(arguments: Mapping[str, Any], inputs: Tensor, signals: Tensor) -> Outer:
    """Every position of the output is a linear layer on its window of the input."""
    n, _, channels = inputs.shape[:3]
    groups, kernel = arguments["groups"], arguments["weight"].shape[2:]
    d = len(kernel)
    stride, dilation = (_each(arguments[name], d) for name in ("stride", "dilation"))
    windows = F.pad(inputs, _padding(arguments["padding"], kernel, dilation))
    for k in range(d):
        reach = dilation[k] * (kernel[k] - 1) + 1
        windows = windows.unfold(3 + k, reach, stride[k])[..., :: dilation[k]]
    # (n, r, g, channels / g, *out, *kernel) -> (n, g, channels / g, *kernel, r, *out): positions last in
    # memory, as they are in the input
    windows = windows.unflatten(2, (groups, channels // groups))
    axes = range(windows.ndim)
    windows = windows.permute(0, 2, 3, *axes[4 + d :], 1, *axes[4 : 4 + d])
    positions = windows.reshape(n, groups, channels // groups * math.prod(kernel), -1).mT
    by_group = signals.unflatten(3, (groups, -1)).movedim(3, 2).movedim(4, -1)
    return _outer(by_group.flatten(3, -2), positions, arguments)


def _each(value: int | tuple[int, ...], d: int) -> tuple[int, ...]:
    """One number for each axis."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * d if len(values) == 1 else values


def _padding(padding: Any, kernel: tuple[int, ...], dilation: tuple[int, ...]) -> list[int]:
    """Zeros before and behind each axis, the last axis first."""
    if padding == "valid":
        padding = 0
    if padding == "same":
        wide = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
        pairs = [(total // 2, total - total // 2) for total in wide]
    else:
        pairs = [(size, size) for size in _each(padding, len(kernel))]
    return [size for pair in reversed(pairs) for size in pair]


def _channel_bias(_: Mapping[str, Any], signals: Tensor) -> Tensor:
    return signals.transpose(2, 3).flatten(3).sum(3)  # (n, c, r, o, ...) -> (n, c, o)


def _scale(arguments: Mapping[str, Any], scaled: Tensor, signals: Tensor) -> Dense:
    """Of a weight that multiplies what is normalised: (n, P, o) and (n, c, P, o)."""
    values = torch.einsum("npo,ncpo->nco", scaled, signals)
    return Dense(values, arguments["weight"].shape, bias=False)


def _layer_norm(arguments: Mapping[str, Any], inputs: Tensor, signals: Tensor) -> Dense:
    axes = len(arguments["normalized_shape"])
    normal = F.layer_norm(inputs, arguments["normalized_shape"], eps=arguments["eps"])
    scaled = normal.flatten(-axes).flatten(1, -2)
    return _scale(arguments, scaled, signals.flatten(-axes).flatten(2, -2))


def _layer_norm_bias(arguments: Mapping[str, Any], signals: Tensor) -> Tensor:
    return signals.flatten(-len(arguments["normalized_shape"])).flatten(2, -2).sum(2)


def _by_channel(
    normalise: Callable[[Mapping[str, Any], Tensor], Tensor],
) -> Callable[[Mapping[str, Any], Tensor, Tensor], Dense]:
    """The weight of a normalisation of inputs (rows, channels, ...)."""

    def weight(arguments: Mapping[str, Any], inputs: Tensor, signals: Tensor) -> Dense:
        normal = normalise(arguments, inputs.flatten(0, 1)).view_as(inputs)
        scaled = normal.flatten(3).mT if normal.ndim > 3 else normal[:, :, None]  # (n, r, P, o)
        back = signals.flatten(4).mT if signals.ndim > 4 else signals[:, :, :, None]
        return _scale(arguments, scaled.flatten(1, 2), back.flatten(2, 3))

    return weight


def _group_normal(arguments: Mapping[str, Any], rows: Tensor) -> Tensor:
    return F.group_norm(rows, arguments["num_groups"], eps=arguments["eps"])


def _batch_normal(arguments: Mapping[str, Any], rows: Tensor) -> Tensor:
    statistics = arguments["running_mean"], arguments["running_var"]
    return F.batch_norm(rows, *statistics, eps=arguments["eps"])


def _embedding(arguments: Mapping[str, Any], index: Tensor, signals: Tensor) -> TableRows:
    index, signals = index.flatten(1), signals.flatten(2, -2)
    shape = arguments["weight"].shape
    if (padding := arguments["padding_idx"]) is not None:
        ignored = index == padding % shape[0]
        signals = signals.masked_fill(ignored[:, None, :, None], 0)
    return TableRows(index, signals, shape)


def _all_but_last(arguments: Mapping[str, Any]) -> int:
    return arguments["input"].ndim - 1 if arguments["weight"].ndim == 2 else 0


def _first_of_channels(arguments: Mapping[str, Any]) -> int:
    weight, input = arguments["weight"], arguments["input"]
    return int(weight is None or weight.ndim == 1 or input.ndim == weight.ndim)


def _outside_norm(arguments: Mapping[str, Any]) -> int:
    return arguments["input"].ndim - len(arguments["normalized_shape"])


def _first_with_statistics(arguments: Mapping[str, Any]) -> int:
    return int(not arguments["training"] and arguments["running_mean"] is not None)


def _index_axes(arguments: Mapping[str, Any]) -> int:
    changed = arguments["max_norm"] is not None or arguments["scale_grad_by_freq"]
    return 0 if changed else arguments["input"].ndim


def _no_bias(*_: Any) -> Tensor:
    raise AssertionError("an embedding has no bias")


def _call_of_linear(input: Any, weight: Any, bias: Any = None) -> None: ...


def _call_of_convolution(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> None: ...  # fmt: skip


_LINEAR = inspect.signature(_call_of_linear)
_CONVOLUTION = LayerRule(
    inspect.signature(_call_of_convolution), _first_of_channels, _convolution, _channel_bias
)
LAYERS: dict[Callable[..., Any], LayerRule] = {
    F.linear: LayerRule(_LINEAR, _all_but_last, _linear, _linear_bias),
    F.conv1d: _CONVOLUTION,
    F.conv2d: _CONVOLUTION,
    F.conv3d: _CONVOLUTION,
    F.layer_norm: LayerRule(
        inspect.signature(F.layer_norm), _outside_norm, _layer_norm, _layer_norm_bias
    ),
    F.group_norm: LayerRule(
        inspect.signature(F.group_norm), _first_of_channels, _by_channel(_group_normal), _channel_bias
    ),
    F.batch_norm: LayerRule(
        inspect.signature(F.batch_norm), _first_with_statistics, _by_channel(_batch_normal),
        _channel_bias,
    ),
    F.embedding: LayerRule(inspect.signature(F.embedding), _index_axes, _embedding, _no_bias),
}  # fmt: skip


def batch_axis(one: torch.Size, n: int, other: torch.Size, m: int, leading: int) -> int | None:
    """The axis that grows with the number of examples, n in one call and m in the other; None: not clear."""
    if len(one) != len(other):
        return None
    differ = [k for k, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if len(differ) != 1 or differ[0] >= leading:
        return None
    (k,) = differ
    return k if one[k] % n == 0 and one[k] * m == other[k] * n else None


def by_example(values: Tensor, axis: int, n: int) -> Tensor:
    """(..., n r, ...) -> (n, r, ...): the rows of a batch that belong to each example."""
    return values.movedim(axis, 0).unflatten(0, (n, -1))

r"""Parameters that differ from row to row of a batch, $w_0 + t\,(w_1 - w_0)$ with a t for each row.

An operation that is linear in its parameters, such as a linear layer or a convolution, is run twice,
with $w_0$ and with $w_1 - w_0$, and the second result is scaled row by row; parameters that are added or
multiplied get a row axis. For other uses there is no rule, and `NoRowRule` is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
import torch.autograd.forward_ad as forward_mode
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from numeric.models import Model
from numeric.models.forward_mode import prepare
from numeric.path_kernel.kinks import SwitchRecorder

__all__ = ["NoRowRule", "RowParameters", "Rows", "rows_have_rules"]

Parameters = dict[str, Tensor]

# By place in the arguments: what of a call is a weight, and what a bias.
LINEAR_IN_PARAMETERS: dict[Callable[..., Any], tuple[str, ...]] = {
    F.linear: ("input", "weight", "bias"),
    torch.conv1d: ("input", "weight", "bias"),
    torch.conv2d: ("input", "weight", "bias"),
    torch.conv3d: ("input", "weight", "bias"),
    torch.conv_transpose1d: ("input", "weight", "bias"),
    torch.conv_transpose2d: ("input", "weight", "bias"),
    torch.conv_transpose3d: ("input", "weight", "bias"),
}
ELEMENTWISE = {
    torch.add, torch.sub, torch.mul, torch.div, Tensor.add, Tensor.sub, Tensor.mul, Tensor.div,
    Tensor.__add__, Tensor.__radd__, Tensor.__sub__, Tensor.__rsub__, Tensor.__mul__, Tensor.__rmul__,
    Tensor.__truediv__, Tensor.__rtruediv__, Tensor.add_, Tensor.sub_, Tensor.mul_, Tensor.div_,
    Tensor.__iadd__, Tensor.__isub__, Tensor.__imul__,
}  # fmt: skip
MATRIX_PRODUCTS = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm}
NORMALISATIONS = {"layer_norm", "group_norm", "batch_norm", "instance_norm", "rms_norm"}

PROPERTIES = {"__get__", "size", "dim", "numel", "is_floating_point"}
SAME_MEMORY = {"detach", "requires_grad_", "flatten", "view", "reshape"}


class NoRowRule(Exception):
    """A parameter is used in a way for which rows cannot have a t of their own."""


def rows_have_rules(model: Model, parameters: Parameters, x: Tensor) -> bool:
    """Whether all parameters are used in ways that let each row have a t of its own."""
    prepare()
    rows = x[:1].expand(2, *x.shape[1:])
    try:
        both = torch.arange(2, device=x.device)
        with RowParameters(
            parameters, parameters, both.to(next(iter(parameters.values()))), Rows(rows, both, {})
        ) as mode:
            doubled = model.functional_call(parameters, mode.batch).flatten(1)[1]
    except NoRowRule:
        return False
    # Whatever else a model may do with a parameter, such as reading its numbers, shows here.
    twice = {name: 2 * value for name, value in parameters.items()}
    expected = model.functional_call(twice, rows.clone()).flatten(1)[1]
    size = torch.maximum(doubled.abs(), expected.abs()).amax()
    return bool((doubled - expected).abs().amax() <= torch.finfo(expected.dtype).eps ** 0.5 * size)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of points, x[index], and what the first layer makes of the points, by call."""

    x: Tensor  # (n, ...)
    index: Tensor  # (e,)
    cache: dict[Any, Tensor]


class RowParameters(TorchFunctionMode):
    """Inside, tensors of `start` act as start + t step, with a t for each row of `batch`.

    Layers that see the batch itself are run at the points, not at their rows, and only once. A recorder
    of kinks is told of every call: as a context of its own it would see the calls made here.
    """

    def __init__(
        self,
        start: Parameters,
        step: Parameters,
        t: Tensor,
        rows: Rows,
        recorder: SwitchRecorder | None = None,
    ) -> None:
        super().__init__()
        self.t, self.rows, self.recorder, self.step = t, rows, recorder, step
        # By identity, with the tensor itself, so that no other one gets its number.
        self.names = {id(value): (name, value) for name, value in start.items()}
        self.views: dict[int, Tensor] = {}  # the batch, and views of all of it

    @cached_property
    def batch(self) -> Tensor:
        """The rows x[index], of which the model may overwrite this copy."""
        batch = self.rows.x[self.rows.index]
        self.views[id(batch)] = batch
        return batch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.recorder is not None:
            self.recorder.note(func, args, kwargs)
        name = getattr(func, "__name__", "")
        if name in PROPERTIES or name in SAME_MEMORY:
            return self._alias(func, args, kwargs, name in SAME_MEMORY)
        if name == "hardsigmoid":  # whose slope torch has as 1/6 in float32, also in float64
            return F.relu6(args[0] + 3) / 6
        if not self._uses_parameters(args, kwargs):
            return func(*args, **kwargs)
        if func in LINEAR_IN_PARAMETERS:
            return self._linear(func, args, kwargs)
        if func in ELEMENTWISE and not kwargs:
            return func(*self._expanded(args))
        if (
            func in MATRIX_PRODUCTS
            and not kwargs
            and not self._is_parameter(args[0])
            and args[1].ndim == 2
        ):
            left, right = args
            return func(left, right) + self._scaled(func(left, self.step[self.names[id(right)][0]]))
        if name in NORMALISATIONS:
            return self._normalised(func, args, kwargs)
        if name == "prelu":
            return self._prelu(*args, **kwargs)
        raise NoRowRule

    def _uses_parameters(self, args: Any, kwargs: Mapping[str, Any]) -> bool:
        for value in (*args, *kwargs.values()):
            if self._is_parameter(value):
                return True
            if isinstance(value, list | tuple) and self._uses_parameters(value, {}):
                return True
        return False

    def _scaled(self, value: Tensor) -> Tensor:
        return value * self.t.reshape(-1, *(1,) * (value.ndim - 1))

    def _linear(self, func: Any, args: tuple, kwargs: dict) -> Tensor:
        """func is linear in weight and bias together."""
        bound = dict(zip(LINEAR_IN_PARAMETERS[func], args, strict=False)) | kwargs
        rest = args[3:]
        x, weight, bias = bound.pop("input"), bound.pop("weight"), bound.pop("bias", None)
        if self._is_parameter(x) or len(x) != len(self.t):
            raise NoRowRule
        names = tuple(self._name(part) for part in (weight, bias))
        move, shift = (None if name is None else self.step[name] for name in names)
        move = torch.zeros_like(weight) if move is None else move
        call = partial(_call_with, func, rest, bound)
        return self._affine(call, x, names, (weight, bias), (move, shift))

    def _affine(self, call: Any, x: Tensor, names: tuple, start: tuple, step: tuple) -> Tensor:
        """call(x, start) + t call(x, step), and its derivative in forward mode, which torch's own would take
        four times as long for."""
        at_points = self._is_batch(x)
        (x, x_dot), (t, t_dot) = forward_mode.unpack_dual(x), forward_mode.unpack_dual(self.t)
        start, start_dot = zip(
            *((None, None) if p is None else forward_mode.unpack_dual(p) for p in start),
            strict=True,
        )

        def of(key: str | None, *parameters: Tensor | None) -> Tensor:
            return (
                self._at_points(call, x, (key, *names), parameters)
                if at_points
                else call(x, *parameters)
            )

        moved = of("step", *step)
        t = t.reshape(-1, *(1,) * (moved.ndim - 1))
        value = torch.addcmul(of("start", *start), t, moved)
        tangents = []
        if t_dot is not None:
            tangents.append(t_dot.view_as(t) * moved)
        if x_dot is not None:
            tangents += [call(x_dot, start[0], None), t * call(x_dot, step[0], None)]
        if start_dot[0] is not None:
            tangents.append(of(None, *start_dot))
        elif start_dot[1] is not None:
            tangents.append(of(None, torch.zeros_like(start[0]), start_dot[1]))
        return forward_mode.make_dual(value, sum(tangents)) if tangents else value

    def _alias(self, func: Any, args: tuple, kwargs: dict, same: bool) -> Any:
        """A function that reads a property, or gives the `same` memory back: then it is the same tensor."""
        value = func(*args, **kwargs)
        if not isinstance(value, Tensor) or not isinstance(args[0], Tensor):
            return value
        if self._is_parameter(args[0]):
            if not same or value.shape != args[0].shape:  # such as its transpose
                raise NoRowRule
            self.names[id(value)] = (self.names[id(args[0])][0], value)
        elif same and id(args[0]) in self.views and value.is_contiguous():
            self.views[id(value)] = value
        return value

    def _is_batch(self, x: Tensor) -> bool:
        """Whether x is the batch as it was given, or a view of all of it with its rows."""
        return id(x) in self.views and x._version == 0 and len(x) == len(self.t)

    def _at_points(self, call: Any, x: Tensor, key: tuple, parameters: tuple) -> Tensor:
        """call(x, *parameters) from the points that the rows of x repeat."""
        points, (kind, *_) = self.rows.x, key
        key = (*key, x.shape[1:])
        cached = kind is not None and not torch.is_grad_enabled()
        value = self.rows.cache.get(key) if cached else None
        if value is None:
            value = call(points.reshape(len(points), *x.shape[1:]), *parameters)
            if cached:
                self.rows.cache[key] = value
        return value[self.rows.index]

    def _expanded(self, args: tuple) -> list[Any]:
        """Parameters among the two arguments of an elementwise operation, with a row axis."""
        ndims = [
            part.ndim for part in args if isinstance(part, Tensor) and not self._is_parameter(part)
        ]
        if len(args) != 2 or not ndims:
            raise NoRowRule
        return [
            self._rows_of(part, max(ndims)) if self._is_parameter(part) else part for part in args
        ]

    def _is_parameter(self, value: Any) -> bool:
        return id(value) in self.names

    def _name(self, value: Any) -> str | None:
        return self.names[id(value)][0] if id(value) in self.names else None

    def _rows_of(self, value: Tensor, ndim: int) -> Tensor:
        """start + t step of a parameter that meets tensors (e, ...) of so many axes."""
        move = self.step[self.names[id(value)][0]]
        if value.ndim == ndim and value.shape[0] == 1:
            value, move = value[0], move[0]
        if value.ndim >= ndim:
            raise NoRowRule
        ones = (1,) * (ndim - 1 - value.ndim)
        value, move = value.reshape(1, *ones, *value.shape), move.reshape(1, *ones, *move.shape)
        return value + self._scaled(move.expand(len(self.t), *move.shape[1:]))

    def _normalised(self, func: Any, args: tuple, kwargs: dict) -> Tensor:
        """The normalisation without its affine part, and then its affine part."""
        name = func.__name__
        places = {
            "layer_norm": (2, 3), "rms_norm": (2, None), "group_norm": (2, 3),
            "batch_norm": (3, 4), "instance_norm": (3, 4),
        }[name]  # fmt: skip
        positional, kwargs = list(args), dict(kwargs)
        affine: list[Tensor | None] = []
        for place, key in zip(places, ("weight", "bias"), strict=True):
            value = None
            if place is not None and place < len(positional):
                value, positional[place] = positional[place], None
            elif key in kwargs:
                value = kwargs.pop(key)
            affine.append(value)
        if self._uses_parameters(positional, kwargs):
            raise NoRowRule
        value = func(*positional, **kwargs)
        channels = name not in ("layer_norm", "rms_norm")
        for part, operation in zip(affine, (torch.mul, torch.add), strict=True):
            if part is None:
                continue
            rows = self._rows_of(part, part.ndim + 1) if self._is_parameter(part) else part[None]
            shape = (len(rows), -1, *(1,) * (value.ndim - 2)) if channels else (
                len(rows), *(1,) * (value.ndim - part.ndim - 1), *part.shape
            )  # fmt: skip
            value = operation(value, rows.reshape(shape))
        return value

    def _prelu(self, x: Tensor, weight: Tensor) -> Tensor:
        rows = self._rows_of(weight, 2) if self._is_parameter(weight) else weight[None]
        slope = rows.reshape(len(rows), -1, *(1,) * (x.ndim - 2))
        above = F.relu(x)
        return above + slope * (x - above)


def _call_with(
    func: Any, rest: tuple, options: dict, x: Tensor, *parameters: Tensor | None
) -> Tensor:
    return func(x, *parameters, *rest, **options)

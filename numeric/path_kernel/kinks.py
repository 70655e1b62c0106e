"""Kinks of a model: the values that decide which piece of a ReLU, a max-pool or a clamp acts.

Every kinked operation is a choice among several values: relu(z) is the larger of z and 0, a pool takes
the largest of its window. While no choice changes, the model is as smooth in its weights as its other
operations are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.autograd.forward_ad as forward_mode
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["SwitchRecorder", "Switches"]


@dataclass(frozen=True, eq=False)
class Switches:
    """The choices of a batch: parts (e, units, j) of j values each, of which the largest one acts.

    A part with j = 1 has margins z of choices between 0 and z.
    """

    parts: tuple[Tensor, ...]

    @classmethod
    def of(cls, parts: list[Tensor], rows: int) -> Switches:
        return cls(tuple(part.reshape(rows, -1, part.shape[-1]) for part in parts if part.numel()))

    @property
    def count(self) -> int:
        return sum(part.shape[1] for part in self.parts)

    def states(self) -> Tensor:
        """Which value is chosen, (e, units)."""
        states = [
            part.argmax(2).to(torch.int16)
            if part.shape[2] > 1
            else (part[:, :, 0] > 0).to(torch.int16)
            for part in self.parts
        ]
        return torch.cat(states, 1) if len(states) > 1 else states[0]

    def margins(self, rows: Tensor, units: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """The value `first` minus the value `second` of one unit in each of several rows: (r,)."""
        margins = self.parts[0].new_zeros(len(rows))
        offset = 0
        for part in self.parts:
            width, j = part.shape[1:]
            unit = (units - offset).clamp(0, width - 1)
            if j == 1:
                of_part = part[rows, unit, 0] * (first - second)
            else:
                a, b = (choice.long().clamp(max=j - 1) for choice in (first, second))
                of_part = part[rows, unit, a] - part[rows, unit, b]
            inside = (units >= offset) & (units < offset + width)
            margins = of_part if len(self.parts) == 1 else torch.where(inside, of_part, margins)
            offset += width
        return margins


class SwitchRecorder(TorchFunctionMode):
    """Record the choices of all kinked operations that run inside."""

    def __init__(self) -> None:
        super().__init__()
        self.switches: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.note(func, args, kwargs)
        return func(*args, **kwargs)

    def note(self, func: Any, args: Any, kwargs: Any) -> None:
        """Record the choices of one call, if it is of a kinked operation."""
        rule = CHOICES.get(getattr(func, "__name__", "").strip("_"))
        if (
            rule is not None
            and args
            and isinstance(args[0], Tensor)
            and args[0].is_floating_point()
        ):
            first = forward_mode.unpack_dual(args[0]).primal.detach()
            self.switches += [_detached(part) for part in rule(first, *args[1:], **kwargs)]


def _detached(value: Tensor) -> Tensor:
    return forward_mode.unpack_dual(value).primal.detach()


def _against(*thresholds: float) -> Callable[..., list[Tensor]]:
    return lambda z, *_, **__: [_pair(z, level) for level in thresholds]


def _pair(z: Tensor, level: float | Tensor) -> Tensor:
    """z against a level, which is a choice between 0 and z - level."""
    return (z - level if isinstance(level, Tensor) or level else z)[..., None]


def _hardtanh(
    z: Tensor, min_val: float = -1.0, max_val: float = 1.0, *_: Any, **__: Any
) -> list[Tensor]:
    return [_pair(z, min_val), _pair(z, max_val)]


def _clamp(z: Tensor, min: Any = None, max: Any = None, **_: Any) -> list[Tensor]:
    return [_pair(z, level) for level in (min, max) if level is not None]


def _shrink(z: Tensor, lambd: float = 0.5, *_: Any, **__: Any) -> list[Tensor]:
    return [_pair(z, -lambd), _pair(z, lambd)]


def _two(z: Tensor, other: Tensor, *_: Any, **__: Any) -> list[Tensor]:
    return [_pair(z, other)]


def _largest(z: Tensor, dim: Any = None, *_: Any, **__: Any) -> list[Tensor]:
    if isinstance(dim, Tensor):  # the larger of two tensors
        return _two(z, dim)
    if dim is None or isinstance(dim, tuple | list):  # over several axes: rows must not mix
        dims = tuple(range(1, z.ndim)) if dim is None else tuple(d % z.ndim for d in dim)
        remaining = [axis for axis in range(z.ndim) if axis not in dims]
        return [z.permute(*remaining, *dims).flatten(len(remaining))]
    return [z.movedim(dim, -1)]


def _least(z: Tensor, dim: Any = None, *_: Any, **__: Any) -> list[Tensor]:
    if isinstance(dim, Tensor):
        return _two(z, dim)
    return [-part for part in _largest(z, dim)]


def _max_pool(
    z: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    axes: int,
) -> list[Tensor]:
    """The windows, found by pooling the numbers of places: (e, channels, ..., window)."""
    size, step, pad, gap = (
        _tuple(v, axes) for v in (kernel_size, stride or kernel_size, padding, dilation)
    )
    # In ceil mode a last window may be cut short: more padding than any window needs.
    extra = [s - 1 for s in step] if ceil_mode else [0] * axes
    widths = [w for p, e in zip(reversed(pad), reversed(extra), strict=True) for w in (p, p + e)]
    padded = F.pad(z, widths, value=-torch.inf)
    for axis in range(axes):
        place = z.ndim - axes + axis
        count = (padded.shape[place] - gap[axis] * (size[axis] - 1) - 1) // step[axis] + 1
        starts = torch.arange(count, device=z.device) * step[axis]
        inside = torch.arange(size[axis], device=z.device) * gap[axis]
        index = (starts[:, None] + inside).flatten()
        padded = padded.index_select(place, index)
        padded = padded.unflatten(place, (count, size[axis])).movedim(place + 1, -1)
    return [padded.flatten(z.ndim).clamp(min=torch.finfo(z.dtype).min / 4)]


def _adaptive_max_pool(z: Tensor, output_size: Any, *_: Any, axes: int, **__: Any) -> list[Tensor]:
    """Windows of one size only; others are left to the certificate."""
    wanted = _tuple(output_size, axes)
    shape = z.shape[-axes:]
    target = [n if w is None else w for n, w in zip(shape, wanted, strict=True)]
    if any(n % w for n, w in zip(shape, target, strict=True)):
        return []
    size = tuple(n // w for n, w in zip(shape, target, strict=True))
    return _max_pool(z, size, axes=axes)


def _tuple(value: Any, axes: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,) * axes


CHOICES: dict[str, Callable[..., list[Tensor]]] = {
    **dict.fromkeys(
        (
            "relu",
            "leaky_relu",
            "prelu",
            "rrelu",
            "elu",
            "selu",
            "celu",
            "abs",
            "absolute",
            "softsign",
        ),
        _against(0.0),
    ),
    "relu6": _against(0.0, 6.0),
    "hardsigmoid": _against(-3.0, 3.0),
    "hardswish": _against(-3.0, 3.0),
    "threshold": lambda z, threshold, *_, **__: [_pair(z, threshold)],
    "hardtanh": _hardtanh,
    "clamp": _clamp,
    "clip": _clamp,
    "clamp_min": lambda z, min, **_: [_pair(z, min)],
    "clamp_max": lambda z, max, **_: [_pair(z, max)],
    "softshrink": _shrink,
    "hardshrink": _shrink,
    "maximum": _two,
    "minimum": _two,
    "fmax": _two,
    "fmin": _two,
    "max": _largest,
    "amax": _largest,
    "min": _least,
    "amin": _least,
    **{f"max_pool{d}d": lambda *a, d=d, **k: _max_pool(*a, axes=d, **k) for d in (1, 2, 3)},
    **{
        f"max_pool{d}d_with_indices": lambda *a, d=d, **k: _max_pool(*a, axes=d, **k)
        for d in (1, 2, 3)
    },
    **{
        f"adaptive_max_pool{d}d": lambda *a, d=d, **k: _adaptive_max_pool(*a, axes=d, **k)
        for d in (1, 2, 3)
    },
}

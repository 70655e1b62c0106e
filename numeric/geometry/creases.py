"""Which feature maps have creases: a network of ReLUs is flat between them, and its curvature is on them.

Activations with a crease are known by name. Operations such as abs, clamp or a comparison may make one or
not, for softplus can be written with them: where any of them runs, slopes on a line are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from analytic.domain import InputError
from numeric.geometry.derivatives import along
from numeric.geometry.feature_map import Opened, hooked
from numeric.geometry.trial import farthest

CREASED = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.SELU, nn.Hardtanh, nn.Hardsigmoid,
    nn.Hardswish, nn.Hardshrink, nn.Softshrink, nn.Threshold, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d,
    nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d,
)  # fmt: skip
CREASING = {
    "relu", "relu6", "leaky_relu", "prelu", "rrelu", "selu", "hardtanh", "hardsigmoid", "hardswish",
    "hardshrink", "softshrink", "threshold", "max_pool1d", "max_pool2d", "max_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
}  # fmt: skip
SUSPECT = {
    "abs", "absolute", "clamp", "clamp_min", "clamp_max", "clip", "maximum", "minimum", "fmax", "fmin",
    "max", "min", "amax", "amin", "aminmax", "sort", "topk", "kthvalue", "median", "where", "masked_fill",
    "gt", "ge", "lt", "le", "greater", "greater_equal", "less", "less_equal", "sign", "heaviside", "norm",
    "linalg_norm", "linalg_vector_norm", "cdist", "elu",
}  # fmt: skip
FAR = (2.0, -1.0)  # points times these, where an affine map has the same slopes
BEYOND = 1.0  # of the distance between two points: how far a line goes on
PIECES = 96  # of that line
HALVINGS = 24  # of each piece
JUMP, ROUNDED = 1e-4, 64  # of the largest slope, and in units of its epsilon


def refuse_creases(names: Sequence[str]) -> None:
    """An error that says why there is no Ricci scalar, if any layer has creases."""
    if names:
        raise InputError(
            f"The features have creases, by {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}. "
            "Between them a piecewise linear map is flat, and curvature sits on the creases, where no "
            "derivative sees it: metric and log_volume exist, a Ricci scalar does not. Take a smooth "
            "activation, such as GELU, SiLU, Softplus or Tanh."
        )


class _Watched(TorchFunctionMode):
    """Notes the names of functions that are called: those with creases, and those that may have some."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.suspects: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "").strip("_")  # in place or not
        for names, known in ((self.names, CREASING), (self.suspects, SUSPECT)):
            if name in known:
                names.append(name)
        return func(*args, **(kwargs or {}))


def creased_layers(f: Opened, module: nn.Module | None) -> list[str]:
    """Those that run on the way to the features: modules by their names, or else functions."""
    ran: list[str] = []
    with ExitStack() as stack:
        for name, part in () if module is None else module.named_modules():
            if isinstance(part, CREASED) or (isinstance(part, nn.ELU) and part.alpha != 1):
                told = f"{type(part).__name__} ({name})" if name else type(part).__name__
                stack.enter_context(hooked(part, lambda *_, told=told: ran.append(told)))
        watched = stack.enter_context(_Watched())
        f(f.points[:1])
    found = ran or watched.names
    if not found and watched.suspects and slopes_jump(f):
        found = watched.suspects
    return list(dict.fromkeys(found))


def slopes_jump(f: Opened) -> bool:
    """Whether slopes along a line through two points differ at places that are as good as one.

    Each piece of the line is halved again and again, and the half where slopes differ more is kept: the
    difference falls with the length where the map is smooth, and stays where it has a crease. Slopes that
    are no numbers tell nothing, as the line may leave where the map is defined.
    """
    start, stop = farthest(f.points)
    if torch.equal(start, stop):
        stop = (
            start
            + start.abs().amax().clamp(min=1) * torch.arange(1, len(start) + 1).to(start).sin()
        )
    way = stop - start

    def slopes(at: Tensor) -> Tensor:
        found = along(f, start + at[:, None] * way, way.expand(len(at), -1))
        return found.where(found.isfinite(), torch.nan)

    at = torch.linspace(-BEYOND, 1 + BEYOND, PIECES + 1, dtype=start.dtype, device=start.device)
    every = slopes(at)
    ends, values = (at[:-1], at[1:]), (every[:-1], every[1:])
    for _ in range(HALVINGS):
        middle = (ends[0] + ends[1]) / 2
        value = slopes(middle)
        first, second = ((value - other).abs().amax(1) for other in values)
        left = first > second
        ends = torch.where(left, ends[0], middle), torch.where(left, middle, ends[1])
        left = left[:, None]
        values = torch.where(left, values[0], value), torch.where(left, value, values[1])
    gaps, sizes = ((part.abs().nan_to_num().amax()) for part in (values[1] - values[0], every))
    return bool(gaps > max(JUMP, ROUNDED * torch.finfo(every.dtype).eps) * sizes)


def piecewise_affine(f: Opened) -> bool:
    """Whether slopes of a map without second derivatives differ from place to place."""
    x = torch.cat([f.points[:64], *(scale * f.points[:1] for scale in FAR)])
    slopes = along(f, x, torch.ones_like(x))
    spread = (slopes - slopes[:1]).abs().amax()
    return bool(spread > torch.finfo(x.dtype).eps ** 0.5 * slopes.abs().amax())

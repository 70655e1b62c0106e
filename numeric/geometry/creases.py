"""Which feature maps have creases: a network of ReLUs is flat between them, and its curvature is on them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from analytic.domain import InputError
from numeric.geometry.derivatives import along
from numeric.geometry.feature_map import Opened, hooked

CREASED = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.SELU, nn.Hardtanh, nn.Hardsigmoid,
    nn.Hardswish, nn.Hardshrink, nn.Softshrink, nn.Threshold, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d,
    nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d,
)  # fmt: skip
CREASING = {
    F.relu, torch.relu, torch.Tensor.relu, F.relu6, F.leaky_relu, F.prelu, F.rrelu, F.selu, F.hardtanh,
    F.hardsigmoid, F.hardswish, F.hardshrink, F.softshrink, F.threshold,
}  # fmt: skip
FAR = (2.0, -1.0)  # points times these, where an affine map has the same slopes


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
    """Notes the names of functions with creases that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in CREASING:
            self.names.append(func.__name__)
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
    return list(dict.fromkeys(ran or watched.names))


def piecewise_affine(f: Opened) -> bool:
    """Whether slopes of a map without second derivatives differ from place to place."""
    x = torch.cat([f.points[:64], *(scale * f.points[:1] for scale in FAR)])
    slopes = along(f, x, torch.ones_like(x))
    spread = (slopes - slopes[:1]).abs().amax()
    return bool(spread > torch.finfo(x.dtype).eps ** 0.5 * slopes.abs().amax())

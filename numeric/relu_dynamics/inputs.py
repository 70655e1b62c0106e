"""What the experiments on a line accept: numbers, points, samples and invariants."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from analytic.expressions.arguments import InputError


def positive(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < math.inf:
        raise InputError(f"{name} = {value!r} was given, but {name} must be a number above 0.")
    return float(value)


def line(name: str, x: Any, like: Tensor) -> Tensor:
    """Finite numbers on a line, (n,), on the device and with the dtype of `like`."""
    try:
        found = torch.as_tensor(x, dtype=like.dtype, device=like.device)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be numbers of shape (n,), not {x!r}.") from None
    if found.ndim != 1 or not len(found):
        shape = tuple(found.shape)
        raise InputError(f"{name} must have shape (n,) with n at least 1, but {shape} was given.")
    if not found.isfinite().all():
        raise InputError(f"{name} has entries that are NaN or infinite: remove those points.")
    return found


def samples(x: Any, y: Any, like: Tensor) -> tuple[Tensor, Tensor]:
    """Points and targets, as many of either, and no point twice."""
    x, y = line("x", x, like), line("y", y, like)
    if len(x) != len(y):
        raise InputError(f"{len(x)} points x and {len(y)} targets y were given: give as many.")
    points, counts = torch.unique(x, return_counts=True)
    if (counts > 1).any():
        twice = points[counts > 1][0].item()
        raise InputError(
            f"x = {twice} is given more than once: keep it once, with the mean target."
        )
    return x, y


def invariants(delta: float | Tensor, like: Tensor) -> Tensor:
    """One for each neuron, from one or as many: finite."""
    found = torch.as_tensor(delta, dtype=like.dtype, device=like.device)
    if found.ndim and found.shape != like.shape:
        told = f"delta of shape {tuple(found.shape)} for {len(like)} neurons was given"
        raise InputError(f"{told}: give one number, or one for each neuron.")
    if not found.isfinite().all():
        raise InputError(
            f"delta = {delta} was given, but neurons have finite invariants: infinite ones are limits, in "
            "which only c (-inf) or only a and b (inf) move. Give them to Flow."
        )
    return found.expand_as(like)

"""What calls accept, once: counts, numbers, devices, files, points, samples on a line; and InputError."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from analytic.expressions.arguments import InputError, whole

ArrayLike = Tensor | np.ndarray | Sequence[float] | Sequence[Sequence[float]]  # of numbers

__all__ = [
    "ArrayLike",
    "InputError",
    "generator_for",
    "points",
    "positive",
    "require_writable",
    "resolve",
    "samples_on_a_line",
    "seed_for",
    "values_on_a_line",
    "whole",
]  # fmt: skip


def positive(name: str, value: Any, *, zero: bool = False) -> float:
    """A finite number above 0, or at least 0; truth values and texts are none."""
    if (
        isinstance(value, bool)
        or not isinstance(value, Real)
        or not (0 <= value < math.inf if zero else 0 < value < math.inf)
    ):
        bound = "at least 0" if zero else "above 0"
        raise InputError(f"{name} = {value!r} was given, but {name} must be a number {bound}.")
    return float(value)


def resolve(device: str | torch.device) -> torch.device:
    """The device itself, or for "auto" the first accelerator there is, else the CPU."""
    if device == "auto":
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f'device = {device!r} is not to be had here ({reason}): try "auto".'
        ) from None


def generator_for(*key: Any, device: torch.device | str = "cpu") -> torch.Generator:
    """Random numbers of their own for each key, such as ("weights", seed): no two keys share any."""
    return torch.Generator(device).manual_seed(seed_for(*key))


def seed_for(*key: Any) -> int:
    """The seed of `generator_for`."""
    return int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:6])


def require_writable(path: str | Path) -> Path:
    """The path of a file that can be written; its folder is made, and a file is made in it for a moment.

    Permissions would not tell: they do not bind an administrator, nor do they know a read-only disk.
    """
    try:
        path = Path(path)
        known = "\0" not in str(path)
    except TypeError:
        known = False
    if not known:
        raise InputError(f"{path!r} is no path of a file: give a text or a Path.")
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file in it.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror}): choose a folder where files can be made."
        ) from None
    return path


def points(
    x: Any, device: str | torch.device = "auto", d: int | None = None, name: str = "x"
) -> Tensor:
    """An array or tensor of shape (n, d) in float64; a tensor stays where it is under "auto"."""
    place = x.device if isinstance(x, Tensor) and device == "auto" else resolve(device)
    try:
        x = (x if isinstance(x, Tensor) else torch.tensor(x)).to(place, torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} is no array of numbers ({error}): give one of shape (n, d)."
        ) from None
    if x.ndim != 2 or not x.numel() or x.shape[1] != (d or x.shape[1]):
        raise InputError(f"{name} must have shape (n, {d or 'd'}), but {tuple(x.shape)} was given.")
    _require_finite(name, x)
    return x


def values_on_a_line(name: str, values: Any, like: Tensor) -> Tensor:
    """Finite numbers of shape (n,), on the device and with the dtype of `like`."""
    try:
        numbers = torch.as_tensor(values, dtype=like.dtype, device=like.device)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be numbers of shape (n,), not {values!r}.") from None
    if numbers.ndim != 1 or not len(numbers):
        shape = tuple(numbers.shape)
        raise InputError(f"{name} must have shape (n,) with n at least 1, but {shape} was given.")
    _require_finite(name, numbers)
    return numbers


def samples_on_a_line(x: Any, y: Any, like: Tensor) -> tuple[Tensor, Tensor]:
    """Points and targets, as many of either, and no point twice."""
    x, y = values_on_a_line("x", x, like), values_on_a_line("y", y, like)
    if len(x) != len(y):
        raise InputError(f"{len(x)} points x and {len(y)} targets y were given: give as many.")
    distinct, counts = torch.unique(x, return_counts=True)
    if (counts > 1).any():
        twice = distinct[counts > 1][0].item()
        raise InputError(
            f"x = {twice} is given more than once: keep it once, with the mean target."
        )
    return x, y


def _require_finite(name: str, values: Tensor) -> None:
    if not values.isfinite().all():
        raise InputError(f"{name} has entries that are NaN or infinite: remove those points.")

"""What calls accept, once: counts, numbers, devices, files, points, samples on a line; and InputError."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from numbers import Real
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from analytic.expressions.arguments import InputError, whole

ArrayLike = Tensor | np.ndarray | Sequence[float] | Sequence[Sequence[float]] | Sequence[Tensor]
Key = str | int | tuple[int, ...]  # part of what names a stream of random numbers
Kind = TypeVar("Kind")  # a class that is needed

__all__ = [
    "ArrayLike",
    "InputError",
    "as_numbers",
    "as_path",
    "between",
    "fraction",
    "generator_for",
    "number",
    "points",
    "positive",
    "require_finite",
    "require_float_dtype",
    "require_instance",
    "require_points",
    "require_signals",
    "require_writable",
    "resolve",
    "samples_on_a_line",
    "seed_for",
    "shown",
    "values_on_a_line",
    "whole",
    "whole_numbers",
]  # fmt: skip


def number(name: str, value: float, *, endless: bool = False) -> float:
    """A finite number, or with `endless` one that may be infinite; truth values and texts are none.

    >>> number("delta", -2)
    -2.0
    """
    real = _real(value)
    need = "a number, infinite or not" if endless else "a finite number"
    return _checked(name, value, math.isfinite(real) or (endless and math.isinf(real)), need)


def positive(name: str, value: float, *, zero: bool = False, endless: bool = False) -> float:
    """A number above 0, or with `zero` at least 0; with `endless` it may be infinite.

    >>> positive("time", math.inf, endless=True)
    inf
    """
    real = _real(value)
    inside = real > 0 or (zero and real == 0)
    bounded = endless or real < math.inf
    need = f"a number {'at least' if zero else 'above'} 0"
    return _checked(name, value, inside and bounded, need)


def fraction(name: str, value: float, *, zero: bool = False) -> float:
    """A number between 0 and 1, which is neither of them, or with `zero` may be 0.

    >>> fraction("level", 0.95)
    0.95
    """
    real = _real(value)
    need = "a number at least 0 and below 1" if zero else "a number between 0 and 1"
    return _checked(name, value, 0 < real < 1 or (zero and real == 0), need)


def between(name: str, value: float, low: float, high: float) -> float:
    """A number from `low` to `high`, both included.

    >>> between("time", 0, 0, 2.5)
    0.0
    """
    return _checked(name, value, low <= _real(value) <= high, f"a number from {low} to {high}")


def _real(value: Any) -> float:
    """The value as a float, which is NaN where it is no real number; truth values and texts are none.

    Tensors and arrays of one number count as that number.
    """
    if isinstance(value, Tensor | np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _checked(name: str, value: Any, inside: bool, need: str) -> float:
    if not inside:
        raise InputError(f"{name} = {value!r} was given, but {name} must be {need}.")
    return _real(value)


def whole_numbers(name: str, values: Iterable[int], least: int = 1) -> tuple[int, ...]:
    """Whole numbers, one at least and no one twice, such as the widths of a sweep.

    >>> whole_numbers("widths", [16, 64])
    (16, 64)
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(
            f"{name} = {values!r} was given, but several whole numbers are needed: give a tuple."
        )
    numbers = tuple(whole(name.removesuffix("s"), value, least) for value in values)
    if not numbers or len(set(numbers)) < len(numbers):
        raise InputError(f"{name} must be one at least, and differ, not {numbers}.")
    return numbers


def require_float_dtype(dtype: torch.dtype) -> torch.dtype:
    """A torch dtype of real floats."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise InputError(
            f"dtype = {dtype!r} was given, but a dtype such as torch.float64 is needed."
        )
    return dtype


def require_instance(name: str, value: object, kind: type[Kind], example: str) -> Kind:
    """Refuse what is no object of the class that is needed."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be a {kind.__name__} such as {example}, not {value!r}.")
    return value


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


def generator_for(*key: Key, device: torch.device | str = "cpu") -> torch.Generator:
    """Random numbers of their own for each key, such as ("weights", seed): no two keys share any.

    >>> draws = [torch.rand(1, generator=generator_for(name, 0)).item() for name in ("a", "a", "b")]
    >>> draws[0] == draws[1], draws[0] == draws[2]
    (True, False)
    """
    return torch.Generator(device).manual_seed(seed_for(*key))


def seed_for(*key: Key) -> int:
    """The seed of `generator_for`."""
    return int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:6])


def as_path(path: str | Path) -> Path:
    """A path from a text or a Path; anything else is refused."""
    try:
        as_text = os.fspath(path)
    except TypeError:
        as_text = None
    if not isinstance(as_text, str) or "\0" in as_text:
        raise InputError(f"{path!r} is no path of a file: give a text or a Path.")
    return Path(as_text)


def require_writable(path: str | Path) -> Path:
    """The path of a file that can be written; its folder is made, and a file is made in it for a moment.

    Permissions would not tell: they do not bind an administrator, nor do they know a read-only disk.
    """
    path = as_path(path)
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


def as_numbers(name: str, values: ArrayLike | float, shape: str = "(n, ...)") -> Tensor:
    """Real numbers as a tensor: one stays as it is, arrays and lists become float64 on the host.

    A list of tensors is stacked. `shape` says in a refusal what is needed. Truth values, complex numbers,
    texts and rows of several lengths are refused.

    >>> as_numbers("x", [0, 1], "(n,)")
    tensor([0., 1.], dtype=torch.float64)
    """
    if isinstance(values, Tensor):
        if values.dtype == torch.bool or values.is_complex():
            raise InputError(
                f"{name} must be real numbers of shape {shape}, not {values.dtype}: write "
                f"{name}.{'real' if values.is_complex() else 'double()'}."
            )
        return values
    try:
        parts = values if isinstance(values, list | tuple) else ()
        if tensors := [part for part in parts if isinstance(part, Tensor)]:
            if len(tensors) < len(parts):
                raise TypeError("some of its parts are tensors, others are not")
            return torch.stack(tensors)
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged, or on several devices
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{name} is no array of numbers ({reason}): give one of shape {shape}."
        ) from None
    if array.dtype.kind not in "iuf":
        raise InputError(
            f"{name} is no array of numbers, but {shown(values)}: give one of shape {shape}."
        )
    return torch.from_numpy(array.astype(np.float64))  # a copy, which torch may write to


def points(
    x: ArrayLike, device: str | torch.device = "auto", d: int | None = None, name: str = "x"
) -> Tensor:
    """An array or tensor of shape (n, d) in float64; a tensor stays where it is under "auto"."""
    place = x.device if isinstance(x, Tensor) and device == "auto" else resolve(device)
    x = as_numbers(name, x, f"(n, {d or 'd'})").to(place, torch.float64)
    if x.ndim != 2 or not x.numel() or x.shape[1] != (d or x.shape[1]):
        raise InputError(f"{name} must have shape (n, {d or 'd'}), but {tuple(x.shape)} was given.")
    require_finite(name, x)
    return x


@overload
def require_points(x: ArrayLike, y: None = None) -> tuple[Tensor, None]: ...


@overload
def require_points(x: ArrayLike, y: ArrayLike) -> tuple[Tensor, Tensor]: ...


def require_points(x: ArrayLike, y: ArrayLike | None = None) -> tuple[Tensor, Tensor | None]:
    """The points of a kernel, (n, d) and (m, d) or None: tensors stay as they are, in float32 or float64.

    Arrays and lists become float64 tensors on the host, or what the other argument is if that is a tensor.
    Refused are texts, other shapes and dtypes, and an x and y that differ in dimension, dtype or device; so
    is an array of floats beside a tensor of others.

    >>> x, y = require_points([[0, 1], [2, 3]], torch.ones(1, 2))
    >>> x.dtype, x.shape
    (torch.float32, torch.Size([2, 2]))
    """
    if y is None:
        return _require_float_points("x", x), None
    one, other = _require_float_points("x", x), _require_float_points("y", y)
    if one.shape[1] != other.shape[1]:
        raise InputError(
            f"x has dimension {one.shape[1]} and y has {other.shape[1]}: they must be the same."
        )
    return _require_alike(x, y, one, other)


@overload
def require_signals(x: ArrayLike, y: None = None) -> tuple[Tensor, None]: ...


@overload
def require_signals(x: ArrayLike, y: ArrayLike) -> tuple[Tensor, Tensor]: ...


@overload
def require_signals(x: ArrayLike, y: ArrayLike | None) -> tuple[Tensor, Tensor | None]: ...


def require_signals(x: ArrayLike, y: ArrayLike | None = None) -> tuple[Tensor, Tensor | None]:
    """As `require_points` for signals (n, channels, ...), such as images (n, channels, height, width).

    >>> require_signals(torch.ones(2, 3, 8, 8))[0].shape
    torch.Size([2, 3, 8, 8])
    """
    if y is None:
        return _require_float_points("x", x, signals=True), None
    one, other = (
        _require_float_points(name, part, signals=True) for name, part in (("x", x), ("y", y))
    )
    if one.shape[1:] != other.shape[1:]:
        raise InputError(
            f"x has signals of shape {tuple(one.shape[1:])} and y of {tuple(other.shape[1:])}: "
            "they must be the same."
        )
    return _require_alike(x, y, one, other)


def _require_alike(x: ArrayLike, y: ArrayLike, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Tensors made of x and y, with lists and whole numbers converted to what a tensor beside them is."""
    if isinstance(x, Tensor) and not isinstance(y, Tensor):
        _require_same_floats("y", y, "x", one)
        other = other.to(one)
    elif isinstance(y, Tensor) and not isinstance(x, Tensor):
        _require_same_floats("x", x, "y", other)
        one = one.to(other)
    if one.dtype != other.dtype or one.device != other.device:
        raise InputError(
            f"x is {one.dtype} on {one.device} and y is {other.dtype} on {other.device}: convert one of them."
        )
    return one, other


def _require_same_floats(name: str, array: ArrayLike, beside: str, tensor: Tensor) -> None:
    """Refuse an array of floats of another precision; lists and whole numbers have none."""
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        return
    if f"torch.{array.dtype.name}" != str(tensor.dtype):
        raise InputError(
            f"{beside} is {tensor.dtype} and {name} is an array of {array.dtype}: convert one of them."
        )


def _require_float_points(name: str, x: ArrayLike, signals: bool = False) -> Tensor:
    need = "signals of shape (n, channels, ...)" if signals else "points of shape (n, d)"
    points = as_numbers(name, x, need.partition("shape ")[2])
    if (points.ndim < 2 if signals else points.ndim != 2) or 0 in points.shape:
        shape = tuple(points.shape)
        raise InputError(f"{name} must be {need}, but shape {shape} was given.")
    if points.layout != torch.strided:
        raise InputError(f"{name} is {points.layout}: convert it by {name}.to_dense().")
    if points.dtype not in (torch.float32, torch.float64):
        raise InputError(f"{name} is {points.dtype}: convert it to torch.float64 or float32.")
    return points


def values_on_a_line(name: str, values: ArrayLike, like: Tensor, least: int = 1) -> Tensor:
    """Finite numbers of shape (n,), n at least `least`, on the device and with the dtype of `like`."""
    numbers = as_numbers(name, values, "(n,)").to(like.device, like.dtype)
    if numbers.ndim != 1 or len(numbers) < least:
        shape = tuple(numbers.shape)
        raise InputError(
            f"{name} must have shape (n,) with n at least {least}, but {shape} was given."
        )
    require_finite(name, numbers)
    return numbers


def samples_on_a_line(x: ArrayLike, y: ArrayLike, like: Tensor) -> tuple[Tensor, Tensor]:
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


def shown(value: object) -> str:
    """A value on one line of an error message: its repr if that is short, else its class.

    >>> shown("abc"), shown(np.zeros((3, 3)))
    ("'abc'", 'a ndarray')
    """
    text = repr(value)
    return text if len(text) < 60 and "\n" not in text else f"a {type(value).__name__}"


def require_finite(name: str, values: Tensor) -> None:
    """Refuse NaN and infinite entries."""
    if not values.isfinite().all():
        raise InputError(f"{name} has entries that are NaN or infinite: remove those points.")

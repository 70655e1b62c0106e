"""What learned kernels accept: points and labels as arrays or tensors, and numbers in their range."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data
from torch import Tensor

from analytic.expressions.arguments import InputError
from numeric.device import resolve


def positive(name: str, value: Any, *, zero: bool = False) -> float:
    """The number itself if it is finite and above 0, or at least 0."""
    real = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not real or not (0 <= value < math.inf if zero else 0 < value < math.inf):
        bound = "at least 0" if zero else "above 0"
        raise InputError(f"{name} = {value!r} was given, but {name} must be a number {bound}.")
    return float(value)


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
    if not torch.isfinite(x).all():
        raise InputError(f"{name} has entries that are NaN or infinite: remove those points.")
    return x


def validated(
    estimator: BaseEstimator, x: Any, y: Any = None, *, name: str = "X", **checks: Any
) -> Any:
    """X, or X and y, as scikit-learn's conventions ask; what they refuse is an InputError."""
    told = {} if y is None else {"y": _array(y)}
    checks |= {"dtype": np.float64, "ensure_all_finite": False}
    try:
        _finite("y", np.asarray(told.get("y", 0)))
        found = validate_data(estimator, _array(x), **told, **checks)
        _finite(name, found if y is None else found[0])
    except ValueError as error:
        raise InputError(" ".join(str(error).split())) from None
    return found


def returned(result: Tensor, given: Any) -> Any:
    """A result as what was given: a tensor where it was, or an array."""
    return result.to(given.device) if isinstance(given, Tensor) else result.cpu().numpy()


def _array(x: Any) -> Any:
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else x


def _finite(name: str, values: np.ndarray) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"{name} has entries that are NaN or infinite (inf): remove them.")

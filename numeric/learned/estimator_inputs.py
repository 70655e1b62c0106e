"""What estimators share: X and y by scikit-learn's conventions, results like X, sums over chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, overload

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, points
from numeric.kernels import Kernel
from numeric.kernels.two_point import CHUNK

__all__ = [
    "Array",
    "Fitted",
    "Targets",
    "as_input_type",
    "encoded_labels",
    "fitted_points",
    "gram_in_chunks",
    "new_signals",
    "require_targets",
    "validated",
]  # fmt: skip

Array = np.ndarray | Tensor
Targets = ArrayLike | Sequence[str]  # numbers, or labels of classes


class Fitted(Protocol):
    """An estimator after `fit`."""

    points_: Tensor  # (n, d)


@overload
def validated(
    estimator: BaseEstimator, x: ArrayLike, y: None = None, *, name: str = "X", **checks: bool | int
) -> np.ndarray: ...


@overload
def validated(
    estimator: BaseEstimator, x: ArrayLike, y: Targets, *, name: str = "X", **checks: bool | int
) -> tuple[np.ndarray, np.ndarray]: ...


def validated(
    estimator: BaseEstimator,
    x: ArrayLike,
    y: Targets | None = None,
    *,
    name: str = "X",
    **checks: bool | int,
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """X, or X and y, validated by scikit-learn; its refusals become an InputError."""
    if isinstance(x, str):
        raise InputError(f"{name} = {x!r} was given, but points are an array of shape (n, d).")
    targets = {} if y is None else {"y": _array(y)}
    try:
        _require_finite("y", np.asarray(targets.get("y", 0)))
        checked = validate_data(
            estimator, _array(x), **targets, **checks, dtype=np.float64, ensure_all_finite=False
        )
        _require_finite(name, checked if y is None else checked[0])
    except ValueError as error:  # a TypeError is what scikit-learn asks for of objects
        raise InputError(" ".join(str(error).split())) from None
    return checked


def require_targets(estimator: BaseEstimator, y: Targets | None) -> None:
    """Refuse a fit without y."""
    if y is None:
        raise InputError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None: give it."
        )


def encoded_labels(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes that labels (n,) name, two at least, and the number of each label's class (n,)."""
    try:
        check_classification_targets(y)
    except ValueError as error:
        raise InputError(f"{error} Give labels, not measurements.") from None
    classes, which = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"y holds one class, {classes.tolist()[0]!r}, but a boundary needs two at least: "
            "add samples of another class."
        )
    return classes, which


def fitted_points(estimator: Fitted, x: ArrayLike) -> Tensor:
    """New points (m, d) for a fitted estimator, in float64 where its training points are."""
    check_is_fitted(estimator)
    return points(validated(estimator, x, reset=False), estimator.points_.device)


def new_signals(estimator: BaseEstimator, x: ArrayLike) -> Tensor:
    """New points (m, d) or signals (m, channels, ...) for a fitted estimator, in float64 on the host."""
    check_is_fitted(estimator)
    return torch.tensor(validated(estimator, x, reset=False, allow_nd=True), device="cpu")


def gram_in_chunks(kernel: Kernel, x: Tensor, centres: Tensor, weights: Tensor | None) -> Tensor:
    """k(x, centres) @ weights, or k(x, centres) for None, with few rows of the Gram matrix at a time."""
    rows = max(1, CHUNK // len(centres))
    grams = (kernel(chunk, centres) for chunk in x.split(rows))
    return torch.cat([gram if weights is None else gram @ weights for gram in grams])


def as_input_type(result: Tensor, inputs: ArrayLike) -> Array:
    """The result as a tensor on the device of a tensor input, else as an array."""
    return result.to(inputs.device) if isinstance(inputs, Tensor) else result.cpu().numpy()


def _array(x: Targets) -> Targets:
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else x


def _require_finite(name: str, values: np.ndarray) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"{name} has entries that are NaN or infinite (inf): remove them.")

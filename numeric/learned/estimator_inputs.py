"""Validation of X and y by scikit-learn's conventions, and results in the type of the input."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data
from torch import Tensor

from numeric.inputs import InputError


def validated(
    estimator: BaseEstimator, x: Any, y: Any = None, *, name: str = "X", **checks: Any
) -> Any:
    """X, or X and y, validated by scikit-learn; its refusals become an InputError."""
    targets = {} if y is None else {"y": _array(y)}
    checks |= {"dtype": np.float64, "ensure_all_finite": False}
    try:
        _require_finite("y", np.asarray(targets.get("y", 0)))
        checked = validate_data(estimator, _array(x), **targets, **checks)
        _require_finite(name, checked if y is None else checked[0])
    except ValueError as error:
        raise InputError(" ".join(str(error).split())) from None
    return checked


def returned(result: Tensor, inputs: Any) -> Any:
    """The result as a tensor on the device of a tensor input, else as an array."""
    return result.to(inputs.device) if isinstance(inputs, Tensor) else result.cpu().numpy()


def _array(x: Any) -> Any:
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else x


def _require_finite(name: str, values: np.ndarray) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"{name} has entries that are NaN or infinite (inf): remove them.")

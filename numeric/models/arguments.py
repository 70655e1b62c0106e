"""What models are made of and called with: points as tensors, dtypes, generators; else it is refused."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError

REAL = "iuf"  # numpy's kinds of whole and real numbers; truth values, texts and complex numbers are none


def as_tensor(name: str, values: ArrayLike | float) -> Tensor:
    """A tensor as it is, in its dtype and on its device; an array or a list in float64, on the CPU.

    A list of tensors is stacked. What holds texts, truth values, complex numbers or rows of several lengths
    is refused with an InputError that calls it `name`.

    >>> as_tensor("x", [[1, 2], [3, 4]]).dtype
    torch.float64
    """
    if isinstance(values, Tensor):
        return values
    try:
        parts = values if isinstance(values, list | tuple) else ()
        if tensors := [part for part in parts if isinstance(part, Tensor)]:
            if len(tensors) < len(parts):
                raise TypeError("some of its parts are tensors, others are not")
            return torch.stack(tensors)
        array = np.asarray(values)
        if array.dtype.kind not in REAL:
            raise ValueError(f"of {array.dtype}")
        return torch.tensor(array.astype(np.float64))
    except (TypeError, ValueError, RuntimeError) as error:
        shown = repr(values) if len(repr(values)) < 60 else f"a {type(values).__name__}"
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{name} = {shown} was given, but an array of numbers is needed, as a tensor, an array or a "
            f"list: it is none ({reason})."
        ) from None


def require_real_dtype(dtype: torch.dtype) -> torch.dtype:
    """Refuse what is no dtype of real numbers.

    >>> require_real_dtype(torch.float32)
    torch.float32
    """
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise InputError(
            f"dtype = {dtype!r} was given, but one of real numbers is needed, such as torch.float64."
        )
    return dtype


def require_generator(generator: torch.Generator) -> torch.Generator:
    """Refuse what is no source of random numbers."""
    if not isinstance(generator, torch.Generator):
        raise InputError(
            f"generator = {generator!r} was given, but a torch.Generator is needed: write "
            "torch.Generator().manual_seed(0)."
        )
    return generator

"""The natural cubic spline, straight beyond its ends as the one of least bending is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from numeric.inputs import ArrayLike, InputError, as_numbers, values_on_a_line

__all__ = ["natural"]

Array = NDArray[np.float64]


def natural(x: ArrayLike, y: ArrayLike) -> Callable[[ArrayLike], Array]:
    """The natural spline through points (n,), (n,) in any order, each of which may occur again.

    Returned is a function of points of any shape. Refused are fewer than two different x, unequal
    numbers of x and y, and an x with two targets.

    >>> natural([0, 1, 2], [0, 1, 2])([0.5, 3.0]).round(12).tolist()
    [0.5, 3.0]
    """
    wide = torch.empty(0, dtype=torch.float64)
    x, y = values_on_a_line("x", x, wide, 2), values_on_a_line("y", y, wide, 2)
    if len(x) != len(y):
        raise InputError(f"{len(x)} points x and {len(y)} targets y were given: give as many.")
    x, y = np.unique(torch.stack([x, y], 1).numpy(), axis=0).T
    if x[0] == x[-1]:
        raise InputError(f"All x are {x[0]}: a spline needs two different ones.")
    if (above := np.diff(x) == 0).any():
        where = x[1:][above][0]
        raise InputError(f"x = {where} has two different targets, of which a spline takes one.")
    spline = CubicSpline(x, y, bc_type="natural")

    def at(points: ArrayLike) -> Array:
        points = as_numbers("points", points, "(...)").cpu().double().numpy()
        inside = np.clip(points, *spline.x[[0, -1]])
        return spline(inside) + spline(inside, 1) * (points - inside)

    return at

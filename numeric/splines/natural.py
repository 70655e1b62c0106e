"""The natural cubic spline, straight beyond its ends as the one of least bending is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from numeric.inputs import InputError

Array = NDArray[np.float64]


def natural(x: Any, y: Any) -> Callable[[Any], Array]:
    """Through points in any order, each of which may occur again."""
    x, y = np.unique(np.transpose([x, y]), axis=0).T
    if (above := np.diff(x) == 0).any():
        where = x[1:][above][0]
        raise InputError(f"x = {where} has two different targets, of which a spline takes one.")
    spline = CubicSpline(x, y, bc_type="natural")

    def at(points: Any) -> Array:
        inside = np.clip(points, *spline.x[[0, -1]])
        return spline(inside) + spline(inside, 1) * (points - inside)

    return at

r"""Real spherical harmonics, and signals on the sphere as their coefficients.

$Y_{lm}$ has mean square 1 on the sphere, cos(m phi) at m >= 0 and sin(|m| phi) at m < 0, without the phase
(-1)^m; its number is l^2 + l + m. So a signal $f = \sum_{l<L} f_{lm} Y_{lm}$ of band limit L is (n,
channels, L^2), its mean square is the sum of squares, and $\sqrt3 z$ has the coefficient 1 at number 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, as_numbers, require_finite, whole

__all__ = ["SphereGrid", "band_limit_of", "harmonics", "require_band_limit", "uniform_angles"]


def harmonics(points: ArrayLike, band_limit: int) -> Tensor:
    """Y_lm at unit vectors (k, 3) for l below the band limit, (k, band_limit^2) in float64.

    Refused are points of other shapes or off the sphere.

    >>> harmonics([[0.0, 0.0, 1.0]], 2).square().sum().round().item()  # 2l + 1 for each l
    4.0
    """
    points = as_numbers("points", points, "(k, 3)").double()
    if points.ndim != 2 or points.shape[1] != 3:
        raise InputError(f"points must have shape (k, 3), but {tuple(points.shape)} was given.")
    require_finite("points", points)
    if ((points.square().sum(1) - 1).abs() > 1e-6).any():
        raise InputError("points must be unit vectors: divide each by its norm.")
    L = whole("band_limit", band_limit)
    x, y, z = points.T
    columns: list[Tensor] = [z] * L**2  # all replaced
    cos, sin = torch.ones_like(z), torch.zeros_like(z)  # r^m cos(m phi) and r^m sin(m phi)
    top = 1.0  # of l = m, without them
    for m in range(L):
        if m:
            cos, sin = x * cos - y * sin, x * sin + y * cos
            top *= math.sqrt((2 * m + 1) / (2 * m)) * (math.sqrt(2) if m == 1 else 1)
        before, at = torch.zeros_like(z), torch.full_like(z, top)
        for l in range(m, L):
            columns[l * l + l - m] = sin * at
            columns[l * l + l + m] = cos * at
            square = (l + 1) ** 2 - m**2
            a = math.sqrt((2 * l + 1) * (2 * l + 3) / square)
            b = math.sqrt((2 * l + 3) * (l * l - m * m) / ((2 * l - 1) * square)) if l > m else 0.0
            before, at = at, a * z * at - b * before
    return torch.stack(columns, 1)


def band_limit_of(coefficients: int) -> int:
    """L for L^2 coefficients; other numbers are refused."""
    L = math.isqrt(coefficients)
    if not L or coefficients != L * L:
        raise InputError(
            f"{coefficients} coefficients were given, but signals on the sphere have band_limit^2: 1, 4, 9..."
        )
    return L


@dataclass(frozen=True)
class SphereGrid:
    r"""Nodes and weights on the sphere that integrate products of two signals below a band limit exactly.

    Parameters: `band_limit` L. Gauss and Legendre's L nodes in z, and 2L - 1 uniform angles, are exact up
    to degree 2L - 2. `coefficients` are then those of any signal below the band limit, and `values` its
    values.

    >>> grid = SphereGrid(3)
    >>> grid.coefficients(3**0.5 * grid.points[:, 2]).round(decimals=12)[:4].abs()
    tensor([0., 0., 1., 0.], dtype=torch.float64)
    """

    band_limit: int

    def __post_init__(self) -> None:
        whole("band_limit", self.band_limit)

    @cached_property
    def _rings(self) -> tuple[Tensor, Tensor]:
        z, weights = np.polynomial.legendre.leggauss(self.band_limit)
        return torch.from_numpy(z), torch.from_numpy(weights / 2)

    @cached_property
    def points(self) -> Tensor:
        """Unit vectors of the nodes, (nodes, 3)."""
        z = self._rings[0].repeat_interleave(2 * self.band_limit - 1)
        phi = uniform_angles(2 * self.band_limit - 1).repeat(self.band_limit)
        r = torch.sqrt(1 - z * z)
        return torch.stack([r * phi.cos(), r * phi.sin(), z], 1)

    @cached_property
    def weights(self) -> Tensor:
        """Weights of the nodes, with sum 1, (nodes,)."""
        around = 2 * self.band_limit - 1
        return self._rings[1].repeat_interleave(around) / around

    @cached_property
    def harmonics(self) -> Tensor:
        """Y_lm at the nodes, (nodes, band_limit^2)."""
        return harmonics(self.points, self.band_limit)

    def values(self, coefficients: ArrayLike) -> Tensor:
        """Values at the nodes, (..., nodes), of signals (..., L^2) whose L is at most the band limit."""
        c = as_numbers("coefficients", coefficients, "(..., L^2)")
        L = band_limit_of(c.shape[-1] if c.ndim else 0)
        require_band_limit(self.band_limit, L)
        return c @ self.harmonics[:, : L * L].T.to(c)

    def coefficients(self, values: ArrayLike) -> Tensor:
        """Coefficients (..., band_limit^2) of a signal by its values at the nodes, (..., nodes)."""
        v = as_numbers("values", values, "(..., nodes)")
        if not v.ndim or v.shape[-1] != len(self.weights):
            raise InputError(
                f"values must have shape (..., {len(self.weights)}), one for each node of {self}, but "
                f"{tuple(v.shape)} was given."
            )
        return (v * self.weights.to(v)) @ self.harmonics.to(v)


def uniform_angles(count: int) -> Tensor:
    """So many angles from 0, whose mean is exact for cos(m phi) with m below their number."""
    return 2 * math.pi / count * torch.arange(count, dtype=torch.float64)


def require_band_limit(limit: int, signals: int) -> None:
    """Refuse signals that go beyond a band limit."""
    if signals > limit:
        raise InputError(
            f"band_limit = {limit} is below that of the signals, {signals}: give at least that."
        )

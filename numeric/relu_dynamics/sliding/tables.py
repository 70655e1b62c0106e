r"""The motion of a neuron in each of its modes, and the boundaries that end them, as matrices.

Modes and rays are numbered as in `numeric.relu_dynamics.rays`: free in the sector of pattern q (mode q),
or sliding on the ray between q and q + 1 (mode 2s + q). Mode 0 is dead, and holds the origin too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from numeric.relu_dynamics.gradient import Samples
from numeric.relu_dynamics.rays import ORIGIN, Rays

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

DEAD = 0
__all__ = ["DEAD", "ORIGIN", "Array", "Tables", "Whole"]


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables for s samples from right to left, with residuals in this order."""

    samples: Samples
    inactive: Whole  # (2s,): the mode beside each ray in which its sample is not active
    active: Whole  # (2s,): and in which it is
    normal: Array  # (2s, 2, 2): of each ray, to its active side; 0 for a side whose field never crosses it
    motion: Array  # (4s, 2, s): w' = -(c/alpha) motion @ rho
    boundary: Array  # (4s, 2, 2): a mode lasts while <boundary, w> > 0; rows of 0 are no boundary
    crosses: (
        Array  # (4s, 2): 1 where motion in a mode can approach its boundary, 0 where it is parallel
    )
    size: Array  # (4s,): of motion, as an operator at most
    beyond: Whole  # (4s, 2): the ray behind each boundary, or ORIGIN

    @property
    def rays(self) -> int:
        return len(self.inactive)

    @classmethod
    def of(cls, samples: Samples) -> Tables:
        rays, s = Rays(samples, 1.0), len(samples.x)
        motion = rays.forces(torch.eye(s, dtype=torch.float64)).permute(2, 1, 0)
        boundary, size = rays.boundaries.permute(2, 0, 1), motion.square().sum((1, 2)).sqrt()
        crosses = _above_rounding(boundary @ motion, samples.x)
        normal = rays.orientation * torch.stack([-rays.direction[1], rays.direction[0]])  # (2, 2s)
        sides = torch.stack([rays.inactive, rays.active], 1)  # (2s, 2)
        crossing = torch.einsum("dr,redj->rej", normal, motion[sides])
        normal = normal.T[:, None] * _above_rounding(crossing, samples.x)[:, :, None]
        parts = (rays.inactive, rays.active, normal, motion, boundary, crosses, size, rays.beyond.T)
        return cls(samples, *(part.numpy(force=True).copy() for part in parts))

    def heights(self, w: Array) -> Array:
        """<w, x~> at the samples: (m, 2) -> (m, s)."""
        return w[:, :1] * self.samples.x.numpy() + w[:, 1:]

    def locate(self, w: Array) -> tuple[Whole, Whole]:
        """The pattern of each neuron (m, 2), and the ray that it is exactly on, or -1."""
        a, b = torch.from_numpy(w).unbind(1)
        on = self.heights(w) == 0
        ray = on.argmax(1) + np.where(w[:, 0] < 0, on.shape[1], 0)
        exact = on.any(1) & (w[:, 0] != 0)
        return self.samples.patterns(a, -b).numpy() % self.rays, np.where(exact, ray, -1)


def _above_rounding(parts: Tensor, x: Tensor) -> Tensor:
    """Whether any part is above rounding; none is where the only active sample x' has 1 + x x' = 0."""
    noise = 4 * torch.finfo(x.dtype).eps * (1 + x**2).sqrt()
    return (parts.abs() > noise).any(-1).to(x)

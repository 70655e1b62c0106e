r"""Rays on which a knot meets a sample, the sectors between them, and the forces of residuals there.

In the plane of $w = (a, -b)$, s samples make 2s rays, and a neuron is in one of 4s modes: free in the
sector of the pattern q (mode q), or sliding on the ray between q and q + 1 (mode 2s + q).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from numeric.relu_dynamics.gradient import Samples

__all__ = ["ORIGIN", "ForceField", "Rays"]

ORIGIN = -1  # what lies beyond the inner end of a ray


@dataclass(frozen=True, eq=False)
class ForceField:
    """Forces of given residuals; pushes are towards the active side of a ray, up to the factor c."""

    force: Tensor  # (2, 4s): g, with w' = -c g
    toward: Tensor  # (2, 4s): <g, boundary>
    before: Tensor  # (2s,): push on the inactive side
    after: Tensor  # (2s,): push on the active side


@dataclass(frozen=True, eq=False)
class Rays:
    """The rays of samples from right to left, numbered by increasing angle of w."""

    samples: Samples
    alpha: float

    @cached_property
    def count(self) -> int:
        return 2 * len(self.samples.x)

    @cached_property
    def number(self) -> Tensor:
        return torch.arange(self.count, device=self.samples.x.device)

    @cached_property
    def orientation(self) -> Tensor:
        """(2s,): 1 where the active side of a ray is above it, by angle, and -1 where it is below."""
        one = torch.ones_like(self.samples.x)
        return torch.cat([one, -one])

    @cached_property
    def direction(self) -> Tensor:
        """(2, 2s): unit vectors."""
        x = self.samples.x.repeat(2)
        return self.orientation * torch.stack([torch.ones_like(x), -x]) / (1 + x**2).sqrt()

    def along(self, ray: Tensor, a: Tensor, d: Tensor) -> Tensor:
        """(h,): the part of w = (a, d) along a ray."""
        u, v = self.direction[:, ray]
        return u * a + v * d

    @cached_property
    def inactive(self) -> Tensor:
        """(2s,): the pattern beside a ray in which its sample is not active."""
        return torch.where(self.orientation > 0, self.number, (self.number + 1) % self.count)

    @cached_property
    def active(self) -> Tensor:
        return torch.where(self.orientation > 0, self.number + 1, self.number)

    @cached_property
    def pattern(self) -> Tensor:
        """(4s,): the pattern of each mode; a sliding neuron is inactive at its sample."""
        return torch.cat([self.number, self.inactive])

    @cached_property
    def freedom(self) -> Tensor:
        """(3, 4s): entries 11, 12 and 22 of the projection on the directions in which w can move."""
        u, v = self.direction
        free = torch.zeros(3, self.count, dtype=u.dtype, device=u.device)
        free[0] = free[2] = 1
        return torch.cat([free, torch.stack([u * u, u * v, v * v])], 1)

    @cached_property
    def boundaries(self) -> Tensor:
        """(2, 2, 4s): a mode lasts while <boundary, w> > 0 for both boundaries; 0 is no boundary."""
        upward = torch.stack([-self.direction[1], self.direction[0]])
        free = torch.stack([upward.roll(1, 1), -upward])
        free[:, :, 0] = 0  # dead neurons do not move
        slide = torch.stack([self.direction, torch.zeros_like(self.direction)])
        return torch.cat([free, slide], 2)

    @cached_property
    def beyond(self) -> Tensor:
        """(2, 4s): the ray behind each boundary, or ORIGIN; for a sliding neuron its own ray."""
        free = torch.stack([self.number.roll(1), self.number])
        slide = torch.stack([torch.full_like(self.number, ORIGIN), self.number])
        return torch.cat([free, slide], 1)

    def forces(self, residuals: Tensor) -> Tensor:
        """(..., s) -> (..., 2, 4s): g in each mode; for a sliding neuron its component along the ray."""
        x, over = self.samples.x, residuals / self.alpha
        free = self.samples.forces(torch.stack([over * x, over], -2))[..., :-1]
        along = (self.direction * free[..., self.inactive]).sum(-2, keepdim=True)
        return torch.cat([free, self.direction * along], -1)

    def field(self, residuals: Tensor) -> ForceField:
        force = self.forces(residuals)
        toward = (force * self.boundaries).sum(1)
        up = (
            self.orientation > 0
        )  # then a ray is the upper boundary of its inactive and the lower of its active side
        before = torch.where(up, toward[1, self.inactive], toward[0, self.inactive])
        after = -torch.where(up, toward[0, self.active], toward[1, self.active])
        return ForceField(force, toward, before, after)

    def onward(self, field: ForceField, ray: Tensor, c: Tensor) -> Tensor:
        """(h,), (h,) -> (h,): the mode in which a neuron on a ray goes on.

        Where both sides push it back it slides; where both push it away it becomes inactive: relu'(0) = 0.
        """
        slides = torch.where(c * field.after[ray] < 0, self.count + ray, self.active[ray])
        return torch.where(c * field.before[ray] > 0, slides, self.inactive[ray])

"""Points of a square or a disc, curves where a function changes sign, and distances from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from numeric.inputs import InputError, positive, require_float_dtype, resolve, whole

__all__ = ["Disc", "Lattice", "distance"]


@dataclass(frozen=True)
class Lattice:
    """Evenly spaced points of a square around the origin, x[i, j] = (axis[j], axis[i]).

    >>> lattice = Lattice(reach=1.0, points=5)
    >>> lattice.x.shape, lattice.curve(lambda x: x[:, 0] - 0.25).shape
    (torch.Size([25, 2]), torch.Size([5, 2]))
    """

    reach: float
    points: int = 40  # on a side, as in the paper
    dtype: torch.dtype = torch.float64
    device: torch.device | str = "cpu"

    def __post_init__(self) -> None:
        whole("points", self.points, 2)
        positive("reach", self.reach)
        require_float_dtype(self.dtype)
        resolve(self.device)

    @cached_property
    def axis(self) -> Tensor:
        """(points,): the coordinates along one side."""
        kind = {"dtype": self.dtype, "device": self.device}
        return torch.linspace(-self.reach, self.reach, self.points, **kind)

    @cached_property
    def x(self) -> Tensor:
        """(points^2, 2), row by row from below."""
        y, x = torch.meshgrid(self.axis, self.axis, indexing="ij")
        return torch.stack([x, y], -1).flatten(0, 1)

    def square(self, values: Tensor) -> Tensor:
        """(..., points^2) -> (..., points, points)."""
        return values.unflatten(-1, (self.points, self.points))

    def curve(self, f: Callable[[Tensor], Tensor]) -> Tensor:
        """Points (k, 2) where f, (m, 2) -> (m,), changes sign between neighbours, by linear interpolation."""
        values = f(self.x)
        if values.shape != self.x.shape[:1] or not values.isfinite().all():
            raise InputError(
                f"A curve needs one finite number at each of {len(self.x)} points, not values of shape "
                f"{tuple(values.shape)} with {int((~values.isfinite()).sum())} NaN or infinite."
            )
        values, x = self.square(values), self.x.unflatten(0, (self.points, self.points))
        return torch.cat([_crossings(values, x), _crossings(values.mT, x.transpose(0, 1))])


@dataclass(frozen=True)
class Disc:
    """Points on circles around the origin, with the spacing on a circle equal to that between circles.

    The points are invariant under rotation by 45 degrees and reflection in an axis or a diagonal.

    >>> Disc(reach=1.0, circles=2).x.shape
    torch.Size([24, 2])
    """

    reach: float
    circles: int = 24
    dtype: torch.dtype = torch.float64
    device: torch.device | str = "cpu"

    def __post_init__(self) -> None:
        whole("circles", self.circles)
        positive("reach", self.reach)
        require_float_dtype(self.dtype)
        resolve(self.device)

    @cached_property
    def circle(self) -> Tensor:
        """The circle that each point is on: (m,)."""
        sizes = [8 * math.ceil(math.tau * (k + 0.5) / 8) for k in range(self.circles)]
        return torch.arange(self.circles).repeat_interleave(torch.tensor(sizes)).to(self.device)

    @cached_property
    def x(self) -> Tensor:
        """(m, 2)."""
        sizes = self.circle.bincount()
        places = torch.cat([torch.arange(n) + 0.5 for n in sizes.tolist()]).to(self.device)
        angle = math.tau * places.to(self.dtype) / sizes[self.circle]
        radius = self.reach * (self.circle.to(self.dtype) + 0.5) / self.circles
        return radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1)

    def beside(self, values: Tensor) -> Tensor:
        """Values (..., m) minus their mean over each point's circle."""
        circles = F.one_hot(self.circle).to(values.dtype)
        return values - (values @ circles / circles.sum(0))[..., self.circle]


def _crossings(values: Tensor, x: Tensor) -> Tensor:
    """Along the first axis of (p, q) values at (p, q, 2) points."""
    here, there = values[:-1], values[1:]
    where = (here > 0) != (there > 0)
    share = (here / (here - there))[where][:, None]
    return torch.lerp(x[:-1][where], x[1:][where], share)


def distance(x: Tensor, curve: Tensor) -> Tensor:
    """Distance of points from the nearest point of a curve: (m, 2), (k, 2) -> (m,); infinite if k = 0.

    >>> distance(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])).tolist()
    [5.0]
    """
    if not len(curve):
        return x.new_full((len(x),), math.inf)
    return torch.cdist(x, curve).amin(1)

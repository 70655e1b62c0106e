r"""Residuals and gradients of $\frac1\alpha\sum_i c_i[a_i x - b_i]_+$ by prefix sums over sorted samples.

Among s samples from right to left, the active ones of a neuron are the first q where a > 0 and all but
the first q - s where a < 0. So the pattern is one number q, which grows with the angle of (a, -b):
0 is dead, s is active everywhere, and the ray between q and q + 1 belongs to the sample q mod s.
Sums over neurons go through 2s bins and sums over samples through 2s entries: O(m log s + s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["Gradient", "Grid", "Samples", "gradient"]

CELLS = 2**16  # most cells of the grid that finds a pattern with one table look-up
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class Gradient:
    """The gradient of the loss by a, b and c, each (m,), and the residuals at the samples, (s,)."""

    a: Tensor
    b: Tensor
    c: Tensor
    residuals: Tensor


@dataclass(frozen=True, eq=False)
class Grid:
    """Equal cells from right to left, at most one sample in each, with the sample to compare first."""

    right: float
    scale: float
    first: Tensor  # (cells,): index of the lowest sample in this cell or to the right of it
    sample: Tensor  # (cells,)

    def cell(self, knots: Tensor) -> Tensor:
        """The cell of each knot; NaN (a = b = 0) becomes some integer, by device, but always cell 0."""
        last = len(self.first) - 1
        place = torch.rsub(knots, self.right * self.scale, alpha=self.scale)
        return place.clamp_(0, last).to(torch.int64).clamp_(0, last)


@dataclass(frozen=True, eq=False)
class Samples:
    """Sample points from right to left, on the device and with the dtype of the neurons."""

    x: Tensor  # (s,), descending

    @classmethod
    def of(cls, x: Tensor) -> tuple[Samples, Tensor]:
        """The sorted samples, and their order: x[order] is descending."""
        descending, order = torch.sort(x, descending=True)
        return cls(descending), order

    def patterns(self, a: Tensor, b: Tensor) -> Tensor:
        """(m,) -> (m,): the number of the pattern {j : a x_j - b > 0}, with that very rounding."""
        s, left = len(self.x), a < 0
        if self._grid is None:
            return self._bisected(a, b, left).add_(left, alpha=s)
        cell = self._grid.cell(
            b / (a + 0.0)
        )  # + 0.0 turns -0.0, whose quotient has the wrong sign, into 0.0
        on = _look_up(self._grid.sample, cell).mul_(a) > b
        small = torch.uint8 if s < 255 else torch.int64  # narrow integers are faster
        more = (left ^ on).to(small).add_(left.to(small), alpha=s)
        return self._grid.first.gather(0, cell).add_(more)

    def sums(self, weights: Tensor, patterns: Tensor) -> Tensor:
        """(k, m) -> (k, s): at each sample the sums of weights over the neurons active there."""
        s = len(self.x)
        bins = torch.zeros(len(weights), 2 * s + 1, dtype=weights.dtype, device=weights.device)
        bins.scatter_add_(1, patterns.expand_as(weights), weights)
        totals = bins[:, 1 : s + 1].flip(1).cumsum(1).flip(1)
        totals[:, 1:] += bins[:, s + 1 : 2 * s].cumsum(1)
        return totals

    def outputs(self, a: Tensor, b: Tensor, c: Tensor, patterns: Tensor) -> Tensor:
        """alpha f at the samples: (m,) -> (s,)."""
        slopes, levels = self.sums(torch.stack([c * a, c * b]), patterns)
        return self.x * slopes - levels

    def forces(self, weights: Tensor) -> Tensor:
        """(..., s) -> (..., 2s + 1): for each pattern the sum over its samples; 2s is dead too."""
        none = torch.zeros_like(weights[..., :1])
        rising = weights.cumsum(-1)
        falling = weights[..., 1:].flip(-1).cumsum(-1).flip(-1)
        return torch.cat([none, rising, falling, none], -1)

    @cached_property
    def _grid(self) -> Grid | None:
        """None where samples lie too close together, or at the border of a cell."""
        s, x = len(self.x), self.x
        width = float(x[0] - x[-1])
        gap = float((x[:-1] - x[1:]).min()) if s > 1 else math.inf
        if not 4 * width <= CELLS * gap:
            return None
        count = int(4 * width / gap) + 2
        right, scale = float(x[0]) + width / count, (count - 2) / max(width, TINY)
        grid = Grid(right, scale, torch.zeros(count, dtype=torch.int64, device=x.device), x)
        cells, near = grid.cell(x), 8 * torch.finfo(x.dtype).eps * (abs(right) + width)
        if (grid.cell(x + near) != grid.cell(x - near)).any() or (cells[1:] == cells[:-1]).any():
            return None
        first = torch.searchsorted(cells, torch.arange(count, device=x.device), right=True) - 1
        first.clamp_(min=0)
        return Grid(right, scale, first, x[first])

    def _bisected(self, a: Tensor, b: Tensor, left: Tensor) -> Tensor:
        """The number of samples, from the right, that are active, or inactive where a < 0."""
        s = len(self.x)
        count = torch.zeros_like(a, dtype=torch.int64)
        step = 1 << s.bit_length() - 1
        while step:
            last = count + (step - 1)
            on = a * self.x[last.clamp(max=s - 1)] > b
            count += step * ((last < s) & (left ^ on))
            step //= 2
        return count


def gradient(
    samples: Samples, y: Tensor, a: Tensor, b: Tensor, c: Tensor, alpha: float
) -> Gradient:
    """The gradient of $\\frac12\\sum_j (f(x_j) - y_j)^2$, with y in the order of the samples."""
    patterns = samples.patterns(a, b)
    residuals = samples.outputs(a, b, c, patterns) / alpha - y
    over = residuals / alpha
    slopes, levels = samples.forces(torch.stack([over * samples.x, over])).unbind()
    slope, level = _look_up(slopes, patterns), _look_up(levels, patterns)
    readout = (a * slope).addcmul_(b, level, value=-1)
    return Gradient(slope.mul_(c), level.mul_(c).neg_(), readout, residuals)


def _look_up(table: Tensor, index: Tensor) -> Tensor:
    """table[index]; on a CPU, torch gathers bits as integers in half the time that it takes for floats."""
    bits = {4: torch.int32, 8: torch.int64}[table.element_size()]
    return table.view(bits).gather(0, index).view(table.dtype)

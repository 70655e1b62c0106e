"""The four coefficients of 1/n that theory and experiment estimate, and running sums for them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from numeric.estimate import Estimate

__all__ = ["Coefficients", "Tally"]


@dataclass(frozen=True)
class Coefficients:
    """The coefficients of 1/n at each point; `total` is n(<sqrt det g>/sqrt det gbar - 1)."""

    shift: Estimate  # (r, d, d): n(<g> - gbar)
    learning: Estimate  # (r,): half the trace of gbar^-1 shift, all that (E.16) keeps
    fluctuation: Estimate  # (r,): the same as total before any data, kappa
    total: Estimate  # (r,)


@dataclass
class Tally:
    """Running sums for a ratio of two means, with its standard error by the delta method."""

    count: int = 0
    tops: Tensor | float = 0.0
    squares: Tensor | float = 0.0
    mixed: Tensor | float = 0.0
    bottoms: Tensor | float = 0.0
    bottom_squares: Tensor | float = 0.0

    def add(self, top: Tensor, bottom: Tensor | None = None) -> None:
        """Add draws along the first axis; without denominators the ratio is a plain mean."""
        bottom = top.new_ones(len(top)) if bottom is None else bottom
        below = bottom.reshape(-1, *(1,) * (top.ndim - 1))
        self.count += len(top)
        self.tops = self.tops + top.sum(0)
        self.squares = self.squares + (top**2).sum(0)
        self.mixed = self.mixed + (top * below).sum(0)
        self.bottoms = self.bottoms + below.sum(0)
        self.bottom_squares = self.bottom_squares + (below**2).sum(0)

    def estimate(self) -> Estimate:
        ratio = self.tops / self.bottoms
        rest = self.squares - 2 * ratio * self.mixed + ratio**2 * self.bottom_squares
        spread = (rest.clamp_min(0) / (self.count - 1)).sqrt() * self.count / self.bottoms.abs()
        return Estimate(ratio.cpu(), spread.cpu(), self.count)

"""The four coefficients of 1/n that theory and experiment estimate, and running sums for them."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    sums: list[Tensor] = field(default_factory=list)  # empty before the first draws

    def add(self, top: Tensor, bottom: Tensor | None = None) -> None:
        """Add draws along the first axis; without denominators the ratio is a plain mean."""
        bottom = top.new_ones(len(top)) if bottom is None else bottom
        below = bottom.reshape(-1, *(1,) * (top.ndim - 1))
        self.count += len(top)
        more = [part.sum(0) for part in (top, top**2, top * below, below, below**2)]
        self.sums = [a + b for a, b in zip(self.sums, more, strict=True)] if self.sums else more

    def estimate(self) -> Estimate:
        tops, squares, mixed, bottoms, bottom_squares = self.sums
        ratio = tops / bottoms
        rest = squares - 2 * ratio * mixed + ratio**2 * bottom_squares
        spread = (rest.clamp_min(0) / (self.count - 1)).sqrt() * self.count / bottoms.abs()
        return Estimate(ratio.cpu(), spread.cpu(), self.count)

r"""How much larger the volume element is near a curve than far from it, at equal distance from the origin.

The volume element of a wide untrained network depends on |x| alone (section IV B) and falls with it,
so that a curve through the middle lies where it is large for no reason of its own. Points near and far
are therefore compared circle by circle: the contrast is the least squares coefficient of being near in
the log volume, beside a constant for each circle. It is 0 for any function of |x|, and the same for any
multiple of a metric. In nats: exp of it is how many times larger.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from scipy.special import stdtrit
from torch import Tensor

from numeric.estimate import Estimate
from numeric.experiments.decision_boundaries.curves import Disc
from numeric.inputs import InputError, fraction, whole

__all__ = ["Comparison", "Zones", "level_each"]


@dataclass(frozen=True)
class Zones:
    """Distances that count as near to a curve and as far from it, relative to the disc's radius.

    >>> Zones(near=0.3, far=0.2)
    Traceback (most recent call last):
    ...
    analytic.expressions.arguments.InputError: Zones need 0 < near <= far < 1, but 0.3 and 0.2 were given.
    """

    near: float = 0.1
    far: float = 0.25

    def __post_init__(self) -> None:
        if not fraction("near", self.near) <= fraction("far", self.far):
            raise InputError(
                f"Zones need 0 < near <= far < 1, but {self.near} and {self.far} were given."
            )

    def weights(self, disc: Disc, away: Tensor) -> Tensor:
        """Weights of the means near and far from a curve, balanced over circles: (..., m) -> (..., 2, m).

        NaN where no circle has points of both kinds.
        """
        circles = F.one_hot(disc.circle, disc.circles).to(away.dtype)  # (m, circles)
        zones = torch.stack([away < self.near * disc.reach, away > self.far * disc.reach], -2)
        zones = zones.to(away.dtype)
        counts = zones @ circles  # (..., 2, circles)
        balance = counts.prod(-2, keepdim=True) / counts.sum(-2, keepdim=True).clamp(min=1)
        balance = balance / balance.sum(-1, keepdim=True)
        return zones * ((balance / counts.clamp(min=1)) @ circles.T)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Paired differences between networks and controls: mean, confidence interval and effect size."""

    estimate: Estimate  # of one difference a pair, in nats
    level: float  # of the interval
    lost: int = 0  # pairs that could not be compared, and are left out
    rounding: float = 0.0  # a mean up to this counts as 0

    @classmethod
    def of(
        cls, differences: Tensor, level: float, lost: int = 0, rounding: float = 0.0
    ) -> Comparison:
        """From differences, one for each pair, along the first axis."""
        return cls(Estimate.of(differences), level, lost, rounding)

    @property
    def mean(self) -> Tensor:
        """The mean difference, in nats."""
        return self.estimate.mean

    @property
    def interval(self) -> tuple[Tensor, Tensor]:
        """Student's, which holds the true mean with probability `level`."""
        quantile = float(stdtrit(self.estimate.count - 1, (1 + self.level) / 2))
        half = quantile * self.estimate.stderr
        return self.mean - half, self.mean + half

    @property
    def size(self) -> Tensor:
        """Cohen's d of paired differences: the mean over the spread."""
        return self.estimate.mean / self.estimate.spread

    @property
    def above(self) -> bool:
        """Whether the whole interval is above 0, by more than rounding.

        Rounding errors may have the same sign in all pairs, and then look significant.
        """
        return bool((self.interval[0] > self.rounding).all())

    def __str__(self) -> str:
        low, high = self.interval
        text = f"{self.mean:+.3f} [{low:+.3f}, {high:+.3f}], d = {self.size:.1f}"
        return f"{text}, {self.lost} pairs left out" if self.lost else text


def level_each(level: float, count: int) -> float:
    """Bonferroni: the level of each of several intervals so that all hold with probability `level`."""
    return 1 - (1 - fraction("level", level)) / whole("count", count)

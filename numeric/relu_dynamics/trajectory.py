"""What a training run leaves: neurons at any time, residuals at some, and what happened at the rays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from torch import Tensor

from analytic.domain import InputError
from numeric.relu_dynamics.neurons import Neurons


class Kind(Enum):
    """What a neuron does where its knot meets a sample."""

    CROSSING = "crossing"
    SLIDING = "sliding"  # it stays there
    LEAVING = "leaving"  # it no longer stays
    DYING = "dying"  # no sample is active any more, so it stops for ever


@dataclass(frozen=True)
class Event:
    """At this time this neuron's knot was at this sample, counted as the samples were given."""

    time: float
    neuron: int
    sample: int
    kind: Kind


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A run from time 0 to `times[-1]`; residuals f(x_j) - y_j in the order of the given samples."""

    times: Tensor  # (k,)
    residuals: Tensor  # (k, s)
    state: Callable[[float], Neurons]
    events: tuple[Event, ...] = ()

    def at(self, time: float) -> Neurons:
        """The neurons at any time of the run."""
        if not 0 <= time <= self.times[-1].item():
            end = self.times[-1].item()
            raise InputError(f"time = {time} was given, but this run lasts from 0 to {end}.")
        return self.state(float(time))

    @property
    def final(self) -> Neurons:
        return self.at(self.times[-1].item())

    @property
    def losses(self) -> Tensor:
        """(k,): half the sum of squared residuals."""
        return (self.residuals**2).sum(1) / 2

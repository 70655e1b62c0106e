"""The result of a run: neurons at any time, residuals at some times, and events at the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from torch import Tensor

from numeric.inputs import between
from numeric.relu_dynamics.neurons import Neurons

__all__ = ["EVENT_KINDS", "Event", "EventKind", "Trajectory", "in_order"]

MOMENT = 1e-12  # relative: far above rounding, and far below the time between separate events


class EventKind(Enum):
    """What a neuron does where its knot meets a sample."""

    CROSSING = "crossing"
    SLIDING = "sliding"  # it stays there
    LEAVING = "leaving"  # it no longer stays
    DYING = "dying"  # no sample is active any more, so it stops for ever


EVENT_KINDS = tuple(EventKind)  # tables of events hold indices of it


@dataclass(frozen=True)
class Event:
    """A neuron's knot meets a sample at a time; samples are numbered as they were given."""

    time: float
    neuron: int
    sample: int
    kind: EventKind


def in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    """Events sorted by time; those of one moment by neuron, and those of one neuron as they came.

    Events are of one moment if none is later than the one before it by more than 1e-12 of its time:
    neurons that meet a sample together do so at times that differ by the rounding of the processor.
    """
    moments: list[list[Event]] = []
    for event in sorted(events, key=lambda event: event.time):
        if moments and event.time - moments[-1][-1].time <= MOMENT * event.time:
            moments[-1].append(event)
        else:
            moments.append([event])
    return tuple(e for moment in moments for e in sorted(moment, key=lambda event: event.neuron))


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A run from time 0 to `times[-1]`; residuals f(x_j) - y_j in the order of the given samples.

    `at(time)` gives the neurons at any time of the run, `final` those at its end, `losses` half the sums of
    squared residuals. Events come by time, those of one moment by neuron, see `in_order`.
    """

    times: Tensor  # (k,)
    residuals: Tensor  # (k, s)
    state: Callable[[float], Neurons]
    events: tuple[Event, ...] = ()

    def at(self, time: float) -> Neurons:
        """The neurons at any time of the run; a time outside is refused."""
        return self.state(between("time", time, 0, self.times[-1].item()))

    @property
    def final(self) -> Neurons:
        """The neurons at the end."""
        return self.at(self.times[-1].item())

    @property
    def losses(self) -> Tensor:
        """(k,): half the sum of squared residuals."""
        return (self.residuals**2).sum(1) / 2

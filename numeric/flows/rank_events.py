"""Where a flow loses directions of outputs, regains them, or comes near to it, in a step or at its end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from numeric.flows.ranges import NEAR, for_dtype

__all__ = ["TANGENT", "RankEvent", "RankWatch", "minima_below"]

FACTOR = (
    2.0  # by which the ratio may change faster between two times than between any two evaluated
)
NARROW = 1e-3  # of a step: an interval that may hold a dip is not divided further
CLOSE = 0.04  # of a step: stages of a Runge-Kutta method at one time have different states
DEEPER = 10.0  # times nearer to rank loss than what was recorded before: recorded again
TANGENT = 1e-6  # share of a velocity of outputs that may lie outside the range of D, in float64


@dataclass(frozen=True, eq=False)
class RankEvent:
    """A time at which D loses or regains directions of output space, or comes near to it.

    With before = after a direction is nearly lost, or lost for a moment: `ratio` says how nearly.
    """

    time: float
    before: int  # rank
    after: int
    directions: Tensor = field(repr=False)  # (m, N, Q), orthonormal: lost, regained, or nearly lost
    ratio: float  # of the smallest singular value of D concerned to the largest, or to that at the start
    # where no direction is left

    def __str__(self) -> str:
        change = self.after - self.before
        what = (
            "is nearly lost, if not lost for a moment"
            if not change
            else "is lost"
            if change < 0
            else "is regained"
        )
        count = len(self.directions)
        examples = ", ".join(str(k) for k in self.examples)
        largest = "the largest" if self.after else "the largest at the start"
        directions = f"a direction {what}" if count == 1 else f"{count} directions: each {what}"
        return (
            f"at {self.time:.6g} {directions} (rank {self.before} to {self.after}, singular value "
            f"{self.ratio:.1e} of {largest}), mostly in examples {examples}"
        )

    @property
    def examples(self) -> list[int]:
        """Up to three examples with the largest share in the directions."""
        share = self.directions.square().sum((0, 2))
        return torch.argsort(share, descending=True)[:3].tolist()


class Conditioned(Protocol):
    """What a watch asks of a range: rank, the ratio of singular values, and the weakest direction."""

    @property
    def rank(self) -> int: ...

    @property
    def ratio(self) -> float: ...

    @property
    def weakest(self) -> Tensor: ...


class RankWatch:
    """Records events of rank: at the ends of steps, and at dips of the singular values within them.

    Velocities know the ratio of the smallest singular value to the largest at every stage of a step. Where
    it may fall below the limit between two of them, if it changes no more than twice as fast there as
    elsewhere in the step, the dense output is searched. A dip narrower than stages are apart, which leaves no
    trace at them, is not found.

    A direction that is lost at a dip, and in which outputs are to move, is a barrier: velocities have a pole
    there, and point towards it from both sides, so that steps would go to and fro across it without end.
    """

    def __init__(self, shape: tuple[int, int], dtype: torch.dtype, rcond: float) -> None:
        self.shape, self.rcond = (
            shape,
            rcond,
        )  # (N, Q), and the ratio below which a direction is lost
        self.limit, self.tangent = for_dtype(NEAR, dtype) ** -0.5, for_dtype(TANGENT, dtype)
        self.events: list[RankEvent] = []
        self._reported: float | None = None  # the least ratio, until near rank loss is over

    def record(
        self, time: float, before: int, after: int, directions: Tensor, ratio: float
    ) -> RankEvent:
        """Add an event with directions (m, QN)."""
        event = RankEvent(
            time, before, after, directions.reshape(-1, *self.shape).clone(), float(ratio)
        )
        self.events.append(event)
        return event

    def look(self, time: float, range: Conditioned) -> None:
        """Record near rank loss at the start, or at the end of a step."""
        ratio = range.ratio
        if not ratio < self.limit:
            self._reported = None
        elif self._reported is None or ratio * DEEPER < self._reported:
            self._report(time, range)

    def look_within(
        self,
        samples: list[tuple[float, float]],
        ratio: Callable[[float], float],
        at: Callable[[float], Conditioned],
        goal: Callable[[float], Tensor],
    ) -> float | None:
        """Record dips within a step up to the first barrier, whose time is returned.

        samples: times and ratios at its stages; ratio, at, goal: the ratio, the range and the velocity that
        outputs are to have, (N, Q), at any time of it.
        """
        finite = [(time, value) for time, value in samples if math.isfinite(value)]
        for time in minima_below(finite, ratio, self.limit):
            range, velocity = at(time), goal(time).flatten()
            outside = float((range.weakest @ velocity).abs())
            if range.ratio < self.rcond and outside > self.tangent * float(velocity.norm()):
                return time
            self._report(time, range)
        return None

    def _report(self, time: float, range: Conditioned) -> None:
        self._reported = range.ratio
        self.record(time, range.rank, range.rank, range.weakest[None], range.ratio)

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        fields = ("time", "before", "after", "ratio")
        return {
            "reported": self._reported,
            "events": [
                ({name: getattr(event, name) for name in fields}, event.directions)
                for event in self.events
            ],
        }

    def resume(self, state: dict[str, Any], device: torch.device) -> None:
        self._reported = state["reported"]
        self.events = [
            RankEvent(directions=directions.to(device), **numbers)
            for numbers, directions in state["events"]
        ]


def minima_below(
    samples: list[tuple[float, float]], ratio: Callable[[float], float], limit: float
) -> list[float]:
    """Times of minima of a function below a limit and well below both its ends, from samples (time, value).

    The function is not called unless it may fall so far between two samples. It is taken to change no more
    than `FACTOR` times as fast as between any two times at which it was evaluated.

    >>> times = [0.0, 0.2, 0.3, 0.6, 0.8, 1.0]
    >>> [round(t, 6) for t in minima_below([(t, abs(t - 0.5)) for t in times], lambda t: abs(t - 0.5), 1e-6)]
    [0.5]
    >>> minima_below([(t, 1 + t) for t in times], lambda t: 1 / 0, 1e-6)
    []
    """
    samples = _merged(samples)
    if not _intervals_that_may_reach(samples, limit):
        return []
    evaluated = [(time, ratio(time)) for time, _ in samples]
    span = evaluated[-1][0] - evaluated[0][0]
    low = min(limit, evaluated[0][1] / DEEPER, evaluated[-1][1] / DEEPER)
    while wide := [
        k
        for k in _intervals_that_may_reach(evaluated, low)
        if evaluated[k + 1][0] - evaluated[k][0] > NARROW * span
    ]:
        k = wide[0]
        middle = (evaluated[k][0] + evaluated[k + 1][0]) / 2
        evaluated.insert(k + 1, (middle, ratio(middle)))
    minima: list[float] = []
    narrow = _intervals_that_may_reach(evaluated, low)
    for first, last in _clusters(narrow):
        start = float(evaluated[max(first - 1, 0)][0])
        stop = float(evaluated[min(last + 2, len(evaluated) - 1)][0])
        best = minimize_scalar(  # from the start on, so that times near it are told apart
            lambda after, start=start: ratio(start + after),
            bounds=(0.0, stop - start),
            method="bounded",
            options={"xatol": 1e-10 * span},
        )
        if best.fun < low:
            minima.append(start + float(best.x))
    return minima


def _merged(samples: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Samples in order of times; of those close together, whose states differ a little, the least."""
    merged: list[tuple[float, float]] = []
    ordered = sorted(samples)
    for time, value in ordered:
        if merged and time - merged[-1][0] < CLOSE * (ordered[-1][0] - ordered[0][0]):
            merged[-1] = (merged[-1][0], min(value, merged[-1][1]))
        else:
            merged.append((time, value))
    if len(merged) > 1:
        merged[-1] = (ordered[-1][0], merged[-1][1])
    return merged


def _clusters(places: list[int]) -> list[tuple[int, int]]:
    """First and last of places that follow one another."""
    firsts = [k for k in places if k - 1 not in places]
    lasts = [k for k in places if k + 1 not in places]
    return list(zip(firsts, lasts, strict=True))


def _intervals_that_may_reach(evaluated: list[tuple[float, float]], low: float) -> list[int]:
    """Intervals between neighbours in which the value may fall to `low`."""
    if len(evaluated) < 2:
        return []
    times, values = np.array(evaluated).T
    lengths = np.diff(times)
    slopes = np.abs(np.diff(values)) / np.maximum(lengths, np.finfo(float).tiny)
    around = np.stack([np.append(slopes[1:], 0.0), slopes, np.insert(slopes[:-1], 0, 0.0)])
    steepest = FACTOR * around.max(0, initial=0.0)
    least = values[:-1] + values[1:] - steepest * lengths
    return np.flatnonzero((least <= 2 * low) & (lengths > 0)).tolist()

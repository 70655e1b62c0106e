"""A record of the steps of a run, from which it can be resumed, and its state at any time recomputed."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from numeric.progress import progress_bar
from numeric.relu_dynamics.boosts import Hits, NeuronState
from numeric.relu_dynamics.neurons import Neurons
from numeric.relu_dynamics.stepper import Control, FlowProblem, Step, steps
from numeric.relu_dynamics.trajectory import EVENT_KINDS, Event, Trajectory, in_order
from numeric.runs.store import Checkpoint

__all__ = ["Record", "Replay", "follow"]

MARKS = 256  # most states stored; at least half as many if there are more steps
NEURONS = 2**21  # most neurons in all stored states together


@dataclass(eq=False)
class Record:
    """Times and residuals after each step, the constant residuals used in it, and some of the states."""

    times: list[float]
    residuals: list[Tensor]
    marks: dict[int, NeuronState]  # by number of steps
    held: list[Tensor] = field(default_factory=list)
    hits: list[Hits] = field(default_factory=list)
    stride: int = 1
    span: float = math.inf  # of the next step

    @classmethod
    def of(cls, problem: FlowProblem, state: NeuronState) -> Record:
        return cls([0.0], [problem.residuals(state)], {0: state})

    def add(self, step: Step) -> None:
        self.hits += [Hits(self.times[-1] + h.time, h.neuron, h.ray, h.kind) for h in step.hits]
        self.times.append(step.end)
        self.residuals.append(step.residuals)
        self.held.append(step.held)
        self.span = step.span
        if (n := len(self.held)) % self.stride == 0:
            self.marks[n] = step.state
        if len(self.marks) > min(MARKS, max(16, NEURONS // len(step.state.c))):
            self.stride *= 2
            self.marks = {k: state for k, state in self.marks.items() if k % self.stride == 0}

    def state(self, problem: FlowProblem, time: float) -> NeuronState:
        """The state at a time: steps are repeated from the last stored state, with bitwise equal results."""
        last = bisect.bisect_right(self.times, time) - 1
        n = last // self.stride * self.stride
        state = self.marks[n]
        for k in range(n, len(self.held)):
            end = min(self.times[k + 1], time)
            if end <= self.times[k]:
                break
            span = end - self.times[k]
            state, _ = problem.moved(state, self.held[k], span)
        return state

    def events(self, order: Tensor) -> tuple[Event, ...]:
        """Events in the order of `in_order`, with samples numbered as they were given."""
        if not self.hits:
            return ()
        times, neurons, rays, kinds = (
            torch.cat([getattr(h, part) for h in self.hits])
            for part in ("time", "neuron", "ray", "kind")
        )
        samples = order[rays % len(order)]
        rows = zip(*(part.tolist() for part in (times, neurons, samples, kinds)), strict=True)
        return in_order(Event(t, i, j, EVENT_KINDS[k]) for t, i, j, k in rows)

    def fields(self) -> dict[str, Any]:
        """The record as plain tensors and numbers, for a checkpoint."""
        return {
            "times": self.times,
            "residuals": self.residuals,
            "marks": {n: _parts(state) for n, state in self.marks.items()},
            "held": self.held,
            "hits": [_parts(h) for h in self.hits],
            "stride": self.stride,
            "span": self.span,
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Record:
        marks = {n: NeuronState(*parts) for n, parts in fields["marks"].items()}
        return cls(**fields | {"marks": marks, "hits": [Hits(*parts) for parts in fields["hits"]]})


@dataclass(frozen=True, eq=False)
class Replay:
    """Neurons at any time of a record."""

    problem: FlowProblem
    record: Record

    def __call__(self, time: float) -> Neurons:
        return self.problem.neurons(self.record.state(self.problem, time))


def follow(
    problem: FlowProblem,
    state: NeuronState,
    control: Control,
    order: Tensor,
    progress: bool,
    checkpoint: Checkpoint,
) -> Trajectory:
    """Integrate from a state or from a checkpoint of the same run; residuals in the order of the samples."""
    stored = checkpoint.read(state.a.device)
    record = Record.of(problem, state) if stored is None else Record.from_fields(stored)
    now = record.times[-1]
    state = record.state(problem, now)
    with progress_bar(of="time", show=progress, total=control.end, initial=now) as bar:
        for step in steps(problem, state, record.residuals[-1], record.span, now, control):
            bar.update(step.end - record.times[-1])
            record.add(step)
            checkpoint.write_when_due(record.fields)
    checkpoint.write(record.fields())
    sorted_residuals = torch.stack(record.residuals)
    residuals = torch.empty_like(sorted_residuals)
    residuals[:, order] = sorted_residuals
    times = torch.tensor(record.times, dtype=torch.float64)
    return Trajectory(times, residuals, Replay(problem, record), record.events(order))


def _parts(whole: NeuronState | Hits) -> tuple[Tensor, ...]:
    return tuple(vars(whole).values())

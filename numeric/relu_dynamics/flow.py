r"""Gradient flow $z' = -\nabla L$ of networks on a line for any invariant delta, by the method that fits it.

At delta = -infinity only c moves, at +infinity only a and b: both are exact. Between them, all move and
every neuron keeps its delta.
"""

from __future__ import annotations

import math
import time as clock
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from analytic.domain import InputError
from numeric.relu_dynamics import sliding
from numeric.relu_dynamics.boosts import start
from numeric.relu_dynamics.gradient import Samples
from numeric.relu_dynamics.inputs import positive, samples
from numeric.relu_dynamics.neurons import Neurons
from numeric.relu_dynamics.rays import Rays
from numeric.relu_dynamics.readout import Readout
from numeric.relu_dynamics.record import Record, Replay
from numeric.relu_dynamics.stepper import Control, Problem, steps
from numeric.relu_dynamics.store import fingerprint, recall
from numeric.relu_dynamics.store import keep as store
from numeric.relu_dynamics.trajectory import Trajectory

PAUSE = 5.0  # seconds between two times that a run is kept


@dataclass(frozen=True, eq=False)
class Flow:
    """One run: samples, neurons at the start, and how long.

    Without a delta the neurons keep the invariants that they have; a finite one first rescales them,
    which changes no function. The tolerance is how far a step may leave a neuron, relative to it, and
    `largest` the longest step; exact methods need neither.
    """

    x: Any  # (s,)
    y: Any  # (s,)
    neurons: Neurons
    delta: float | None = None
    time: float = 1.0
    tolerance: float = 1e-5
    largest: float = math.inf

    def __post_init__(self) -> None:
        samples(self.x, self.y, self.neurons.a)
        if self.delta is not None and math.isnan(self.delta):
            raise InputError("delta is NaN: give a number, infinite or not, or None.")
        if not (self.delta == -math.inf and self.time == math.inf):
            positive("time", self.time)
        positive("tolerance", self.tolerance)
        if self.largest != math.inf:
            positive("largest", self.largest)
        if self.delta is not None and math.isfinite(self.delta):
            self.neurons.rescaled(self.delta)  # so that what it needs is told here

    def run(self, progress: bool = True, keep: Path | None = None) -> Trajectory:
        """With `keep`, a file, a run that was stopped goes on where it was, with the same result."""
        x, y = samples(self.x, self.y, self.neurons.a)
        if self.delta == -math.inf:
            return _readout(self.neurons, x, y, self.time)
        if self.delta == math.inf:
            return _hidden(self.neurons, x, y, self.time, progress, keep)
        neurons = self.neurons if self.delta is None else self.neurons.rescaled(self.delta)
        return self._boosts(neurons, x, y, progress, keep)

    def _boosts(
        self, neurons: Neurons, x: Tensor, y: Tensor, progress: bool, path: Path | None
    ) -> Trajectory:
        points, order = Samples.of(x)
        problem = Problem(Rays(points, neurons.alpha), y[order], neurons.delta)
        control = Control(self.time, self.tolerance, self.largest)
        run = fingerprint(x, y, neurons.a, neurons.b, neurons.c, neurons.alpha, vars(control))
        kept = None if path is None else recall(path, run)
        if kept is None:
            record = Record.of(problem, start(problem.rays, neurons.a, neurons.b, neurons.c))
        else:
            record = Record.from_fields(kept)
        _proceed(problem, record, control, progress, path, run)
        if path is not None:
            store(path, run, record.fields())
        residuals = torch.empty(len(record.times), len(x), dtype=x.dtype, device=x.device)
        residuals[:, order] = torch.stack(record.residuals)
        times = torch.tensor(record.times, dtype=torch.float64)
        return Trajectory(times, residuals, Replay(problem, record), record.events(order))


def _proceed(
    problem: Problem,
    record: Record,
    control: Control,
    progress: bool,
    path: Path | None,
    run: str,
) -> None:
    now, last = record.times[-1], clock.monotonic()
    state = record.state(problem, now)
    bar = tqdm(total=control.end, initial=now, desc="time", disable=not progress, leave=False)
    with bar:
        for found in steps(problem, state, record.residuals[-1], record.span, now, control):
            bar.update(found.end - record.times[-1])
            record.add(found)
            if path is not None and clock.monotonic() - last > PAUSE:
                store(path, run, record.fields())
                last = clock.monotonic()


def _readout(neurons: Neurons, x: Tensor, y: Tensor, time: float) -> Trajectory:
    found = Readout.of(neurons, x, y)
    times = found.times(time)
    return Trajectory(times, found.residuals(times), found)


@dataclass(frozen=True, eq=False)
class Hidden:
    """Neurons whose a and b follow an exact solution."""

    neurons: Neurons
    solution: sliding.Solution

    def __call__(self, time: float) -> Neurons:
        a, b = (part.to(self.neurons.a) for part in self.solution.at(time))
        return replace(self.neurons, a=a, b=b)


def _hidden(
    neurons: Neurons, x: Tensor, y: Tensor, time: float, progress: bool, path: Path | None
) -> Trajectory:
    parts = (neurons.a, neurons.b, neurons.c, neurons.alpha)
    found = sliding.integrate(*parts, x, y, time, progress, path)
    return Trajectory(found.times, found.path.to(y), Hidden(neurons, found), found.events)

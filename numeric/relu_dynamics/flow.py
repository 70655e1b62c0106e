r"""Gradient flow $z' = -\nabla L$ of networks on a line for any invariant delta.

At delta = -infinity only c moves, at +infinity only a and b: both are exact. Between them, all move and
every neuron keeps its delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from numeric.inputs import ArrayLike, number, positive, samples_on_a_line
from numeric.relu_dynamics import sliding
from numeric.relu_dynamics.boosts import start
from numeric.relu_dynamics.gradient import Samples
from numeric.relu_dynamics.midpoint import Boosts
from numeric.relu_dynamics.neurons import Neurons, require_neurons
from numeric.relu_dynamics.rays import Rays
from numeric.relu_dynamics.readout import Readout
from numeric.relu_dynamics.record import follow
from numeric.relu_dynamics.stepper import Control
from numeric.relu_dynamics.trajectory import Trajectory
from numeric.runs.store import checkpoint, fingerprint

__all__ = ["Flow", "Hidden"]


@dataclass(frozen=True, eq=False)
class Flow:
    r"""The gradient flow of $\frac12\sum_j(f(x_j) - y_j)^2$ from given neurons on, for some time.

    x, y: samples, (s,) each, no x twice.
    neurons: at the start.
    delta: the invariant c^2 - a^2 - b^2 of all neurons. Without one they keep those that they have; a
        finite one first rescales them, which changes no function; at -inf only c moves, at inf only a and b.
    time: how long, above 0; it may be infinite where delta is -inf.
    tolerance: how far a step may leave a neuron, relative to it; exact methods need none.
    largest: the longest step.

    `run` returns a Trajectory. Refused are samples that are NaN, repeat or differ in number, and a delta
    that no rescaling of a neuron reaches.

    >>> neurons = Neurons.drawn(20, seed=0, antisymmetric=True, device="cpu")
    >>> run = Flow([-0.5, 0.5], [1.0, -1.0], neurons, delta=0.0, time=2.0).run(progress=False)
    >>> run.residuals.shape[1], bool(run.losses[-1] < run.losses[0])
    (2, True)
    """

    x: ArrayLike  # (s,)
    y: ArrayLike  # (s,)
    neurons: Neurons
    delta: float | None = None
    time: float = 1.0
    tolerance: float = 1e-5
    largest: float = math.inf

    def __post_init__(self) -> None:
        samples_on_a_line(self.x, self.y, require_neurons(self.neurons).a)
        if self.delta is not None:
            number("delta", self.delta, endless=True)
        positive("time", self.time, endless=self.delta == -math.inf)
        positive("tolerance", self.tolerance)
        positive("largest", self.largest, endless=True)
        if self.delta is not None and math.isfinite(self.delta):
            self.neurons.rescaled(self.delta)  # so that an impossible delta is refused here

    def run(self, progress: bool = True, store: str | Path | None = None) -> Trajectory:
        """Integrate; with a file `store`, an interrupted run is resumed, with the same result.

        The readout alone (delta = -inf) is a closed form and stores nothing.
        """
        x, y = samples_on_a_line(self.x, self.y, self.neurons.a)
        if self.delta == -math.inf:
            return _readout(self.neurons, x, y, self.time)
        if self.delta == math.inf:
            return _hidden(self.neurons, x, y, self.time, progress, store)
        neurons = self.neurons if self.delta is None else self.neurons.rescaled(self.delta)
        return self._boosts(neurons, x, y, progress, store)

    def _boosts(
        self, neurons: Neurons, x: Tensor, y: Tensor, progress: bool, store: str | Path | None
    ) -> Trajectory:
        points, order = Samples.of(x)
        problem = Boosts(Rays(points, neurons.alpha), y[order], neurons.delta)
        control = Control(self.time, self.tolerance, self.largest)
        parts = (neurons.a, neurons.b, neurons.c)
        run = fingerprint("all", x, y, *parts, neurons.alpha, control)
        return follow(
            problem, start(problem.rays, *parts), control, order, progress, checkpoint(store, run)
        )


def _readout(neurons: Neurons, x: Tensor, y: Tensor, time: float) -> Trajectory:
    solution = Readout.of(neurons, x, y)
    times = solution.times(time)
    return Trajectory(times, solution.residuals(times), solution)


@dataclass(frozen=True, eq=False)
class Hidden:
    """Neurons whose a and b follow an exact solution."""

    neurons: Neurons
    solution: sliding.Solution

    def __call__(self, time: float) -> Neurons:
        a, b = (part.to(self.neurons.a) for part in self.solution.at(time))
        return replace(self.neurons, a=a, b=b)


def _hidden(
    neurons: Neurons, x: Tensor, y: Tensor, time: float, progress: bool, store: str | Path | None
) -> Trajectory:
    parts = (neurons.a, neurons.b, neurons.c, neurons.alpha)
    solution = sliding.integrate(*parts, x, y, time, progress, store)
    return Trajectory(
        solution.times, solution.path.to(y), Hidden(neurons, solution), solution.events
    )

r"""Neurons as particles on the cylinder of $(r, \theta)$ that descend the potential of their own measure.

The measure $\mu = \frac1m\sum_i\delta_{(r_i,\theta_i)}$ makes $f = \int\varphi\,d\mu$ with
$\varphi = r\langle\tilde x, d(\theta)\rangle_+$, and the residuals of f make the potential
$V = \sum_j\rho_j\varphi(x_j) + \lambda|r|$. To move by $-\nabla V$ is the continuity equation
$\partial_t\mu = \mathrm{div}(\mu\nabla V)$, under which $\frac12|\rho|^2 + \lambda\int|r|d\mu$ falls.
While residuals stand still, r moves evenly at a fixed angle, and at a fixed r the light-like vector
(d, 1) makes a boost for r times as long: a splitting into two exact flows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, as_numbers, positive, samples_on_a_line
from numeric.relu_dynamics.boosts import Hits, NeuronState, advance, outputs, start
from numeric.relu_dynamics.gradient import Samples
from numeric.relu_dynamics.neurons import Neurons, require_neurons
from numeric.relu_dynamics.rays import Rays
from numeric.relu_dynamics.record import follow
from numeric.relu_dynamics.stepper import Control, StepPlan
from numeric.relu_dynamics.trajectory import Trajectory
from numeric.runs.store import checkpoint, fingerprint

__all__ = ["Cylinder", "MeanField"]


@dataclass(frozen=True, eq=False)
class MeanField:
    """The flow of a measure on the cylinder at given samples, with a penalty on its total variation.

    x, y: samples, (s,) each, no x twice. penalty: lambda, at least 0. A measure is given by neurons,
    through their r and theta. Refused are samples that are NaN, repeat or differ in number.

    >>> field = MeanField([-0.5, 0.5], [1.0, -1.0], penalty=0.1)
    >>> measure = Neurons.canonical([0.5, -0.5, 1.0], [0.3, 2.0, -1.0], delta=-1.0)
    >>> run = field.flow(measure, time=1.0, progress=False)
    >>> bool(field.objective(run.final) < field.objective(measure))
    True
    """

    x: ArrayLike  # (s,)
    y: ArrayLike  # (s,)
    penalty: float = 0.0

    def __post_init__(self) -> None:
        samples_on_a_line(self.x, self.y, torch.empty(0, dtype=torch.float64))
        positive("penalty", self.penalty, zero=True)

    def objective(self, measure: Neurons) -> Tensor:
        """Half the squared residuals, and lambda times the mean of |r|."""
        x, y = samples_on_a_line(self.x, self.y, require_neurons(measure, "measure").a)
        residuals = measure.predict(x) - y
        return (residuals**2).sum() / 2 + self.penalty * measure.r.abs().mean()

    def potential(self, measure: Neurons, r: ArrayLike, theta: ArrayLike) -> Tensor:
        """V at points of the cylinder, (...), (...) -> (...)."""
        r, theta = _on_the_cylinder(measure, r, theta)
        (slope, level), d = self._pull(measure, theta), (theta.cos(), theta.sin())
        return r * (slope * d[0] + level * d[1]) + self.penalty * r.abs()

    def velocity(self, measure: Neurons, r: ArrayLike, theta: ArrayLike) -> tuple[Tensor, Tensor]:
        """-grad V by r and by theta, with which mass moves: (...), (...) -> (...), (...)."""
        r, theta = _on_the_cylinder(measure, r, theta)
        slope, level = self._pull(measure, theta)
        radial = slope * theta.cos() + level * theta.sin()
        angular = level * theta.cos() - slope * theta.sin()
        return -radial - self.penalty * r.sign(), -r * angular

    def flow(
        self,
        measure: Neurons,
        time: float,
        tolerance: float = 1e-4,
        progress: bool = True,
        store: str | Path | None = None,
    ) -> Trajectory:
        """Particles from a measure on; with a file `store`, an interrupted run is resumed."""
        x, y = samples_on_a_line(self.x, self.y, require_neurons(measure, "measure").a)
        points, order = Samples.of(x)
        problem = Cylinder(Rays(points, 1.0), y[order], self.penalty)
        control = Control(positive("time", time), positive("tolerance", tolerance), math.inf)
        state = problem.start(measure.r, measure.theta)
        run = fingerprint("cylinder", x, y, state.a, state.d, state.c, self.penalty, control)
        return follow(problem, state, control, order, progress, checkpoint(store, run))

    def _pull(self, measure: Neurons, theta: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of residuals times (x, 1) over the samples that are active at an angle."""
        x, y = samples_on_a_line(self.x, self.y, measure.a)
        points, order = Samples.of(x)
        residuals = measure.predict(points.x) - y[order]
        forces = points.forces(torch.stack([residuals * points.x, residuals]))
        patterns = points.patterns(theta.cos().flatten(), -theta.sin().flatten())
        slope, level = forces[:, patterns].reshape(2, *theta.shape)
        return slope, level


def _on_the_cylinder(measure: Neurons, r: ArrayLike, theta: ArrayLike) -> tuple[Tensor, Tensor]:
    like = require_neurons(measure, "measure").a
    r, theta = as_numbers("r", r, "(...)").to(like), as_numbers("theta", theta, "(...)").to(like)
    try:
        r, theta = torch.broadcast_tensors(r, theta)
    except RuntimeError:
        shapes = f"{tuple(r.shape)} and {tuple(theta.shape)}"
        raise InputError(f"r and theta must have one shape, but {shapes} were given.") from None
    return r, theta


@dataclass(frozen=True, eq=False)
class Cylinder:
    """The flow as a `FlowProblem`; states have w = d(theta), and r in the place of c."""

    rays: Rays
    y: Tensor  # (s,)
    penalty: float

    def start(self, r: Tensor, theta: Tensor) -> NeuronState:
        return start(self.rays, theta.cos(), -theta.sin(), r)

    def residuals(self, state: NeuronState) -> Tensor:
        return outputs(self.rays, state) / len(state.c) - self.y

    def neurons(self, state: NeuronState) -> Neurons:
        """With an invariant below 0, so that neurons with r = 0 keep their angles."""
        return Neurons.canonical(state.c, torch.atan2(state.d, state.a), -1.0)

    def moved(
        self, state: NeuronState, held: Tensor, span: float
    ) -> tuple[NeuronState, list[Hits]]:
        forces = self.rays.forces(held)
        state = self._radial_step(forces, state, span / 2)
        size = state.c.abs()
        light = replace(state, c=torch.copysign(torch.ones_like(size), state.c))
        rotated, hits = advance(self.rays, torch.zeros_like(size), light, held, size * span)
        length = torch.hypot(rotated.a, rotated.d)
        state = NeuronState(rotated.a / length, rotated.d / length, state.c, rotated.mode)
        hits = [replace(h, time=h.time / size[h.neuron].clamp(min=1e-300)) for h in hits]
        return self._radial_step(forces, state, span / 2), hits

    def _radial_step(self, forces: Tensor, state: NeuronState, span: float) -> NeuronState:
        """Move r at a fixed angle: at constant speed, reduced by the penalty, which may stop it at 0."""
        g = forces[:, state.mode]
        push = -(g[0] * state.a + g[1] * state.d)
        speed = push - self.penalty * state.c.sign()
        until = torch.where(speed * state.c < 0, -state.c / speed, math.inf)
        until = torch.where(state.c == 0, 0.0, until)  # when r = 0
        beyond = push.sign() * (push.abs() - self.penalty).clamp(min=0)
        moved = torch.where(span < until, state.c + speed * span, beyond * (span - until))
        return replace(state, c=moved)

    def planner(
        self, state: NeuronState, residuals: Tensor, tolerance: float
    ) -> Callable[[float], StepPlan]:
        size = state.c.square().mean().sqrt()
        reach = state.c.abs().max().clamp(min=1)  # angles turn by r times the rapidity

        def plan(span: float) -> StepPlan:
            middle = self.residuals(self.moved(state, residuals, span / 2)[0])
            parts = self.rays.forces(torch.stack([residuals - middle, middle]))
            second, whole = (torch.hypot(*part[:, state.mode.unique()]).max() for part in parts)
            weight = torch.maximum(reach, 1 / torch.maximum(size, whole * span))
            bends, splits = weight * second * span / 4, (reach * whole * span) ** 3 / 12
            return StepPlan(middle, (torch.maximum(bends, splits ** (2 / 3)) / tolerance).item())

        return plan

    def objective_grew(
        self, before: Tensor, after: Tensor, old: NeuronState, new: NeuronState
    ) -> bool:
        """Whether the objective grows by more than rounding explains."""
        one, two = (
            (r**2).sum() / 2 + self.penalty * state.c.abs().mean()
            for r, state in ((before, old), (after, new))
        )
        size = (self.y**2).sum() + new.c.square().mean()
        return (two - one).item() > 8 * torch.finfo(one.dtype).eps * size.item()

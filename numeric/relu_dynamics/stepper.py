r"""The flow of neurons with finite invariants, by exponential midpoint steps that keep them.

Within a step the residuals follow $\rho' = -K\rho$ with the tangent kernel K of its middle. Their mean
is then held still while every neuron goes its exact way: order 2, $\delta$ is kept at any length,
and where K does not change a step is exact, however stiff it is.

Errors are rapidities, which move w by c and c by |w|, so that they count times the ratio of the larger to
the smaller of their root mean squares. To third order a step neglects that K changes, a third
of what the kernel of the start would alter, and that boosts do not commute, $\frac23|g_1\times g_2|$ with
the impulses of both halves. On its way a neuron is off by up to $\frac12|g_1 - g_2|$.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.relu_dynamics.boosts import Hits, State, advance, boosted, outputs
from numeric.relu_dynamics.kernel import Modes, kernel
from numeric.relu_dynamics.rays import Rays

RAPIDITY = 0.5  # of one step, at most
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Problem:
    """Neurons by what they keep, at samples from right to left."""

    rays: Rays
    y: Tensor  # (s,)
    delta: Tensor  # (m,)

    def residuals(self, state: State) -> Tensor:
        return outputs(self.rays, state) - self.y

    def noise(self, state: State) -> float:
        """By how much rounding may change the norm of the residuals."""
        x = self.rays.samples.x
        size = (state.c * torch.hypot(state.a, state.d)).abs().sum() / self.rays.alpha
        reach = (1 + x**2).sqrt().norm() * size + self.y.norm()
        return 8 * torch.finfo(x.dtype).eps * reach.item()


@dataclass(frozen=True)
class Control:
    """When to end, how far a neuron may be off, and how long a step may be."""

    end: float
    tolerance: float
    largest: float


@dataclass(frozen=True, eq=False)
class Plan:
    """The residuals that a step will hold still, and how many tolerances it would neglect."""

    held: Tensor  # (s,)
    error: float


@dataclass(frozen=True, eq=False)
class Step:
    """What a step found, and how long the next one may be."""

    state: State
    held: Tensor  # (s,)
    residuals: Tensor  # (s,): of its end
    hits: list[Hits]  # by time since its start
    end: float
    span: float


def plan(problem: Problem, state: State, modes: Modes, span: float, tolerance: float) -> Plan:
    """From the modes of the residuals under the kernel of the start."""
    rays = problem.rays
    first = modes.impulse(span / 2)
    half = boosted(rays.forces(first / (span / 2)), state, span / 2)
    total = Modes.of(kernel(rays, half), modes.residuals).impulse(span)
    parts = torch.stack([first, total - first, total - modes.impulse(span)])
    one, two, change = rays.forces(parts)[:, :, state.mode.unique()]  # (2, occupied modes)
    turn = one[0] * two[1] - one[1] * two[0]
    whole = torch.hypot(*(one + two))
    unequal = _unequal(state, whole.max())
    third = torch.hypot(*change) / 3 * unequal + turn.abs() * (2 / 3)
    second = torch.hypot(*(one - two)) / 2 * unequal
    sizes = torch.stack([third ** (2 / 3) / tolerance, second / tolerance, whole / RAPIDITY])
    return Plan(total / span, sizes.max().item())


def _unequal(state: State, rapidity: Tensor) -> Tensor:
    """The smaller size is that of the end of the step, which may well start from c = 0."""
    readout, hidden = (state.c**2).mean().sqrt(), (state.a**2 + state.d**2).mean().sqrt()
    larger, smaller = torch.maximum(readout, hidden), torch.minimum(readout, hidden)
    least = torch.maximum(smaller, larger * rapidity)
    return larger / least.clamp(min=torch.finfo(least.dtype).tiny)


def steps(
    problem: Problem, state: State, residuals: Tensor, span: float, now: float, control: Control
) -> Iterator[Step]:
    """Up to the end, from any time on; `span` is the length of the first step, if it may be that long.

    A step is made shorter where it neglects more than the tolerance or the loss would grow.
    """
    while now < control.end:
        modes = Modes.of(kernel(problem.rays, state), residuals)
        span = min(span, control.largest)
        while True:
            end = min(now + span, control.end)
            if end <= now:
                raise ArithmeticError(f"no step from time {now} on lets the loss fall.")
            span = end - now
            planned = plan(problem, state, modes, span, control.tolerance)
            ratio = 0.9 / math.sqrt(max(planned.error, TINY)) if planned.error < math.inf else 0.1
            if planned.error <= 1:
                new, hits = advance(problem.rays, problem.delta, state, planned.held, span)
                found = problem.residuals(new)
                if _falls(problem, new, residuals, found):
                    break
            span *= min(0.5, max(0.1, ratio))
        span *= min(4.0, ratio)
        yield Step(new, planned.held, found, hits, end, span)
        now, state, residuals = end, new, found


def _falls(problem: Problem, state: State, before: Tensor, after: Tensor) -> bool:
    rise = (after.norm() - before.norm()).item()
    return rise <= 0 or rise <= problem.noise(state)

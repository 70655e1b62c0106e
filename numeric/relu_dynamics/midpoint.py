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
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.relu_dynamics.boosts import Hits, NeuronState, advance, boosted, outputs
from numeric.relu_dynamics.kernel import KernelModes, kernel
from numeric.relu_dynamics.neurons import Neurons
from numeric.relu_dynamics.rays import Rays
from numeric.relu_dynamics.stepper import StepPlan

__all__ = ["Boosts"]

RAPIDITY = 0.5  # largest rapidity of one step
BEYOND = 100.0  # rapidity of half a step at which it is rejected at once, before floats overflow


@dataclass(frozen=True, eq=False)
class Boosts:
    """The flow problem with finite invariants delta, at samples from right to left."""

    rays: Rays
    y: Tensor  # (s,)
    delta: Tensor  # (m,)

    def residuals(self, state: NeuronState) -> Tensor:
        return outputs(self.rays, state) - self.y

    def neurons(self, state: NeuronState) -> Neurons:
        return Neurons(state.a, -state.d, state.c, self.rays.alpha)

    def moved(
        self, state: NeuronState, held: Tensor, span: float
    ) -> tuple[NeuronState, list[Hits]]:
        return advance(self.rays, self.delta, state, held, span)

    def planner(
        self, state: NeuronState, residuals: Tensor, tolerance: float
    ) -> Callable[[float], StepPlan]:
        rays, modes = self.rays, KernelModes.of(kernel(self.rays, state), residuals)

        def plan(span: float) -> StepPlan:
            first = modes.impulse(span / 2)
            if not torch.hypot(*rays.forces(first)).max() < BEYOND:
                return StepPlan(first, math.inf)
            half = boosted(rays.forces(first / (span / 2)), state, span / 2)
            total = KernelModes.of(kernel(rays, half), residuals).impulse(span)
            parts = torch.stack([first, total - first, total - modes.impulse(span)])
            one, two, change = rays.forces(parts)[:, :, state.mode.unique()]  # (2, occupied modes)
            turn = one[0] * two[1] - one[1] * two[0]
            whole = torch.hypot(*(one + two))
            unequal = _unequal(state, whole.max())
            third = torch.hypot(*change) / 3 * unequal + turn.abs() * (2 / 3)
            second = torch.hypot(*(one - two)) / 2 * unequal
            sizes = torch.stack(
                [third ** (2 / 3) / tolerance, second / tolerance, whole / RAPIDITY]
            )
            return StepPlan(total / span, sizes.max().item())

        return plan

    def objective_grew(
        self, before: Tensor, after: Tensor, old: NeuronState, new: NeuronState
    ) -> bool:
        """Whether the loss grows by more than rounding explains."""
        growth = (after.norm() - before.norm()).item()
        return growth > 0 and growth > self._noise(new)

    def _noise(self, state: NeuronState) -> float:
        x = self.rays.samples.x
        size = (state.c * torch.hypot(state.a, state.d)).abs().sum() / self.rays.alpha
        reach = (1 + x**2).sqrt().norm() * size + self.y.norm()
        return 8 * torch.finfo(x.dtype).eps * reach.item()


def _unequal(state: NeuronState, rapidity: Tensor) -> Tensor:
    """Ratio of the larger to the smaller of |c| and |w|, the latter after the step: c may start at 0."""
    readout, hidden = (state.c**2).mean().sqrt(), (state.a**2 + state.d**2).mean().sqrt()
    larger, smaller = torch.maximum(readout, hidden), torch.minimum(readout, hidden)
    least = torch.maximum(smaller, larger * rapidity)
    return larger / least.clamp(min=torch.finfo(least.dtype).tiny)

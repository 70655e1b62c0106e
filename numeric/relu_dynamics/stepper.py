"""Adaptive steps for any flow problem that can estimate the error of a step and make it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from numeric.relu_dynamics.boosts import Hits, NeuronState
from numeric.relu_dynamics.neurons import Neurons

__all__ = ["Control", "FlowProblem", "Step", "StepPlan", "steps"]

TINY = 1e-300


@dataclass(frozen=True)
class Control:
    """The end time, the tolerance of one step relative to a neuron, and the largest step."""

    end: float
    tolerance: float
    largest: float


@dataclass(frozen=True, eq=False)
class StepPlan:
    """The residuals that a step will hold constant, and its estimated error in units of the tolerance."""

    held: Tensor  # (s,)
    error: float


class FlowProblem(Protocol):
    """A flow with a method of order 2: its errors fall with the square of the step."""

    def residuals(self, state: NeuronState) -> Tensor: ...

    def planner(
        self, state: NeuronState, residuals: Tensor, tolerance: float
    ) -> Callable[[float], StepPlan]: ...

    def moved(
        self, state: NeuronState, held: Tensor, span: float
    ) -> tuple[NeuronState, list[Hits]]: ...

    def objective_grew(
        self, before: Tensor, after: Tensor, old: NeuronState, new: NeuronState
    ) -> bool: ...

    def neurons(self, state: NeuronState) -> Neurons: ...


@dataclass(frozen=True, eq=False)
class Step:
    """The result of a step, and how long the next one may be."""

    state: NeuronState
    held: Tensor  # (s,)
    residuals: Tensor  # (s,): of its end
    hits: list[Hits]  # by time since its start
    end: float
    span: float


def steps(
    problem: FlowProblem,
    state: NeuronState,
    residuals: Tensor,
    span: float,
    now: float,
    control: Control,
) -> Iterator[Step]:
    """Up to the end, from any time on; `span` is the length of the first step, if it may be that long.

    A step is shortened where its error is above the tolerance or the objective would grow.
    """
    while now < control.end:
        plan = problem.planner(state, residuals, control.tolerance)
        span = min(span, control.largest)
        while True:
            end = min(now + span, control.end)
            if end <= now:
                raise ArithmeticError(f"no step from time {now} on lets the loss fall.")
            span = end - now
            planned = plan(span)
            ratio = 0.9 / math.sqrt(max(planned.error, TINY)) if planned.error < math.inf else 0.1
            if planned.error <= 1:
                new, hits = problem.moved(state, planned.held, span)
                new_residuals = problem.residuals(new)
                if not problem.objective_grew(residuals, new_residuals, state, new):
                    break
            span *= min(0.5, max(0.1, ratio))
        span *= min(4.0, ratio)
        yield Step(new, planned.held, new_residuals, hits, end, span)
        now, state, residuals = end, new, new_residuals

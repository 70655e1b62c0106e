"""The velocity of a flow's parameters, and behind them of its predicted deviation, as SciPy takes it."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from numeric.flows.costs import Clock, Objective
from numeric.flows.output_map import Graph, OutputMap
from numeric.flows.ranges import ConjugateGradientRange, Factorisations, Range, Unsolved

__all__ = ["Field"]

POWER_STEPS = 12  # from a start of no structure: within some percent of the largest value


class Field:
    """The velocity of parameters, and behind them of the predicted deviation, as SciPy takes it."""

    def __init__(
        self,
        map: OutputMap,
        factorisations: Factorisations,
        objective: Objective,
        clock: Clock,
        alpha: float,
        start: Tensor,
    ) -> None:
        self.map, self.factorisations, self.objective = map, factorisations, objective
        self.clock, self.alpha = clock, alpha
        self.predicts = alpha == 1 and objective.squared
        self.residual = (start - objective.labels).flatten() if self.predicts else None
        self.rank: int | None = None  # directions that are kept; None: whatever D has
        self.evaluations = 0
        self.ratios: list[tuple[float, float]] = []  # times and ratios of singular values there
        self.unsolved: Unsolved | None = None  # why there was no velocity where there last was none
        self._last: tuple[np.ndarray, Range] | None = None

    def initial(self) -> np.ndarray:
        theta = self.map.pack(self.map.run.leaves).double().cpu().numpy()
        return np.concatenate([theta, np.zeros(self.map.count if self.predicts else 0)])

    def tensor(self, values: np.ndarray) -> Tensor:
        points = self.map.run.points
        return torch.from_numpy(np.ascontiguousarray(values)).to(points.device, points.dtype)

    def theta(self, state: np.ndarray) -> Tensor:
        return self.tensor(state[: self.map.parameters])

    def __call__(self, time: float, state: np.ndarray) -> np.ndarray:
        self.evaluations += 1
        theta = self.theta(state)
        graph = self.map.graph(theta)
        gradient = self.objective.gradient(graph.outputs.detach()).flatten()
        if not bool(gradient.isfinite().all()):
            return np.full(len(state), np.nan)  # a stage that went too far: SciPy shortens the step
        speed = self.clock.speed(time)
        velocity, D_range = torch.zeros_like(theta), None
        if self.alpha < 1:
            velocity = velocity - (1 - self.alpha) * graph.pull(gradient)
        if self.alpha > 0:
            try:
                D_range = self._range(state, theta, graph)
                velocity = velocity - self.alpha * D_range.lift(gradient)
            except Unsolved as reason:
                self.unsolved = reason
                return np.full(len(state), np.nan)
            self.unsolved = None
            if not isinstance(D_range, ConjugateGradientRange):  # which has it at a price
                self.ratios.append((float(time), D_range.ratio))
        parts = [speed * velocity]
        if self.residual is not None and D_range is not None:
            deviation = self.tensor(state[self.map.parameters :])
            source = (1 - self.clock.t(time)) * self.residual
            change = source - D_range.project(deviation + source)
            parts.append(speed / self.clock.examples * change)
        return torch.cat(parts).double().cpu().numpy()

    def _range(self, state: np.ndarray, theta: Tensor, graph: Graph) -> Range:
        range = self.factorisations.at(theta, graph, self.rank)
        self._last = (state, range)
        return range

    def range(self, state: np.ndarray) -> Range:
        """The range of D at a state; that of the last evaluation is at hand."""
        if self._last is not None and np.array_equal(self._last[0], state):
            return self._last[1]
        theta = self.theta(state)
        return self._range(state, theta, self.map.graph(theta))

    def norm(self, state: np.ndarray) -> float:
        """The largest singular value of D, by power iteration."""
        theta = self.theta(state)
        graph = self.map.graph(theta)
        v = torch.ones_like(graph.outputs)
        size = 0.0
        for _ in range(POWER_STEPS):
            v = graph.push(graph.pull(v))
            size = float(torch.linalg.vector_norm(v))
            if not size:
                return 1.0
            v = v / size
        return math.sqrt(size)

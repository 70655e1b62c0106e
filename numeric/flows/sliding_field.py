r"""The velocity of ReLU networks at alpha = 1 while some kinks are held: see `numeric.flows.sliding`.

With $B = [D_0; A]$, rows of D at slope 0 and of all sliding $\nabla z$, it is $\theta' = B^+ (x', 0)$. The
slopes are $\lambda = \eta / \delta$, from $(\psi, \eta) = (B B^T)^{-1}(x', 0)$ and the signal $\delta$ that
comes back to the rectifier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from numeric.flows.costs import Clock, Objective
from numeric.flows.kinks import Rectifiers, Slopes
from numeric.flows.output_map import OutputMap
from numeric.flows.ranges import Unsolved, for_dtype

__all__ = ["CLOSE", "Conditions", "SlidingField", "Velocity"]

CLOSE = 1e-9  # times the largest input of a rectifier: from here on it counts as on the other side
DEPENDENT = 1e-10  # of singular values of D and sliding kinks, smallest to largest: rank is lost
FAR = 1e-2  # of the same ratio: a bound from below will do, and no spectrum is needed


@dataclass(frozen=True, eq=False)
class Conditions:
    """The Jacobian of outputs and sliding kinks, as the triangular factor of its transpose."""

    factor: Tensor = field(repr=False)  # (QN + m, QN + m)
    outputs: int  # QN

    @property
    def rank(self) -> int:
        return len(self.factor)

    @cached_property
    def bound(self) -> float:
        """A lower bound of the ratio of the smallest singular value to the largest."""
        eye = torch.eye(self.rank, device=self.factor.device, dtype=self.factor.dtype)
        inverse = torch.linalg.solve_triangular(self.factor, eye, upper=True)
        norms = torch.linalg.matrix_norm(torch.stack([self.factor, inverse]))
        bound = 1 / float(norms.prod())
        return bound if math.isfinite(bound) else 0.0

    @cached_property
    def _spectrum(self) -> tuple[Tensor, Tensor]:
        left, values, _ = torch.linalg.svd(self.factor.T)
        return left, values

    @property
    def ratio(self) -> float:
        """That ratio: its bound where rank is far from lost, else its value."""
        if self.bound > FAR:
            return self.bound
        values = self._spectrum[1]
        return float(values[-1] / values[0])

    @property
    def weakest(self) -> Tensor:
        """The part of the weakest direction in outputs, (QN,): shorter than 1 where kinks take part too."""
        return self._spectrum[0][: self.outputs, -1]


@dataclass(frozen=True, eq=False)
class Velocity:
    """A velocity of the parameters, with the slopes and conditions that go with it."""

    theta: Tensor  # (K,)
    slopes: Tensor  # (m,), lambda of the sliding kinks
    conditions: Conditions = field(repr=False)


@dataclass(frozen=True, eq=False)
class _Constrained:
    """Outputs and the inputs of sliding rectifiers, with the graph behind them, and their Jacobian."""

    values: Tensor  # (QN + m,)
    rows: Tensor  # (QN + m, K)
    rectified: list[Tensor]  # outputs of all rectifiers


class SlidingField:
    """The velocity as SciPy takes it; `slopes` and `kinks` are changed where a kink is crossed or held."""

    def __init__(self, map: OutputMap, objective: Objective) -> None:
        self.map, self.objective = map, objective
        self.clock = Clock(len(map.run.points), in_s=False)
        theta = map.pack(map.run.leaves)
        self.initial = theta.double().cpu().numpy()
        self.start = map.outputs(theta).detach()
        self.norm = float(torch.linalg.matrix_norm(map.gram(theta), 2)) ** 0.5  # of D
        with Rectifiers() as record:
            map.outputs(theta)
        inputs = [z.detach().flatten(1) for z in record.inputs]
        self.scale = float(torch.cat(inputs, 1).abs().max()) or 1.0
        self.slopes = Slopes((torch.cat(inputs, 1) > 0).to(theta), [z.shape[1] for z in inputs])
        self.kinks: list[tuple[int, int]] = []  # sliding ones, (example, unit)
        self.dependent = for_dtype(DEPENDENT, theta.dtype)
        self.evaluations = 0
        self.ratios: list[tuple[float, float]] = []  # times and bounds of ratios of singular values
        self.unsolved: Unsolved | None = None  # why there was no velocity where there last was none

    def theta(self, state: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(state)).to(self.start)

    def inputs(self, state: np.ndarray) -> Tensor:
        """The inputs of all rectifiers, (N, U)."""
        with Rectifiers(self.slopes.split()) as record:
            self.map.outputs(self.theta(state))
        return torch.cat([z.detach().flatten(1) for z in record.inputs], 1)

    def velocity(self, time: float, state: np.ndarray) -> Velocity:
        """The velocity of least norm on the straight line and on the sliding kinks."""
        self.evaluations += 1
        fixed = self._constrained(state)
        self._require_freedom(time, len(fixed.values), fixed.rows.shape[1])
        if not bool(fixed.rows.isfinite().all()):
            raise Unsolved(
                f"At t = {time:.6g} the Jacobian is not finite: the flow has gone too far."
            )
        outputs = fixed.values[: self.start.numel()].detach().view_as(self.start)
        goal = -self.objective.gradient(outputs).flatten() * self.clock.speed(time)
        goal = torch.cat([goal, goal.new_zeros(len(self.kinks))])
        q, r = torch.linalg.qr(fixed.rows.T)
        conditions = Conditions(r, outputs.numel())
        self._require_rank(time, conditions)
        half = torch.linalg.solve_triangular(r.T, goal[:, None], upper=False)
        theta = (q @ half)[:, 0]
        if not self.kinks:
            return Velocity(theta, theta.new_zeros(0), conditions)
        signals = torch.linalg.solve_triangular(r, half, upper=True)[:, 0]  # psi, eta
        back = torch.autograd.grad(
            fixed.values, fixed.rectified, signals, allow_unused=True, materialize_grads=True
        )
        arriving = torch.cat([part.flatten(1) for part in back], 1)[self.index]
        return Velocity(theta, signals[outputs.numel() :] / arriving, conditions)

    def _constrained(self, state: np.ndarray) -> _Constrained:
        with Rectifiers(self.slopes.split()) as record:
            graph = self.map.graph(self.theta(state))
        with torch.enable_grad():
            inputs = torch.cat([z.flatten(1) for z in record.inputs], 1)
            values = torch.cat([graph.outputs.flatten(), inputs[self.index]])
        eye = torch.eye(len(values), device=values.device, dtype=values.dtype)
        parts = torch.autograd.grad(
            values, graph.leaves, eye, retain_graph=True, is_grads_batched=True,
            allow_unused=True, materialize_grads=True,
        )  # fmt: skip
        rows = torch.cat([part.flatten(1) for part in parts], 1)
        return _Constrained(values, rows, record.outputs)

    def conditions(self, state: np.ndarray) -> Conditions:
        """The conditions by outputs and sliding kinks, whatever their rank."""
        _, r = torch.linalg.qr(self._constrained(state).rows.T, mode="r")
        return Conditions(r, self.start.numel())

    def _require_freedom(self, time: float, conditions: int, parameters: int) -> None:
        if conditions > parameters:
            sliding = len(self.kinks)
            raise Unsolved(
                f"At t = {time:.6g} the flow slides on {sliding} kinks at once, which with "
                f"{conditions - sliding} outputs are more conditions than the {parameters} parameters: add "
                "units, or end before."
            )

    def _require_rank(self, time: float, conditions: Conditions) -> None:
        """Refuse outputs and sliding kinks of which one is determined by the others."""
        if conditions.bound < self.dependent and not conditions.ratio >= self.dependent:
            raise Unsolved(
                f"At t = {time:.6g} outputs and the {len(self.kinks)} kinks on which the flow slides do not "
                "move independently (rank is lost): change the start, add units, or end before.",
                conditions.weakest,
                conditions.ratio,
            )

    @property
    def index(self) -> tuple[Tensor, Tensor]:
        """Examples and units of the sliding kinks, (m,) each."""
        pairs = torch.tensor(self.kinks, dtype=torch.long, device=self.start.device).view(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def __call__(self, time: float, state: np.ndarray) -> np.ndarray:
        """The velocity for SciPy's steps, which are shortened where there is none."""
        if not np.isfinite(
            state
        ).all():  # after a stage without a velocity: `unsolved` has its reason
            return np.full(len(state), np.nan)
        try:
            velocity = self.velocity(time, state)
        except Unsolved as reason:
            self.unsolved = reason
            return np.full(len(state), np.nan)
        self.unsolved = None
        self.ratios.append((float(time), velocity.conditions.bound))
        return velocity.theta.double().cpu().numpy()

    def input_rate(self, time: float, state: np.ndarray, example: int, unit: int) -> float:
        """d/dt of a rectifier's input with the present slopes."""
        velocity = self.velocity(time, state).theta
        with Rectifiers(self.slopes.split()) as record:
            graph = self.map.graph(self.theta(state))
        with torch.enable_grad():
            value = torch.cat([z.flatten(1) for z in record.inputs], 1)[example, unit]
        parts = torch.autograd.grad(value, graph.leaves, allow_unused=True, materialize_grads=True)
        return float(torch.cat([part.flatten() for part in parts]) @ velocity)

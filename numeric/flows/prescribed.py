r"""Parameters that realise a prescribed path of outputs: $\partial_t\theta = D^+ \partial_t x$, (3.5).

With nodes, each ends in Newton's iteration $\theta \leftarrow \theta + D^+(x(t) - x(\theta))$, which brings
outputs back to the path to the last digits; between nodes they are within the tolerance of a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.integrate import DOP853, DenseOutput, OdeSolver
from torch import Tensor

from numeric.flows.costs import Clock, Objective, half_mean_squared_error, require_precision
from numeric.flows.curve import Curve
from numeric.flows.field import Field
from numeric.flows.integration import RTOL, require_method, run_to_end
from numeric.flows.kinks import require_smooth
from numeric.flows.output_map import OutputMap, output_map
from numeric.flows.ranges import (
    ConjugateGradientRange,
    Factorisations,
    factorisations,
    for_dtype,
    require_rcond,
)
from numeric.flows.rank_events import TANGENT, RankEvent, RankWatch
from numeric.flows.trajectory import Trajectory
from numeric.inputs import ArrayLike, InputError, as_numbers, positive, whole
from numeric.models import Model, ModelLike
from numeric.models.memory import GIGABYTE
from numeric.runs.store import Checkpoint, checkpoint, fingerprint

__all__ = ["FollowedPath", "follow"]

OutputPath = Callable[[Tensor], Tensor]  # t, a number -> (N, Q)
NEWTON = 12  # iterations at a node; two or three are usual
REACHED = 1e-9  # of the path's size: a residual above it is no rounding, in float64
SETTINGS = (
    "another model, start, path, tolerance, method, end, nodes, rcond, device, torch or `key`"
)
COMPARED = (0.0, 0.5, 1.0)  # of the time: where a checkpoint tells paths apart
ROUGH = 1e-2  # tolerance of products that estimate a condition number


@dataclass(frozen=True, eq=False)
class FollowedPath:
    """Parameters along a prescribed path."""

    curve: Curve
    path: OutputPath = field(repr=False)
    nodes: Tensor = field(repr=False)  # times at which outputs were corrected, on the host
    residuals: Tensor = field(repr=False)  # their distance from the path afterwards, on the host
    events: tuple[RankEvent, ...]  # of rank; times of lost and regained rank are those of steps
    evaluations: int
    rcond: float
    memory: int

    @property
    def times(self) -> Tensor:
        """(steps + 1,), on the host."""
        return self.curve.times

    def parameters(self, t: float) -> dict[str, Tensor]:
        """The parameters at a time, by name."""
        return self.curve.parameters(t)

    def outputs(self, t: float, x: ArrayLike | None = None) -> Tensor:
        """The outputs at a time, (N, Q), or (n, Q) at other points."""
        return self.curve.outputs(t, x)

    def condition(self, t: float) -> float:
        """The condition number of D D^T, as that of `integrate`."""
        parameters = self.parameters(t)
        with output_map(self.curve.model, self.curve.x, self.memory, parameters) as map:
            theta = map.pack(parameters)
            return factorisations(map, self.rcond, ROUGH).at(theta, map.graph(theta)).condition

    def deviation(self, t: float) -> Tensor:
        """Outputs minus the path, (N, Q)."""
        x = self.curve.x
        return self.outputs(t) - self.path(torch.tensor(float(t), dtype=x.dtype, device=x.device))


def follow(
    model: ModelLike,
    x: ArrayLike,
    path: OutputPath,
    *,
    until: float = 1.0,
    nodes: int | None = None,
    tolerance: float = 1e-8,
    method: type[OdeSolver] = DOP853,
    rcond: float | None = None,
    steps: int = 1_000,
    memory: int = 2 * GIGABYTE,
    store: str | Path | None = None,
    key: str = "",
    progress: bool = True,
) -> FollowedPath:
    r"""Parameters under which a model's outputs move on a prescribed path, from t = 0 to t = until.

    $$\partial_t\theta = D^+\,\partial_t x(t), \qquad x(0) = x(\theta_0)$$

    model: smooth, with trainable parameters; x: points (N, ...).
    path: a function in torch of a number t, a tensor, to outputs (N, Q), which starts at the model's own.
    nodes: so many equal parts of the time, at whose ends outputs are corrected to the path; None: none.
    tolerance, method, rcond, steps, memory, store: as in `integrate`.
    key: text that names the path, of which the checkpoint compares points and velocities at three times.
    Returned is a FollowedPath: `.parameters(t)`, `.outputs(t)`, `.deviation(t)`, `.condition(t)`,
    `.residuals` at nodes, and `.events` of rank, as `integrate` has them.
    Refused are paths of another start or shape, and those that leave what the parameters can reach: where
    their velocity is not in the range of D, where no step is short enough, where no correction leads back.

    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <...>
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.Tanh(), torch.nn.Linear(20, 1)).double()
    >>> x, y = torch.randn(5, 2).double(), torch.randn(5, 1).double()
    >>> x0 = net(x).detach()
    >>> run = follow(net, x, lambda t: x0 + torch.sin(t) * (y - x0), nodes=2, tolerance=1e-4)
    >>> bool(run.residuals.max() < 1e-13)
    True
    """
    end = positive("until", until)
    tolerance, most = positive("tolerance", tolerance), whole("steps", steps)
    pieces = 1 if nodes is None else whole("nodes", nodes)
    require_method(method)
    whole("memory", memory)
    model, x = Model.of(model), as_numbers("x", x)
    with output_map(model, x, memory) as map:
        theta = map.pack(map.run.leaves)
        require_smooth(map, theta)
        start = map.outputs(theta).detach()
        require_precision(tolerance, start)
        rcond = require_rcond(rcond, start.dtype)
        goal = _Path(path, start)
        goal.require_start(tolerance)
        velocity = _PathVelocity(map, factorisations(map, rcond, tolerance), goal)
        run = _PathIntegration(
            velocity, theta, end, pieces, nodes is not None, tolerance, method, most
        )
        sizes = (end, nodes, tolerance, method.__name__, rcond, most, memory)
        choices = (map.structure, *sizes)
        tensors = (theta, x, start, *(part for share in COMPARED for part in goal.at(share * end)))
        file = checkpoint(store, fingerprint("follow", *choices, *tensors), SETTINGS, key)
        run_to_end(run, end, file, progress)
    corrected = torch.as_tensor(run.nodes if nodes is not None else np.zeros(0), device="cpu")
    return FollowedPath(
        Curve(model, x.detach(), map.shapes, run.trajectory), path, corrected,
        torch.tensor(run.residuals, dtype=torch.float64, device="cpu"), tuple(run.watch.events),
        velocity.evaluations, rcond, memory,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Path:
    """A path with its velocity, by differentiating twice."""

    call: OutputPath
    start: Tensor

    def at(self, time: float) -> tuple[Tensor, Tensor]:
        """The point and the velocity, (N, Q) each."""
        with torch.enable_grad():
            t = self.start.new_tensor(time).requires_grad_()
            value = self.call(t)
            back = torch.zeros_like(value).requires_grad_()
            (slope,) = torch.autograd.grad(value, t, back, create_graph=True)
            (velocity,) = torch.autograd.grad(slope, back)  # of back . x'(t), by back
        return value.detach(), velocity

    def require_start(self, tolerance: float) -> None:
        if not callable(self.call):
            raise InputError(f"path = {self.call!r} was given, but a function of t is needed.")
        try:
            value, _ = self.at(0.0)
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(
                f"The path cannot be differentiated at t = 0 ({reason}): write it in torch, from a number t "
                f"to outputs of shape {tuple(self.start.shape)}."
            ) from error
        if value.shape != self.start.shape:
            raise InputError(
                f"The path has outputs of shape {tuple(value.shape)}, but the model's are "
                f"{tuple(self.start.shape)}."
            )
        distance = float(torch.linalg.vector_norm(value - self.start))
        if not distance <= tolerance:
            raise InputError(
                f"The path starts {distance:.2g} away from the model's outputs: begin at model(x)."
            )


class _PathVelocity:
    """The velocity D^+ x'(t) as SciPy takes it, and corrections at nodes."""

    def __init__(self, map: OutputMap, ranges: Factorisations, path: _Path) -> None:
        self.map, self.ranges, self.path = map, ranges, path
        self.evaluations = 0
        self.ratios: list[tuple[float, float]] = []  # times and ratios of singular values there

    def theta(self, state: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(state)).to(self.path.start)

    def __call__(self, time: float, state: np.ndarray) -> np.ndarray:
        self.evaluations += 1
        theta = self.theta(state)
        graph = self.map.graph(theta)
        if not bool(graph.outputs.isfinite().all()):
            return np.full(len(state), np.nan)
        velocity = self.path.at(time)[1].flatten()
        D_range = self.ranges.at(theta, graph)
        if not isinstance(D_range, ConjugateGradientRange):
            self.ratios.append((float(time), D_range.ratio))
        if D_range.rank < self.map.count:
            outside = float(torch.linalg.vector_norm(velocity - D_range.project(velocity)))
            share = for_dtype(TANGENT, theta.dtype)
            if outside > share * float(torch.linalg.vector_norm(velocity)):
                raise _outside(time, D_range.rank, self.map.count)
        return D_range.lift(velocity).double().cpu().numpy()

    def atol(self, state: np.ndarray, tolerance: float) -> float:
        """The error of each parameter that moves outputs by no more than the tolerance."""
        objective = Objective(half_mean_squared_error, self.path.start)
        clock = Clock(1, in_s=True)
        field = Field(self.map, self.ranges, objective, clock, 0.0, self.path.start)
        return tolerance / math.sqrt(len(state)) / field.norm(state)

    def corrected(self, time: float, state: np.ndarray) -> tuple[np.ndarray, float]:
        """Newton's iteration to the path, until rounding stops it; and the distance that is left."""
        goal = self.path.at(time)[0]
        theta, best, least = self.theta(state), self.theta(state), math.inf
        for _ in range(NEWTON):
            graph = self.map.graph(theta)
            residual = goal - graph.outputs.detach()
            size = float(torch.linalg.vector_norm(residual))
            if not size < least / 2:
                if size < least:
                    best, least = theta, size
                break
            best, least = theta, size
            theta = theta + self.ranges.at(theta, graph).lift(residual.flatten())
        scale = max(1.0, float(torch.linalg.vector_norm(goal)))
        if not least <= for_dtype(REACHED, theta.dtype) * scale:
            raise _unreachable(time, f"no correction comes closer than {least:.1e}")
        return best.double().cpu().numpy(), least


class _PathIntegration:
    """Steps of SciPy's method from node to node, with a correction at each."""

    def __init__(
        self, velocity: _PathVelocity, theta: Tensor, end: float, pieces: int, corrects: bool,
        tolerance: float, method: type[OdeSolver], most: int,
    ) -> None:  # fmt: skip
        self.velocity, self.tolerance, self.method, self.most = velocity, tolerance, method, most
        self.corrects = corrects
        self.nodes = np.linspace(0.0, end, pieces + 1)[1:]  # the last is the end, without rounding
        self.trajectory, self.residuals = Trajectory(), list[float]()
        start = velocity.path.start
        shape = (len(start), start.shape[1])
        self.watch = RankWatch(shape, start.dtype, velocity.ranges.rcond)
        self._rank = velocity.map.count
        self.time, self._state = 0.0, theta.double().cpu().numpy()
        self._atol = 0.0  # of the piece that is under way, as is the last step
        self._step: float | None = None
        self._solver: OdeSolver | None = None

    def resume(self, file: Checkpoint) -> None:
        """Continue from a checkpoint, if there is one."""
        state = self.trajectory.resume(file, len(self._state))
        if state is None:
            return
        self._state, self.time = self.trajectory.end, float(self.trajectory.times[-1])
        self.residuals, self.velocity.evaluations = state["residuals"], state["evaluations"]
        self._atol, self._step = state["atol"], state["step"]
        self._rank = state["rank"]
        self.watch.resume(state["ranks"], self.velocity.path.start.device)

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {
            "steps": self.trajectory.on_disk(),
            "residuals": self.residuals,
            "evaluations": self.velocity.evaluations,
            "atol": self._atol,
            "step": self._step,
            "rank": self._rank,
            "ranks": self.watch.state(),
        }

    def advance(self) -> bool:
        """Make one step, and at a node the correction; False at the end."""
        if self.time >= self.nodes[-1]:
            return False
        stop = float(self.nodes[np.searchsorted(self.nodes, self.time, side="right")])
        if self._solver is None:
            if not len(self.trajectory):
                self._look(0.0, self._state)
            if self._step is None:
                self._atol = self.velocity.atol(self._state, self.tolerance)
            first = None if self._step is None else min(self._step, stop - self.time)
            self._solver = self.method(
                self.velocity,
                self.time,
                self._state,
                stop,
                rtol=RTOL,
                atol=self._atol,
                first_step=first,
            )
        solver, before = self._solver, self.time
        with np.errstate(all="ignore"):
            solver.step()
        if solver.status == "failed" or len(self.trajectory) >= self.most:
            raise _unreachable(before, "steps become too short, as D loses rank")
        time, state, dense = float(solver.t), solver.y, solver.dense_output()
        self._look_within(dense, before, time, state)
        if time == stop and self.corrects:
            state, residual = self.velocity.corrected(stop, state)
            self.residuals.append(residual)
        self.trajectory.append(dense, before, time, state)
        self.time, self._state, self._step = time, state, float(solver.h_abs)
        if time == stop:
            self._solver = self._step = None
        return True

    def _look_within(
        self, dense: DenseOutput, start: float, stop: float, state: np.ndarray
    ) -> None:
        """Record what rank does in a step, and at its end."""
        velocity, rank = self.velocity, self._rank

        def theta(time: float) -> Tensor:
            return velocity.theta(dense(time))

        samples = [pair for pair in velocity.ratios if start <= pair[0] <= stop]
        velocity.ratios = [pair for pair in velocity.ratios if pair[0] >= stop]
        barrier = self.watch.look_within(
            samples,
            lambda time: velocity.ranges.ratio(theta(time), rank),
            lambda time: velocity.ranges.spectral(theta(time), rank),
            lambda time: velocity.path.at(time)[1],
        )
        if barrier is not None:
            raise _outside(barrier, rank - 1, velocity.map.count)
        self._look(stop, state)

    def _look(self, time: float, state: np.ndarray) -> None:
        ranges, theta = self.velocity.ranges, self.velocity.theta(state)
        range = ranges.at(theta, self.velocity.map.graph(theta))
        if range.rank != self._rank:
            full = ranges.spectral(theta)
            low, high = sorted((range.rank, self._rank))
            spanned = high <= len(full.values)  # else there are fewer parameters than outputs
            changed = full.left.T[low:high] if spanned else full.lost
            self.watch.record(time, self._rank, range.rank, changed, full.ratio_at(low))
            self._rank = range.rank
        self.watch.look(time, range)


def _outside(time: float, rank: int, count: int) -> InputError:
    return _unreachable(time, f"D has rank {rank} of {count}, and the velocity is not in its range")


def _unreachable(time: float, why: str) -> InputError:
    return InputError(
        f"The path leaves what the parameters can reach at t = {time:.6g} ({why}): choose another path, or "
        "add parameters."
    )

r"""The flow $\partial_s\theta = -(\alpha (D^T D)^+ + (1-\alpha)) \nabla_\theta C$ of any model, integrated.

Equations are those of `output-space-flow`, with the cost (2.48) by default. Both terms lie in the range
of $D^T$: $\partial_s\theta = -\alpha D^+ g - (1-\alpha) D^T g$ with $g = \nabla_x C$, so that all work is in
output space. At alpha = 1, while D has full rank QN, outputs move on straight lines to the labels,
$x(t) = y + (1-t)(x_0 - y)$ (2.57). Where directions are lost they leave them by

$$\int_0^t V_{t,t'} P^\perp_{t'} (x_0 - y)\, dt', \qquad \partial_t V_{t,t'} = -\frac{P_t}{1-t} V_{t,t'},$$

the contractive form of (2.59) and (2.60), integrated beside the parameters from the projections alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.integrate import DOP853, DenseOutput, OdeSolver, solve_ivp
from scipy.optimize import brentq
from torch import Tensor

from numeric.flows.costs import Clock, Cost, Objective, require_consistent_labels, require_objective
from numeric.flows.kinks import require_smooth
from numeric.flows.output_map import Graph, OutputMap, output_map
from numeric.flows.ranges import (
    MATRICES,
    Factorisations,
    Range,
    SpectralRange,
)
from numeric.flows.trajectory import DEGREE, Trajectory
from numeric.inputs import ArrayLike, InputError, as_numbers, between, number, positive, whole
from numeric.models import Model, ModelLike
from numeric.models.memory import GIGABYTE
from numeric.progress import progress_bar
from numeric.runs.store import Checkpoint, GrowingArray, checkpoint, fingerprint

__all__ = ["Flow", "RankEvent", "integrate"]

SETTINGS = "another model, data, alpha, cost, tolerance, method, end, rcond, device, torch or `key`"
REGAIN = (
    10.0  # times the singular value at which it was lost: from here on a direction is used again
)
SHORT, OFTEN = 1e-6, 10  # steps below this share of the time that is left, so often: rank is lost
EVENTS = 100  # changes of rank after which an integration stops


@dataclass(frozen=True, eq=False)
class RankEvent:
    """A time at which D loses or regains directions of output space, or comes near to it."""

    time: float
    before: int  # rank
    after: int
    directions: Tensor = field(repr=False)  # (m, N, Q), orthonormal: lost, regained, or nearly lost
    ratio: float  # of the smallest singular value of D concerned to the largest

    def __str__(self) -> str:
        change = self.after - self.before
        what = "is nearly lost" if not change else "is lost" if change < 0 else "is regained"
        count = len(self.directions)
        examples = ", ".join(str(k) for k in self.examples)
        directions = f"a direction {what}" if count == 1 else f"{count} directions: each {what}"
        return (
            f"at {self.time:.6g} {directions} (rank {self.before} to {self.after}, singular value "
            f"{self.ratio:.1e} of the largest), mostly in examples {examples}"
        )

    @property
    def examples(self) -> list[int]:
        """Up to three examples with the largest share in the directions."""
        share = self.directions.square().sum((0, 2))
        return torch.argsort(share, descending=True)[:3].tolist()


@dataclass(frozen=True, eq=False)
class Flow:
    """An integrated flow; times are t in [0, 1), or s if it was integrated with a `duration`.

    Every method takes one time and gives tensors on the device of the inputs. `times` are those of the steps.
    """

    model: Model
    x: Tensor = field(repr=False)
    objective: Objective = field(repr=False)
    alpha: float
    clock: Clock
    tolerance: float
    rcond: float
    memory: int
    start: Tensor = field(repr=False)  # (N, Q), outputs
    names: Mapping[str, torch.Size] = field(repr=False)
    trajectory: Trajectory = field(repr=False)
    events: tuple[RankEvent, ...]  # of rank
    evaluations: int  # of the field
    seconds: Tensor = field(
        repr=False
    )  # (steps + 1,), CPU time spent until each of `times`, on the host
    stopped: str | None  # why the end was not reached

    @property
    def times(self) -> Tensor:
        """(steps + 1,), on the host."""
        return torch.as_tensor(self.trajectory.times, device="cpu")

    @property
    def end(self) -> float:
        """The last time."""
        return float(self.trajectory.times[-1])

    def parameters(self, t: float) -> dict[str, Tensor]:
        """The parameters at a time, by name."""
        sizes = [shape.numel() for shape in self.names.values()]
        theta = self._state(t)[: sum(sizes)]
        parts = torch.from_numpy(theta).to(self.x.device, self.x.dtype).split(sizes)
        return {name: part.view(shape) for (name, shape), part in zip(self.names.items(), parts)}

    def outputs(self, t: float, x: ArrayLike | None = None) -> Tensor:
        """The outputs at a time, (N, Q), or (n, Q) at other points x (n, ...), which move along."""
        points = self.x if x is None else as_numbers("x", x)
        parameters = self.parameters(t)
        with self.model.on(points):
            return self.model.functional_call(parameters, points.clone()).flatten(1)

    def loss(self, t: float) -> float:
        """The cost at a time."""
        return float(self.objective.value(self.outputs(t)))

    def reference(self, t: float) -> Tensor:
        """The Euclidean gradient flow of outputs (2.47): for the default cost a straight line, (N, Q)."""
        time = self._time(t)
        if self.objective.squared:
            labels = self.objective.labels
            return labels + (1 - self.clock.t(time)) * (self.start - labels)
        return (
            torch.from_numpy(self._reference(self.clock.s(time))).to(self.start).view_as(self.start)
        )

    @cached_property
    def _reference(self) -> Callable[[float], np.ndarray]:
        def field(_: float, outputs: np.ndarray) -> np.ndarray:
            at = torch.from_numpy(outputs).to(self.start).view_as(self.start)
            return -self.objective.gradient(at).double().cpu().numpy().ravel()

        start = self.start.double().cpu().numpy().ravel()
        tolerances = {"rtol": 1e-3 * self.tolerance + 1e-13, "atol": 1e-3 * self.tolerance}
        span = (0.0, self.clock.s(self.end))
        return solve_ivp(field, span, start, "DOP853", dense_output=True, **tolerances).sol

    def deviation(self, t: float) -> Tensor:
        """Outputs minus the reference, (N, Q)."""
        return self.outputs(t) - self.reference(t)

    def predicted_deviation(self, t: float) -> Tensor:
        """The deviation by (2.59), from the lost directions alone: (N, Q); alpha = 1 and the default cost."""
        if self.alpha != 1 or not self.objective.squared:
            raise InputError(
                "The deviation is predicted at alpha = 1 for the default cost only: take .deviation(t)."
            )
        predicted = self._state(t)[-self.start.numel() :]
        return torch.from_numpy(predicted).to(self.start).view_as(self.start)

    def kernel(self, t: float, x: ArrayLike | None = None) -> Tensor:
        r"""$K_\alpha = \alpha K_1 + (1-\alpha)\Theta$ of points x and the training points, (n, Q, N, Q).

        Outputs move by $\partial_s f(x) = -K_\alpha(x, X) g$. $\Theta = D D^T$ is the tangent kernel, and
        $K_1 = \Theta(x, X)\Theta(X, X)^+$, which on the training points (the default) is the projection P,
        and the identity where D has full rank (3.17).
        """
        n, q = self.start.shape
        parameters = self.parameters(t)
        with output_map(self.model, self.x, self.memory, parameters) as map:
            theta = map.pack(parameters)
            train = map.gradients(theta)
            if x is None:
                tangent = train.inner(train).reshape(n * q, n * q)
            else:
                with output_map(self.model, x, self.memory, parameters) as other:
                    tangent = other.gradients(theta).inner(train).reshape(-1, n * q)
            kernel = (1 - self.alpha) * tangent
            if self.alpha:
                range = self._factorisations(map).at(theta, map.graph(theta))
                eye = torch.eye(n * q, device=theta.device, dtype=theta.dtype)
                if x is None:
                    columns = [range.project(column) for column in eye]
                else:
                    columns = [tangent @ range.solve(column) for column in eye]
                kernel = kernel + self.alpha * torch.stack(columns, 1)
        return kernel.reshape(-1, q, n, q)

    def range(self, t: float) -> Range:
        """The range of D at a time: rank, lost directions, condition; by the factorisation of the flow."""
        parameters = self.parameters(t)
        with output_map(self.model, self.x, self.memory, parameters) as map:
            theta = map.pack(parameters)
            return self._factorisations(map).at(theta, map.graph(theta))

    def condition(self, t: float) -> float:
        """The condition number of D D^T on its range: a bound from above, if `.range(t)` is certified."""
        return self.range(t).condition

    def _factorisations(self, map: OutputMap) -> Factorisations:
        return factorisations(map, self.rcond, self.tolerance)

    def _time(self, t: float) -> float:
        return between("t", t, 0.0, self.end)

    def _state(self, t: float) -> np.ndarray:
        return self.trajectory.at(self._time(t))


def integrate(
    model: ModelLike,
    x: ArrayLike,
    y: ArrayLike,
    alpha: float = 1.0,
    *,
    until: float = 0.99,
    duration: float | None = None,
    cost: Cost | None = None,
    tolerance: float = 1e-8,
    method: type[OdeSolver] = DOP853,
    rank_deficient: bool = False,
    rcond: float = 1e-7,
    steps: int = 1_000,
    memory: int = 2 * GIGABYTE,
    store: str | Path | None = None,
    key: str = "",
    progress: bool = True,
) -> Flow:
    r"""The flow of a model's parameters under which its outputs tend to the labels.

    $$\partial_s\theta = -(\alpha (D^T D)^+ + (1-\alpha)) \nabla_\theta C, \qquad t = 1 - e^{-s/N}$$

    model: with trainable parameters, K numbers in all; it is left as it is. It is in evaluation mode.
    x, y: points (N, ...) and labels, (N, Q) like the outputs for the default cost.
    alpha: 0 is gradient flow; 1 the adapted flow, whose outputs move on straight lines to the labels.
    until: the last t, below 1. Or give a `duration`, the last s; all times are s then.
    cost: a function of outputs (N, Q) and labels; by default |x - y|^2 / (2 N).
    tolerance: how far, in Euclidean norm, one step may leave outputs.
    method: a Runge-Kutta step of SciPy, such as DOP853 or RK45.
    rank_deficient: accept more outputs QN than parameters K.
    rcond: directions with a singular value of D below rcond times the largest are lost; they stay so until
        it is above 10 rcond.
    steps: the most that are made; near rank loss parameters may run away, and steps become short.
    memory: a budget in bytes; where matrices (QN, QN) do not fit, conjugate gradients are used.
    store: a file for a checkpoint, from which the same call goes on, to the same bits; steps are
        appended to a second file beside it, with `.steps` at the end of its name.
    key: text that names whatever the checkpoint cannot compare, such as the code of the cost.

    Returned is a Flow: `.outputs(t)`, `.parameters(t)`, `.loss(t)`, `.kernel(t)`, `.deviation(t)`,
    `.condition(t)`; `.events` tells when directions of outputs were lost, nearly lost or regained.
    Refused are alpha outside [0, 1], until = 1, more outputs than parameters, labels that do not fit, equal
    inputs with different labels, costs that are no function of outputs, random layers, and kinked activations
    such as ReLU, for which D jumps: see `flows.slide`.

    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <...>
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.Tanh(), torch.nn.Linear(20, 1)).double()
    >>> x, y = torch.randn(5, 2).double(), torch.randn(5, 1).double()
    >>> flow = integrate(net, x, y, until=0.5, tolerance=1e-4, progress=False)
    >>> bool(flow.deviation(0.5).norm() < 1e-3), flow.events
    (True, ())
    """
    alpha = between("alpha", alpha, 0, 1)
    end, in_s = require_end(until, duration)
    tolerance, rcond = positive("tolerance", tolerance), positive("rcond", rcond)
    whole("memory", memory)
    most = whole("steps", steps)
    model, x = Model.of(model), as_numbers("x", x)
    require_method(method)
    with output_map(model, x, memory) as map:
        theta = map.pack(map.run.leaves)
        outputs = map.outputs(theta).detach()
        objective = require_objective(cost, y, outputs, model)
        require_consistent_labels(map.run.points, objective.labels)
        require_smooth(map, theta)
        _require_precision(tolerance, outputs)
        if alpha and not rank_deficient:
            require_enough_parameters(map)
        clock = Clock(len(outputs), in_s)
        run = _Integration(
            Field(map, factorisations(map, rcond, tolerance), objective, clock, alpha, outputs),
            method,
            end,
            tolerance,
            most,
        )
        structure = [(name, type(part).__qualname__) for name, part in model.layers.items()]
        choices = (
            structure,
            alpha,
            end,
            in_s,
            tolerance,
            rcond,
            most,
            method.__name__,
            key,
            memory,
        )
        tensors = (theta, x, objective.labels, outputs)
        file = checkpoint(store, fingerprint("flow", *choices, *tensors), SETTINGS)
        run.resume(file)
        with progress_bar(of="time", show=progress, total=end, initial=run.time) as bar:
            try:
                while run.advance():
                    bar.update(run.time - bar.n)
                    file.write_when_due(run.state)
            finally:
                if len(run.trajectory) and file.path is not None:
                    file.write(run.state())
    return Flow(
        model, x.detach(), objective, alpha, clock, tolerance, rcond, memory, outputs, map.shapes,
        run.trajectory, tuple(run.events), run.field.evaluations,
        torch.tensor(run.seconds, dtype=torch.float64, device="cpu"), run.stopped,
    )  # fmt: skip


def factorisations(map: OutputMap, rcond: float, tolerance: float) -> Factorisations:
    """How D is factorised: by matrices if some of them fit into the memory."""
    size = torch.finfo(map.run.points.dtype).bits // 8
    dense = MATRICES * size * map.count**2 <= map.memory
    return Factorisations(map, rcond, min(1e-2 * tolerance, 1e-6), dense)


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
        velocity, found = torch.zeros_like(theta), None
        if self.alpha < 1:
            velocity = velocity - (1 - self.alpha) * graph.pull(gradient)
        if self.alpha > 0:
            found = self._range(state, theta, graph)
            velocity = velocity - self.alpha * found.lift(gradient)
        parts = [speed * velocity]
        if self.residual is not None and found is not None:
            deviation = self.tensor(state[self.map.parameters :])
            source = (1 - self.clock.t(time)) * self.residual
            change = source - found.project(deviation + source)
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


POWER_STEPS = 12  # from a start of no structure: within some percent of the largest value


class _Integration:
    """Steps of SciPy's method, with a restart wherever the rank of D changes."""

    def __init__(
        self, field: Field, method: type[OdeSolver], end: float, tolerance: float, most: int
    ) -> None:
        self.field, self.method, self.end, self.tolerance = field, method, end, tolerance
        self.most = most
        self.trajectory = Trajectory()
        self.events: list[RankEvent] = []
        self.stopped: str | None = None
        self.time = 0.0
        self._step: float | None = None
        self._solver: OdeSolver | None = None
        self._warned = False  # of near rank loss, until it is over
        self._norm: float | None = None  # of D at the start
        self._regain = REGAIN * field.factorisations.rcond
        self._short = 0  # steps in a row
        self.seconds = [0.0]
        self._since = time.process_time()

    def resume(self, file: Checkpoint) -> None:
        """Continue from a checkpoint, if there is one."""
        if file.path is None:
            return
        state = file.read("cpu")
        beside = file.path.with_name(f"{file.path.name}.steps")
        if state is None:  # steps without their checkpoint belong to nothing
            beside.unlink(missing_ok=True)
        size = 2 + (DEGREE + 1) * len(self.field.initial())
        self.trajectory.file = GrowingArray(beside, file.run, (size,))
        if state is None:
            return
        self.trajectory.file.truncate(state["steps"])
        self.trajectory.rows = [np.array(row) for row in self.trajectory.file.rows()]
        self.time, self._step = float(self.trajectory.times[-1]), state["step"]
        self.field.rank, self.field.evaluations = state["rank"], state["evaluations"]
        self.stopped, self._warned = state["stopped"], state["warned"]
        self.seconds, self._since = state["seconds"], time.process_time()
        self._norm, self._regain, self._short = state["norm"], state["regain"], state["short"]
        self.events = [
            RankEvent(directions=directions.to(self.field.map.run.points.device), **numbers)
            for numbers, directions in state["events"]
        ]

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        if self.trajectory.file is not None:
            self.trajectory.file.flush()
        fields = ("time", "before", "after", "ratio")
        return {
            "steps": len(self.trajectory),
            "step": self._step,
            "rank": self.field.rank,
            "evaluations": self.field.evaluations,
            "stopped": self.stopped,
            "warned": self._warned,
            "norm": self._norm,
            "seconds": self.seconds,
            "regain": self._regain,
            "short": self._short,
            "events": [
                ({name: getattr(event, name) for name in fields}, event.directions)
                for event in self.events
            ],
        }

    def advance(self) -> bool:
        """Make one step; False at the end."""
        if self.time >= self.end or self.stopped is not None:
            return False
        if len(self.trajectory) >= self.most:
            self.stopped = (
                f"{self.most} steps were made up to {self.time:.6g}: the flow is stiff there"
            )
            return False
        if self._solver is None:
            self._begin(self.trajectory.end if len(self.trajectory) else self.field.initial())
        solver = self._solver
        assert solver is not None
        before = self.time
        with np.errstate(all="ignore"):  # stages that go too far
            solver.step()
        if solver.status == "failed":
            return self._singular(solver.y)
        stop, dense = float(solver.t), solver.dense_output()
        change = self._rank_change(dense, before, stop, solver.y)
        now = time.process_time()
        self.seconds.append(self.seconds[-1] + now - self._since)
        self._since = now
        if change is None:
            self.trajectory.append(dense, before, stop, solver.y)
            self.time, self._step = stop, float(solver.h_abs)
            self._short = self._short + 1 if stop - before < SHORT * (self.end - before) else 0
            if self._short >= OFTEN and self.field.alpha:
                return self._singular(solver.y)
        return True

    def _begin(self, state: np.ndarray) -> None:
        field = self.field
        if field.alpha and field.rank is None:
            range = field.range(state)
            field.rank = range.rank
            if range.rank < field.map.count and field.factorisations.dense:
                self._record(0.0, field.map.count, range, range.lost)
            self._warn_if_near(0.0, range)
        size = len(state)
        atol = np.full(size, self.tolerance / math.sqrt(size))
        if self._norm is None:
            self._norm = field.norm(state)
        atol[: field.map.parameters] /= self._norm
        remaining = self.end - self.time
        first = None if self._step is None else min(self._step, remaining)
        self._solver = self.method(
            field, self.time, state, self.end, rtol=RTOL, atol=atol, first_step=first
        )

    def _rank_change(
        self, dense: DenseOutput, start: float, stop: float, state: np.ndarray
    ) -> RankEvent | None:
        """End the step at the first change of rank within it, if there is one, and begin anew there."""
        field = self.field
        if not field.alpha:
            return None
        range = field.range(state)
        self._warn_if_near(stop, range)
        if not isinstance(range, SpectralRange):
            return None
        rank = range.rank
        lost, regained = self._gaps(range)
        if lost >= 0 and regained <= 0:
            return None
        which = 0 if lost < 0 else 1

        def gap(time: float) -> float:
            at = field.factorisations.spectral(field.theta(dense(time)), rank)
            return self._gaps(at)[which]

        with suppress(ValueError):  # no sign change: the step began beyond the limit
            stop = brentq(gap, start, stop, xtol=1e-12 * (stop - start), rtol=1e-13)
            state = dense(stop)
        range = field.factorisations.spectral(field.theta(state))
        if which == 0:
            after = min(range.rank, rank - 1)
            directions = range.left.T[after:rank]
        else:
            after = rank + 1
            directions = range.left.T[rank:after]
        event = self._record(
            stop, rank, SpectralRange(range.left, range.values, range.right, after), directions
        )
        self.trajectory.append(dense, start, stop, state)
        self.time, self._step, self._solver = stop, None, None
        field.rank = after
        return event

    def _gaps(self, range: SpectralRange) -> tuple[float, float]:
        """The smallest kept value above its limit (negative: lost), the largest other above its own."""
        r, rcond = range.rank, self.field.factorisations.rcond
        ratios = (range.values / range.values[0]).tolist()
        lost = ratios[r - 1] / rcond - 1 if r else 1.0
        regained = ratios[r] / self._regain - 1 if r < len(ratios) else -1.0
        return lost, regained

    def _singular(self, state: np.ndarray) -> bool:
        """Steps shrink to nothing: drop the smallest singular value, which the velocity divides by."""
        field = self.field
        rank = field.rank or 0
        if rank < 1 or not field.factorisations.dense:
            self.stopped = (
                f"no step is short enough at {self.time:.6g}: the velocity is not smooth there"
            )
            return False
        found = field.factorisations.spectral(field.theta(state), rank)
        after = SpectralRange(found.left, found.values, found.right, rank - 1)
        event = self._record(self.time, rank, after, found.left.T[rank - 1 : rank])
        field.rank, self._solver, self._step, self._short = rank - 1, None, None, 0
        self._regain = max(self._regain, REGAIN * event.ratio)
        return self.stopped is None

    def _warn_if_near(self, time: float, range: Range) -> None:
        """Record where the condition of D D^T leaves a Cholesky factorisation no digits to rely on."""
        near = (
            isinstance(range, SpectralRange)
            and range.rank == self.field.rank
            and range.condition > NEAR
        )
        if near and not self._warned:
            assert isinstance(range, SpectralRange)
            r = range.rank
            self._record(time, r, range, range.left.T[r - 1 : r])
        self._warned = near

    def _record(self, time: float, before: int, range: Range, directions: Tensor) -> RankEvent:
        shape = (-1, len(self.field.map.run.points), self.field.map.run.outputs)
        after, ratio = range.rank, math.nan
        if isinstance(range, SpectralRange):
            values = [
                *(range.values / range.values[0]).tolist(),
                0.0,
            ]  # 0: fewer parameters than outputs
            ratio = values[after] if after < before else values[after - 1]
        event = RankEvent(time, before, after, directions.reshape(shape).clone(), ratio)
        self.events.append(event)
        if len(self.events) >= EVENTS:
            self.stopped = (
                f"{EVENTS} changes of rank up to {time:.6g}: the flow slides along rank loss"
            )
        return event


RTOL = 100 * float(
    np.finfo(float).eps
)  # the least that SciPy takes: errors are absolute, in outputs
NEAR = 1e12  # condition number of D D^T that is reported as near rank loss


def require_end(until: float, duration: float | None) -> tuple[float, bool]:
    if duration is not None:
        return positive("duration", duration), True
    if number("until", until) == 1:
        raise InputError(
            "until = 1 was given, but t = 1 is s = infinity, where the flow only tends to: give until below "
            "1, such as 0.999."
        )
    if not 0 < until < 1:
        raise InputError(f"until = {until!r} was given, but t is between 0 and 1.")
    return float(until), False


def require_method(method: type[OdeSolver]) -> None:
    explicit = (
        isinstance(method, type) and issubclass(method, OdeSolver) and hasattr(method, "n_stages")
    )
    if not explicit:
        raise InputError(
            f"method = {method!r} was given, but a Runge-Kutta class of SciPy is needed, such as "
            "scipy.integrate.DOP853 or RK45."
        )


def _require_precision(tolerance: float, outputs: Tensor) -> None:
    epsilon = torch.finfo(outputs.dtype).eps
    if tolerance < 100 * epsilon * float(outputs.norm()):
        raise InputError(
            f"tolerance = {tolerance} was given, but outputs of this size are {outputs.dtype}, which has no "
            "such digits: write model.double(), or give a larger tolerance."
        )


def require_enough_parameters(map: OutputMap) -> None:
    n, k = map.count, map.parameters
    if n > k:
        raise InputError(
            f"There are {n} outputs (Q = {map.run.outputs} at N = {len(map.run.points)} points) and {k} "
            f"parameters: at least {n - k} directions of outputs are lost at every time, and what the labels "
            "have in them is never learned. Add parameters, drop points, or accept it by rank_deficient=True."
        )

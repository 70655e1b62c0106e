r"""The flow of ReLU networks at alpha = 1, which slides along the kinks: the limit of smooth activations.

A rectifier's input z at one example is a function of the parameters, and D jumps where z = 0:
$D_+ - D_- = j\,\nabla z^T$, j the change of all outputs with that rectifier's output. Where the velocities on
both sides point towards z = 0, a trajectory stays there. What it does then the equation does not decide:

* **Smooth activations that tend to ReLU** keep outputs on the straight line. The rectifier has a slope
  $\lambda \in [0, 1]$ there, and the velocity is that of least norm among those with $D\theta' = x'$ and
  $\nabla z\,\theta' = 0$: with $B = [D_0; A]$, rows of D at slope 0 and of all sliding $\nabla z$,
  $\theta' = B^+ (x', 0)$; and $\lambda = \eta / \delta$, from $(\psi, \eta) = (B B^T)^{-1}(x', 0)$ and the
  signal $\delta$ that comes back to the rectifier. It leaves where $\lambda$ reaches 0
  or 1. `slide` integrates this. Each sliding kink costs one parameter: with $K < QN + m$ rank is lost.
* **Short explicit steps** cross the kink to and fro, and outputs leave the straight line, however short they
  are: see `numeric.flows.euler_steps`.

Of several kinks at once the first limit is as determined as of one: all of them are held, with a slope each.
The second is known beforehand for one kink alone.

So a user of ReLU gets straight lines from `slide`, and from steps of any length of `euler` or of an optimiser
a deviation that does not go away; `integrate`, whose steps would shrink without end, refuses.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.integrate import DOP853, DenseOutput
from scipy.optimize import brentq
from torch import Tensor

from numeric.flows.costs import Clock, Objective, require_end, require_precision
from numeric.flows.curve import Curve
from numeric.flows.integration import RTOL
from numeric.flows.kinks import Rectifiers, Slopes, require_rectified
from numeric.flows.output_map import OutputMap, output_map
from numeric.flows.ranges import Unsolved, for_dtype
from numeric.flows.rank_events import RankEvent, RankWatch
from numeric.flows.trajectory import Trajectory
from numeric.inputs import ArrayLike, as_numbers, positive, whole
from numeric.models import Model, ModelLike
from numeric.models.memory import GIGABYTE
from numeric.progress import progress_bar
from numeric.runs.store import Checkpoint, checkpoint, fingerprint

__all__ = ["KinkEvent", "SlidingFlow", "slide"]

CLOSE = 1e-9  # times the largest input of a rectifier: from here on it counts as on the other side
DEPENDENT = 1e-10  # of singular values of D and sliding kinks, smallest to largest: rank is lost
FAR = 1e-2  # of the same ratio: a bound from below will do, and no spectrum is needed
EVENTS = 5_000
SETTINGS = "another model, data, tolerance, end, steps, device, torch or `key`"


@dataclass(frozen=True)
class KinkEvent:
    """A rectifier's input reaches 0 at one example: it crosses, begins to slide, or leaves to one side."""

    time: float
    layer: int  # of the rectifiers, in the order in which they run
    unit: int
    example: int
    before: float | None  # slope, None while sliding
    after: float | None

    @property
    def slides(self) -> bool:
        return self.after is None


@dataclass(frozen=True, eq=False)
class SlidingFlow:
    """A flow of a ReLU network in the limit of smooth activations; times are t in [0, 1)."""

    curve: Curve
    objective: Objective = field(repr=False)
    start: Tensor = field(repr=False)  # (N, Q)
    events: tuple[KinkEvent, ...] = field(repr=False)
    rank_events: tuple[RankEvent, ...]  # rank counts outputs and sliding kinks
    sliding: tuple[int, ...] = field(repr=False)  # how many kinks hold the flow after each step
    evaluations: int
    stopped: str | None  # why the end was not reached

    @property
    def times(self) -> Tensor:
        """(steps + 1,), on the host."""
        return self.curve.times

    @property
    def end(self) -> float:
        """The last time."""
        return self.curve.end

    def parameters(self, t: float) -> dict[str, Tensor]:
        """The parameters at a time, by name."""
        return self.curve.parameters(t)

    def outputs(self, t: float, x: ArrayLike | None = None) -> Tensor:
        """The outputs at a time, (N, Q), or (n, Q) at other points."""
        return self.curve.outputs(t, x)

    def loss(self, t: float) -> float:
        """The cost at a time."""
        return float(self.objective.value(self.outputs(t)))

    def deviation(self, t: float) -> Tensor:
        """The distance of outputs from the straight line to the labels, (N, Q)."""
        labels = self.objective.labels
        return self.outputs(t) - labels - (1 - t) * (self.start - labels)


def slide(
    model: ModelLike,
    x: ArrayLike,
    y: ArrayLike,
    *,
    until: float = 0.99,
    tolerance: float = 1e-7,
    steps: int = 10_000,
    store: str | Path | None = None,
    key: str = "",
    progress: bool = True,
) -> SlidingFlow:
    r"""The alpha = 1 flow of a ReLU network, cost |x - y|^2 / (2 N), in the limit of smooth activations.

    $$D\theta' = -\frac{x - y}{1 - t}, \quad \nabla z_k\,\theta' = 0 \text{ on sliding kinks},
      \quad |\theta'| \text{ least}$$

    model: with rectifiers and no other kinks; x, y: points (N, ...) and labels (N, Q).
    until, tolerance, steps: the last t; how far a step may leave outputs; the most steps. D is formed.
    store, key: as in `integrate`.

    Returned is a SlidingFlow: `.outputs(t)`, `.deviation(t)`, and `.events`: each rectifier, unit and example
    whose kink was crossed, held or left, with its time; `.rank_events` tells where a direction of outputs and
    sliding kinks together was lost or nearly so, with its part in outputs. Where they do not move
    independently, or are more than the parameters, the flow ends, and `.stopped` says why.
    Refused are models without rectifiers or with other kinks, what `integrate` refuses, and starts at which
    outputs do not move independently.

    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <...>
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1)).double()
    >>> x, y = torch.randn(5, 2).double(), torch.randn(5, 1).double()
    >>> flow = slide(net, x, y, until=0.2, tolerance=1e-4, progress=False)
    >>> bool(flow.deviation(0.2).norm() < 1e-3)
    True
    """
    end, _ = require_end(until, None)
    tolerance, most = positive("tolerance", tolerance), whole("steps", steps)
    model, x = Model.of(model), as_numbers("x", x)
    with output_map(model, x, 2 * GIGABYTE) as map:
        objective = require_rectified(map, y, model)
        run = _Slide(map, objective, end, tolerance)
        require_precision(tolerance, run.start)
        choices = (map.structure, end, tolerance, most)
        tensors = (map.pack(map.run.leaves), x, run.objective.labels, run.start)
        file = checkpoint(store, fingerprint("slide", *choices, *tensors), SETTINGS, key)
        run.resume(file)
        stopped = None
        with progress_bar(of="time", show=progress, total=end, initial=run.time) as bar:
            try:
                while run.time < end and stopped is None:
                    if len(run.trajectory) >= most or len(run.events) >= EVENTS:
                        count = f"{len(run.trajectory)} steps and {len(run.events)} kinks"
                        stopped = f"{count} up to {run.time:.6g}"
                        break
                    try:
                        run.advance()
                    except Unsolved as reason:
                        stopped = run.stop(reason)
                    bar.update(run.time - bar.n)
                    file.write_when_due(run.checkpoint)
            finally:
                if len(run.trajectory) and file.path is not None:
                    file.write(run.checkpoint())
    return SlidingFlow(
        Curve(model, x.detach(), map.shapes, run.trajectory), run.objective, run.start,
        tuple(run.events), tuple(run.watch.events), tuple(run.held), run.evaluations, stopped,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Conditions:
    """Rows of outputs and of sliding kinks, by the triangular factor of their transpose."""

    factor: Tensor = field(repr=False)  # (QN + m, QN + m)
    outputs: int  # QN

    @property
    def rank(self) -> int:
        return len(self.factor)

    @cached_property
    def bound(self) -> float:
        """Of the smallest singular value to the largest, from below."""
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
        """The bound where it is far from a loss, else exact."""
        if self.bound > FAR:
            return self.bound
        values = self._spectrum[1]
        return float(values[-1] / values[0])

    @property
    def weakest(self) -> Tensor:
        """The part in outputs, (QN,): shorter than 1 where kinks take part too."""
        return self._spectrum[0][: self.outputs, -1]


@dataclass(frozen=True, eq=False)
class _Velocity:
    theta: Tensor  # (K,)
    slopes: Tensor  # (m,), lambda of the sliding kinks
    conditions: _Conditions = field(repr=False)


@dataclass(frozen=True, eq=False)
class _Held:
    """Outputs and the inputs of sliding rectifiers, with the graph behind them, and their Jacobian."""

    values: Tensor  # (QN + m,)
    rows: Tensor  # (QN + m, K)
    rectified: list[Tensor]  # outputs of all rectifiers


class _Slide:
    """Smooth pieces between kinks, by SciPy's steps, and what happens at each kink."""

    def __init__(self, map: OutputMap, objective: Objective, end: float, tolerance: float) -> None:
        self.map, self.objective, self.end, self.tolerance = map, objective, end, tolerance
        self.clock = Clock(len(map.run.points), in_s=False)
        theta = map.pack(map.run.leaves)
        self.start = map.outputs(theta).detach()
        self.norm = float(torch.linalg.matrix_norm(map.gram(theta), 2)) ** 0.5  # of D
        with Rectifiers() as record:
            map.outputs(theta)
        inputs = [z.detach().flatten(1) for z in record.inputs]
        self.scale = float(torch.cat(inputs, 1).abs().max()) or 1.0
        self.slopes = Slopes((torch.cat(inputs, 1) > 0).to(theta), [z.shape[1] for z in inputs])
        self._close = for_dtype(CLOSE, theta.dtype)
        self._dependent = for_dtype(DEPENDENT, theta.dtype)
        # how far beyond 0 counts as crossed
        self.slack = torch.full_like(self.slopes.values, self._close)
        self.kinks: list[tuple[int, int]] = []  # sliding ones, (example, unit)
        self.state = theta.double().cpu().numpy()
        self.time, self.evaluations = 0.0, 0
        self.trajectory, self.events, self.held = Trajectory(), [], []
        shape = (len(self.start), self.start.shape[1])
        self.watch = RankWatch(shape, self.start.dtype, self._dependent)
        self.ratios: list[tuple[float, float]] = []  # times and bounds of ratios of singular values
        self._unsolved: Unsolved | None = None
        self._solver: DOP853 | None = None
        self._step: float | None = None

    def resume(self, file: Checkpoint) -> None:
        """Continue from a checkpoint, if there is one."""
        state = self.trajectory.resume(file, len(self.state))
        if state is None:
            return
        self.state, self.time = self.trajectory.end, float(self.trajectory.times[-1])
        self.slopes.values.copy_(state["slopes"])
        self.slack.copy_(state["slack"])
        self.kinks = [(example, unit) for example, unit in state["kinks"]]
        self.events = [KinkEvent(*event) for event in state["events"]]
        self.held, self.evaluations = state["held"], state["evaluations"]
        self._step = state["step"]
        self.watch.resume(state["ranks"], self.start.device)

    def checkpoint(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {
            "steps": self.trajectory.on_disk(),
            "slopes": self.slopes.values,
            "slack": self.slack,
            "kinks": self.kinks,
            "events": [astuple(event) for event in self.events],
            "held": self.held,
            "evaluations": self.evaluations,
            "step": self._step,
            "ranks": self.watch.state(),
        }

    def _tensor(self, state: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(state)).to(self.start)

    def inputs(self, state: np.ndarray) -> Tensor:
        """Of all rectifiers, (N, U)."""
        with Rectifiers(self.slopes.split()) as record:
            self.map.outputs(self._tensor(state))
        return torch.cat([z.detach().flatten(1) for z in record.inputs], 1)

    def velocity(self, time: float, state: np.ndarray) -> _Velocity:
        """Of least norm on the straight line and on the sliding kinks."""
        self.evaluations += 1
        held = self._held(state)
        self._require_freedom(time, len(held.values), held.rows.shape[1])
        if not bool(held.rows.isfinite().all()):
            raise Unsolved(
                f"At t = {time:.6g} the Jacobian is not finite: the flow has gone too far."
            )
        outputs = held.values[: self.start.numel()].detach().view_as(self.start)
        goal = -self.objective.gradient(outputs).flatten() * self.clock.speed(time)
        goal = torch.cat([goal, goal.new_zeros(len(self.kinks))])
        q, r = torch.linalg.qr(held.rows.T)
        conditions = _Conditions(r, outputs.numel())
        self._require_rank(time, conditions)
        half = torch.linalg.solve_triangular(r.T, goal[:, None], upper=False)
        theta = (q @ half)[:, 0]
        if not self.kinks:
            return _Velocity(theta, theta.new_zeros(0), conditions)
        signals = torch.linalg.solve_triangular(r, half, upper=True)[:, 0]  # psi, eta
        back = torch.autograd.grad(
            held.values, held.rectified, signals, allow_unused=True, materialize_grads=True
        )
        arriving = torch.cat([part.flatten(1) for part in back], 1)[self._index]
        return _Velocity(theta, signals[outputs.numel() :] / arriving, conditions)

    def _held(self, state: np.ndarray) -> _Held:
        with Rectifiers(self.slopes.split()) as record:
            graph = self.map.graph(self._tensor(state))
        with torch.enable_grad():
            inputs = torch.cat([z.flatten(1) for z in record.inputs], 1)
            values = torch.cat([graph.outputs.flatten(), inputs[self._index]])
        eye = torch.eye(len(values), device=values.device, dtype=values.dtype)
        parts = torch.autograd.grad(
            values, graph.leaves, eye, retain_graph=True, is_grads_batched=True,
            allow_unused=True, materialize_grads=True,
        )  # fmt: skip
        rows = torch.cat([part.flatten(1) for part in parts], 1)
        return _Held(values, rows, record.outputs)

    def conditions(self, state: np.ndarray) -> _Conditions:
        """Of outputs and sliding kinks, whatever their rank."""
        _, r = torch.linalg.qr(self._held(state).rows.T, mode="r")
        return _Conditions(r, self.start.numel())

    def _require_freedom(self, time: float, conditions: int, parameters: int) -> None:
        if conditions > parameters:
            held = len(self.kinks)
            raise Unsolved(
                f"At t = {time:.6g} the flow slides on {held} kinks at once, which with {conditions - held} "
                f"outputs are more conditions than the {parameters} parameters: add units, or end before."
            )

    def _require_rank(self, time: float, conditions: _Conditions) -> None:
        """Refuse outputs and sliding kinks of which one is determined by the others."""
        if conditions.bound < self._dependent and not conditions.ratio >= self._dependent:
            raise Unsolved(
                f"At t = {time:.6g} outputs and the {len(self.kinks)} kinks on which the flow slides do not "
                "move independently (rank is lost): change the start, add units, or end before.",
                conditions.weakest,
                conditions.ratio,
            )

    def stop(self, reason: Unsolved) -> str:
        """Say why there is no velocity, and in which direction; at the start there is no flow to stop."""
        if not len(self.trajectory):
            raise reason
        if reason.direction is None:
            return str(reason)
        rank = self.start.numel() + len(self.kinks)
        event = self.watch.record(self.time, rank, rank - 1, reason.direction[None], reason.ratio)
        return f"{reason} This was {event}"

    @property
    def _index(self) -> tuple[Tensor, Tensor]:
        pairs = torch.tensor(self.kinks, dtype=torch.long, device=self.start.device).view(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def field(self, time: float, state: np.ndarray) -> np.ndarray:
        """For SciPy's steps, which are shortened where there is no velocity."""
        if not np.isfinite(
            state
        ).all():  # it follows a stage without a velocity, whose reason is kept
            return np.full(len(state), np.nan)
        try:
            velocity = self.velocity(time, state)
        except Unsolved as reason:
            self._unsolved = reason
            return np.full(len(state), np.nan)
        self._unsolved = None
        self.ratios.append((float(time), velocity.conditions.bound))
        return velocity.theta.double().cpu().numpy()

    def advance(self) -> None:
        """One step, or a part of one up to the first kink in it; or one more switch at the same time."""
        if self._solver is None:
            margin = self._margin(self.time, self.state)
            if margin[0] < 0:
                self._switch(*margin[1:])
                return
            atol = self.tolerance / np.sqrt(len(self.state)) / self.norm
            first = None if self._step is None else min(self._step, self.end - self.time)
            if not len(self.trajectory):
                self.watch.look(self.time, self.conditions(self.state))
            self._solver = DOP853(
                self.field, self.time, self.state, self.end, rtol=RTOL, atol=atol, first_step=first
            )
            if self._unsolved is not None and not np.isfinite(self._solver.f).all():
                raise self._unsolved
        solver, before = self._solver, self.time
        with np.errstate(all="ignore"):  # stages that go too far
            solver.step()
        if solver.status == "failed":
            raise self._unsolved or self._too_short(before, solver.y)
        dense, stop = solver.dense_output(), float(solver.t)
        kink = self._kink(dense, before, stop)
        barrier = self._look_within(dense, before, stop if kink is None else kink)
        self._step = float(solver.h_abs)
        if barrier is not None:
            stop, self._solver = barrier, None
        elif kink is not None:
            stop, self._solver, self._step = kink, None, max(self._step, 1e-6)
        self.time, self.state = stop, solver.y if self._solver is solver else dense(stop)
        self.trajectory.append(dense, before, stop, self.state)
        self.held.append(len(self.kinks))

    def _too_short(self, time: float, state: np.ndarray) -> Unsolved:
        weak = self.conditions(state)
        return Unsolved(
            f"No step is short enough at t = {time:.6g}: rank is lost there.",
            weak.weakest,
            weak.ratio,
        )

    def _look_within(self, dense: DenseOutput, start: float, stop: float) -> float | None:
        """Record near rank loss within a step, and at its end; or give the time of a barrier before it."""
        samples = [pair for pair in self.ratios if start <= pair[0] <= stop]
        self.ratios = [pair for pair in self.ratios if pair[0] >= stop]

        def at(time: float) -> _Conditions:
            return self.conditions(dense(time))

        def goal(time: float) -> Tensor:
            return self.objective.gradient(self.map.outputs(self._tensor(dense(time))).detach())

        barrier = self.watch.look_within(samples, lambda time: at(time).ratio, at, goal)
        if barrier is None:
            self.watch.look(stop, at(stop))
        return barrier

    def _kink(self, dense: DenseOutput, start: float, stop: float) -> float | None:
        """The time of the first kink in a step, or a little behind it, where the margin is below 0."""

        def margin(time: float) -> float:
            return self._margin(time, dense(time))[0]

        if not margin(stop) < 0:
            return None
        time = float(brentq(margin, start, stop, xtol=1e-14, rtol=1e-13))
        after = max(abs(time), 1.0) * 1e-14
        while margin(time) >= 0:
            time, after = min(time + after, stop), 2 * after
        return time

    def _margin(self, time: float, state: np.ndarray) -> tuple[float, int, bool]:
        """How far the nearest kink or limit of a slope is, which (flat index or place), and if it slides."""
        inputs = self.inputs(state)
        free = (2 * self.slopes.values - 1) * inputs / self.scale + self.slack
        free[self._index] = np.inf
        nearest = int(free.argmin())
        margin = float(free.flatten()[nearest])
        best = (margin, nearest, False)
        if self.kinks:
            slopes = self.velocity(time, state).slopes
            room = torch.minimum(slopes, 1 - slopes) + self._close
            k = int(room.argmin())
            if float(room[k]) < margin:
                best = (float(room[k]), k, True)
        return best

    def _switch(self, which: int, slides: bool) -> None:
        """Leave a kink, or cross one, or begin to slide along it."""
        state = self.state
        if slides:
            slope = float(self.velocity(self.time, state).slopes[which])
            example, unit = self.kinks.pop(which)
            after = 1.0 if slope > 0.5 else 0.0
            self.slopes.values[example, unit] = after
            # It was held where it was found, on either side of 0: from there it must move this much on.
            off = float(self.inputs(state)[example, unit].abs())
            self.slack[example, unit] = self._close + off / self.scale
            self._record(example, unit, None, after)
            return
        example, unit = divmod(which, self.slopes.values.shape[1])
        before = float(self.slopes.values[example, unit])
        self.slopes.values[example, unit] = 1 - before
        if self._speed(state, example, unit) * (1 - 2 * before) > 0:  # goes on beyond the kink
            self._record(example, unit, before, 1 - before)
            return
        self.slopes.values[example, unit] = 0.0
        self.kinks.append((example, unit))
        self._record(example, unit, before, None)

    def _speed(self, state: np.ndarray, example: int, unit: int) -> float:
        """The rate of a rectifier's input with the present slopes."""
        velocity = self.velocity(self.time, state).theta
        with Rectifiers(self.slopes.split()) as record:
            graph = self.map.graph(self._tensor(state))
        with torch.enable_grad():
            value = torch.cat([z.flatten(1) for z in record.inputs], 1)[example, unit]
        parts = torch.autograd.grad(value, graph.leaves, allow_unused=True, materialize_grads=True)
        return float(torch.cat([part.flatten() for part in parts]) @ velocity)

    def _record(self, example: int, unit: int, before: float | None, after: float | None) -> None:
        layer, column = self.slopes.name(unit)
        self.events.append(KinkEvent(self.time, layer, column, example, before, after))

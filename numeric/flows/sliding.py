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

from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.integrate import DOP853, DenseOutput
from scipy.optimize import brentq, minimize_scalar
from torch import Tensor

from numeric.flows.costs import Objective, require_end, require_precision
from numeric.flows.curve import Curve
from numeric.flows.integration import RTOL, run_to_end
from numeric.flows.kinks import require_rectified
from numeric.flows.output_map import output_map
from numeric.flows.ranges import Unsolved, for_dtype
from numeric.flows.rank_events import RankEvent, RankWatch
from numeric.flows.sliding_field import CLOSE, Conditions, SlidingField
from numeric.flows.trajectory import Trajectory
from numeric.inputs import ArrayLike, as_numbers, positive, whole
from numeric.models import Model, ModelLike
from numeric.models.memory import GIGABYTE
from numeric.runs.store import Checkpoint, checkpoint, fingerprint

__all__ = ["KinkEvent", "SlidingFlow", "first_sign_change", "slide"]

EVENTS = 5_000
SAMPLES = 8  # of each step, where kinks are looked for
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
        field = SlidingField(map, objective)
        run = _SlidingIntegration(field, end, tolerance, most)
        require_precision(tolerance, field.start)
        choices = (map.structure, end, tolerance, most)
        tensors = (map.pack(map.run.leaves), x, objective.labels, field.start)
        file = checkpoint(store, fingerprint("slide", *choices, *tensors), SETTINGS, key)
        run_to_end(run, end, file, progress)
    return SlidingFlow(
        Curve(model, x.detach(), map.shapes, run.trajectory), objective, field.start,
        tuple(run.events), tuple(run.watch.events), tuple(run.sliding_counts), field.evaluations, run.stopped,
    )  # fmt: skip


class _SlidingIntegration:
    """Smooth pieces between kinks, by SciPy's steps, and what happens at each kink."""

    def __init__(self, field: SlidingField, end: float, tolerance: float, most: int) -> None:
        self.field, self.end, self.tolerance, self.most = field, end, tolerance, most
        self._close = for_dtype(CLOSE, field.start.dtype)
        self.slack = torch.full_like(
            field.slopes.values, self._close
        )  # beyond 0: crossed from here on
        self.time, self._state = 0.0, field.initial
        self.trajectory, self.events = Trajectory(), list[KinkEvent]()
        self.sliding_counts: list[int] = []  # how many kinks hold the flow after each step
        shape = (len(field.start), field.start.shape[1])
        self.watch = RankWatch(shape, field.start.dtype, field.dependent)
        self.stopped: str | None = None
        self._solver: DOP853 | None = None
        self._step: float | None = None

    def resume(self, file: Checkpoint) -> None:
        """Continue from a checkpoint, if there is one."""
        state = self.trajectory.resume(file, len(self._state))
        if state is None:
            return
        self._state, self.time = self.trajectory.end, float(self.trajectory.times[-1])
        self.field.slopes.values.copy_(state["slopes"])
        self.slack.copy_(state["slack"])
        self.field.kinks = [(example, unit) for example, unit in state["kinks"]]
        self.events = [KinkEvent(*event) for event in state["events"]]
        self.sliding_counts, self.field.evaluations = state["held"], state["evaluations"]
        self._step = state["step"]
        self.watch.resume(state["ranks"], self.field.start.device)

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {
            "steps": self.trajectory.on_disk(),
            "slopes": self.field.slopes.values,
            "slack": self.slack,
            "kinks": self.field.kinks,
            "events": [astuple(event) for event in self.events],
            "held": self.sliding_counts,
            "evaluations": self.field.evaluations,
            "step": self._step,
            "ranks": self.watch.state(),
        }

    def advance(self) -> bool:
        """One step, or a part of one up to its first kink; False at the end, or where the flow stops."""
        if self.time >= self.end or self.stopped is not None:
            return False
        if len(self.trajectory) >= self.most or len(self.events) >= EVENTS:
            count = f"{len(self.trajectory)} steps and {len(self.events)} kinks"
            self.stopped = f"{count} up to {self.time:.6g}"
            return False
        try:
            self._advance()
        except Unsolved as reason:
            self.stopped = self._stop(reason)
        return self.stopped is None

    def _advance(self) -> None:
        """A step, or a part of one; or one more switch at the same time."""
        if self._solver is None:
            margin = self._margin(self.time, self._state)
            if margin[0] < 0:
                self._switch(*margin[1:])
                return
            atol = self.tolerance / np.sqrt(len(self._state)) / self.field.norm
            first = None if self._step is None else min(self._step, self.end - self.time)
            if not len(self.trajectory):
                self.watch.look(self.time, self.field.conditions(self._state))
            self._solver = DOP853(
                self.field, self.time, self._state, self.end, rtol=RTOL, atol=atol, first_step=first
            )
            if self.field.unsolved is not None and not np.isfinite(self._solver.f).all():
                raise self.field.unsolved
        solver, before = self._solver, self.time
        with np.errstate(all="ignore"):  # stages that go too far
            solver.step()
        if solver.status == "failed":
            raise self.field.unsolved or self._too_short(before, solver.y)
        dense, stop = solver.dense_output(), float(solver.t)
        kink = self._kink(dense, before, stop)
        barrier = self._look_within(dense, before, stop if kink is None else kink)
        self._step = float(solver.h_abs)
        if barrier is not None:
            stop, self._solver = barrier, None
        elif kink is not None:
            stop, self._solver, self._step = kink, None, max(self._step, 1e-6)
        self.time, self._state = stop, solver.y if self._solver is solver else dense(stop)
        self.trajectory.append(dense, before, stop, self._state)
        self.sliding_counts.append(len(self.field.kinks))

    def _stop(self, reason: Unsolved) -> str:
        """Say why there is no velocity, and in which direction; at the start there is no flow to stop."""
        if not len(self.trajectory):
            raise reason
        if reason.direction is None:
            return str(reason)
        rank = self.field.start.numel() + len(self.field.kinks)
        event = self.watch.record(self.time, rank, rank - 1, reason.direction[None], reason.ratio)
        return f"{reason} This was {event}"

    def _too_short(self, time: float, state: np.ndarray) -> Unsolved:
        weak = self.field.conditions(state)
        ratio = weak.ratio if weak.rank > 1 else float(weak.factor.abs()) / self.field.norm
        why = f"No step is short enough at t = {time:.6g}: rank is lost there."
        return Unsolved(why, weak.weakest, ratio)

    def _look_within(self, dense: DenseOutput, start: float, stop: float) -> float | None:
        """Record near rank loss within a step, and at its end; or give the time of a barrier before it."""
        field = self.field
        samples = [pair for pair in field.ratios if start <= pair[0] <= stop]
        field.ratios = [pair for pair in field.ratios if pair[0] >= stop]

        def at(time: float) -> Conditions:
            return field.conditions(dense(time))

        def goal(time: float) -> Tensor:
            return field.objective.gradient(field.map.outputs(field.theta(dense(time))).detach())

        barrier = self.watch.look_within(samples, lambda time: at(time).ratio, at, goal)
        if barrier is None:
            self.watch.look(stop, at(stop))
        return barrier

    def _kink(self, dense: DenseOutput, start: float, stop: float) -> float | None:
        """The time of the first kink in a step, or a little behind it, where the margin is below 0."""

        def margin(time: float) -> float:
            return self._margin(time, dense(time))[0]

        bracket = first_sign_change(margin, start, stop)
        if bracket is None:
            return None
        before, behind = bracket
        time = float(brentq(margin, before, behind, xtol=1e-14, rtol=1e-13))
        after = max(abs(time), 1.0) * 1e-14
        while margin(time) >= 0:
            time, after = min(time + after, behind), 2 * after
        return time

    def _margin(self, time: float, state: np.ndarray) -> tuple[float, int, bool]:
        """How far the nearest kink or limit of a slope is, its index, and whether the flow slides on it.

        The index is flat of (example, unit), or a place in `field.kinks` if the flow slides.
        """
        field = self.field
        inputs = field.inputs(state)
        free = (2 * field.slopes.values - 1) * inputs / field.scale + self.slack
        free[field.index] = np.inf
        nearest = int(free.argmin())
        margin = float(free.flatten()[nearest])
        best = (margin, nearest, False)
        if field.kinks:
            slopes = field.velocity(time, state).slopes
            room = torch.minimum(slopes, 1 - slopes) + self._close
            k = int(room.argmin())
            if float(room[k]) < margin:
                best = (float(room[k]), k, True)
        return best

    def _switch(self, which: int, slides: bool) -> None:
        """Leave a kink, or cross one, or begin to slide along it."""
        field, state = self.field, self._state
        if slides:
            slope = float(field.velocity(self.time, state).slopes[which])
            example, unit = field.kinks.pop(which)
            after = 1.0 if slope > 0.5 else 0.0
            field.slopes.values[example, unit] = after
            # It was held where it was found, on either side of 0: from there it must move this much on.
            off = float(field.inputs(state)[example, unit].abs())
            self.slack[example, unit] = self._close + off / field.scale
            self._record(example, unit, None, after)
            return
        example, unit = divmod(which, field.slopes.values.shape[1])
        before = float(field.slopes.values[example, unit])
        field.slopes.values[example, unit] = 1 - before
        rate = field.input_rate(self.time, state, example, unit)
        if rate * (1 - 2 * before) > 0:  # goes on beyond the kink
            self._record(example, unit, before, 1 - before)
            return
        field.slopes.values[example, unit] = 0.0
        field.kinks.append((example, unit))
        self._record(example, unit, before, None)

    def _record(self, example: int, unit: int, before: float | None, after: float | None) -> None:
        layer, column = self.field.slopes.name(unit)
        self.events.append(KinkEvent(self.time, layer, column, example, before, after))


def first_sign_change(
    margin: Callable[[float], float], start: float, stop: float
) -> tuple[float, float] | None:
    """Times before and behind the first kink in a step, or None; a kink may be crossed to and fro within it.

    The margin is sampled, and where it may fall below 0 between samples its minimum is looked for.
    """
    times, values = np.linspace(start, stop, SAMPLES + 1).tolist(), list[float]()
    for k, time in enumerate(times):
        values.append(margin(time))
        if k and values[k] < 0:
            return times[k - 1], time
        if k < 2:
            continue
        left, middle, right = values[k - 2 :]
        if middle < min(left, right) and middle < max(left, right) - middle:
            least = minimize_scalar(
                margin, bounds=(times[k - 2], time), method="bounded", options={"maxiter": 12}
            )
            if least.fun < 0:
                return times[k - 2], float(least.x)
    return None

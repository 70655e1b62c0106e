r"""The flow of ReLU networks at alpha = 1, which slides along the kinks: its two limits, and what each gives.

A rectifier's input z at one example is a function of the parameters, and D jumps where z = 0:
$D_+ - D_- = j\,\nabla z^T$, j the change of all outputs with that rectifier's output. Where the velocities on
both sides point towards z = 0, a trajectory stays there. What it does then the equation does not decide:

* **Smooth activations that tend to ReLU** keep outputs on the straight line. The rectifier has a slope
  $\lambda \in [0, 1]$ there, and the velocity is that of least norm among those with $D\theta' = x'$ and
  $\nabla z\,\theta' = 0$: with $B = [D_0; A]$, rows of D at slope 0 and of all sliding $\nabla z$,
  $\theta' = B^+ (x', 0)$; and $\lambda = \eta / \delta$, from $(\psi, \eta) = (B B^T)^{-1}(x', 0)$ and the
  signal $\delta$ that comes back to the rectifier. It leaves where $\lambda$ reaches 0
  or 1. `slide` integrates this. Each sliding kink costs one parameter: rank is lost only when $K < QN + m$.
* **Short explicit steps** cross the kink to and fro, and tend to Filippov's average of the two velocities.
  A rectifier is convex: each crossing adds $j |z|$ to the outputs, z its input after the step, whatever the
  direction. For one kink, approached at speeds $v_-$ and $v_+$ from either side, that is the rate
  $j\, v_- v_+ / (v_- + v_+)$, which does not vanish with the steps: outputs leave the straight line,
  $d' = -d/(1-t) + \sum_k j_k c_k$. `euler` makes such steps, and sums these terms beside them.

Of several kinks at once the first limit is as determined as of one: all of them are held, with a slope each.
The second is not, since of four velocities or more many averages may stay on all kinks: `euler` says what its
steps do, by the same sum.

So a user of ReLU gets straight lines from the first, a deviation with a finite limit from the second; and
`integrate`, whose steps would shrink without end, refuses.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.integrate import DOP853, DenseOutput
from scipy.optimize import brentq
from torch import Tensor

from numeric.flows.costs import (
    Clock,
    Objective,
    require_consistent_labels,
    require_end,
    require_objective,
)
from numeric.flows.integration import RTOL
from numeric.flows.kinks import Rectifiers, Slopes, kinked_functions
from numeric.flows.output_map import OutputMap, output_map, require_enough_parameters
from numeric.flows.ranges import factorisations
from numeric.flows.trajectory import Trajectory
from numeric.inputs import ArrayLike, InputError, as_numbers, between, positive, whole
from numeric.models import Model, ModelLike
from numeric.models.memory import GIGABYTE
from numeric.progress import progress_bar
from numeric.runs.store import Checkpoint, checkpoint, fingerprint

__all__ = ["EulerFlow", "KinkEvent", "SlidingFlow", "euler", "slide"]

CLOSE = 1e-9  # times the largest input of a rectifier: from here on it counts as on the other side
DEPENDENT = 1e-10  # of the largest row of D and sliding kinks, orthogonal to the others
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

    model: Model
    x: Tensor = field(repr=False)
    objective: Objective = field(repr=False)
    start: Tensor = field(repr=False)  # (N, Q)
    names: dict[str, torch.Size] = field(repr=False)
    trajectory: Trajectory = field(repr=False)
    events: tuple[KinkEvent, ...] = field(repr=False)
    sliding: tuple[int, ...] = field(repr=False)  # how many kinks hold the flow after each step
    evaluations: int
    stopped: str | None

    @property
    def times(self) -> Tensor:
        """(steps + 1,), on the host."""
        return torch.as_tensor(self.trajectory.times, device="cpu")

    @property
    def end(self) -> float:
        return float(self.trajectory.times[-1])

    def parameters(self, t: float) -> dict[str, Tensor]:
        """The parameters at a time, by name."""
        theta = self.trajectory.at(between("t", t, 0.0, self.end))
        sizes = [shape.numel() for shape in self.names.values()]
        parts = torch.from_numpy(theta).to(self.x.device, self.x.dtype).split(sizes)
        return {n: part.view(shape) for (n, shape), part in zip(self.names.items(), parts)}

    def outputs(self, t: float, x: ArrayLike | None = None) -> Tensor:
        """The outputs at a time, (N, Q), or (n, Q) at other points."""
        points = self.x if x is None else as_numbers("x", x)
        with self.model.on(points):
            return self.model.functional_call(self.parameters(t), points.clone()).flatten(1)

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
    whose kink was crossed, held or left, with its time.
    Refused are models without rectifiers or with other kinks, what `integrate` refuses, and flows that come
    to where outputs and sliding kinks do not move independently, or are more than the parameters.

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
        run = _Slide(map, _require_rectified(map, y, model), end, tolerance)
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
                    run.advance()
                    bar.update(run.time - bar.n)
                    file.write_when_due(run.checkpoint)
            finally:
                if len(run.trajectory) and file.path is not None:
                    file.write(run.checkpoint())
    return SlidingFlow(
        model, x.detach(), run.objective, run.start, map.shapes, run.trajectory, tuple(run.events),
        tuple(run.held), run.evaluations, stopped,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Velocity:
    theta: Tensor  # (K,)
    slopes: Tensor  # (m,), lambda of the sliding kinks


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
        self.slack = torch.full_like(
            self.slopes.values, CLOSE
        )  # how far beyond 0 counts as crossed
        self.kinks: list[tuple[int, int]] = []  # sliding ones, (example, unit)
        self.state = theta.double().cpu().numpy()
        self.time, self.evaluations = 0.0, 0
        self.trajectory, self.events, self.held = Trajectory(), [], []
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
        with Rectifiers(self.slopes.split()) as record:
            graph = self.map.graph(self._tensor(state))
        outputs = graph.outputs.detach()
        with torch.enable_grad():
            inputs = torch.cat([z.flatten(1) for z in record.inputs], 1)
            rows, columns = self._index
            values = torch.cat([graph.outputs.flatten(), inputs[rows, columns]])
        eye = torch.eye(len(values), device=values.device, dtype=values.dtype)
        parts = torch.autograd.grad(
            values, graph.leaves, eye, retain_graph=True, is_grads_batched=True,
            allow_unused=True, materialize_grads=True,
        )  # fmt: skip
        jacobian = torch.cat([part.flatten(1) for part in parts], 1)  # (QN + m, K)
        self._require_freedom(time, len(values), jacobian.shape[1])
        goal = -self.objective.gradient(outputs).flatten() * self.clock.speed(time)
        goal = torch.cat([goal, goal.new_zeros(len(self.kinks))])
        q, r = torch.linalg.qr(jacobian.T)
        self._require_rank(time, r)
        half = torch.linalg.solve_triangular(r.T, goal[:, None], upper=False)
        theta = (q @ half)[:, 0]
        if not self.kinks:
            return _Velocity(theta, theta.new_zeros(0))
        signals = torch.linalg.solve_triangular(r, half, upper=True)[:, 0]  # psi, eta
        back = torch.autograd.grad(
            values, record.outputs, signals, allow_unused=True, materialize_grads=True
        )
        arriving = torch.cat([part.flatten(1) for part in back], 1)[rows, columns]
        return _Velocity(theta, signals[outputs.numel() :] / arriving)

    def _require_freedom(self, time: float, conditions: int, parameters: int) -> None:
        if conditions > parameters:
            held = len(self.kinks)
            raise InputError(
                f"At t = {time:.6g} the flow slides on {held} kinks at once, which with {conditions - held} "
                f"outputs are more conditions than the {parameters} parameters: add units, or end before."
            )

    def _require_rank(self, time: float, r: Tensor) -> None:
        """Refuse outputs and sliding kinks of which one is determined by the others."""
        sizes = r.diagonal().abs()
        if bool(sizes.min() < DEPENDENT * sizes.max()):
            raise InputError(
                f"At t = {time:.6g} outputs and the {len(self.kinks)} kinks on which the flow slides do not "
                "move independently (rank is lost): change the start, add units, or end before."
            )

    @property
    def _index(self) -> tuple[Tensor, Tensor]:
        pairs = torch.tensor(self.kinks, dtype=torch.long, device=self.start.device).view(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def field(self, time: float, state: np.ndarray) -> np.ndarray:
        return self.velocity(time, state).theta.double().cpu().numpy()

    def advance(self) -> None:
        """One step, or a part of one up to the first kink in it; or one more switch at the same time."""
        if self._solver is None:
            if self._margin(self.time, self.state)[0] < 0:
                self._switch(self.state)
                return
            atol = self.tolerance / np.sqrt(len(self.state)) / self.norm
            first = None if self._step is None else min(self._step, self.end - self.time)
            self._solver = DOP853(
                self.field, self.time, self.state, self.end, rtol=RTOL, atol=atol, first_step=first
            )
        solver, before = self._solver, self.time
        solver.step()
        if solver.status == "failed":
            raise InputError(f"No step is short enough at t = {before:.6g}: rank is lost there.")
        dense, stop, state = solver.dense_output(), float(solver.t), solver.y
        margin = self._margin(stop, state)
        if margin[0] < 0:
            stop = brentq(
                lambda t: self._margin(t, dense(t))[0], before, stop, xtol=1e-14, rtol=1e-13
            )
            stop, state = self._beyond(dense, stop, float(solver.t))
        self.trajectory.append(dense, before, stop, state)
        self.time, self.state, self._step = float(stop), state, float(solver.h_abs)
        if margin[0] < 0:
            self._step = max(self._step, 1e-6)
            self._solver = None
            self._switch(state)
        self.held.append(len(self.kinks))

    def _beyond(self, dense: DenseOutput, root: float, limit: float) -> tuple[float, np.ndarray]:
        """The root, or a little behind it, where the margin is not above 0."""
        step = max(abs(root), 1.0) * 1e-14
        while self._margin(root, dense(root))[0] > 0 and root + step < limit:
            root, step = root + step, 2 * step
        return root, dense(root)

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
            room = torch.minimum(slopes, 1 - slopes) + CLOSE
            k = int(room.argmin())
            if float(room[k]) < margin:
                best = (float(room[k]), k, True)
        return best

    def _switch(self, state: np.ndarray) -> None:
        """Leave a kink, or cross one, or begin to slide along it."""
        _, which, slides = self._margin(self.time, state)
        inputs = self.inputs(state)
        if slides:
            slope = float(self.velocity(self.time, state).slopes[which])
            example, unit = self.kinks.pop(which)
            after = 1.0 if slope > 0.5 else 0.0
            self.slopes.values[example, unit] = after
            # It was held where it was found, on either side of 0: from there it must move this much on.
            self.slack[example, unit] = CLOSE + inputs[example, unit].abs() / self.scale
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


@dataclass(frozen=True, eq=False)
class EulerFlow:
    """Explicit steps along the alpha = 1 velocity of a ReLU network, and what its kinks add to outputs."""

    times: Tensor  # (steps + 1,), on the host
    outputs: Tensor = field(repr=False)  # (steps + 1, N, Q)
    deviations: Tensor = field(repr=False)  # (steps + 1, N, Q), from the straight line
    predicted: Tensor = field(repr=False)  # (steps + 1, N, Q), from the crossed kinks alone
    crossings: int  # of kinks
    reversed: int  # crossings that the next step undoes
    pushes: Tensor = field(repr=False)  # (N, U), the total length that each kink added to outputs
    sizes: list[int] = field(repr=False)

    def largest(self, count: int = 5) -> list[tuple[int, int, int, float]]:
        """The kinks that add most: (layer, unit, example, length)."""
        order = torch.argsort(self.pushes.flatten(), descending=True)[:count].tolist()
        slopes = Slopes(self.pushes, self.sizes)
        pairs = [divmod(k, self.pushes.shape[1]) for k in order]
        return [
            (*slopes.name(unit), example, float(self.pushes[example, unit]))
            for example, unit in pairs
        ]


def euler(
    model: ModelLike,
    x: ArrayLike,
    y: ArrayLike,
    *,
    until: float = 0.9,
    steps: int = 1_000,
    memory: int = 2 * GIGABYTE,
    progress: bool = True,
) -> EulerFlow:
    r"""Equal explicit steps of the alpha = 1 flow of a ReLU network for the cost |x - y|^2 / (2 N).

    $$\theta_{n+1} = \theta_n - \frac{h}{1 - t_n} D^+ (x - y), \qquad
      d_{n+1} = \frac{1 - t_{n+1}}{1 - t_n} d_n + \sum_k j_k |z_k|$$

    model, x, y: as in `slide`; until: the last t; steps: how many.
    Returned is an EulerFlow: deviations from the straight line and their prediction d, summed over the kinks
    k that each step crosses, of inputs $z_k$ after it. Deviations do not vanish with the steps.
    Refused are what `slide` refuses, and steps at which D has no full rank.

    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <...>
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1)).double()
    >>> x, y = torch.randn(5, 2).double(), torch.randn(5, 1).double()
    >>> run = euler(net, x, y, until=0.5, steps=100, progress=False)
    >>> run.outputs.shape, run.crossings > run.reversed
    (torch.Size([101, 5, 1]), True)
    """
    end, _ = require_end(until, None)
    count = whole("steps", steps)
    model, x = Model.of(model), as_numbers("x", x)
    with output_map(model, x, memory) as map:
        objective = _require_rectified(map, y, model)
        theta = map.pack(map.run.leaves)
        ranges = factorisations(map, 1e-7, 1e-8)
        step = end / count
        outputs, predicted = [], [torch.zeros_like(objective.labels)]
        before, flipped, crossings, undone = None, None, 0, 0
        pushes, sizes = theta.new_zeros(0), []
        for n in progress_bar(range(count + 1), of="steps", show=progress):
            with Rectifiers() as record:
                graph = map.graph(theta)
            inputs = torch.cat([z.detach().flatten(1) for z in record.inputs], 1)
            outputs.append(graph.outputs.detach())
            if before is not None:
                signs, pulls = before
                now = (inputs > 0) != signs
                moved = pulls * torch.where(now, inputs.abs(), 0)  # (Q, N, U)
                shrink = (1 - n * step) / (1 - (n - 1) * step)
                predicted.append(shrink * predicted[-1] + moved.sum(2).T)
                pushes += torch.linalg.vector_norm(moved, dim=0)
                crossings += int(now.sum())
                undone += int((now & flipped).sum()) if flipped is not None else 0
                flipped = now
            else:
                pushes, sizes = (
                    torch.zeros_like(inputs),
                    [z.flatten(1).shape[1] for z in record.inputs],
                )
            before = inputs > 0, _pulls(graph.outputs, record.outputs)
            D_range = ranges.at(theta, graph)
            if D_range.rank < map.count:
                raise InputError(
                    f"D has rank {D_range.rank} at t = {n * step:.6g}, not {map.count}: add parameters, or "
                    "take other ones at the start."
                )
            residual = (outputs[-1] - objective.labels).flatten()
            theta = theta - step / (1 - n * step) * D_range.lift(residual)
    times = step * torch.arange(count + 1, dtype=torch.float64, device="cpu")
    path = torch.stack(outputs)
    shares = (1 - times).to(path)[:, None, None]
    line = objective.labels + shares * (path[0] - objective.labels)
    return EulerFlow(
        times, path, path - line, torch.stack(predicted), crossings, undone, pushes, sizes
    )


def _pulls(outputs: Tensor, rectified: list[Tensor]) -> Tensor:
    """The derivatives of each output by each rectifier's output, (Q, N, U)."""
    q = outputs.shape[1]
    eye = torch.eye(q, device=outputs.device, dtype=outputs.dtype)[:, None].expand(
        q, *outputs.shape
    )
    parts = torch.autograd.grad(
        outputs, rectified, eye, retain_graph=True, is_grads_batched=True, allow_unused=True,
        materialize_grads=True,
    )  # fmt: skip
    return torch.cat([part.flatten(2) for part in parts], 2)


def _require_rectified(map: OutputMap, y: ArrayLike, model: Model) -> Objective:
    theta = map.pack(map.run.leaves)
    objective = require_objective(None, y, map.outputs(theta).detach(), model)
    require_consistent_labels(map.run.points, objective.labels)
    require_enough_parameters(map)
    rectifiers, others = kinked_functions(map, theta)
    if others or not rectifiers:
        defect = f"kinks by {', '.join(others)}" if others else "no rectifiers"
        raise InputError(
            f"The model has {defect}, but a network of rectifiers (ReLU) and smooth functions is needed: for "
            "smooth models take flows.integrate."
        )
    return objective

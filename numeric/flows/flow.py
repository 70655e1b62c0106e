r"""The flow $\partial_s\theta = -(\alpha (D^T D)^+ + (1-\alpha)) \nabla_\theta C$ of any model, integrated.

Equations are those of `output-space-flow`, with the cost (2.48) by default. Both terms lie in the range
of $D^T$: $\partial_s\theta = -\alpha D^+ g - (1-\alpha) D^T g$ with $g = \nabla_x C$, so that all work is in
output space. At alpha = 1, while D has full rank QN, outputs move on straight lines to the labels,
$x(t) = y + (1-t)(x_0 - y)$ (2.57). Where directions are lost they leave them by

$$\int_0^t V_{t,t'} P^\perp_{t'} (x_0 - y)\, dt', \qquad \partial_t V_{t,t'} = -\frac{P_t}{1-t} V_{t,t'},$$

the contractive form of (2.59) and (2.60), integrated beside the parameters from the projections alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from scipy.integrate import DOP853, OdeSolver, solve_ivp
from torch import Tensor

from numeric.flows.costs import (
    Clock,
    Cost,
    Objective,
    require_consistent_labels,
    require_end,
    require_objective,
    require_precision,
)
from numeric.flows.curve import Curve
from numeric.flows.field import Field
from numeric.flows.integration import Integration, require_method, run_to_end
from numeric.flows.kinks import require_smooth
from numeric.flows.output_map import OutputMap, output_map, require_enough_parameters
from numeric.flows.ranges import Factorisations, Range, factorisations, require_rcond
from numeric.flows.rank_events import RankEvent
from numeric.inputs import (
    ArrayLike,
    InputError,
    as_numbers,
    between,
    positive,
    require_instance,
    whole,
)
from numeric.models import Model, ModelLike
from numeric.models.memory import GIGABYTE
from numeric.runs.store import checkpoint, fingerprint
from numeric.tangents.factored import Gradients

__all__ = ["Flow", "integrate"]

KERNELS = 2  # of the size of a kernel that its computation holds at once
SETTINGS = "another model, data, alpha, cost, tolerance, method, end, rcond, device, torch or `key`"


@dataclass(frozen=True, eq=False)
class Flow:
    """An integrated flow; times are t in [0, 1), or s if it was integrated with a `duration`.

    Every method takes one time and gives tensors on the device of the inputs. `times` are those of the steps.
    """

    curve: Curve
    objective: Objective = field(repr=False)
    alpha: float
    clock: Clock
    tolerance: float
    rcond: float
    memory: int
    start: Tensor = field(repr=False)  # (N, Q), outputs
    events: tuple[RankEvent, ...]  # of rank; none at alpha = 0, which needs none
    counts: Tensor = field(
        repr=False
    )  # (steps + 1,), evaluations of the field until each of `times`, on the host
    seconds: Tensor = field(
        repr=False
    )  # (steps + 1,), CPU time spent until each of `times`, on the host
    stopped: str | None  # why the end was not reached

    @property
    def model(self) -> Model:
        return self.curve.model

    @property
    def x(self) -> Tensor:
        """The training points, (N, ...)."""
        return self.curve.x

    @property
    def times(self) -> Tensor:
        """(steps + 1,), on the host."""
        return self.curve.times

    @property
    def end(self) -> float:
        """The last time."""
        return self.curve.end

    @property
    def evaluations(self) -> int:
        """How often the field was evaluated, in all."""
        return int(self.counts[-1])

    def parameters(self, t: float) -> dict[str, Tensor]:
        """The parameters at a time, by name."""
        return self.curve.parameters(t)

    def outputs(self, t: float, x: ArrayLike | None = None) -> Tensor:
        """The outputs at a time, (N, Q), or (n, Q) at other points x (n, ...), which move along."""
        return self.curve.outputs(t, x)

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
            state = torch.from_numpy(outputs).to(self.start).view_as(self.start)
            return -self.objective.gradient(state).double().cpu().numpy().ravel()

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
        return self.curve.state(t)[-self.start.numel() :].view_as(self.start)

    def kernel(
        self, t: float, x: ArrayLike | None = None, other: ArrayLike | None = None
    ) -> Tensor:
        r"""$K_\alpha = \alpha K_1 + (1-\alpha)\Theta$ of points x (n, ...) and others (m, ...): (n, Q, m, Q).

        By default both are the training points X. Outputs move by $\partial_s f(x) = -K_\alpha(x, X) g$.
        $\Theta = D D^T$ is the tangent kernel, and $K_1 = \Theta(x, X)(\Theta(X, X)^+)^2\Theta(X, x')$: the
        projection P on the training points, and the identity where D has full rank (3.17).
        """
        q = self.start.shape[1]
        points = self.x if x is None else as_numbers("x", x)
        others = self.x if other is None else as_numbers("other", other)
        self._require_memory(len(points), len(others), len(self.x))
        parameters = self.parameters(t)
        with output_map(self.model, self.x, self.memory, parameters) as map:
            theta = map.pack(parameters)
            train = map.gradients(theta)
            rows = train if x is None else self._gradients(points, parameters)
            columns = train if other is None else self._gradients(others, parameters)
            kernel = (1 - self.alpha) * _matrix(rows.inner(columns))
            if self.alpha:
                range = self._factorisations(map).at(theta, map.graph(theta))

                def solved(side: Gradients) -> Tensor:
                    return range.solve(_matrix(train.inner(side)))

                if x is None and other is None:
                    adapted = range.project(
                        torch.eye(map.count, device=theta.device, dtype=theta.dtype)
                    )
                elif other is None:
                    adapted = solved(rows).T
                elif x is None:
                    adapted = solved(columns)
                else:
                    adapted = solved(rows).T @ solved(columns)
                kernel = kernel + self.alpha * adapted
        return kernel.reshape(len(points), q, len(others), q)

    def _gradients(self, points: Tensor, parameters: dict[str, Tensor]) -> Gradients:
        with output_map(self.model, points, self.memory, parameters) as map:
            return map.gradients(map.pack(parameters))

    def _require_memory(self, points: int, others: int, training: int) -> None:
        q = self.start.shape[1]
        size = KERNELS * self.start.element_size() * q**2 * points * max(others, training)
        if size > self.memory:
            raise InputError(
                f"The kernel of {points} points and {others} others, by {training} training points, takes "
                f"{size / 1e9:.2g} GB for {q} outputs, but memory = {self.memory / 1e9:.2g} GB was given: "
                "ask for fewer points at once, or give more memory."
            )

    def range(self, t: float) -> Range:
        """The range of D at a time: rank, lost directions, condition; by the factorisation of the flow."""
        parameters = self.parameters(t)
        with output_map(self.model, self.x, self.memory, parameters) as map:
            theta = map.pack(parameters)
            return self._factorisations(map).at(theta, map.graph(theta))

    def condition(self, t: float) -> float:
        """The condition number of D D^T, all directions counted: infinite where one is lost to rounding.

        It is a bound from above if `.range(t)` is certified, else an estimate from below.
        """
        return self.range(t).condition

    def _factorisations(self, map: OutputMap) -> Factorisations:
        return factorisations(map, self.rcond, self.tolerance)

    def _time(self, t: float) -> float:
        return between("t", t, 0.0, self.end)


def _matrix(products: Tensor) -> Tensor:
    """Inner products (n, Q, m, Q) -> (n Q, m Q)."""
    return products.flatten(2).flatten(0, 1)


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
    rcond: float | None = None,
    steps: int = 1_000,
    memory: int = 2 * GIGABYTE,
    store: str | Path | None = None,
    key: str = "",
    progress: bool = True,
) -> Flow:
    r"""The flow of a model's parameters under which its outputs tend to the labels.

    $$\partial_s\theta = -(\alpha (D^T D)^+ + (1-\alpha)) \nabla_\theta C, \qquad t = 1 - e^{-s/N}$$

    model: with trainable parameters, K numbers in all; it is left as it is.
    x, y: points (N, ...) and labels, (N, Q) like the outputs for the default cost.
    alpha: 0 is gradient flow; 1 the adapted flow, whose outputs move on straight lines to the labels.
    until: the last t, below 1. Or give a `duration`, the last s; all times are s then.
    cost: a function of outputs (N, Q) and labels; by default |x - y|^2 / (2 N).
    tolerance: how far, in Euclidean norm, one step may leave outputs.
    method: a Runge-Kutta step of SciPy, such as DOP853 or RK45.
    rank_deficient: accept more outputs QN than parameters K.
    rcond: directions with a singular value of D below rcond times the largest are lost; they stay so until
        it is above 10 rcond. None: 1e-7 in float64, 8e-4 in float32.
    steps: the most that are made; near rank loss parameters may run away, and steps become short.
    memory: a budget in bytes; where matrices (QN, QN) do not fit, conjugate gradients are used. Near rank
        loss D itself, (QN, K), is formed; the flow stops where it does not fit.
    store: a file for a checkpoint, from which the same call goes on, to the same bits; steps are
        appended to a second file beside it, with `.steps` at the end of its name.
    key: text that names whatever the checkpoint cannot compare; of the cost it compares labels, value and
        gradient at the start.

    Returned is a Flow: `.outputs(t)`, `.parameters(t)`, `.loss(t)`, `.kernel(t)`, `.deviation(t)`,
    `.condition(t)`; `.events` tells when directions of outputs were lost, nearly lost or regained, at ends
    of steps and, unless conjugate gradients are used, within them; `.stopped` why the end was not reached.
    Refused are alpha outside [0, 1], until = 1, more outputs than parameters, labels that do not fit, equal
    inputs with different labels, costs that are no function of outputs, dropout and batch normalisation in
    training mode (call model.eval() before), and other random layers; and kinked activations such as ReLU,
    for which D jumps: see `flows.slide`.

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
    tolerance = positive("tolerance", tolerance)
    require_instance("rank_deficient", rank_deficient, bool, "True")
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
        require_precision(tolerance, outputs)
        rcond = require_rcond(rcond, outputs.dtype)
        if alpha and not rank_deficient:
            require_enough_parameters(map)
        clock = Clock(len(outputs), in_s)
        run = Integration(
            Field(map, factorisations(map, rcond, tolerance), objective, clock, alpha, outputs),
            method,
            end,
            tolerance,
            most,
        )
        choices = (
            map.structure,
            alpha,
            end,
            in_s,
            tolerance,
            rcond,
            most,
            method.__name__,
            memory,
        )
        tensors = (theta, x, outputs, *objective.identity(outputs))
        file = checkpoint(store, fingerprint("flow", *choices, *tensors), SETTINGS, key)
        run_to_end(run, end, file, progress)
    curve = Curve(model, x.detach(), map.shapes, run.trajectory)
    return Flow(
        curve, objective, alpha, clock, tolerance, rcond, memory, outputs, tuple(run.watch.events),
        torch.tensor(run.counts, device="cpu"),
        torch.tensor(run.seconds, dtype=torch.float64, device="cpu"), run.stopped,
    )  # fmt: skip

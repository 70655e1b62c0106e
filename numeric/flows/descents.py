r"""Neighbours of the flow on the same problem: discrete steps in its direction, with losses against CPU time.

All directions are $-D^T w$, from systems in output space. With the curvature F of the cost there, blocks
(Q, Q) for each example, $(D^T F D + \mu) D^T w = D^T g$ for every w with $(F G + \mu) w = g$.

| rule | direction |
|---|---|
| `GradientDescent` | w = g: Euler steps of the alpha = 0 flow |
| `GaussNewton` | w = G^+ (x - y), with a line search: steps of the alpha = 1 flow |
| `LevenbergMarquardt` | (F G + mu) w = g, mu falls when the cost does and rises when not |
| `NaturalGradient` | the same with Fisher's matrix and fixed mu; Gaussian outputs: Gauss-Newton |
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from numeric.flows.costs import Cost, Objective, require_consistent_labels, require_objective
from numeric.flows.output_map import OutputMap, output_map
from numeric.flows.ranges import factorisations, require_rcond
from numeric.inputs import ArrayLike, InputError, as_numbers, positive, require_seed, shown, whole
from numeric.models import Model, ModelLike
from numeric.models.memory import GIGABYTE
from numeric.progress import progress_bar
from numeric.runs.store import checkpoint, fingerprint

__all__ = [
    "Descent", "GaussNewton", "GradientDescent", "LevenbergMarquardt", "NaturalGradient", "descend",
    "gaussian_fisher", "softmax_fisher",
]  # fmt: skip

SETTINGS = "another model, data, cost, rule, steps, batch size, seed, device, torch or `key`"
HALVINGS = 30  # of a line search
SUFFICIENT = 1e-4  # share of the predicted decrease that a step must reach
Fisher = Callable[[Tensor], Tensor]  # outputs (N, Q) -> (N, Q, Q)


def gaussian_fisher(outputs: Tensor) -> Tensor:
    """Fisher's matrix of outputs that are means of unit variance: I / N, as the cost is a mean over N.

    outputs: (N, Q). Returned are N blocks (N, Q, Q), those of `LevenbergMarquardt` and `NaturalGradient`.

    >>> gaussian_fisher(torch.zeros(2, 1)).flatten()
    tensor([0.5000, 0.5000])
    """
    n, q = outputs.shape
    return torch.eye(q, device=outputs.device, dtype=outputs.dtype).expand(n, q, q) / n


def softmax_fisher(outputs: Tensor) -> Tensor:
    """Fisher's matrix of outputs that are logits of classes: (diag(p) - p p^T) / N, where p is their softmax.

    outputs: (N, Q). Returned are N blocks (N, Q, Q), for the cost of a mean cross entropy.

    >>> softmax_fisher(torch.zeros(1, 2))
    tensor([[[ 0.2500, -0.2500],
             [-0.2500,  0.2500]]])
    """
    p = outputs.softmax(1)
    return (torch.diag_embed(p) - p[:, :, None] * p[:, None]) / len(outputs)


@dataclass(frozen=True, eq=False)
class Problem:
    """A batch: the map of its points, and its cost."""

    map: OutputMap
    objective: Objective

    def value(self, theta: Tensor) -> float:
        return float(self.objective.value(self.map.outputs(theta)))

    def damped(self, theta: Tensor, fisher: Fisher, damping: float) -> tuple[Tensor, Tensor]:
        """The step -(D^T F D + mu)^{-1} D^T g, (K,), and the gradient D^T g."""
        graph = self.map.graph(theta)
        outputs = graph.outputs.detach()
        g = self.objective.gradient(outputs)
        n, q = outputs.shape
        gram = self.map.gram(theta).view(n, q, n * q)
        curvature = fisher(outputs)
        if not isinstance(curvature, Tensor) or curvature.shape != (n, q, q):
            raise InputError(
                f"fisher gave {shown(curvature)}, but a tensor of shape ({n}, {q}, {q}) is needed, a matrix "
                "for each point."
            )
        system = (curvature @ gram).reshape(n * q, n * q)
        system = system + damping * torch.eye(n * q, device=theta.device, dtype=theta.dtype)
        return -graph.pull(torch.linalg.solve(system, g.flatten())), graph.pull(g)

    def backtracked(self, theta: Tensor, step: Tensor, slope: float) -> Tensor:
        """The longest of the steps 1, 1/2, 1/4, ... that lowers the cost enough."""
        value, length = self.value(theta), 1.0
        for _ in range(HALVINGS):
            candidate = theta + length * step
            if self.value(candidate) <= value + SUFFICIENT * length * slope:
                return candidate
            length /= 2
        return theta


class Rule(Protocol):
    """One update of parameters (K,), which may carry a number from step to step."""

    def update(
        self, problem: Problem, theta: Tensor, carried: float | None
    ) -> tuple[Tensor, float | None]: ...


@dataclass(frozen=True)
class GradientDescent:
    """Steps of gradient descent, theta - rate D^T g: Euler steps of the flow of alpha = 0.

    g is the gradient of the cost by the outputs (N, Q), D their derivative by the parameters (N Q, K).
    rate: a number above 0; others are refused by `descend`, which takes the rule.

    >>> _ = torch.manual_seed(0)
    >>> run = descend(torch.nn.Linear(2, 1), torch.eye(2), torch.ones(2, 1), GradientDescent(0.5), steps=50)
    >>> bool(run.losses[-1] < 1e-3 * run.losses[0])
    True
    """

    rate: float = 0.1

    def __post_init__(self) -> None:
        positive("rate", self.rate)

    def update(
        self, problem: Problem, theta: Tensor, carried: float | None
    ) -> tuple[Tensor, float | None]:
        graph = problem.map.graph(theta)
        g = problem.objective.gradient(graph.outputs.detach())
        return theta - self.rate * graph.pull(g), carried


@dataclass(frozen=True)
class GaussNewton:
    """Steps -D^+ (f - y), halved until the cost falls enough: of the flow of alpha = 1, on straight lines.

    rcond: singular values of D below that share of the largest count as 0; None: as in `integrate`.
    Refused by `descend` are rcond not above 0, and costs other than the default one.

    >>> run = descend(torch.nn.Linear(2, 1), torch.eye(2), torch.ones(2, 1), GaussNewton(), steps=1)
    >>> bool(run.losses[-1] < 1e-10)  # a linear model is there after one step
    True
    """

    rcond: float | None = None  # as in `integrate`

    def __post_init__(self) -> None:
        require_rcond(self.rcond, torch.float64)

    def update(
        self, problem: Problem, theta: Tensor, carried: float | None
    ) -> tuple[Tensor, float | None]:
        if not problem.objective.squared:
            raise InputError(
                "GaussNewton is for the default cost; for others take NaturalGradient or LevenbergMarquardt "
                "with the curvature of the cost."
            )
        graph = problem.map.graph(theta)
        g = problem.objective.gradient(graph.outputs.detach())
        step = (
            -factorisations(problem.map, require_rcond(self.rcond, theta.dtype), 1e-8)
            .at(theta, graph)
            .lift(g.flatten() * len(g))
        )
        return problem.backtracked(theta, step, float(graph.pull(g) @ step)), carried


@dataclass(frozen=True)
class LevenbergMarquardt:
    """Damped steps -(D^T F D + damping)^{-1} D^T g; damping follows the cost.

    damping: at the start; divided by `factor` after a step that lowers the cost; else multiplied by it, and
    the step is not taken. fisher: F, the curvature of the cost by the outputs, (N, Q) -> (N, Q, Q).
    Refused by `descend` are damping and factor not above 0.

    >>> run = descend(torch.nn.Linear(2, 1), torch.eye(2), torch.ones(2, 1), LevenbergMarquardt(), steps=5)
    >>> bool((run.losses.diff() <= 0).all())
    True
    """

    damping: float = 1e-2
    factor: float = 3.0
    fisher: Fisher = gaussian_fisher

    def __post_init__(self) -> None:
        positive("damping", self.damping)
        if positive("factor", self.factor) <= 1:
            raise InputError(
                f"factor = {self.factor} was given, but factor must be above 1: damping is divided by it "
                "after a step that lowers the cost."
            )
        _require_fisher(self.fisher)

    def update(
        self, problem: Problem, theta: Tensor, carried: float | None
    ) -> tuple[Tensor, float | None]:
        damping = self.damping if carried is None else carried
        step, _ = problem.damped(theta, self.fisher, damping)
        if problem.value(theta + step) < problem.value(theta):
            return theta + step, damping / self.factor
        return theta, damping * self.factor


@dataclass(frozen=True)
class NaturalGradient:
    """Damped steps of one length, theta - rate (D^T F D + damping)^{-1} D^T g.

    fisher: F, Fisher's matrix by the outputs, (N, Q) -> (N, Q, Q); with the Gaussian one and little damping
    the steps are those of Gauss and Newton. Refused by `descend` are rate and damping not above 0.

    >>> rule = NaturalGradient(damping=1e-6)
    >>> run = descend(torch.nn.Linear(2, 1), torch.eye(2), torch.ones(2, 1), rule, steps=1)
    >>> bool(run.losses[-1] < 1e-6)
    True
    """

    rate: float = 1.0
    damping: float = 1e-3
    fisher: Fisher = gaussian_fisher

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        positive("damping", self.damping)
        _require_fisher(self.fisher)

    def update(
        self, problem: Problem, theta: Tensor, carried: float | None
    ) -> tuple[Tensor, float | None]:
        return theta + self.rate * problem.damped(theta, self.fisher, self.damping)[0], carried


@dataclass(frozen=True, eq=False)
class Descent:
    """Losses of all points before each step and after the last, and the CPU time spent until then."""

    losses: Tensor  # (steps + 1,), on the host
    seconds: Tensor  # (steps + 1,), on the host; evaluations of these losses are not counted
    parameters: dict[str, Tensor] = field(repr=False)


def descend(
    model: ModelLike,
    x: ArrayLike,
    y: ArrayLike,
    rule: GradientDescent | GaussNewton | LevenbergMarquardt | NaturalGradient,
    *,
    steps: int = 100,
    cost: Cost | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    memory: int = 2 * GIGABYTE,
    store: str | Path | None = None,
    key: str = "",
    progress: bool = True,
) -> Descent:
    """Steps of a rule on the cost of `integrate`, with the CPU time of each.

    model, x, y, cost, memory: as in `integrate`; kinks do not matter here.
    rule: GradientDescent, GaussNewton, LevenbergMarquardt or NaturalGradient, with its settings.
    batch_size: of minibatches, drawn in shuffled epochs; None: all points in each step.
    store: a file for a checkpoint, from which the same call goes on, to the same bits but for seconds.
    key: text that names what the checkpoint cannot compare, such as the code of a rule; of the cost it
        compares labels, value and gradient at the start.
    Returned is a Descent: losses of all points, seconds, and the last parameters.
    Refused are what `integrate` refuses of labels and costs, equal inputs with different labels among them,
    and other rules.

    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <...>
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.Tanh(), torch.nn.Linear(20, 1)).double()
    >>> x, y = torch.randn(5, 2).double(), torch.randn(5, 1).double()
    >>> run = descend(net, x, y, GaussNewton(), steps=8, progress=False)
    >>> bool(run.losses[-1] < 1e-20)
    True
    """
    _require_rule(rule)
    count, seed = whole("steps", steps), require_seed(seed)
    whole("memory", memory)
    model, x = Model.of(model), as_numbers("x", x)
    size = len(x) if batch_size is None else whole("batch_size", batch_size)
    if size > len(x):
        raise InputError(f"Batches of {size} were asked for, but there are {len(x)} points.")
    generator = torch.Generator().manual_seed(seed)
    with output_map(model, x, memory) as map:
        theta = map.pack(map.run.leaves)
        outputs = map.outputs(theta).detach()
        objective = require_objective(cost, y, outputs, model)
        require_consistent_labels(map.run.points, objective.labels)
        all_points = Problem(map, objective)
        losses, seconds = [all_points.value(theta)], [0.0]
        run = _Run(theta, generator.get_state())
        choices = (map.structure, _settings(rule), count, size, seed, memory)
        tensors = (theta, x, outputs, *objective.identity(outputs))
        file = checkpoint(store, fingerprint("descent", *choices, *tensors), SETTINGS, key)
        if (state := file.read(theta.device)) is not None:
            losses, seconds = state.pop("losses"), state.pop("seconds")
            run = _Run(**state)
            generator.set_state(run.random)

        def state_of_run() -> dict[str, Any]:
            made = slice(run.steps + 1)
            return vars(run) | {"losses": losses[made], "seconds": seconds[made]}

        with progress_bar(of="steps", show=progress, total=count, initial=run.steps) as bar:
            try:
                while run.steps < count:
                    problem, order = all_points, run.order
                    if size < len(x):
                        if len(order) < size:
                            order = torch.randperm(len(x), generator=generator, device="cpu")
                        rows, order = order[:size].to(x.device), order[size:].clone()
                        problem = _of_batch(all_points, rows)
                    begin = time.process_time()
                    theta, carried = rule.update(problem, run.theta, run.carried)
                    seconds.append(seconds[-1] + time.process_time() - begin)
                    losses.append(all_points.value(theta))
                    run = _Run(theta, generator.get_state(), run.steps + 1, carried, order)
                    bar.update()
                    file.write_when_due(state_of_run)
            finally:
                if run.steps:
                    file.write(state_of_run())
        parameters = {name: value.clone() for name, value in map.unpack(run.theta).items()}
    return Descent(
        torch.tensor(losses, dtype=torch.float64, device="cpu"),
        torch.tensor(seconds, dtype=torch.float64, device="cpu"),
        parameters,
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """Where a descent is after a step; a checkpoint holds it with losses and seconds until then."""

    theta: Tensor  # (K,)
    random: Tensor  # state of the generator of batches
    steps: int = 0
    carried: float | None = None  # by the rule
    order: Tensor = field(  # of points in this epoch that are still to come
        default_factory=lambda: torch.empty(0, dtype=torch.long, device="cpu")
    )


def _require_rule(rule: object) -> None:
    if isinstance(rule, type) or not callable(getattr(rule, "update", None)):
        raise InputError(
            f"rule must be a rule such as GradientDescent(), GaussNewton(), LevenbergMarquardt() or "
            f"NaturalGradient(), not {shown(rule)}."
        )


def _require_fisher(fisher: object) -> None:
    if not callable(fisher):
        raise InputError(
            f"fisher must be a function of outputs, such as flows.softmax_fisher, not {shown(fisher)}."
        )


def _settings(rule: Rule) -> list[Any]:
    """The class of a rule and its numbers; functions by name, as their repr differs between processes."""
    parts = sorted(vars(rule).items())
    return [
        type(rule).__qualname__,
        *((name, getattr(value, "__qualname__", value)) for name, value in parts),
    ]


def _of_batch(problem: Problem, rows: Tensor) -> Problem:
    map, objective = problem.map, problem.objective
    run = replace(map.run, points=map.run.points[rows])
    return Problem(OutputMap(run, map.memory), Objective(objective.cost, objective.labels[rows]))

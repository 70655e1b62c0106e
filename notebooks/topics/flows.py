"""Flows between gradient descent and straight lines in output space: named arrays for notebook 13."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from notebooks.topics.statistics import Array
from numeric import flows
from numeric.flows import Descent, Flow
from numeric.flows.descents import Rule
from numeric.flows.field import Field
from numeric.flows.output_map import output_map
from numeric.flows.ranges import factorisations
from numeric.inputs import generator_for

QUIET = {"progress": False}
TRIANGLE = (
    (0.0, 1.0),
    (-0.9, -0.5),
    (0.9, -0.5),
)  # labels of three classes in the plane of outputs
CLASSES = (0, 0, 0, 1, 1, 1, 2, 2)
COUNT = 2 * len(CLASSES)  # QN, of the networks under sliders
LAST = 0.9  # where they end


def network(*widths: int, seed: int = 0, phi: Callable[[], nn.Module] = nn.Tanh) -> nn.Sequential:
    """In float64, with weights of variance 1 / fan-in and biases of variance 1 / 9."""
    generator = generator_for("network", seed)
    normal = {"generator": generator, "dtype": torch.float64}
    parts: list[nn.Module] = []
    for d, m in pairwise(widths):
        layer = nn.Linear(d, m, dtype=torch.float64)
        layer.weight.data = torch.randn(m, d, **normal) / d**0.5
        layer.bias.data = torch.randn(m, **normal) / 3
        parts += [layer, phi()]
    return nn.Sequential(*parts[:-1])


def points_in_plane() -> tuple[Tensor, Tensor, Tensor]:
    """Eight points (8, 2) of three classes, the labels (8, 2) of these, and the classes (8,)."""
    classes = torch.tensor(CLASSES)
    generator = generator_for("points of a flow", 0)
    x = torch.randn(len(classes), 2, generator=generator, dtype=torch.float64)
    return x, torch.tensor(TRIANGLE, dtype=torch.float64)[classes], classes


@lru_cache(maxsize=32)
def flow_of_plane(alpha: float, n: int, tolerance: float = 1e-3) -> Flow:
    """Of a network with n tanh units and two outputs, 5 n + 2 parameters."""
    x, y, _ = points_in_plane()
    return flows.integrate(network(2, n, 2), x, y, alpha, until=LAST, tolerance=tolerance, **QUIET)


@dataclass(frozen=True, eq=False)
class FlowInPlane:
    """Outputs, losses and the kernel of a flow at a time, with what lies behind."""

    alpha: float
    time: float
    times: Array  # (T,), of the whole flow
    paths: Array  # (T, N, 2), outputs
    labels: Array  # (N, 2)
    losses: Array  # (T,)
    straight: Array  # (T,), of a straight line
    kernel: Array  # (QN, QN) at the time, over its mean diagonal
    outputs: Array  # (N, 2) at the time
    deviation: float  # of outputs from the straight line, a norm
    rank: int
    parameters: int


def flow_in_plane(adapted: float, t: float, n: int) -> FlowInPlane:
    """The flow with alpha = `adapted` of a network of n units at a time t."""
    flow = flow_of_plane(adapted, n)
    t = min(t, flow.end)
    times, paths, losses = _history(flow)
    kernel = kernel_of(flow, t)
    line = straight_line(flow, t)
    return FlowInPlane(
        adapted, t, times, paths, flow.objective.labels.numpy(), losses,
        losses[0] * (1 - times) ** 2, (kernel / kernel.diagonal().mean()).numpy(),
        flow.outputs(t).numpy(), float((flow.outputs(t) - line).norm()), flow.range(t).rank,
        sum(shape.numel() for shape in flow.curve.shapes.values()),
    )  # fmt: skip


def kernel_of(flow: Flow, t: float) -> Tensor:
    """K_alpha on the training points, (QN, QN), by solving with the tangent kernel, as off them."""
    return flow.kernel(t, flow.x).reshape(flow.start.numel(), -1)


def straight_line(flow: Flow, t: float) -> Tensor:
    return flow.objective.labels + (1 - t) * (flow.start - flow.objective.labels)


@lru_cache(maxsize=32)
def _history(flow: Flow) -> tuple[Array, Array, Array]:
    """Times, outputs (T, N, Q) and losses (T,) of a flow."""
    times = np.linspace(0, flow.end, 60)
    outputs = [flow.outputs(t) for t in times]
    losses = [float(flow.objective.value(one)) for one in outputs]
    return times, torch.stack(outputs).numpy(), np.array(losses)


# Too few parameters.


class FewParameters(nn.Module):
    """Parameters w, (K,), that move two outputs along curves: sums of cosines and of sines in w."""

    def __init__(self, count: int) -> None:
        super().__init__()
        normal = {"generator": generator_for("few parameters", count), "dtype": torch.float64}
        self.directions = torch.randn(2, count, **normal)
        self.weights = nn.Linear(count, 1, bias=False, dtype=torch.float64)
        self.weights.weight.data = torch.randn(1, count, **normal) / 2

    def forward(self, x: Tensor) -> Tensor:
        features = x @ self.directions
        one, other = self.weights(features.cos()), self.weights((3 * features).sin())
        return torch.cat([one.sin() + 0.3 * other, other - 0.7 * one.sin()], 1)


def flow_of_few(count: int, tolerance: float = 1e-9) -> Flow:
    """The alpha = 1 flow of so many parameters for 12 outputs: six points, two outputs each."""
    generator = generator_for("labels for few parameters", 0)
    x, y = torch.randn(2, 6, 2, generator=generator, dtype=torch.float64)
    settings = {"until": 0.99, "tolerance": tolerance, "rank_deficient": True, **QUIET}
    return flows.integrate(FewParameters(count), x, y, **settings)


@dataclass(frozen=True, eq=False)
class Deviations:
    """Distances from the straight line along a flow, as they are and as the lost directions predict them."""

    times: Array
    actual: Array
    predicted: Array
    error: float  # the largest distance of the two, as vectors
    parameters: int
    ranks: tuple[int, ...]  # one after another


def deviations(flow: Flow) -> Deviations:
    times = np.linspace(0, flow.end, 40)
    both = [(flow.deviation(t), flow.predicted_deviation(t)) for t in times]
    return Deviations(
        times,
        np.array([float(one.norm()) for one, _ in both]),
        np.array([float(other.norm()) for _, other in both]),
        max(float((one - other).norm()) for one, other in both),
        sum(shape.numel() for shape in flow.curve.shapes.values()),
        (flow.start.numel(), *(event.after for event in flow.events)),
    )


# ReLU.


@dataclass(frozen=True, eq=False)
class Rectified:
    """Deviations of a ReLU network: sliding along kinks, and in short steps of several lengths."""

    times: Array
    sliding: Array  # deviation of the flow that slides
    held: tuple[Array, Array]  # times, and how many kinks hold it
    steps: Mapping[
        int, tuple[Array, Array, Array]
    ]  # times, deviations, errors of prediction, by number
    reversed: Mapping[int, float]  # the share of crossings that the next step undoes


def rectified(n: int, counts: Sequence[int], until: float, seed: int) -> Rectified:
    """Of a network with n ReLU units on the points in the plane."""
    x, y, _ = points_in_plane()
    net = network(2, n, 2, seed=seed, phi=nn.ReLU)
    sliding = flows.slide(net, x, y, until=until, tolerance=1e-7, **QUIET)
    times = np.linspace(0, sliding.end, 40)
    runs = {k: flows.euler(net, x, y, until=until, steps=k, **QUIET) for k in counts}
    return Rectified(
        times,
        np.array([float(sliding.deviation(t).norm()) for t in times]),
        (sliding.times[1:].numpy(), np.array(sliding.sliding, float)),
        {
            k: (
                run.times.numpy(),
                _norms(run.deviations),
                _norms(run.deviations - run.predicted),
            )
            for k, run in runs.items()
        },
        {k: run.reversed / run.crossings for k, run in runs.items()},
    )


def _norms(path: Tensor) -> Array:
    return path.flatten(1).norm(dim=1).numpy()


# Digits: collapse, and what a flow costs.


@dataclass(frozen=True, eq=False)
class Collapsing:
    """Class means and deviations at the outputs and at the penultimate layer, over those at the start."""

    times: Array
    errors: NDArray[np.int64]  # of training
    accuracy: Array  # on other images
    means: Array  # (T, C), distance of class means from their labels
    within: Array  # (T,), root mean square deviation within classes
    layers: Mapping[str, Array]  # variance within classes over variance between them


def collapsing(
    flow: Flow, classes: Tensor, others: tuple[Tensor, Tensor], layer: str
) -> Collapsing:
    times = np.linspace(0, flow.end, 25)
    eye = torch.eye(flow.start.shape[1], dtype=torch.float64)
    at_outputs = flows.collapse(flow, classes, times)
    penultimate = flows.collapse(flow, classes, times, layer)
    x, labels = others
    means = (at_outputs.means - eye).norm(dim=2)
    within = at_outputs.within.sqrt()
    right = [(flow.outputs(t, x).argmax(1) == labels).double().mean().item() for t in times]
    return Collapsing(
        times,
        np.array([int((flow.outputs(t).argmax(1) != classes).sum()) for t in times]),
        np.array(right),
        (means / means[0]).numpy(),
        (within / within[0]).numpy(),
        {
            "outputs": at_outputs.variability.numpy(),
            "penultimate layer": penultimate.variability.numpy(),
        },
    )


@dataclass(frozen=True, eq=False)
class Race:
    """Training losses of one method against what was spent on them."""

    losses: Array
    seconds: Array  # CPU time
    operations: Array  # floating-point, in products of matrices and factorisations

    def until(self, loss: float) -> tuple[float, float]:
        """Seconds and operations spent until the loss is below; infinite if it never is."""
        reached = np.flatnonzero(self.losses <= loss)
        if not len(reached):
            return math.inf, math.inf
        return float(self.seconds[reached[0]]), float(self.operations[reached[0]])


@dataclass
class Counted:
    """A rule whose operations are counted, step by step."""

    rule: Rule
    operations: list[int] = field(default_factory=list)

    def update(self, *arguments: Any) -> tuple[Tensor, float | None]:
        with counter() as count:
            updated = self.rule.update(*arguments)
        self.operations.append(count.get_total_flops())
        return updated


def counter() -> FlopCounterMode:
    """Counts operations of matrix products, as torch does, and of dense factorisations."""
    aten = torch.ops.aten

    def cubes(share: float) -> Callable[..., int]:
        return lambda shape, *_, **__: round(share * shape[-1] ** 2 * shape[-2])

    custom = {
        aten.linalg_cholesky_ex: cubes(1 / 3),
        aten.cholesky_inverse: cubes(2 / 3),
        aten._linalg_solve_ex: cubes(2 / 3),
        aten.linalg_qr: cubes(2),
        aten.cholesky_solve: lambda one, other, *_, **__: 2 * other[-1] ** 2 * one[-1],
    }
    return FlopCounterMode(display=False, custom_mapping=custom)


def race_of_rule(
    net: nn.Module, x: Tensor, y: Tensor, rule: Rule, steps: int, batch_size: int | None = None
) -> Race:
    """Timed in one run, and counted in another, which is slower and makes the same steps.

    Steps of gradient descent are alike: the first one is counted.
    """
    settings = {"batch_size": batch_size, **QUIET}
    timed: Descent = flows.descend(net, x, y, rule, steps=steps, **settings)
    counted = Counted(rule)
    alike = isinstance(rule, flows.GradientDescent)
    flows.descend(net, x, y, counted, steps=1 if alike else steps, **settings)
    each = counted.operations * (steps if alike else 1)
    operations = np.concatenate([[0.0], np.cumsum(each)])
    return Race(timed.losses.numpy(), timed.seconds.numpy(), operations)


def race_of_flow(flow: Flow) -> Race:
    """Of a flow that was integrated."""
    losses = [flow.loss(float(t)) for t in flow.times]
    operations = flow.counts.double().numpy() * operations_of_velocity(flow)
    return Race(np.array(losses), flow.seconds.numpy(), operations)


def operations_of_velocity(flow: Flow) -> int:
    """What each evaluation of the field takes at full rank, where all are alike."""
    with output_map(flow.model, flow.x, flow.memory) as map:
        ranges = factorisations(map, flow.rcond, flow.tolerance)
        one = Field(map, ranges, flow.objective, flow.clock, flow.alpha, flow.start)
        with counter() as count:
            one(0.0, one.initial())
    return count.get_total_flops()

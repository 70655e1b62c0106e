"""How well outputs are rebuilt, and what training points added to them: Figures 2, 4, 7 and 8; labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from notebooks.topics.path_kernel.runs import Data, exact
from notebooks.topics.statistics import Array
from numeric.path_kernel import LeftRiemann, Record, interpolation, mislabelled, tangent_defects
from numeric.path_kernel.quadrature import Quadrature


@dataclass(frozen=True, eq=False)
class Agreement:
    """Outputs of a network, the same rebuilt by several rules, and the largest errors of all outputs."""

    network: Array  # (n,), one output
    rebuilt: Mapping[str, Array]  # (n,) by rule
    errors: Mapping[str, float]


def agreement(run: Record, x: Tensor, output: int, rules: Mapping[str, Quadrature]) -> Agreement:
    """Start, gradients of all training points and decay, against the network."""
    network = exact(run).network(x)
    off = {label: exact(run, rule).residual(x) for label, rule in rules.items()}
    return Agreement(
        network[:, output].numpy(),
        {label: (network + one)[:, output].numpy() for label, one in off.items()},
        {label: float(one.abs().max()) for label, one in off.items()},
    )


@dataclass(frozen=True, eq=False)
class Misalignment:
    """By how much gradients that other kernels use misjudge the outputs' changes, step by step."""

    steps: Array
    by_step: Mapping[str, Array]  # (N,), root mean squares over points and outputs
    total: Mapping[str, Array]  # (N,), of the sums so far


def misalignment(run: Record, x: Tensor) -> Misalignment:
    defects = {
        "discrete path kernel": exact(run, LeftRiemann(1)).defects(x),
        "tangent kernel at the start": tangent_defects(run, x),
        "tangent kernel at the end": tangent_defects(run, x, run.steps),
        "exact path kernel": exact(run).defects(x),
    }
    return Misalignment(
        np.arange(1, run.steps + 1),
        {label: _rms(one) for label, one in defects.items()},
        {label: _rms(one.cumsum(0)) for label, one in defects.items()},
    )


def _rms(values: Tensor) -> Array:
    return np.maximum(values.square().mean((1, 2)).sqrt().numpy(), 1e-18)


@dataclass(frozen=True, eq=False)
class Line:
    """Figure 8: a network on the line from its first to its last weights."""

    t: Array
    accuracy: Array
    loss: Array
    norm: Array
    slope: (
        Array  # of the log-probability of the right class along the line, mean over training points
    )
    distance: float


def line_of(run: Record) -> Line:
    line = interpolation(run)
    own = line.slopes[:, torch.arange(len(run.y)), run.y].mean(1)
    return Line(
        line.t.numpy(), line.accuracy(run.y).numpy(), line.loss.numpy(), line.norm.numpy(), own.numpy(),
        line.distance,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class TopAttributions:
    """Images with the training images that moved their largest output most."""

    images: Array  # (n, 8, 8)
    predicted: NDArray[np.int64]  # (n,)
    actual: NDArray[np.int64]  # (n,)
    values: Array  # (n,), of the largest output
    start: Array  # (n,), of the same before training
    training_images: Array  # (n, count, 8, 8)
    labels: NDArray[np.int64]  # (n, count)
    added: Array  # (n, count)


def top_attributions(run: Record, data: Data, count: int = 6) -> TopAttributions:
    x, y = data
    kernel = exact(run)
    top = kernel.top(x, count)
    start = kernel.start(x).gather(1, top.output[:, None])[:, 0]
    return TopAttributions(
        x[:, 0].numpy(), top.output.numpy(), y.numpy(), top.value.numpy(), start.numpy(),
        run.x[top.index, 0].numpy(), run.y[top.index].numpy(), top.attribution.numpy(),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class WrongLabels:
    """How well scores of training points tell wrong labels from right ones."""

    share_of_wrong: Mapping[str, Array]  # labels among the first n points, by score
    areas: Mapping[str, float]  # under the ROC curve
    checked: Array  # n as a share of all points


def wrong_labels(run: Record, wrong: NDArray[np.bool_]) -> WrongLabels:
    suspects = mislabelled(exact(run))
    own = exact(run).network(run.x)[torch.arange(len(run.y)), run.y]
    scores = {
        "margin that the other points made": -suspects.others.numpy(),
        "attribution of the point to itself": suspects.own.numpy(),
        "loss at the end": -own.numpy(),
    }
    return WrongLabels(
        {
            name: np.cumsum(wrong[np.argsort(-score)]) / wrong.sum()
            for name, score in scores.items()
        },
        {name: _area(score[wrong], score[~wrong]) for name, score in scores.items()},
        np.arange(1, len(wrong) + 1) / len(wrong),
    )


def _area(above: Array, below: Array) -> float:
    """The probability that a score of the first kind exceeds one of the second."""
    return float((above[:, None] > below).mean() + (above[:, None] == below).mean() / 2)

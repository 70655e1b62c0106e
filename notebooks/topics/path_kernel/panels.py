"""Two panels on small runs in the plane: what training points added to an output, and one weighed anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from notebooks.topics.path_kernel.planes import Square
from notebooks.topics.path_kernel.retrainings import DERIVATIVE, PATH, accounts
from notebooks.topics.path_kernel.runs import CLASSES, exact, gaussians, perceptron, trained
from notebooks.topics.statistics import Array
from numeric.path_kernel import GaussLegendre, LeftRiemann, Record, retrain
from numeric.path_kernel.quadrature import Quadrature

STEPS = 16  # of the runs under sliders
TRAINED = 30  # points that they see
WEIGHTS = np.linspace(0, 2, 5)  # of a training point that is weighed anew


@lru_cache(maxsize=8)
def run_in_plane(rate: float, steps: int = STEPS) -> Record:
    data = gaussians(TRAINED // CLASSES, 2, 0)
    return trained(perceptron(2, 16, CLASSES, nn.ReLU(), 0, gain=0.25), data, rate, steps)


@dataclass(frozen=True, eq=False)
class AttributionMap:
    """What training points added to the largest output at one point, and how well outputs are rebuilt."""

    points: Array  # (M, 2), training points
    labels: NDArray[np.int64]  # (M,)
    added: Array  # (M,)
    place: tuple[float, float]  # where the point is
    output: int  # the largest one
    value: float  # of it
    start: float  # of it, before training
    line: Array
    regions: NDArray[np.int64]  # the class that is predicted, on the grid
    steps: Array  # 1 ... N
    errors: Mapping[str, Array]  # of the outputs rebuilt up to each step, by rule


def attribution_map(nodes: int, rate: float, step: int, x1: float, x2: float) -> AttributionMap:
    """After so many steps of size `rate`; the left Riemann sum has so many nodes in each."""
    run, square = run_in_plane(rate), Square()
    point = torch.tensor([[x1, x2]], dtype=torch.float64)
    model = run.model_at(step)
    with torch.no_grad():
        outputs, regions = model(point)[0], model(square.points).argmax(1)
    k = int(outputs.argmax())
    errors = {
        label: _errors(rate, rule, x1, x2)
        for label, rule in (
            ("left Riemann sum", LeftRiemann(nodes)),
            ("Gauss-Legendre", GaussLegendre()),
        )
    }
    return AttributionMap(
        run.x.numpy(), run.y.numpy(), _added(rate, step, x1, x2)[k], (x1, x2), k, float(outputs[k]),
        float(exact(run).start(point)[0, k]), square.line, square.on_grid(regions),
        np.arange(1, run.steps + 1), errors,
    )  # fmt: skip


@lru_cache(maxsize=128)
def _added(rate: float, step: int, x1: float, x2: float) -> Array:
    """What every training point added to the outputs in the first steps, (k, M)."""
    kernel = exact(run_in_plane(rate)).during(range(step))
    return kernel.attributions([[x1, x2]])[0].numpy()


@lru_cache(maxsize=128)
def _errors(rate: float, rule: Quadrature, x1: float, x2: float) -> Array:
    """The largest error of the outputs rebuilt up to each step, (N,)."""
    defects = exact(run_in_plane(rate), rule).defects([[x1, x2]])[:, 0]
    return np.maximum(defects.cumsum(0).abs().amax(1).numpy(), 1e-17)


@dataclass(frozen=True, eq=False)
class WeighedPoint:
    """An output after training, by the weight of one training point: retrained, and as two lines say."""

    weights: Array
    retrained: Array  # at the weights
    lines: Mapping[str, Array]  # "attribution" and "derivative", at the weights
    attributions: Array  # (M,), to this output, of all training points
    derivatives: Array  # (M,)
    point: int
    output: int


def weighed_point(rate: float, steps: int, point: int, x1: float, x2: float) -> WeighedPoint:
    """The largest output at (x1, x2), retrained with other weights of a training point."""
    run = run_in_plane(rate, steps)
    new = torch.tensor([[x1, x2]], dtype=torch.float64)
    outputs = exact(run).network(new)[0]
    k = int(outputs.argmax())
    attributions, derivatives = _both(rate, steps, x1, x2)
    values = []
    for weight in WEIGHTS:
        factors = torch.ones(len(run.x), dtype=torch.float64)
        factors[point] = float(weight)
        with torch.no_grad():
            values.append(float(retrain(run, factors, progress=False)(new)[0, k]))
    lines = {
        name: float(outputs[k]) + (WEIGHTS - 1) * slopes[point]
        for name, slopes in (("attribution", attributions), ("derivative", derivatives))
    }
    return WeighedPoint(WEIGHTS, np.array(values), lines, attributions, derivatives, point, k)


@lru_cache(maxsize=128)
def _both(rate: float, steps: int, x1: float, x2: float) -> tuple[Array, Array]:
    """Attributions and derivatives of the largest output by every training point, (M,) each."""
    by_method = accounts(run_in_plane(rate, steps), torch.tensor([[x1, x2]], dtype=torch.float64))
    return by_method[PATH][0], by_method[DERIVATIVE][0]

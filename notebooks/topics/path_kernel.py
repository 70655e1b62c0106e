"""What training points did to trained networks: rebuilt outputs, attributions, kernels, retrainings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from torch import Tensor, nn

from notebooks.topics.statistics import Array
from numeric.inputs import generator_for
from numeric.path_kernel import (
    ExactPathKernel,
    GaussLegendre,
    LeftRiemann,
    Record,
    influence,
    influence_function,
    interpolation,
    mislabelled,
    posterior,
    record,
    retrain,
    support_vectors,
    tangent_defects,
)
from numeric.path_kernel.quadrature import Quadrature
from numeric.path_kernel.support_vectors import mean_kernel

Data = tuple[Tensor, Tensor]
CENTRES = (
    (1.0, 4.0),
    (4.0, 1.0),
    (5.0, 5.0),
)  # of the three Gaussians, in their first two coordinates
CLASSES = len(CENTRES)
STEPS = 16  # of the runs under sliders
TRAINED = 30  # points that they see
SPREAD = "posterior standard deviation of $p$"
WEIGHTS = np.linspace(0, 2, 5)  # of a training point that is weighed anew


def gaussians(count: int, d: int, seed: int) -> Data:
    """So many points around each of three centres in d dimensions, with variance 1, and their classes."""
    y = torch.arange(CLASSES).repeat(count)
    centres = torch.zeros(CLASSES, d, dtype=torch.float64)
    centres[:, :2] = torch.tensor(CENTRES)
    generator = generator_for("three gaussians", d, seed)
    noise = torch.randn(len(y), d, generator=generator, dtype=torch.float64)
    return centres[y] + noise, y


def digits(count: int, others: int, seed: int) -> tuple[Data, Data]:
    """Images (n, 1, 8, 8) of digits from 0 to 1 with their classes, to train on and others."""
    held = load_digits()
    images, labels = torch.tensor(held.images / 16)[:, None], torch.tensor(held.target)
    order = torch.randperm(len(labels), generator=generator_for("digits", seed))
    first, second = order[:count], order[count : count + others]
    return (images[first], labels[first]), (images[second], labels[second])


def perceptron(
    d: int, width: int, classes: int, activation: nn.Module, seed: int, gain: float = 1.0
) -> nn.Module:
    """A hidden layer, and outputs that are logarithms of probabilities."""
    layers = (nn.Linear(d, width), activation, nn.Linear(width, classes), nn.LogSoftmax(1))
    return drawn(nn.Sequential(*layers), seed, gain)


def convolutional(channels: int, seed: int) -> nn.Module:
    """Two convolutions with ReLU for images of 8 by 8, and ten outputs."""
    layers = (
        nn.Conv2d(1, channels, 3), nn.ReLU(), nn.Conv2d(channels, channels, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(4 * channels, 10), nn.LogSoftmax(1),
    )  # fmt: skip
    return drawn(nn.Sequential(*layers), seed)


def drawn(net: nn.Module, seed: int, gain: float = 1.0) -> nn.Module:
    """The network in float64 with weights of variance 2 gain^2 / fan-in and no biases."""
    generator = generator_for("weights", seed)
    for p in net.double().parameters():
        fan = p[0].numel() if p.ndim > 1 else 1
        noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
        p.data = noise * gain * (2 / fan) ** 0.5 if p.ndim > 1 else torch.zeros_like(p)
    return net


def trained(net: nn.Module, data: Data, rate: float, steps: int) -> Record:
    """Full-batch gradient descent on the mean of -log p, every step on record."""
    sgd = partial(torch.optim.SGD, lr=rate)
    quiet = {"device": "cpu", "progress": False}
    return record(net, nn.functional.nll_loss, sgd, data, steps=steps, **quiet)


def exact(run: Record, rule: Quadrature | None = None) -> ExactPathKernel:
    return ExactPathKernel(run, rule or GaussLegendre(), progress=False)


# The runs under sliders: sixty points of the plane.


@lru_cache(maxsize=8)
def run_in_plane(rate: float, steps: int = STEPS) -> Record:
    data = gaussians(TRAINED // CLASSES, 2, 0)
    return trained(perceptron(2, 16, CLASSES, nn.ReLU(), 0, gain=0.25), data, rate, steps)


@dataclass(frozen=True)
class Square:
    """A square of the plane around the three Gaussians, as a grid."""

    count: int = 41
    low: float = -3.0
    high: float = 9.0

    @property
    def line(self) -> Array:
        return np.linspace(self.low, self.high, self.count)

    @property
    def points(self) -> Tensor:
        """(count^2, 2), x1 first."""
        across, up = np.meshgrid(self.line, self.line)
        return torch.from_numpy(np.stack([across.ravel(), up.ravel()], 1))

    def on_grid(self, values: Tensor) -> Array:
        """(count^2, ...) -> (count, count, ...), rows along x2."""
        return values.detach().reshape(self.count, self.count, *values.shape[1:]).numpy()


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


# Figures 2, 4 and 7: how well outputs are rebuilt.


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


# Figures 3, 5 and 6: the kernel on the plane.


@dataclass(frozen=True, eq=False)
class PlaneMaps:
    """Functions on a grid of the plane, the training points, and the network's regions."""

    line: Array
    maps: Mapping[str, Array]  # (count, count)
    regions: NDArray[np.int64]
    points: Array
    labels: NDArray[np.int64]


def plane_maps(run: Record, square: Square, maps: Mapping[str, Tensor]) -> PlaneMaps:
    """Values (count^2,) by title."""
    regions = square.on_grid(exact(run).network(square.points).argmax(1))
    grids = {title: square.on_grid(values) for title, values in maps.items()}
    return PlaneMaps(square.line, grids, regions, run.x.numpy(), run.y.numpy())


def machine_maps(run: Record, square: Square, C: float) -> tuple[PlaneMaps, float]:
    """Figure 3: decision functions of the points weighed anew, and how often they agree with the network."""
    machine = support_vectors(exact(run), C)
    decisions = machine.decide(square.points)
    maps = {f"class {c + 1}": decisions[:, c] for c in range(CLASSES)}
    alike = decisions.argmax(1) == exact(run).network(square.points).argmax(1)
    return plane_maps(run, square, maps), float(alike.double().mean())


def posterior_maps(run: Record, square: Square, jitter: float, draws: int, seed: int) -> PlaneMaps:
    """Figure 5: the mean of the kernel over training points, and the spread of the likeliest class."""
    x = square.points
    predicted = posterior(exact(run), x, jitter=jitter).softmax(draws, seed)
    top = predicted.mean.argmax(1, keepdim=True)
    maps = {
        "kernel value, mean over training points": mean_kernel(exact(run), x, run.x).mean(1),
        SPREAD: predicted.spread.gather(1, top)[:, 0],
    }
    return plane_maps(run, square, maps)


def from_data(one: PlaneMaps) -> Array:
    """How far each place of the grid is from the nearest training point, (count, count)."""
    across, up = np.meshgrid(one.line, one.line)
    return np.hypot(across[..., None] - one.points[:, 0], up[..., None] - one.points[:, 1]).min(2)


@dataclass(frozen=True, eq=False)
class KernelValues:
    """Figure 6: the kernel of class means with all training points, by output."""

    maps: PlaneMaps
    centres: Array  # (3, 2)
    values: Array  # (3 centres, 3 outputs, M)


def kernel_values(run: Record, square: Square) -> KernelValues:
    """K(x, x_i) in the row of each output and the column of the training point's class."""
    centres = torch.tensor(CENTRES, dtype=torch.float64)
    blocks = exact(run).gram(centres, run.x)  # (3, M, k, k)
    own = blocks[:, torch.arange(len(run.x)), :, run.y]  # (M, 3, k)
    return KernelValues(plane_maps(run, square, {}), centres.numpy(), own.permute(1, 2, 0).numpy())


# Figure 8, images, labels.


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
class Makers:
    """Images with the training images that moved their largest output most."""

    images: Array  # (n, 8, 8)
    predicted: NDArray[np.int64]  # (n,)
    actual: NDArray[np.int64]  # (n,)
    values: Array  # (n,), of the largest output
    start: Array  # (n,), of the same before training
    made_by: Array  # (n, count, 8, 8)
    labels: NDArray[np.int64]  # (n, count)
    added: Array  # (n, count)


def makers(run: Record, data: Data, count: int = 6) -> Makers:
    x, y = data
    kernel = exact(run)
    top = kernel.top(x, count)
    start = kernel.start(x).gather(1, top.output[:, None])[:, 0]
    return Makers(
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


# Accounting or counterfactual?


@dataclass(frozen=True, eq=False)
class Retrainings:
    """The log-probability of the predicted class at n points, from real retrainings, and what scores said."""

    output: Array  # (n,)
    left_out: NDArray[np.int64]  # (r,), training points that were left out, one each
    without: Array  # (n, r), changes of the output
    subsets: Array  # (s, M), of 0 and 1
    of_subsets: Array  # (n, s), the output
    scores: Mapping[str, Array]  # (n, M)
    incomplete: Mapping[str, float]  # |start + sum of scores - output|, the largest

    def leave_one_out(self, name: str) -> Array:
        """Rank correlations of -score with the change by leaving out, (n,)."""
        return _ranks(-self.scores[name][:, self.left_out], self.without)

    def datamodel(self, name: str) -> Array:
        """Linear datamodelling scores, (n,): rank correlations over subsets of their summed scores."""
        return _ranks(self.scores[name] @ self.subsets.T, self.of_subsets)


def _ranks(one: Array, other: Array) -> Array:
    return np.array([spearmanr(a, b).statistic for a, b in zip(one, other, strict=True)])


PATH, TRACIN, DERIVATIVE = "path kernel", "TracIn", "exact derivative"


def accounts(run: Record, x: Tensor) -> dict[str, Array]:
    """Attributions and derivatives of the predicted output at x by every training point, (n, M)."""
    rows, k = _predicted(run, x)
    by_method = {
        PATH: exact(run).attributions(x)[rows, k],
        DERIVATIVE: influence(run, x, _signals(run, x), progress=False)[:, 0],
    }
    return {name: one.numpy() for name, one in by_method.items()}


def scores_of(run: Record, x: Tensor, damping: float) -> dict[str, Array]:
    """What four methods say of every training point, (n, M), about the predicted output."""
    rows, k = _predicted(run, x)
    function = influence_function(run, x, _signals(run, x), damping=damping)
    both = accounts(run, x)
    return {
        PATH: both[PATH],
        TRACIN: exact(run, LeftRiemann(1)).attributions(x)[rows, k].numpy(),
        f"influence function, λ = {damping:g}": function[:, 0].numpy(),
        DERIVATIVE: both[DERIVATIVE],
    }


def _predicted(run: Record, x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows 0 ... n - 1 and the largest output in each."""
    return torch.arange(len(x)), exact(run).network(x).argmax(1)


def _signals(run: Record, x: Tensor) -> Tensor:
    outputs = exact(run).network(x)
    return nn.functional.one_hot(outputs.argmax(1), outputs.shape[1]).double()[:, None]


def retrainings(
    run: Record, x: Tensor, damping: float, leave_out: int, subsets: int, seed: int
) -> Retrainings:
    """Train again without each of some points, and on random halves of the points."""
    kernel, m = exact(run), len(run.x)
    network = kernel.network(x)
    rows, k = _predicted(run, x)
    generator = generator_for("retrainings", seed)
    out = torch.randperm(m, generator=generator)[:leave_out]
    masks = torch.zeros(subsets, m, dtype=torch.float64)
    for mask in masks:
        mask[torch.randperm(m, generator=generator)[: m // 2]] = 1

    def again(factors: Tensor) -> Tensor:
        with torch.no_grad():
            return retrain(run, factors, progress=False)(x)[rows, k]

    alone = 1 - nn.functional.one_hot(out, m).double()
    without = torch.stack([again(one) for one in alone], 1) - network[rows, k, None]
    of_subsets = torch.stack([again(one) for one in masks], 1)
    scores = scores_of(run, x, damping)
    start = kernel.start(x)[rows, k].numpy()
    output = network[rows, k].numpy()
    off = {name: float(np.abs(start + one.sum(1) - output).max()) for name, one in scores.items()}
    return Retrainings(
        output, out.numpy(), without.numpy(), masks.numpy(), of_subsets.numpy(), scores, off
    )

"""What learned kernels magnify: volume, metric and predictor on a plane, and three kernels under sliders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from notebooks.topics.statistics import Array
from numeric.learned import (
    AmariWuClassifier,
    FeatureMachine,
    Gaussian,
    SelfSupervisedKernel,
    SmoothedLaplace,
)

RESOLVED = 1e-12  # of a metric's largest eigenvalue: rounding, some 1e-16 of it, is 1e-4 of that
CIRCLE = np.stack([f(np.linspace(0, 2 * np.pi, 49)) for f in (np.cos, np.sin)])


@dataclass(frozen=True)
class Plane:
    """A square of input space: a fine grid for colours, a coarse one for ellipses."""

    reach: float
    fine: int = 61
    coarse: int = 11

    @property
    def line(self) -> Array:
        return np.linspace(-self.reach, self.reach, self.fine)

    @property
    def points(self) -> Array:
        """(fine^2, 2), rows of the picture from below."""
        return _grid(self.line)

    @property
    def spacing(self) -> float:
        return 2 * self.reach / self.coarse

    @property
    def centres(self) -> Array:
        """(coarse^2, 2): where ellipses stand."""
        return _grid((self.reach - self.spacing / 2) * np.linspace(-1, 1, self.coarse))


def _grid(line: Array) -> Array:
    return np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)


@dataclass(frozen=True, eq=False)
class KernelMap:
    """A kernel on a plane: its log10 volume element, its metric, and a predictor."""

    plane: Plane
    log_volume: Array  # (fine^2,)
    metric: Array  # (coarse^2, 2, 2)
    level: Array | None = None  # (fine^2,), drawn where it is 0
    rank: int = 2  # of the metric: below 2, volume is along the directions that are left

    @classmethod
    def of(cls, kernel: Any, plane: Plane, level: Any = None) -> KernelMap:
        """Of a kernel with a volume and a metric at points of the plane."""
        fine, coarse = (torch.from_numpy(z) for z in (plane.points, plane.centres))
        log = kernel.volume(fine).log.numpy() / np.log(10)
        return cls(plane, log, kernel.metric(coarse).numpy(), level)

    @property
    def contrast(self) -> Array:
        """The log volume less its median over the plane, since a kernel's scale is a convention."""
        return self.log_volume - np.median(self.log_volume)

    @property
    def contrast_range(self) -> float:
        """What a tenth of the plane exceeds in contrast: where colours may end."""
        return float(np.quantile(abs(self.contrast), 0.9))

    @property
    def ellipses(self) -> Array:
        """(coarse^2, 49, 2): balls of one radius in the metric."""
        return ellipses(self.metric, self.plane.centres, self.plane.spacing)


def embed(points: Array, inputs: int) -> Array:
    """Points of the plane of the first two coordinates, among all of them."""
    return np.pad(points, ((0, 0), (0, inputs - 2)))


def slice_map(machine: FeatureMachine, plane: Plane) -> KernelMap:
    """A feature machine on the plane of the first two inputs: its prediction, and volume as area there."""
    fine, coarse = (embed(z, machine.n_features_in_) for z in (plane.points, plane.centres))
    areas, metric = (machine.kernel_.metric(z)[:, :2, :2].numpy() for z in (fine, coarse))
    rank, log = resolved_volume(areas)
    return KernelMap(plane, log / np.log(10), metric, machine.predict(fine), rank)


def resolved_volume(metric: Array) -> tuple[int, Array]:
    """The rank of metrics (n, d, d), one for all of them, and the log volumes along so many directions.

    Features that forget a direction leave an eigenvalue that is rounding, of either sign, and a
    determinant of 0 or noise. What is below `RESOLVED` of the largest eigenvalue anywhere is left out
    everywhere, so that volumes can be compared: areas become lengths.
    """
    values = np.linalg.eigvalsh(metric)[:, ::-1]
    rank = int((values > RESOLVED * values[:, :1]).sum(1).min())
    return rank, np.log(values[:, :rank]).sum(1) / 2


def ellipses(metric: Array, centres: Array, spacing: float) -> Array:
    """(n, 49, 2): balls of one radius in the metric, the middle one of the size of 0.3 spacings.

    The ratio of axes ends at 10, and what would hide a neighbour shrinks to fit.
    """
    values, vectors = np.linalg.eigh(metric)
    lengths = 1 / np.sqrt(np.maximum(values, values[:, -1:] / 100))
    lengths *= 0.3 * spacing / np.median(np.sqrt(lengths.prod(1)))
    lengths *= np.minimum(1, 0.47 * spacing / lengths.max(1, keepdims=True))
    return centres[:, None] + np.einsum("nij,nj,jt->nti", vectors, lengths, CIRCLE)


def cosines(matrices: Any, direction: Array) -> Array:
    """Of a direction with the top eigenvector of each M but the first, which is 1 and has none."""
    return abs(np.linalg.eigh(np.asarray(matrices)[1:])[1][..., -1] @ direction)


# Tasks of the notebook and its panels.
INPUTS, ANGLE = 10, 0.6
DIRECTION = np.array([np.cos(ANGLE), np.sin(ANGLE), *[0.0] * (INPUTS - 2)])


def wave(count: int, seed: int) -> tuple[Array, Array]:
    """Points of a square, and on which side of the boundary (G.2) they lie."""
    x = np.random.default_rng(seed).uniform(-1, 1, (count, 2))
    return x, np.where(x[:, 1] > 0.6 * np.sin(7 * x[:, 0] - 1), 1, -1)


def single_index(count: int, seed: int) -> tuple[Array, Array]:
    """Normal points, and a target that depends on one direction of them."""
    x = np.random.default_rng(seed).standard_normal((count, INPUTS))
    return x, np.sin(2 * x @ DIRECTION)


def moons(count: int, seed: int, others: int = 0) -> tuple[Array, Array, Array]:
    """Points of two half circles, for each a partner further along its own, and which of them it is."""
    rng = np.random.default_rng(seed)
    side = np.where(np.arange(count) % 2, 1, -1)
    at = rng.uniform(0, np.pi, count)
    along = at, np.clip(at + 0.25 * rng.standard_normal(count), 0, np.pi)
    circles = [side * (np.array([np.cos(t), np.sin(t)]) - [[0.5], [0.25]]) for t in along]
    noise = 0.08 * rng.standard_normal((2, count, 2 + others))
    first, second = (
        np.pad(one.T, ((0, 0), (0, others))) + off for one, off in zip(circles, noise, strict=True)
    )
    return first, second, side


# Panels: a plane and a curve.
BOUNDARY, MIDDLE, AROUND = Plane(1.0, 41), Plane(2.5, 31, 9), Plane(2.0, 41)


@dataclass(frozen=True, eq=False)
class MagnifiedKernel:
    """Amari and Wu's machine, and its contrast of volume up the line x1 = 0."""

    map: KernelMap
    x2: Array
    contrast: Array
    support_vectors: int
    points: int


def magnified_kernel(bandwidth: float, tau: float, rounds: int) -> MagnifiedKernel:
    data = wave(200, seed=0)
    choices = {"tau": tau, "C": 100.0, "rounds": rounds, "device": "cpu"}
    machine = AmariWuClassifier(Gaussian(bandwidth), **choices).fit(*data)
    level = machine.decision_function(BOUNDARY.points)
    one = KernelMap.of(machine.kernels_[-1], BOUNDARY, level)
    column = one.contrast.reshape(BOUNDARY.fine, -1)[:, BOUNDARY.fine // 2]
    support = len(machine.machines_[-1].support_)
    return MagnifiedKernel(one, BOUNDARY.line, column, support, len(data[0]))


@dataclass(frozen=True, eq=False)
class FeatureLearning:
    """The feature machine on a plane, and the cosine of its first direction with the target's."""

    map: KernelMap
    iterations: Array  # 1, 2, ...
    cosines: Array


def feature_learning(laplace_bandwidth: float, ridge: float, iterations: int) -> FeatureLearning:
    data, kernel = single_index(200, seed=0), SmoothedLaplace(laplace_bandwidth, 0.1)
    machine = FeatureMachine(kernel, ridge=ridge, iterations=iterations, device="cpu").fit(*data)
    counts = np.arange(1, iterations + 1)
    return FeatureLearning(
        slice_map(machine, MIDDLE), counts, cosines(machine.matrices_, DIRECTION)
    )


@dataclass(frozen=True, eq=False)
class SelfSupervision:
    """The self-supervised kernel, and the eigenvalues of which it keeps the first."""

    map: KernelMap
    indices: Array  # 1, 2, ...
    eigenvalues: Array
    last: float  # of those that it keeps


def self_supervision(pairs_bandwidth: float, components: int) -> SelfSupervision:
    kernel = SelfSupervisedKernel(Gaussian(pairs_bandwidth), components=components, device="cpu")
    first, second, _ = moons(100, seed=0)
    one = KernelMap.of(kernel.fit(first, second), AROUND)
    spectrum = kernel.spectrum_.numpy()
    return SelfSupervision(one, np.arange(1, 13), spectrum[:12], float(spectrum[components - 1]))

r"""Volumes and singular values of the Jacobian of any feature map, at any scale.

By a Cholesky factor of the Gram matrix up to condition `MILD`, by a plain QR up to `SAFE`. Beyond, and
where scales of rows do not fit into floats, by the QR of `scaled_qr`, which keeps all digits. Saturated
units of a hidden layer count even when their derivatives underflow, since the logarithms are known in
closed form; so do those of a Sequential of linear layers and known activations (`chain`). Of other maps
derivatives survive down to 1e-300 (`surviving`), and count where they stand out of their row.

A point with p features of d inputs costs min(p, d) passes through the map, none for a hidden layer, and
O(p d min(p, d)) operations for the factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from numeric.geometry.jacobians import COPIES, ENTRY, Scaled, jacobians, tolerance
from numeric.geometry.layerwise_volume import SAFE, linked_points
from numeric.geometry.scaled_qr import Graded, graded
from numeric.inputs import InputError, whole
from numeric.models.feature_map import FeatureMap
from numeric.models.hidden_layers import HiddenLayer
from numeric.models.repaired_operations import Composed
from numeric.models.saturating_activations import SURVIVING

GIGABYTE = 2**30
MILD = 30.0  # condition whose square a Gram matrix can bear: right to 1e-12
ROUNDS = 6  # of power iteration
PANEL = 128  # rows of a Gram matrix at a time, from their diagonal on

Result = tuple[Tensor, Tensor, Tensor]  # what was measured, rank, condition


@dataclass(frozen=True, eq=False)
class LogVolume:
    """log sqrt(det g) at each point; where the rank is below d, along the directions that count.

    A direction counts if it stands out of the uncertainty of the rows: max(p, d) times the epsilon of
    float64, or 32 times that of the model, relative to each row (`scaled_qr`, `rows`). Weights of layers that
    are known (`hidden`, `chain`) count as exact, and stand for rows of float64. `condition` is the
    largest over the smallest nonzero singular value of the Jacobian, to about a tenth of itself: inf
    above what floats hold.
    """

    value: Tensor  # (n,), natural log; 0 where the rank is 0
    rank: Tensor  # (n,)
    condition: Tensor  # (n,)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Logs of the singular values of the Jacobian at each point, descending; -inf from the rank on."""

    log_singular: Tensor  # (n, min(p, d))
    rank: Tensor  # (n,)
    condition: Tensor  # (n,)


@dataclass(frozen=True, eq=False)
class _Factored:
    """Jacobians at some points as e^scale times triangles, or in logs where these are not safe."""

    triangles: Tensor  # (m, k, k)
    scale: Tensor  # (m,)
    condition: Tensor  # (m,)
    logged: dict[int, Graded]

    @property
    def rank(self) -> Tensor:
        rank = torch.full_like(self.scale, self.triangles.shape[-1], dtype=torch.long)
        for point, found in self.logged.items():
            rank[point] = found.rank
        return rank


def log_volume(
    features: Any,
    x: Tensor,
    layer: str | None = None,
    memory: int = 2 * GIGABYTE,
    progress: bool = True,
) -> LogVolume:
    """The log of the product of the nonzero singular values of the Jacobian, at points (n, ...).

    `memory` is what may be held beside the model and its points, in bytes.
    """
    chosen = FeatureMap.of(features, layer)
    value, rank, condition = _everywhere(_volumes, chosen, x, memory, progress)
    for point, linked in linked_points(chosen, x, rank, condition, memory, progress):
        value[point], rank[point] = linked.log_volume, linked.rank
        condition[point] = condition.new_tensor(linked.log_condition()).exp()
    _check_rank(rank)
    return LogVolume(value, rank, condition)


def spectrum(
    features: Any,
    x: Tensor,
    layer: str | None = None,
    memory: int = 2 * GIGABYTE,
    progress: bool = True,
) -> Spectrum:
    """The singular values of the Jacobian at points (n, ...), each with its own digits."""
    chosen = FeatureMap.of(features, layer)
    values, rank, condition = _everywhere(_spectra, chosen, x, memory, progress)
    for point, linked in linked_points(chosen, x, rank, condition, memory, progress):
        if (better := linked.log_singular()) is not None:
            values[point, : len(better)], rank[point] = better, len(better)
            condition[point] = (better[0] - better[-1]).exp()
    _check_rank(rank)
    return Spectrum(values, rank, condition)


def _volumes(some: _Factored) -> Result:
    value = (some.triangles.diagonal(dim1=1, dim2=2).abs().log() + some.scale[:, None]).sum(1)
    for point, found in some.logged.items():
        value[point] = found.log_volume
    return value, some.rank, some.condition


def _spectra(some: _Factored) -> Result:
    values = torch.full_like(some.triangles[:, 0], -math.inf)
    safe = [point for point in range(len(values)) if point not in some.logged]
    values[safe] = torch.linalg.svdvals(some.triangles[safe]).log() + some.scale[safe, None]
    condition = (values[:, 0] - values[:, -1]).exp()
    for point, found in some.logged.items():
        values[point, : found.rank] = found.log_singular
        condition[point] = some.condition[point]
    return values, some.rank, condition


def _everywhere(
    measure: Callable[[_Factored], Result],
    chosen: FeatureMap,
    x: Tensor,
    memory: int,
    progress: bool,
) -> Result:
    """What is measured of the Jacobian's factors, joined over all points."""
    whole("memory", memory)
    if hidden := HiddenLayer.at(chosen, x):
        given = _hidden(hidden, chosen.checked(x), memory, progress)
        parts = [measure(_factor(logs, rows, None)) for logs, rows in given]
    else:
        with chosen.on(x) as f, Composed(SURVIVING):
            known, given = tolerance(f), jacobians(f, memory, progress)
            parts = [measure(_factor(logs, rows, known)) for logs, rows in given]
    return tuple(torch.cat(part) for part in zip(*parts, strict=True))


def _check_rank(rank: Tensor) -> None:
    if not rank.any():
        raise InputError(
            "All derivatives of the map are 0 at all points: it rounds, compares or is constant there, or "
            "is saturated beyond what floats hold; take features that vary."
        )


def _hidden(layer: HiddenLayer, x: Tensor, memory: int, progress: bool) -> Iterator[Scaled]:
    """Rows phi'_j w_j with their scales in logs, of as many points as fit."""
    size = COPIES * ENTRY * layer.weights.numel()
    if size > memory:
        raise InputError(
            f"memory = {memory} bytes was given, but the Jacobian of {tuple(layer.weights.shape)} and its "
            f"factors need {size}: give at least that."
        )
    with tqdm(total=len(x), desc="points", disable=not progress, leave=False) as bar:
        for some in x.split(memory // size):
            scale, slope, _ = layer.slopes(layer.preactivations(some))
            logs = scale + (layer.factor * slope).abs().log()
            if not (logs < math.inf).all():
                raise InputError(
                    f"phi' of {layer.name} is NaN or infinite at some points: mend the weights, or move "
                    "the points."
                )
            yield logs, layer.weights.expand(len(some), -1, -1)
            bar.update(len(some))


def _factor(logs: Tensor, rows: Tensor, known: float | None) -> _Factored:
    """(m, n), (m, n, d), and how far rows are known."""
    scale = logs.amax(1)
    scale = torch.where(scale > -math.inf, scale, 0)
    matrix = rows * (logs - scale[:, None]).exp()[:, :, None]
    matrix = matrix if matrix.shape[1] >= matrix.shape[2] else matrix.mT
    triangles, failed = torch.linalg.cholesky_ex(_gram(matrix), upper=True)
    condition = torch.where(failed == 0, _condition(triangles), math.inf)
    again = (~(condition <= MILD)).nonzero()[:, 0]
    if len(again):
        triangles[again] = torch.geqrf(matrix[again])[0][:, : matrix.shape[2]].triu()
        condition[again] = _condition(triangles[again])
    logged = {}
    doubtful = (~(condition <= SAFE)).nonzero()[:, 0]
    on_host = (part[doubtful].cpu() for part in (logs, rows))  # `graded` decides step by step
    for point, *own in zip(doubtful.tolist(), *on_host, strict=True):
        found = logged[point] = graded(*own, known)
        values = found.log_singular
        condition[point] = (values[0] - values[-1]).exp() if found.rank else 1
    return _Factored(triangles, scale, condition, logged)


def _gram(matrix: Tensor) -> Tensor:
    """(m, n, k) -> (m, k, k), the upper triangle, which is all that Cholesky reads."""
    if matrix.device.type != "cpu" or matrix.shape[2] < 2 * PANEL:
        return matrix.mT @ matrix
    gram = matrix.new_empty(len(matrix), matrix.shape[2], matrix.shape[2])
    for start in range(0, matrix.shape[2], PANEL):
        panel = slice(start, start + PANEL)
        torch.bmm(matrix[:, :, panel].mT, matrix[:, :, start:], out=gram[:, panel, start:])
    return gram


def _condition(triangles: Tensor) -> Tensor:
    """(m, k, k) -> (m,), by power iteration: at most the condition, and hardly less."""
    triangles = triangles / triangles.abs().amax((1, 2), keepdim=True)  # squares may underflow
    flipped = triangles.mT

    def forth(v: Tensor) -> Tensor:
        return flipped @ (triangles @ v)

    def back(v: Tensor) -> Tensor:
        v = torch.linalg.solve_triangular(flipped, v, upper=False)
        return torch.linalg.solve_triangular(triangles, v, upper=True)

    generator = torch.Generator().manual_seed(0)
    start = torch.randn(triangles.shape[-1], 1, generator=generator).to(triangles)
    product = torch.ones_like(triangles[:, 0, 0])
    for step in (forth, back):
        v = start.expand(len(triangles), -1, -1)
        for _ in range(ROUNDS):
            v = v / v.norm(dim=1, keepdim=True)
            v = step(v)
        product = product * v.norm(dim=1)[:, 0].sqrt()
    return product

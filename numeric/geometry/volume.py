r"""Volumes and singular values of the Jacobian of any feature map, at any scale.

By a Cholesky factor of the Gram matrix up to condition `MILD`, by a plain QR up to `SAFE`. Beyond, and
where scales of rows do not fit into floats, by the QR of `scaled_qr`, which keeps all digits. Saturated
units of a hidden layer count even when their derivatives underflow, since the logarithms are known in
closed form; so do those of a Sequential of linear layers and known activations (`layerwise_volume`). For
other maps derivatives are accurate down to 1e-300 (`saturating_activations`), and count where they exceed
the uncertainty of their row.

A point with p features of d inputs costs min(p, d) passes through the map, none for a hidden layer, and
O(p d min(p, d)) operations for the factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.geometry.jacobians import COPIES, ENTRY, Scaled, jacobians, tolerance
from numeric.geometry.layerwise_volume import SAFE, recompute_layerwise
from numeric.geometry.scaled_qr import Graded, graded
from numeric.inputs import ArrayLike, InputError, as_numbers, whole
from numeric.models.hidden_layers import HiddenLayer
from numeric.models.memory import GIGABYTE
from numeric.models.model import Model, ModelLike
from numeric.models.repaired_operations import ReplacedOperations
from numeric.models.saturating_activations import SATURATION_SAFE
from numeric.progress import progress_bar

__all__ = ["MILD", "LogVolume", "MetricSpectrum", "log_volume", "spectrum"]

MILD = 30.0  # condition number up to which a Gram matrix is accurate to 1e-12
ROUNDS = 6  # of power iteration
PANEL = 128  # rows of a Gram matrix at a time, from their diagonal on

Result = tuple[Tensor, Tensor, Tensor]  # log volume or log singular values, rank, condition


@dataclass(frozen=True, eq=False)
class LogVolume:
    """log sqrt(det g) at each point; where the rank is below d, along the directions that count.

    A direction counts if it exceeds the uncertainty of the rows: max(p, d) times the epsilon of float64, or
    32 times that of the model, relative to each row (`scaled_qr`, `jacobians`). Weights of recognised layers
    (`hidden_layers`, `layerwise_volume`) count as exact in float64. `condition` is the largest over the
    smallest nonzero singular value of the Jacobian, to about 10 %; inf where that overflows.
    """

    value: Tensor  # (n,), natural log; 0 where the rank is 0
    rank: Tensor  # (n,)
    condition: Tensor  # (n,)


@dataclass(frozen=True, eq=False)
class MetricSpectrum:
    """Logs of the singular values of the Jacobian at each point, descending; -inf from the rank on."""

    log_singular: Tensor  # (n, min(p, d))
    rank: Tensor  # (n,)
    condition: Tensor  # (n,)


@dataclass(frozen=True, eq=False)
class _Factors:
    """Jacobians at some points as e^scale times triangles, or graded where these are inaccurate."""

    triangles: Tensor  # (m, k, k)
    scale: Tensor  # (m,)
    condition: Tensor  # (m,)
    graded_points: dict[int, Graded]

    @property
    def rank(self) -> Tensor:
        rank = torch.full_like(self.scale, self.triangles.shape[-1], dtype=torch.long)
        for point, graded_matrix in self.graded_points.items():
            rank[point] = graded_matrix.rank
        return rank


def log_volume(
    model: ModelLike,
    x: ArrayLike,
    layer: str | None = None,
    memory: int = 2 * GIGABYTE,
    progress: bool = True,
) -> LogVolume:
    r"""The log of the volume element of a model's metric, exact at any scale.

    $\log\sqrt{\det g} = \sum_k \log s_k$ over the nonzero singular values of the Jacobian.

    The model is a module or a function (m, ...) -> (m, ...), taken up to `layer` if one is named; the
    points x have shape (n, ...); `memory` is a budget in bytes, beside the model and its points. Returned
    are log volumes, ranks and condition numbers, (n,) each. Refused are points and maps that cannot be
    differentiated, a budget that is too small, and maps that are constant at all points.

    >>> polar = lambda x: x[:, :1] * torch.cat([x[:, 1:].cos(), x[:, 1:].sin()], 1)
    >>> log_volume(polar, [[2.0, 0.3]]).value.exp().round(decimals=6).tolist()  # r dr dphi
    [2.0]
    """
    opened, x = Model.of(model, layer), as_numbers("x", x)
    value, rank, condition = _over_all_points(_volumes, opened, x, memory, progress)
    for point, product in recompute_layerwise(opened, x, rank, condition, memory, progress):
        value[point], rank[point] = product.log_volume, product.rank
        condition[point] = condition.new_tensor(product.log_condition()).exp()
    _check_rank(rank)
    return LogVolume(value, rank, condition)


def spectrum(
    model: ModelLike,
    x: ArrayLike,
    layer: str | None = None,
    memory: int = 2 * GIGABYTE,
    progress: bool = True,
) -> MetricSpectrum:
    """The singular values of the Jacobian, roots of the metric's eigenvalues, each with all digits.

    Arguments and refusals are those of `log_volume`. Returned are logs of singular values (n, min(p, d))
    for p features of d inputs, ranks and condition numbers (n,).

    >>> result = spectrum(lambda x: torch.cat([3 * x, 4 * x], 1), [[1.0]])
    >>> result.log_singular.exp().round(decimals=6).tolist()
    [[5.0]]
    """
    opened, x = Model.of(model, layer), as_numbers("x", x)
    values, rank, condition = _over_all_points(_spectra, opened, x, memory, progress)
    for point, product in recompute_layerwise(opened, x, rank, condition, memory, progress):
        if (log_values := product.log_singular()) is not None:
            values[point, : len(log_values)], rank[point] = log_values, len(log_values)
            condition[point] = (log_values[0] - log_values[-1]).exp()
    _check_rank(rank)
    return MetricSpectrum(values, rank, condition)


def _volumes(factors: _Factors) -> Result:
    value = (factors.triangles.diagonal(dim1=1, dim2=2).abs().log() + factors.scale[:, None]).sum(1)
    for point, graded_matrix in factors.graded_points.items():
        value[point] = graded_matrix.log_volume
    return value, factors.rank, factors.condition


def _spectra(factors: _Factors) -> Result:
    values = torch.full_like(factors.triangles[:, 0], -math.inf)
    safe = [point for point in range(len(values)) if point not in factors.graded_points]
    values[safe] = torch.linalg.svdvals(factors.triangles[safe]).log() + factors.scale[safe, None]
    condition = (values[:, 0] - values[:, -1]).exp()
    for point, graded_matrix in factors.graded_points.items():
        values[point, : graded_matrix.rank] = graded_matrix.log_singular
        condition[point] = factors.condition[point]
    return values, factors.rank, condition


def _over_all_points(
    measure: Callable[[_Factors], Result],
    opened: Model,
    x: Tensor,
    memory: int,
    progress: bool,
) -> Result:
    """Apply `measure` to the factors of the Jacobians of all points, and join the results."""
    whole("memory", memory)
    if hidden := HiddenLayer.at(opened, x):
        scaled_rows = _hidden_rows(hidden, opened.check_points(x), memory, progress)
        parts = [measure(_factor(logs, rows, None)) for logs, rows in scaled_rows]
    else:
        with opened.on(x) as f, ReplacedOperations(SATURATION_SAFE):
            row_tolerance, scaled_rows = tolerance(f), jacobians(f, memory, progress)
            parts = [measure(_factor(logs, rows, row_tolerance)) for logs, rows in scaled_rows]
    value, rank, condition = (torch.cat(part) for part in zip(*parts, strict=True))
    return value, rank, condition


def _check_rank(rank: Tensor) -> None:
    if not rank.any():
        raise InputError(
            "All derivatives of the map are 0 at all points: it rounds, compares or is constant there, or "
            "is saturated beyond what floats hold; take features that vary."
        )


def _hidden_rows(layer: HiddenLayer, x: Tensor, memory: int, progress: bool) -> Iterator[Scaled]:
    """Rows phi'_j w_j with log scales, for as many points at once as fit into `memory`."""
    size = COPIES * ENTRY * layer.weights.numel()
    if size > memory:
        raise InputError(
            f"memory = {memory} bytes was given, but the Jacobian of {tuple(layer.weights.shape)} and its "
            f"factors need {size}: give at least that."
        )
    with progress_bar(of="points", show=progress, total=len(x)) as bar:
        for chunk in x.split(memory // size):
            scale, slope, _ = layer.slopes(layer.preactivations(chunk))
            logs = scale + (layer.factor * slope).abs().log()
            if not (logs < math.inf).all():
                raise InputError(
                    f"phi' of {layer.name} is NaN or infinite at some points: mend the weights, or move "
                    "the points."
                )
            yield logs, layer.weights.expand(len(chunk), -1, -1)
            bar.update(len(chunk))


def _factor(logs: Tensor, rows: Tensor, row_tolerance: float | None) -> _Factors:
    """From log scales (m, n), rows (m, n, d), and the relative uncertainty of the rows."""
    scale = logs.amax(1)
    scale = torch.where(scale > -math.inf, scale, 0)
    matrix = rows * (logs - scale[:, None]).exp()[:, :, None]
    matrix = matrix if matrix.shape[1] >= matrix.shape[2] else matrix.mT
    triangles, failed = torch.linalg.cholesky_ex(_gram(matrix), upper=True)
    condition = torch.where(failed == 0, _condition(triangles), math.inf)
    ill_conditioned = (~(condition <= MILD)).nonzero()[:, 0]
    if len(ill_conditioned):
        triangles[ill_conditioned] = torch.geqrf(matrix[ill_conditioned])[0][
            :, : matrix.shape[2]
        ].triu()
        condition[ill_conditioned] = _condition(triangles[ill_conditioned])
    graded_points = {}
    doubtful = (~(condition <= SAFE)).nonzero()[:, 0]
    # On the CPU, since `graded` chooses pivots step by step.
    on_host = zip(logs[doubtful].cpu(), rows[doubtful].cpu(), strict=True)
    for point, (row_logs, matrix_rows) in zip(doubtful.tolist(), on_host, strict=True):
        graded_matrix = graded_points[point] = graded(row_logs, matrix_rows, row_tolerance)
        values = graded_matrix.log_singular
        condition[point] = (values[0] - values[-1]).exp() if graded_matrix.rank else 1
    return _Factors(triangles, scale, condition, graded_points)


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
    """Condition numbers by power iteration, from slightly below: (m, k, k) -> (m,)."""
    triangles = triangles / triangles.abs().amax((1, 2), keepdim=True)  # or squares may underflow
    flipped = triangles.mT

    def multiply(v: Tensor) -> Tensor:
        return flipped @ (triangles @ v)

    def solve(v: Tensor) -> Tensor:
        v = torch.linalg.solve_triangular(flipped, v, upper=False)
        return torch.linalg.solve_triangular(triangles, v, upper=True)

    generator = torch.Generator().manual_seed(0)
    start = torch.randn(triangles.shape[-1], 1, generator=generator).to(triangles)
    product = torch.ones_like(triangles[:, 0, 0])
    for step in (multiply, solve):
        v = start.expand(len(triangles), -1, -1)
        for _ in range(ROUNDS):
            v = v / v.norm(dim=1, keepdim=True)
            v = step(v)
        product = product * v.norm(dim=1)[:, 0].sqrt()
    return product

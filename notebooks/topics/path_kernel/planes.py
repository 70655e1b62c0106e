"""Functions on a square of the plane beside what the network predicts there: Figures 3, 5 and 6."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from notebooks.topics.path_kernel.runs import CENTRES, CLASSES, exact
from notebooks.topics.statistics import Array
from numeric.path_kernel import Record, posterior, support_vectors
from numeric.path_kernel.support_vectors import mean_kernel

SPREAD = "posterior standard deviation of $p$"


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

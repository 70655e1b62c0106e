"""Pictures of what learned kernels magnify: volume as colour, metrics as ellipses, and three panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure

from notebooks.panels import Caption, LogSlider, Slider, curve
from notebooks.panels.style import BLUE, INK, RED, SMALL, new
from numeric.learned import (
    AmariWuClassifier,
    FeatureMachine,
    Gaussian,
    SelfSupervisedKernel,
    SmoothedLaplace,
)

VOLUME = r"$\log_{10}\sqrt{\det g}$ less its median"
# White is the median: a flat metric is white all over. Steps, since gradients make large files.
COLOURS = colormaps["RdBu_r"].resampled(21)
RESOLVED = 1e-12  # of a metric's largest eigenvalue: rounding, some 1e-16 of it, is 1e-4 of that
FAINT = 0.1  # rounding of a flat metric shall not look like anything
CIRCLE = np.stack([f(np.linspace(0, 2 * np.pi, 49)) for f in (np.cos, np.sin)])
Points = np.ndarray


@dataclass(frozen=True)
class Plane:
    """A square of input space: a fine grid for colours, a coarse one for ellipses."""

    reach: float
    fine: int = 61
    coarse: int = 11

    @property
    def line(self) -> np.ndarray:
        return np.linspace(-self.reach, self.reach, self.fine)

    @property
    def points(self) -> Points:
        """(fine^2, 2), rows of the picture from below."""
        return _grid(self.line)

    @property
    def spacing(self) -> float:
        return 2 * self.reach / self.coarse

    @property
    def centres(self) -> Points:
        """(coarse^2, 2): where ellipses stand."""
        return _grid((self.reach - self.spacing / 2) * np.linspace(-1, 1, self.coarse))


def _grid(line: np.ndarray) -> Points:
    return np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)


@dataclass(frozen=True)
class Field:
    """A kernel on a plane: its log10 volume element, its metric, and a predictor."""

    log_volume: np.ndarray  # (fine^2,)
    metric: np.ndarray  # (coarse^2, 2, 2)
    level: np.ndarray | None = None  # (fine^2,), drawn where it is 0
    rank: int = 2  # of the metric: below 2, volume is along the directions that are left

    @classmethod
    def of(cls, kernel: Any, plane: Plane, level: Any = None) -> Field:
        """Of a kernel that tells its volume and its metric at points of the plane."""
        fine, coarse = (torch.from_numpy(z) for z in (plane.points, plane.centres))
        log = kernel.volume(fine).log.numpy() / np.log(10)
        return cls(log, kernel.metric(coarse).numpy(), level)

    @property
    def contrast(self) -> np.ndarray:
        """The log volume less its median over the plane, since a kernel's scale is a convention."""
        return self.log_volume - np.median(self.log_volume)


def embedded(points: Points, inputs: int) -> Points:
    """Points of the plane of the first two coordinates, among all of them."""
    return np.pad(points, ((0, 0), (0, inputs - 2)))


def sliced(machine: FeatureMachine, plane: Plane) -> Field:
    """A feature machine on the plane of the first two inputs: its prediction, and volume as area there."""
    fine, coarse = (embedded(z, machine.n_features_in_) for z in (plane.points, plane.centres))
    areas, metric = (machine.kernel_.metric(z)[:, :2, :2].numpy() for z in (fine, coarse))
    rank, log = resolved_volume(areas)
    return Field(log / np.log(10), metric, machine.predict(fine), rank)


def resolved_volume(metric: np.ndarray) -> tuple[int, np.ndarray]:
    """The rank of metrics (n, d, d), one for all of them, and the log volumes along so many directions.

    Features that forget a direction leave an eigenvalue that is rounding, of either sign, and a
    determinant of 0 or noise. What is below `RESOLVED` of the largest eigenvalue anywhere is left out
    everywhere, so that volumes can be compared: areas become lengths.
    """
    values = np.linalg.eigvalsh(metric)[:, ::-1]
    rank = int((values > RESOLVED * values[:, :1]).sum(1).min())
    return rank, np.log(values[:, :rank]).sum(1) / 2


def ellipses(metric: np.ndarray, centres: Points, spacing: float) -> np.ndarray:
    """(n, 49, 2): balls of one radius in the metric, the middle one of the size of 0.3 spacings.

    The ratio of axes ends at 10, and what would hide a neighbour shrinks to fit.
    """
    values, vectors = np.linalg.eigh(metric)
    lengths = 1 / np.sqrt(np.maximum(values, values[:, -1:] / 100))
    lengths *= 0.3 * spacing / np.median(np.sqrt(lengths.prod(1)))
    lengths *= np.minimum(1, 0.47 * spacing / lengths.max(1, keepdims=True))
    return centres[:, None] + np.einsum("nij,nj,jt->nti", vectors, lengths, CIRCLE)


def show(axes: Axes, plane: Plane, field: Field, most: float) -> Any:
    """Colours, ellipses and the predictor's zeros; drawn again, they move."""
    square = field.contrast.reshape(plane.fine, plane.fine)
    outlines = ellipses(field.metric, plane.centres, plane.spacing)
    if not axes.images:
        look = {"origin": "lower", "cmap": COLOURS, "interpolation": "bilinear"}
        look["interpolation_stage"] = "data"
        axes.imshow(square, extent=(-plane.reach, plane.reach) * 2, **look)
        axes.add_collection(LineCollection([], colors=INK, linewidths=0.7), autolim=False)
        axes.set(xlabel="$x_1$", ylabel="$x_2$", autoscale_on=False)
        axes.locator_params(nbins=5)  # ticks take longer to draw than all else
    axes.images[0].set_data(square)
    axes.images[0].set_clim(-most, most)
    axes.collections[0].set_segments(outlines)
    for old in [c for c in axes.collections if isinstance(c, QuadContourSet)]:
        old.remove()
    if field.level is not None and field.level.min() < 0 < field.level.max():
        square = field.level.reshape(plane.fine, plane.fine)
        axes.contour(plane.line, plane.line, square, [0.0], colors=INK, linewidths=1.8)
    return axes.images[0]


def scattered(axes: Axes, points: Points, labels: np.ndarray) -> None:
    """Two classes of points."""
    for sign, colour in ((-1, "white"), (1, INK)):
        some = points[np.sign(labels) == sign]
        axes.plot(*some.T[:2], "o", color=colour, mec=INK, mew=0.6, ms=3, alpha=0.8)


def greatest(*fields: Field) -> float:
    """Where colours end: the contrast that a tenth of the plane exceeds, unless all is flat."""
    return max(FAINT, *(float(np.quantile(abs(field.contrast), 0.9)) for field in fields))


def figure_fields(
    plane: Plane, fields: Mapping[str, Field], points: Points, labels: np.ndarray
) -> Figure:
    """Fields beside each other under one scale of colours, with the data."""
    figure = new(3.4 * len(fields) + 0.9, 3.7)
    row = figure.subplots(1, len(fields), sharey=True, squeeze=False)[0]
    most = greatest(*fields.values())
    for axes, (title, field) in zip(row, fields.items(), strict=True):
        image = show(axes, plane, field, most)
        scattered(axes, points, labels)
        axes.set(title=title, ylabel="$x_2$" if axes is row[0] else "")
    if most > FAINT:
        figure.colorbar(image, ax=list(row), label=VOLUME, shrink=0.85, extend="both")
    return figure


@dataclass(frozen=True)
class Chart:
    """Curves with marks: x, y and perhaps error bars, by label."""

    title: str
    xlabel: str
    lines: Mapping[str, Sequence[Any]]
    log: bool = False


def figure_charts(*charts: Chart) -> Figure:
    figure = new()
    for chart, axes in zip(charts, figure.subplots(1, len(charts), squeeze=False)[0], strict=True):
        looks = zip((BLUE, RED, INK, "#6a4c93"), ("o-", "s--", "^-.", "D:"), strict=True)
        for (label, (x, y, *bars)), (colour, look) in zip(chart.lines.items(), looks, strict=False):
            style = {"color": colour, "mfc": "none", "ms": 5, "lw": 1.2, "capsize": 2}
            axes.errorbar(x, y, *bars, fmt=look, label=label, **style)
        axes.set(title=chart.title, xlabel=chart.xlabel, yscale="log" if chart.log else "linear")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(**SMALL)
    return figure


# Panels: a plane and a curve; the data come first, bound by `partial`.
BOUNDARY, MIDDLE, AROUND = Plane(1.0, 41), Plane(2.5, 31, 9), Plane(2.0, 41)
MAGNIFIED = (
    Slider("bandwidth", "b", 0.2, 1.0, 0.05, 0.3),
    Slider("tau", r"\tau", 0.1, 0.6, 0.05, 0.2),
    Slider("rounds", "n", 0, 3, 1, 1),
)
TURNED = (
    Slider("bandwidth", "b", 1.0, 20.0, 1.0, 3.0),
    LogSlider("ridge", r"\lambda", -4, 0, 1e-3),
    Slider("iterations", "n", 0, 8, 1, 2),
)
AGREED = (Slider("bandwidth", "b", 0.3, 1.2, 0.1, 0.5), Slider("components", "m", 1, 8, 1, 2))


def magnified(
    data: Any, axes: Sequence[Axes], bandwidth: float, tau: float, rounds: int
) -> Caption:
    """Amari and Wu's machine, and its volume up the line x1 = 0."""
    choices = {"tau": tau, "C": 100.0, "rounds": rounds, "device": "cpu"}
    machine = AmariWuClassifier(Gaussian(bandwidth), **choices).fit(*data)
    field = Field.of(machine.kernels_[-1], BOUNDARY, machine.decision_function(BOUNDARY.points))
    show(axes[0], BOUNDARY, field, greatest(field))
    column = field.contrast.reshape(BOUNDARY.fine, -1)[:, BOUNDARY.fine // 2]
    _beside(axes[1], "$x_2$", BOUNDARY.line, column)
    numbers = f"{len(machine.machines_[-1].support_)} support vectors of {len(data[0])} points"
    return Caption(r"\tilde g = c^2g + k\,\partial c\,\partial c^T", numbers)


def turned(
    task: Any, axes: Sequence[Axes], bandwidth: float, ridge: float, iterations: int
) -> Caption:
    """The feature machine, and how its first direction came to be that of the target."""
    (*data, way), kernel = task, SmoothedLaplace(bandwidth, 0.1)
    machine = FeatureMachine(kernel, ridge=ridge, iterations=iterations, device="cpu").fit(*data)
    field = sliced(machine, MIDDLE)
    show(axes[0], MIDDLE, field, FAINT)
    found = cosines(machine.matrices_, way)
    _beside(axes[1], "iterations", np.arange(1, iterations + 1), found, marker="o")
    axes[1].set(xlim=(0, TURNED[-1].high + 0.5), ylim=(0.8, 1.01))
    last = f"cosine {found[-1]:.6f}" if iterations else "no direction yet"
    lost = "" if field.rank == 2 else f"rank {field.rank}, "
    return Caption(r"g = -2h'(0)\,M", f"after {iterations} iterations: {lost}{last}")


def cosines(matrices: Any, way: np.ndarray) -> np.ndarray:
    """Of a direction with the top eigenvector of each M but the first, which is 1 and has none."""
    return abs(np.linalg.eigh(np.asarray(matrices)[1:])[1][..., -1] @ way)


def agreed(pairs: Any, axes: Sequence[Axes], bandwidth: float, components: int) -> Caption:
    """The self-supervised kernel, and the eigenvalues of which it keeps the first."""
    kernel = SelfSupervisedKernel(Gaussian(bandwidth), components=components, device="cpu")
    field = Field.of(kernel.fit(*pairs), AROUND)
    show(axes[0], AROUND, field, greatest(field))
    _beside(axes[1], "index", np.arange(1, 13), kernel.spectrum_[:12].numpy(), marker="o")
    numbers = f"the last eigenvalue kept is {kernel.spectrum_[components - 1]:.6g}"
    return Caption(r"g = (\partial K)^TQ\,\partial K", numbers)


def _beside(axes: Axes, xlabel: str, x: Any, y: Any, **look: Any) -> None:
    curve(axes, x, y, color=BLUE, **look)
    axes.set_xlabel(xlabel)
    axes.locator_params("x", nbins=6, integer=True)

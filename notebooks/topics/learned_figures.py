"""Pictures of what learned kernels magnify: volume as colour, metrics as ellipses, and three panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from mpl_toolkits.axes_grid1 import make_axes_locatable

from notebooks.panels import Caption, Look, Slider, curve, log_slider
from notebooks.panels.style import BLUE, INK, new_figure

if TYPE_CHECKING:
    from notebooks.topics.learned import (
        FeatureLearning,
        KernelMap,
        MagnifiedKernel,
        SelfSupervision,
    )

VOLUME = r"$\log_{10}\sqrt{\det g}$ less its median"
# White is the median: a flat metric is white all over. Steps, since gradients make large files.
COLOURS = colormaps["RdBu_r"].resampled(21)
FAINT = 0.1  # rounding of a flat metric shall not look like anything
MOST_ITERATIONS = 8  # of the feature machine's panel


def show(axes: Axes, one: KernelMap, most: float) -> Any:
    """Colours, ellipses and the predictor's zeros; drawn again, they move."""
    plane = one.plane
    square = one.contrast.reshape(plane.fine, plane.fine)
    if not axes.images:
        look = {"origin": "lower", "cmap": COLOURS, "interpolation": "bilinear"}
        look["interpolation_stage"] = "data"
        axes.imshow(square, extent=(-plane.reach, plane.reach) * 2, **look)
        axes.add_collection(LineCollection([], colors=INK, linewidths=0.7), autolim=False)
        axes.set(xlabel="$x_1$", ylabel="$x_2$", autoscale_on=False)
        inches = axes.bbox.width / axes.figure.dpi
        axes.locator_params(nbins=5 if inches > 2 else 3)  # ticks take longer to draw than all else
    axes.images[0].set_data(square)
    axes.images[0].set_clim(-most, most)
    axes.collections[0].set_segments(one.ellipses)
    for old in [c for c in axes.collections if isinstance(c, QuadContourSet)]:
        old.remove()
    if one.level is not None and one.level.min() < 0 < one.level.max():
        square = one.level.reshape(plane.fine, plane.fine)
        axes.contour(plane.line, plane.line, square, [0.0], colors=INK, linewidths=1.8)
    return axes.images[0]


def scatter(axes: Axes, points: np.ndarray, labels: np.ndarray) -> None:
    """Two classes of points."""
    for sign, colour in ((-1, "white"), (1, INK)):
        some = points[np.sign(labels) == sign]
        axes.plot(*some.T[:2], "o", color=colour, mec=INK, mew=0.6, ms=3, alpha=0.8)


def colour_range(*maps: KernelMap) -> float:
    """Where colours end, on both sides: the range of the contrast, unless all is flat."""
    return max(FAINT, *(one.contrast_range for one in maps))


def figure_kernels(maps: Mapping[str, KernelMap], points: np.ndarray, labels: np.ndarray) -> Figure:
    """Kernels beside each other under one scale of colours, with the data."""
    figure = new_figure(3.4 * len(maps) + 0.9, 3.7)
    row = figure.subplots(1, len(maps), sharey=True, squeeze=False)[0]
    most = colour_range(*maps.values())
    for axes, (title, one) in zip(row, maps.items(), strict=True):
        image = show(axes, one, most)
        scatter(axes, points, labels)
        axes.set(title=title, ylabel="$x_2$" if axes is row[0] else "")
    if most > FAINT:
        figure.colorbar(image, ax=list(row), label=VOLUME, shrink=0.85, extend="both")
    return figure


def draw_magnified(axes: Sequence[Axes], now: MagnifiedKernel) -> Caption:
    """Amari and Wu's machine, and its volume up the line x1 = 0."""
    _show_with_scale(axes[0], now.map)
    _beside(axes[1], "$x_2$", now.x2, now.contrast)
    low, high = now.contrast.min(), now.contrast.max()
    numbers = (
        f"Amari and Wu: {now.support_vectors} support vectors of {now.points} points; "
        f"on the line log10 volume is from {low:+.3f} to {high:+.3f} above its median"
    )
    kernel, growth = r"k = e^{-|x-y|^2/2b^2}", r"c = \sum_v e^{-|x-v|^2/2\tau^2}"
    return Caption(
        rf"\tilde g = c^2g + k\,\partial c\,\partial c^T,\quad {kernel},\quad {growth}", numbers
    )


def draw_features(axes: Sequence[Axes], now: FeatureLearning) -> Caption:
    """The feature machine, and how its first direction came to be that of the target."""
    show(axes[0], now.map, FAINT)
    _beside(axes[1], "iterations", now.iterations, now.cosines, marker="o")
    axes[1].set(xlim=(0, MOST_ITERATIONS + 0.5), ylim=(0.8, 1.01))
    last = f"cosine {now.cosines[-1]:.6f}" if len(now.cosines) else "no direction yet"
    lost = "" if now.map.rank == 2 else f"rank {now.map.rank}, "
    return Caption(
        r"g = -2h'(0)\,M,\quad h(|x-y|_M^2) \approx e^{-|x-y|_M/b_L}",
        f"feature machine after {len(now.iterations)} iterations: {lost}{last}",
    )


def draw_pairs(axes: Sequence[Axes], now: SelfSupervision) -> Caption:
    """The self-supervised kernel, and the eigenvalues of which it keeps the first."""
    _show_with_scale(axes[0], now.map)
    _beside(axes[1], "index", now.indices, now.eigenvalues, marker="o")
    numbers = f"self-supervised: the last eigenvalue that it keeps is {now.last:.6g}"
    kernel = r"K = e^{-|x-y|^2/2b_s^2}"
    return Caption(
        rf"g = (\partial K)^TQ\,\partial K,\quad {kernel},\quad \mathrm{{rank}}\,Q = m", numbers
    )


def _show_with_scale(axes: Axes, one: KernelMap) -> None:
    image = show(axes, one, colour_range(one))
    if image.colorbar is None:  # as high as the square is
        places = make_axes_locatable(axes)
        beside = places.append_axes("right", size=0.1, pad=0.08)
        places.append_axes("right", size=0.15, pad=0).set_axis_off()  # room for numbers
        axes.figure.colorbar(image, cax=beside, extend="both")


def _beside(axes: Axes, xlabel: str, x: Any, y: Any, **look: Any) -> None:
    curve(axes, x, y, color=BLUE, **look)
    axes.set_xlabel(xlabel)
    axes.locator_params("x", nbins=6, integer=True)


MAGNIFIED = Look(
    draw_magnified,
    (
        Slider("bandwidth", "b", 0.2, 1.0, 0.05, 0.3, "bandwidth", above=0),
        Slider("tau", "τ", 0.1, 0.6, 0.05, 0.2, "reach of magnification", above=0),
        Slider("rounds", "rounds", 0, 3, 1, 1, least=0, most=10, play=True),
    ),
    (VOLUME, "the same where $x_1 = 0$"),
    heavy=True,
)
FEATURES = Look(
    draw_features,
    (
        Slider("laplace_bandwidth", "b_L", 1.0, 20.0, 1.0, 3.0, "bandwidth", above=0),
        log_slider("ridge", "λ", -4, 0, 1e-3, "ridge"),
        Slider(
            "iterations",
            "n",
            0,
            MOST_ITERATIONS,
            1,
            2,
            "iterations",
            least=0,
            most=MOST_ITERATIONS,
            play=True,
        ),
    ),
    (r"metric, and zeros of the prediction", "cosine with $w$"),
    heavy=True,
)
PAIRS = Look(
    draw_pairs,
    (
        Slider("pairs_bandwidth", "b_s", 0.3, 1.2, 0.1, 0.5, "bandwidth", above=0),
        Slider("components", "m", 1, 8, 1, 2, "components", least=1, most=100),
    ),
    (VOLUME, r"eigenvalues of $K_\Gamma$"),
    heavy=True,
)

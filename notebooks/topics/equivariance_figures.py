"""Pictures of what a symmetry is worth: accuracy and error by training data, images and charges turned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from notebooks.panels import Caption, Look, Slider, log_slider, wipe
from notebooks.panels.style import BLUE, GREY, RED, SMALL, frame_axes, new_figure
from notebooks.topics.equivariance import C4, CNN, MLP, NOISE, PANEL_SIZES, SO3

if TYPE_CHECKING:
    from notebooks.topics.equivariance import Learning, TurnedDigit

LOOKS = {CNN: (RED, "s"), C4: (BLUE, "o"), MLP: (RED, "s"), SO3: (BLUE, "o")}


def figure_learning(columns: Mapping[str, Mapping[str, Learning]], measure: str) -> Figure:
    """A measure by the number of training data, for each network; bars are standard errors."""
    figure = new_figure(4.6 * len(columns) + 0.3, 3.5)
    row = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, (title, lines) in zip(row, columns.items(), strict=True):
        for name, one in lines.items():
            _learned(axes, name, one)
        axes.set_xscale("log")
        axes.set_xticks(one.sizes, [f"{n:g}" for n in one.sizes])
        axes.minorticks_off()
        frame_axes(axes, title, "training data", 10).legend(**SMALL)
    row[0].set_ylabel(measure)
    return figure


def figure_errors(columns: Mapping[str, Mapping[str, Learning]], of_the_mean: float) -> Figure:
    """Mean absolute errors on a logarithmic axis, and that of predicting the mean."""
    figure = figure_learning(columns, "mean absolute error")
    for axes in figure.axes:
        axes.axhline(of_the_mean, color=GREY, ls="--", lw=1)
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        ticks = [k * 10.0**e for e in range(-4, 6) for k in (1, 2, 5) if low < k * 10.0**e < high]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_yticks([], minor=True)
    return figure


def _learned(axes: Axes, name: str, one: Learning) -> None:
    colour, mark = LOOKS[name]
    style = {"mfc": "none", "ms": 5, "capsize": 2, "lw": 1.2}
    axes.errorbar(
        one.sizes, one.mean, one.stderr, fmt=f"{mark}-", color=colour, label=name, **style
    )


def figure_images(images: np.ndarray, titles: Sequence[str]) -> Figure:
    """A row of images (n, channels, h, w), in grey or in colours from their least to their largest value."""
    figure = new_figure(1.2 * len(images) + 0.2, 1.5)
    for axes, image, title in zip(
        figure.subplots(1, len(images), squeeze=False)[0], images, titles, strict=True
    ):
        shown = (image - image.min()) / np.ptp(image)
        if len(shown) == 3:
            axes.imshow(shown.transpose(1, 2, 0))
        else:
            axes.imshow(shown[0], cmap="gray_r")
        axes.set(xticks=[], yticks=[])
        frame_axes(axes, title, size=8)
    return figure


def figure_turned(predictions: Mapping[str, np.ndarray], truth: float) -> Figure:
    """Predicted energies of one arrangement of charges in many positions, by network."""
    figure = new_figure(6.4, 2.6)
    axes = figure.subplots()
    for k, (name, values) in enumerate(predictions.items()):
        colour, mark = LOOKS[name]
        axes.plot(values, np.full(len(values), k), mark, color=colour, mfc="none", ms=6)
    axes.axvline(truth, color=GREY, lw=1, label="the energy")
    axes.set_yticks(range(len(predictions)), list(predictions))
    axes.set_ylim(-0.6, len(predictions) - 0.4)
    frame_axes(axes, "one arrangement of charges, turned at random", "predicted energy", 10)
    axes.legend(**SMALL)
    return figure


# The panel.


def draw_turned(axes: Sequence[Axes], now: TurnedDigit) -> Caption:
    """Left how far the right class is ahead by angle, in the middle the image, right accuracies."""
    left, middle, right = axes
    wipe((left, right))
    left.axhline(0, color=GREY, lw=0.8)
    for name, margin in now.margins.items():
        left.plot(now.angles, margin, "-", color=LOOKS[name][0], lw=1.4, label=name)
    left.set_xticks(range(0, 361, 90))
    left.set_xlabel("turned by, degrees")
    if not middle.images:
        middle.imshow(now.image, cmap="gray_r")
        middle.set(xticks=[], yticks=[])
        middle.set_xlabel("")
    middle.images[0].set_data(now.image)
    middle.images[0].autoscale()
    for name, one in now.accuracy.items():
        _learned(right, name, one)
    right.set_ylim(0, 1)
    right.set_xlim(0, PANEL_SIZES[-1] + 3)
    right.set_xlabel("training images")
    right.legend(loc="upper left", **SMALL)
    accuracy = {name: one.mean[-1] for name, one in now.accuracy.items()}
    spread = {name: np.ptp(margin[:-1:6]) for name, margin in now.margins.items()}
    numbers = (
        f"the digit {now.label}; {now.size} images: {CNN} {accuracy[CNN]:.0%}, {C4} {accuracy[C4]:.0%}; over "
        f"quarter turns the margin changes by {spread[CNN]:.2f} and {spread[C4]:.0e}"
    )
    return Caption(r"\Theta^{C4}(f, f') = \frac14\sum_g \Theta^{CNN}(f, \rho(g)f')", numbers)


PANEL = Look(
    draw_turned,
    (
        Slider("size", "n", 10, 40, 1, 40, "training images", least=10, most=40, ticks=PANEL_SIZES),
        log_slider("noise", "λ", -6, 0, NOISE, "ridge, relative"),
        Slider("image", "i", 0, 9, 1, 0, "test image", least=0, most=59),
    ),
    ("how far the right class is ahead", "the image, upright", "accuracy at turned digits"),
    heavy=True,
)

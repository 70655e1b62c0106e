"""Pictures of what lies between images: Figures 3 to 6 and G.8 to G.34 of the curvature paper, and panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.tri import Triangulation

from notebooks.panels import Caption, Choice, Look, Slider
from notebooks.panels.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    PURPLE,
    RED,
    SMALL,
    frame_axes,
    new_figure,
)
from notebooks.topics.images import (
    BARLOW,
    DEEP_EPOCHS,
    EPOCHS,
    FEATURES,
    FLAT,
    OBJECTIVES,
    PAIRS,
    SPHERE,
    STAGES,
    SUPERVISED,
    TEN,
)

if TYPE_CHECKING:
    from notebooks.topics.images import (
        AroundChange,
        Between,
        Contrasts,
        DrawnFields,
        PathFilm,
        PlaneFilm,
        SpectrumFilm,
    )

CLASS_COLOURS = ListedColormap([
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22",
    "#17becf",
])  # fmt: skip
BY_CLASS = {"cmap": CLASS_COLOURS, "vmin": -0.5, "vmax": 9.5}
CONTROLS = {
    "untrained": BLUE,
    "shuffled labels": GREEN,
    "within a class": PURPLE,
    "another's places": GREY,
}
VOLUME = r"$\log_{10}\sqrt{\det g}$"
PLATE = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": INK, "linewidth": 0.6}
COLUMNS = ("class", "entropy", VOLUME)


def _show(axes: Axes, picture: np.ndarray, title: str = "") -> None:
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1)
    axes.set_axis_off()
    axes.set_title(title, fontsize=8)


def _strip(pictures: np.ndarray, axis: int = 1) -> np.ndarray:
    """Pictures side by side, or below each other, with a white gap."""
    gap = np.ones_like(pictures[0].take([0], axis))
    parts = [part for picture in pictures for part in (picture, gap)]
    return np.concatenate(parts[:-1], axis)


def _by_class(axes: Axes, t: np.ndarray, fields: DrawnFields) -> None:
    axes.plot(t, fields.volume, color=GREY, lw=0.8, zorder=1)
    axes.scatter(t, fields.volume, c=fields.prediction, s=12, zorder=2, **BY_CLASS)


def figure_paths(films: Mapping[str, PathFilm], what: str = "epoch") -> Figure:
    """A row for each line: the images, then log volume over training, coloured by the predicted class."""
    epochs = list(next(iter(films.values())).fields)
    figure = new_figure(2.4 * len(epochs) + 2.2, 1.9 * len(films) + 0.3)
    ratios = {"width_ratios": [0.8, *(1.0 for _ in epochs)]}
    rows = figure.subplots(len(films), len(epochs) + 1, squeeze=False, gridspec_kw=ratios)
    for (label, film), (first, *rest) in zip(films.items(), rows, strict=True):
        _show(first, _strip(film.pictures), f"{label}\n{film.names[0]} to {film.names[1]}".strip())
        for (epoch, fields), axes in zip(film.fields.items(), rest, strict=True):
            _by_class(axes, film.t, fields)
            frame_axes(axes, f"{what} {epoch:g}" if axes in rows[0] else "", size=9)
            axes.tick_params(labelsize=7)
    for axes in rows[-1, 1:]:
        axes.set_xlabel("$t$")
    rows[0, 1].set_ylabel(VOLUME)
    return figure


def figure_planes(film: PlaneFilm, what: str = "epoch") -> Figure:
    """A row for each epoch: predicted class, entropy and log volume in the plane through three images."""
    figure = new_figure(8.6, 2.5 * len(film.fields) + 0.2)
    ratios = {"width_ratios": [0.55, 1, 1, 1]}
    rows, net = (
        figure.subplots(len(film.fields), 4, squeeze=False, gridspec_kw=ratios),
        Triangulation(*film.places.T),
    )
    for (epoch, fields), (first, *rest) in zip(film.fields.items(), rows, strict=True):
        _show(first, _strip(film.pictures, 0))
        names = ", ".join(film.names)
        listed = f": {names}" if len(names) < 12 else "\n" + "\n".join(film.names)
        first.set_title(f"{what} {epoch:g}{listed}", fontsize=8)
        columns = (fields.prediction, fields.entropy, fields.volume)
        for values, title, axes in zip(columns, COLUMNS, rest, strict=True):
            look: dict[str, Any] = {"cmap": "viridis", "shading": "gouraud"}
            if values is fields.prediction:
                of_triangles = np.median(values[net.triangles], 1)  # what two of three corners have
                axes.tripcolor(net, facecolors=of_triangles, **BY_CLASS)
            else:
                dots = axes.tripcolor(net, values, **look)
                figure.colorbar(dots, ax=axes, shrink=0.8).ax.tick_params(labelsize=6)
            axes.plot(*film.corners[[0, 1, 2, 0]].T, color=INK, lw=0.8)
            axes.set(xticks=[], yticks=[], aspect="equal")
            axes.spines[:].set_visible(False)
            axes.set_title(title if axes in rows[0] else "", fontsize=9)
        for name, corner in zip(film.names, film.corners, strict=True):
            rest[0].annotate(name, corner, fontsize=8, ha="center", va="center", bbox=PLATE)
    return figure


def figure_spectra(film: SpectrumFilm) -> Figure:
    """Singular values of the Jacobian over training, an axes for each image."""
    figure = new_figure(3.0 * len(film.names), 2.8)
    colours = CLASS_COLOURS.colors
    row = figure.subplots(1, len(film.names), sharey=True, squeeze=False)[0]
    for values, name, axes, colour in zip(
        film.log_singular, film.names, row, colours, strict=False
    ):
        axes.plot(film.epochs, values, color=colour, lw=0.6, alpha=0.7)
        frame_axes(axes, f"at {name}", "epoch", 9).set_xscale("symlog", linthresh=1)
        axes.set_xlim(0, film.epochs[-1])
    row[0].set_ylabel(r"$\log_{10}\sqrt{\lambda_i}$")
    return figure


def figure_contrasts(contrasts: Mapping[str, Contrasts]) -> Figure:
    """For each network, how much more contrast it has than each control, against ends and against sides."""
    kinds = {
        "ends": "at class changes, less at the ends",
        "beside": "at class changes, less beside them",
    }
    figure = new_figure(9.0, 0.5 * len(contrasts) + 1.9)
    for (kind, title), axes in zip(kinds.items(), figure.subplots(1, 2, sharey=True), strict=True):
        for place, one in enumerate(contrasts.values()):
            drawn = {"by itself": one.plain[kind], **one.against[kind]}
            for k, (name, contrast) in enumerate(drawn.items()):
                height = place + 0.16 * (k - 2)
                colour = CONTROLS.get(name, INK)
                label = None if place else name if name == "by itself" else f"less {name}"
                axes.plot([contrast.low, contrast.high], [height] * 2, color=colour, lw=1.6)
                axes.plot(contrast.mean, height, "o", color=colour, ms=4, label=label)
        axes.axvline(0, color=INK, lw=0.8)
        frame_axes(axes, title, "nats", 9)
    axes.set_yticks(range(len(contrasts)), labels=list(contrasts))
    axes.invert_yaxis()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), **SMALL)
    return figure


def figure_around(curves: Mapping[str, AroundChange]) -> Figure:
    """Log volume about class changes, less the mean of the line: trained networks and their controls."""
    figure = new_figure(2.9 * len(curves) + 0.4, 3.2)
    row = figure.subplots(1, len(curves), squeeze=False)[0]
    for (title, one), axes in zip(curves.items(), row, strict=True):
        for name, mean in one.mean.items():
            colour = CONTROLS.get(name, RED)
            axes.plot(one.distance, mean, "o-", color=colour, ms=3, lw=1.2, label=name)
            error = one.stderr[name]
            axes.fill_between(
                one.distance, mean - error, mean + error, color=colour, alpha=0.2, lw=0
            )
        axes.axvline(0, color=INK, lw=0.6)
        frame_axes(axes, title, "$t$ less that of the class change", 9)
    row[0].set_ylabel("log volume, less its line's mean")
    handles, labels = row[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * len(curves), **SMALL)
    return figure


# Panels.


def draw_between(axes: Sequence[Axes], now: Between) -> Caption:
    """The image at a place on the line, and the log volume along it, coloured by the predicted class."""
    picture, curve = axes
    volume, prediction = now.fields.volume, now.fields.prediction
    if not picture.images:
        picture.imshow(now.picture, cmap="gray", vmin=0, vmax=1)
        picture.set(xticks=[], yticks=[], xlabel="")
        curve.plot([], [], color=GREY, lw=1)
        curve.plot([], [], color=INK, lw=1)
        curve.scatter([0], [0], c=[0], s=16, zorder=3, **BY_CLASS)
        curve.set(xlabel="$t$", xlim=(-0.02, 1.02))
    picture.images[0].set_data(now.picture)
    low, high = volume.min(), volume.max()
    room = max(0.08 * (high - low), 1e-6)
    line, mark = curve.lines
    line.set_data(now.t, volume)
    mark.set_data([now.place] * 2, [low - room, high + room])
    curve.set_ylim(low - room, high + room)
    dots = curve.collections[0]
    dots.set_offsets(np.stack([now.t, volume], 1))
    dots.set_array(prediction)
    _name_classes(picture, [(int(k), now.names[k]) for k in np.unique(prediction)])
    k = int(np.abs(now.t - now.place).argmin())
    here = now.names[prediction[k]]
    numbers = (
        f"epoch {now.epoch:g}, from {now.ends[0]} to {now.ends[1]}, here {here} with entropy "
        f"{now.fields.entropy[k]:.2f}; log10 volume {volume[k]:.2f}, at the ends {volume[0]:.2f} and "
        f"{volume[-1]:.2f}"
    )
    return Caption(r"x(t) = (1 - t)\,x_0 + t\,x_1", numbers)


def _name_classes(axes: Axes, classes: Sequence[tuple[int, str]]) -> None:
    """The colours of predicted classes, below the image, where there is room."""
    marks = [
        Line2D([], [], marker="o", ls="", ms=4, color=CLASS_COLOURS(k), label=name)
        for k, name in classes
    ]
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.01), "borderaxespad": 0.0}
    dense = {"ncols": 5, "handletextpad": 0.1, "columnspacing": 1.0}
    axes.legend(handles=marks, title="predicted", title_fontsize=8, **place, **dense, **SMALL)


def _epochs(seen: Sequence[int]) -> Slider:
    last = seen[-1]
    words = "epoch of training"
    return Slider("epoch", "e", 0, last, 1, last, words, least=0, most=last, ticks=tuple(seen))


PAIR = Slider("pair", "i", 0, len(PAIRS) - 1, 1, 0, "pair of images", least=0, most=len(PAIRS) - 1)
PLACE = Slider("place", "t", 0.0, 1.0, 0.02, 0.5, "place on the line", least=0, most=1, play=True)
LAYER = Choice("layer", "layer", tuple(STAGES), FEATURES)
OBJECTIVE = Choice("objective", "learned from", (*OBJECTIVES, SUPERVISED), BARLOW)
METRIC = Choice("metric", "metric", (FLAT, SPHERE, TEN), FLAT)
TITLES = ("the image", VOLUME)
DIGITS = Look(draw_between, (PLACE, PAIR, _epochs(EPOCHS)), TITLES, heavy=True)
DEEP = Look(draw_between, (PLACE, PAIR, _epochs(DEEP_EPOCHS), LAYER), TITLES, heavy=True)
LEARNED = Look(
    draw_between, (PLACE, PAIR, _epochs(DEEP_EPOCHS), OBJECTIVE, METRIC), TITLES, heavy=True
)

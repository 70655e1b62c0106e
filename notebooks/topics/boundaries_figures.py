"""Pictures and films of networks that learn a boundary: Figures 2 and G.1 to G.7 of the curvature paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from IPython.display import HTML
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, SymLogNorm
from matplotlib.figure import Figure
from PIL import Image

from notebooks.panels import Caption, Choice, Look, Slider, freeze, log_slider
from notebooks.panels.pad import Box, Points
from notebooks.panels.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    RED,
    SMALL,
    frame_axes,
    new_figure,
    save_film,
)
from notebooks.topics.boundaries import EVERY, LAST, OWN, REACH, TASKS

if TYPE_CHECKING:
    from notebooks.topics.boundaries import (
        ContrastCurves,
        Film,
        Interval,
        PlaneMap,
        Profile,
        TrainedNetwork,
    )

CLASSES = ("#1e90ff", "#ff7f0e")  # of data, by label
CONTROL_COLOURS = {"untrained": BLUE, "shuffled labels": GREEN, "decoy": GREY}
CONTRASTS = {
    "boundary": (RED, "at the boundary"),
    "decoy": (GREY, "at the decoy"),
    "shuffled": (GREEN, "shuffled labels"),
}
PROFILES = {
    "trained": (RED, "trained"),
    "shuffled": (GREEN, "shuffled labels"),
    "untrained": (BLUE, "untrained"),
}
Examples = tuple[np.ndarray, np.ndarray]  # (n, 2), and labels (n,)


@dataclass(frozen=True)
class Quantity:
    """A quantity of the plane as colours."""

    title: str
    of: Callable[[PlaneMap], np.ndarray]  # -> (layers, points, points)
    colours: str
    line: str  # colour of the decision boundary
    norm: Callable[[np.ndarray], Normalize]  # from all values in one row of pictures

    def draw(self, axes: Axes, one: PlaneMap, layer: int, norm: Normalize) -> Any:
        reach = one.reach
        image = axes.imshow(
            self.of(one)[layer], cmap=self.colours, norm=norm, origin="lower", interpolation="nearest",
            extent=(-reach, reach) * 2,
        )  # fmt: skip
        axes.plot(*one.boundary, color=self.line, lw=1.2)
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[])
        return image


def _between(values: np.ndarray) -> Normalize:
    return Normalize(np.quantile(values, 0.02), values.max())


def _symmetric(values: np.ndarray) -> Normalize:
    return Normalize(-np.abs(values).max(), np.abs(values).max())


def _signed(values: np.ndarray) -> Normalize:
    """Logarithmic beyond a hundredth of the largest, which few points reach, or beyond the median."""
    middle, top = np.quantile(np.abs(values), (0.5, 0.99))
    return SymLogNorm(max(min(top / 100, middle), 1e-6), vmin=-max(top, 1e-6), vmax=max(top, 1e-6))


VOLUME = Quantity(r"$\log_{10}\sqrt{\det g}$", lambda one: one.log_volume, "viridis", RED, _between)
RICCI = Quantity("$R$", lambda one: one.ricci, "RdBu_r", INK, _signed)
LEAD = Quantity("lead of label 1", lambda one: one.margin[None], "PuOr_r", RED, _symmetric)


def figure_films(
    films: Mapping[str, Film], what: Quantity, data: Examples | None = None, unit: float = 1
) -> Figure:
    """A row for each film, training from left to right; `unit` is how many steps make an epoch."""
    columns = max(len(film.maps) for film in films.values())
    figure = new_figure(1.75 * columns + 0.9, 1.85 * len(films) + 0.2)
    rows = figure.subplots(len(films), columns, squeeze=False)
    for (label, film), row in zip(films.items(), rows, strict=True):
        norm = what.norm(np.stack([what.of(one)[film.layer] for one in film.maps.values()]))
        for (step, one), axes in zip(film.maps.items(), row, strict=True):
            image = what.draw(axes, one, film.layer, norm)
            axes.set_title(f"epoch {round(step / unit)}", fontsize=8)
            if data is not None:
                _dots(axes, *data)
        row[0].set_ylabel(label, fontsize=9)
        bar = figure.colorbar(image, ax=list(row), aspect=12, pad=0.01)
        if isinstance(norm, SymLogNorm):  # whose own ticks crowd at 0
            ends = [norm.vmin, 0, norm.vmax]
            bar.set_ticks(ends, labels=[f"{v:.2g}" for v in ends], minor=False)
            bar.ax.minorticks_off()
        bar.ax.tick_params(labelsize=7)
    figure.suptitle(what.title, fontsize=10)
    return figure


def _dots(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Data, coloured by label."""
    size = 24 if len(x) < 20 else 3
    for label, colour in enumerate(CLASSES):
        axes.scatter(*x[y == label].T, s=size, color=colour, lw=0.4, ec="white", zorder=3)


def film(
    maps: Mapping[int, PlaneMap], name: str, data: Examples | None = None, unit: float = 1
) -> HTML:
    """One frame for each step, written beside figures as a GIF; `unit` is how many steps make an epoch."""
    return save_film(_frames(maps, data, unit), name, "a network that learns")


def _frames(maps: Mapping[int, PlaneMap], data: Examples | None, unit: float) -> list[Image.Image]:
    """Axes are drawn once; what moves are colours, boundaries and the number of the epoch."""
    first = next(iter(maps.values()))
    layers = len(first.log_volume)
    figure = new_figure(4.5, 2.0 * layers + 0.2)
    grid = figure.subplots(layers, 2, squeeze=False)
    moving: list[tuple[Artist, Artist, Quantity, int]] = []
    for layer, row in enumerate(grid):
        for axes, what in zip(row, (VOLUME, RICCI), strict=True):
            norm = what.norm(np.stack([what.of(one)[layer] for one in maps.values()]))
            image = what.draw(axes, first, layer, norm)
            moving.append((image, axes.lines[-1], what, layer))
            axes.set_title(what.title if layer == 0 else "", fontsize=9)
            if data is not None:
                _dots(axes, *data)
        row[0].set_ylabel(f"layer {layer + 1}" if layers > 1 else "", fontsize=9)
    frames = []
    for step, one in maps.items():
        for image, line, what, layer in moving:
            image.set_data(what.of(one)[layer])
            line.set_data(*one.boundary)
        grid[-1, 0].set_xlabel(f"epoch {round(step / unit)}", fontsize=9)
        figure.canvas.draw()
        pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
        frames.append(Image.fromarray(pixels).quantize(128))
    return frames


def figure_contrasts(curves: Mapping[str, ContrastCurves]) -> Figure:
    """Contrast over training, with intervals: at the boundary, at its decoy, with shuffled labels."""
    figure = _figure_bands(curves, "share", CONTRASTS, "share of training", "contrast in nats")
    for axes in figure.axes[: len(curves)]:
        axes.set_xscale("symlog", linthresh=0.01)
        axes.set_xticks([0, 0.01, 0.1, 1], labels=["0", "0.01", "0.1", "1"])
    figure.axes[0].legend(loc="upper left", **SMALL)
    return figure


def figure_effects(effects: Mapping[str, Mapping[str, Interval]]) -> Figure:
    """For each shape, how much more contrast trained networks have than each control."""
    figure = new_figure(8.0, 0.55 * len(effects) + 1.2)
    axes = figure.subplots()
    for row, controls in enumerate(effects.values()):
        for place, (name, one) in enumerate(controls.items()):
            height, colour = row + 0.22 * (place - 1), CONTROL_COLOURS[name]
            label = None if row else f"against {name}"
            axes.plot([one.low, one.high], [height, height], color=colour, lw=1.6)
            axes.plot(one.mean, height, "o", color=colour, ms=4, label=label)
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_xticks(ticks := [0, 0.5, 1, 2, 5], labels=[f"{v:g}" for v in ticks])
    axes.set_yticks(range(len(effects)), labels=list(effects))
    axes.invert_yaxis()
    frame_axes(
        axes, "contrast of trained networks, less that of a control: mean and interval", size=9
    )
    axes.set_xlabel("nats")
    axes.legend(**SMALL)
    return figure


def figure_profiles(profiles: Mapping[str, Profile]) -> Figure:
    """Log volume, less the mean of its circle, against the distance from the boundary."""
    heights = "log volume less its circle's mean"
    figure = _figure_bands(profiles, "distance", PROFILES, "distance / radius", heights)
    figure.axes[0].legend(**SMALL)
    return figure


def _figure_bands(
    columns: Mapping[str, Any],
    x: str,
    bands: Mapping[str, tuple[str, str]],
    xlabel: str,
    ylabel: str,
) -> Figure:
    """Means with their intervals by title, at most five axes in a row; those left over are hidden.

    `x` and the keys of `bands` are fields of what is drawn; a band has a colour and a label.
    """
    count = min(5, len(columns))
    rows = math.ceil(len(columns) / count)
    figure = new_figure(2.5 * count + 0.6, 2.7 * rows)
    grid = list(figure.subplots(rows, count, squeeze=False).flat)
    for axes, (title, one) in zip(grid, columns.items(), strict=False):
        axes.axhline(0, color=INK, lw=0.6)
        frame_axes(axes, title, xlabel, size=9)
        for name, (colour, label) in bands.items():
            at, interval = getattr(one, x), getattr(one, name)
            axes.plot(at, interval.mean, "o-", color=colour, ms=3, lw=1.2, label=label)
            axes.fill_between(at, interval.low, interval.high, color=colour, alpha=0.2, lw=0)
    for axes in grid[len(columns) :]:
        axes.set_visible(False)
    grid[0].set_ylabel(ylabel)
    return figure


EIGHT = (
    (-1.0, -1.0, 0), (1.0, 1.0, 0), (-0.6, -0.4, 0), (0.4, 0.7, 0),
    (-1.0, 1.0, 1), (1.0, -1.0, 1), (-0.4, 0.8, 1), (0.7, -0.5, 1),
)  # fmt: skip
TASK = Choice("task", "task", (*TASKS, OWN), "xor")
width = Slider("n", "n", 2, 60, 1, 10, "width", most=1_000)
rate = replace(log_slider("rate", "ε", -3, 0, 0.1, "learning rate"), least=1e-8, most=100)
step = Slider("step", "t", 0, LAST, EVERY, LAST, "training steps", least=0, most=LAST, play=True)
POINTS = Points("points", "data", EIGHT, ("0", "1"), CLASSES, Box(-REACH, REACH, -REACH, REACH))
CONTROLS = (step, TASK, width, rate, POINTS)  # time first: frames open with it
TITLES = (r"$\log_{10}\sqrt{\det g}$ less its largest", "$R$")
BOUNDARY, ZERO, ONE = range(3)  # the lines of a map, by position
FORMULA = r"\Phi_j(x) = n^{-1/2}\,\phi(w_j\cdot x + b_j),\qquad g = (\partial\Phi)^T\partial\Phi"


def relevant(control: str, values: Mapping[str, Any]) -> bool:
    """Points are clicked and dragged where they are the task."""
    return control != "points" or values["task"] == OWN


def draw_network(axes: Sequence[Axes], now: TrainedNetwork) -> Caption:
    """Volume, curvature and decision boundary after so many steps, and how the network does."""
    if not axes[0].images:
        _begin(axes, now.ricci.shape)
    count = sum(part.shape[1] for part in now.examples)
    size, edge = (6, 0.5) if count < 20 else (1.5, 0)
    for where, values in zip(axes, (now.log_volume, now.ricci), strict=True):
        where.images[0].set_data(values)
        where.lines[BOUNDARY].set_data(now.boundary)
        for line, part in zip((ZERO, ONE), now.examples, strict=True):
            where.lines[line].set_data(*part)
            where.lines[line].set(markersize=size, markeredgewidth=edge)
    if now.refusal:
        return Caption(FORMULA, now.refusal)
    contrast = f"log volume {now.contrast:+.3f} larger at its boundary than away from it"
    if math.isnan(now.contrast):
        contrast = "no boundary in sight"
    numbers = f"loss {now.loss:.4g}, {now.right} of {count} right, {contrast}"
    return Caption(FORMULA, f"t = {now.step}: {numbers}")


def _begin(axes: Sequence[Axes], shape: tuple[int, ...]) -> None:
    """Empty maps, whose frames, numbers and colour bars are drawn once, since they cost most."""
    figure = axes[0].figure
    norms = (Normalize(-3, 0), SymLogNorm(1.0, vmin=-1e4, vmax=1e4))
    for where, one, norm in zip(axes, (VOLUME, RICCI), norms, strict=True):
        image = where.imshow(
            np.full(shape, np.nan), cmap=one.colours, norm=norm, origin="lower",
            interpolation="nearest", extent=(-REACH, REACH) * 2,
        )  # fmt: skip
        figure.colorbar(image, ax=where, extend="min" if one is VOLUME else "both")
        where.plot([], [], color=one.line, lw=1.5)
        for colour in CLASSES:
            where.plot([], [], "o", color=colour, mec="white")
        where.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xlabel="$x_1$", ylabel="$x_2$")
    freeze(axes)


PANEL = Look(draw_network, CONTROLS, TITLES, relevant, heavy=True)

"""Pictures of networks that learn a boundary: Figures 2 and G.1 to G.7 of the curvature paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from contourpy import contour_generator
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, SymLogNorm
from matplotlib.figure import Figure

from notebooks.panels.style import BLUE, INK, RED, framed, new
from numeric.experiments.decision_boundaries import Comparison, Evidence, GeometryMap
from numeric.experiments.decision_boundaries.evidence import DECOYS, SHUFFLED, TRUE

GREEN, GREY = "#3a7d44", "#888888"
CLASSES = ("#1e90ff", "#ff7f0e")  # of data, by label
CONTROLS = {"untrained": BLUE, "shuffled labels": GREEN, "decoy": GREY}


@dataclass(frozen=True)
class Map:
    """A quantity of the plane as colours."""

    title: str
    of: Callable[[GeometryMap], np.ndarray]  # -> (layers, points, points)
    colours: str
    line: str  # colour of the decision boundary
    norm: Callable[[np.ndarray], Normalize]  # from all values in one row of pictures

    def draw(self, axes: Axes, one: GeometryMap, layer: int, norm: Normalize) -> Any:
        reach = one.lattice.reach
        image = axes.imshow(
            self.of(one)[layer], cmap=self.colours, norm=norm, origin="lower", interpolation="nearest",
            extent=(-reach, reach) * 2,
        )  # fmt: skip
        axes.plot(*outline(one), color=self.line, lw=1.2)
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[])
        return image


def _between(values: np.ndarray) -> Normalize:
    return Normalize(np.quantile(values, 0.02), values.max())


def _signed(values: np.ndarray) -> Normalize:
    """Logarithmic beyond a hundredth of the largest, which few points reach, or beyond the median."""
    middle, top = np.quantile(np.abs(values), (0.5, 0.99))
    return SymLogNorm(max(min(top / 100, middle), 1e-6), vmin=-max(top, 1e-6), vmax=max(top, 1e-6))


VOLUME = Map(
    r"$\log_{10}\sqrt{\det g}$", lambda one: one.log_volume.numpy() / math.log(10), "viridis", RED, _between
)  # fmt: skip
RICCI = Map("$R$", lambda one: one.ricci.numpy(), "RdBu_r", INK, _signed)
LEAD = Map(
    "lead of label 1", lambda one: one.margin.numpy()[None], "PuOr_r", RED,
    lambda values: Normalize(-np.abs(values).max(), np.abs(values).max()),
)  # fmt: skip


def outline(one: GeometryMap) -> np.ndarray:
    """The decision boundary, its pieces apart by NaN: (2, points)."""
    axis = one.lattice.axis.numpy()
    pieces = contour_generator(axis, axis, one.margin.numpy()).lines(0.0)
    gap = np.full((1, 2), np.nan)
    return np.concatenate([gap, *(part for piece in pieces for part in (piece, gap))]).T


@dataclass(frozen=True, eq=False)
class Film:
    """One network, or one layer of it, over training."""

    fields: Mapping[int, GeometryMap]  # step -> maps
    layer: int = 0


def figure_films(films: Mapping[str, Film], what: Map, data: Any = None, unit: float = 1) -> Figure:
    """A row for each film, training from left to right; `unit` is how many steps make an epoch."""
    columns = max(len(film.fields) for film in films.values())
    figure = new(1.75 * columns + 0.9, 1.85 * len(films) + 0.2)
    rows = figure.subplots(len(films), columns, squeeze=False)
    for (label, film), row in zip(films.items(), rows, strict=True):
        norm = what.norm(np.stack([what.of(one)[film.layer] for one in film.fields.values()]))
        for (step, one), axes in zip(film.fields.items(), row, strict=True):
            image = what.draw(axes, one, film.layer, norm)
            axes.set_title(f"epoch {round(step / unit)}", fontsize=8)
            if data is not None:
                dots(axes, *data)
        row[0].set_ylabel(label, fontsize=9)
        bar = figure.colorbar(image, ax=list(row), aspect=12, pad=0.01)
        if isinstance(norm, SymLogNorm):  # whose own ticks crowd at 0
            bar.set_ticks(
                ends := [norm.vmin, 0, norm.vmax], labels=[f"{v:.2g}" for v in ends], minor=False
            )
            bar.ax.minorticks_off()
        bar.ax.tick_params(labelsize=7)
    figure.suptitle(what.title, fontsize=10)
    return figure


def dots(axes: Axes, x: Any, y: Any) -> None:
    """Data, coloured by label."""
    size = 24 if len(x) < 20 else 3
    for label, colour in enumerate(CLASSES):
        axes.scatter(
            *np.asarray(x[y == label]).T, s=size, color=colour, lw=0.4, ec="white", zorder=3
        )


def figure_courses(found: Mapping[str, Evidence]) -> Figure:
    """Contrast over training, with intervals: at the boundary, at its decoy, with shuffled labels."""
    figure, grid = _grid(found)
    for axes, one in zip(grid, found.values(), strict=False):
        here, there = one.contrast(one.curve)[..., -1], one.contrast(DECOYS[one.curve])[..., -1]
        share = np.array(one.steps) / one.steps[-1]
        _band(axes, share, Comparison.of(here[TRUE], one.level), RED, "at the boundary")
        _band(axes, share, Comparison.of(there[TRUE], one.level), GREY, "at the decoy")
        _band(axes, share, Comparison.of(here[SHUFFLED], one.level), GREEN, "shuffled labels")
        axes.set_xscale("symlog", linthresh=0.01)
        axes.set_xticks([0, 0.01, 0.1, 1], labels=["0", "0.01", "0.1", "1"])
        axes.set_xlabel("share of training")
    grid[0].set_ylabel("contrast in nats")
    grid[0].legend(frameon=False, fontsize=8, loc="upper left")
    return figure


def figure_effects(found: Mapping[str, Mapping[str, Comparison]]) -> Figure:
    """For each shape, how much more contrast trained networks have than each control."""
    figure = new(8.0, 0.55 * len(found) + 1.2)
    axes = figure.subplots()
    for row, told in enumerate(found.values()):
        for place, (name, one) in enumerate(told.items()):
            low, high = (v.item() for v in one.interval)
            height, colour = row + 0.22 * (place - 1), CONTROLS[name]
            axes.plot([low, high], [height, height], color=colour, lw=1.6)
            axes.plot(
                one.mean.item(),
                height,
                "o",
                color=colour,
                ms=4,
                label=None if row else f"against {name}",
            )
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_xticks(ticks := [0, 0.5, 1, 2, 5], labels=[f"{v:g}" for v in ticks])
    axes.set_yticks(range(len(found)), labels=list(found))
    axes.invert_yaxis()
    framed(axes, "contrast of trained networks, less that of a control: mean and interval", size=9)
    axes.set_xlabel("nats")
    axes.legend(frameon=False, fontsize=8)
    return figure


def figure_profiles(found: Mapping[str, Evidence], bins: int = 12) -> Figure:
    """Log volume, less the mean of its circle, against the distance from the boundary."""
    figure, grid = _grid(found)
    for axes, one in zip(grid, found.values(), strict=False):
        away = one.away[one.curve][0] / one.disc.reach
        edges = torch.linspace(0, away.quantile(0.98).item(), bins + 1).to(away)
        inside = F.one_hot(torch.bucketize(away, edges[1:]), bins + 1).to(away)[:, :bins]
        shares, middle = inside / inside.sum(0).clamp(min=1), (edges[1:] + edges[:-1]).cpu() / 2
        for label, labels, step, colour in (
            ("trained", TRUE, -1, RED),
            ("shuffled labels", SHUFFLED, -1, GREEN),
            ("untrained", TRUE, 0, BLUE),
        ):
            values = one.disc.beside(one.log_volume[labels, :, step, -1]) @ shares
            _band(axes, middle, Comparison.of(values, one.level), colour, label)
        axes.set_xlabel("distance / radius")
    grid[0].set_ylabel("log volume less its circle's mean")
    grid[0].legend(frameon=False, fontsize=8)
    return figure


def _grid(found: Mapping[str, Any], most: int = 5) -> tuple[Figure, list[Axes]]:
    """Titled axes, at most so many in a row; those that are left over are hidden."""
    columns = min(most, len(found))
    rows = math.ceil(len(found) / columns)
    figure = new(2.5 * columns + 0.6, 2.7 * rows)
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, title in zip(grid, found, strict=False):
        axes.axhline(0, color=INK, lw=0.6)
        framed(axes, title, size=9)
    for axes in grid[len(found) :]:
        axes.set_visible(False)
    return figure, grid


def _band(axes: Axes, x: Any, told: Comparison, colour: str, label: str) -> None:
    """A mean with its interval."""
    low, high = (end.cpu() for end in told.interval)
    axes.plot(x, told.mean.cpu(), "o-", color=colour, ms=3, lw=1.2, label=label)
    axes.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)

"""Pictures of three erf units in the plane: Figure B.1 of the curvature paper, and a panel to drag them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LightSource, Normalize, SymLogNorm
from matplotlib.figure import Figure

from notebooks.panels import Caption, Look, Slider, freeze
from notebooks.panels.pad import Handles, Mark
from notebooks.panels.style import BLUE, INK, RED, new_figure
from notebooks.topics.finite import CIRCLE, COARSE, REACH, TURN

if TYPE_CHECKING:
    from notebooks.topics.finite import Geometry, NetworkMap, PanelNetwork, Surface

COLOURS = ("#ff7f0e", "#e7298a", "#1e90ff")  # of the units, on white and on maps
TICKS = (-4, -2, 0, 2, 4)
CENTRES, CONIC, UNITS = 0, 1, (2, 3, 4)  # the lines of a map, by position


@dataclass(frozen=True)
class Map:
    """A quantity of the plane as colours."""

    title: str
    of: Callable[[Geometry], np.ndarray]
    colours: str
    ink: str
    norm: Callable[[], Normalize]
    ticks: Mapping[float, str]  # of a colour bar whose ends stand for more; {}: as the values are

    def begin(self, axes: Axes, values: np.ndarray) -> None:
        """The image with its colour bar, and lines that are still empty."""
        placed = {"extent": (-REACH, REACH) * 2, "origin": "lower", "interpolation": "nearest"}
        image = axes.imshow(values, cmap=self.colours, norm=self.norm(), **placed)
        bar = axes.figure.colorbar(image, ax=axes, extend="both" if self.ticks else "neither")
        if self.ticks:
            bar.set_ticks(list(self.ticks), labels=list(self.ticks.values()), minor=False)
            bar.ax.minorticks_off()
        axes.plot([], [], "+", color=self.ink, ms=9, mew=1.5, zorder=4)
        axes.plot([], [], "--", color=self.ink, lw=1.2)
        for colour in COLOURS:
            axes.plot([], [], "-", color=colour, lw=1.5)
        axes.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xticks=TICKS, yticks=TICKS)

    def move(self, axes: Axes, maps: NetworkMap) -> None:
        axes.images[0].set_data(self.of(maps.geometry))
        axes.lines[CENTRES].set_data(*maps.centres.T)


SQUARE = Map(r"$\det g$", lambda at: np.exp(2 * at.log_volume), "viridis", "white", Normalize, {})
VOLUME = Map(
    r"$\log_{10}\sqrt{\det g}$", lambda at: at.log_volume / math.log(10), "viridis", "white",
    partial(Normalize, -4, 0), {v: str(v) for v in range(-4, 1)},
)  # fmt: skip
RICCI = Map(
    "$R$", lambda at: at.ricci, "RdBu_r", INK, partial(SymLogNorm, 0.1, vmin=-1e3, vmax=1e3),
    {-1e3: "-1000", -10: "-10", -0.1: "-0.1", 0: "0", 0.1: "0.1", 10: "10", 1e3: "1000"},
)  # fmt: skip


def figure_maps(networks: Mapping[str, NetworkMap]) -> Figure:
    """det g as the paper shows it, its logarithm, and R with its zeros: a row for each network."""
    figure = new_figure(11.0, 3.3 * len(networks))
    rows = figure.subplots(len(networks), 3, sharex=True, sharey=True, squeeze=False)
    for (label, maps), row in zip(networks.items(), rows, strict=True):
        for one, axes in zip((SQUARE, VOLUME, RICCI), row, strict=True):
            one.begin(axes, one.of(maps.geometry))
            one.move(axes, maps)
            axes.set_title(f"{one.title}, {label}")
        row[2].lines[CONIC].set_data(maps.conic)
        row[0].set_ylabel("$x_2$")
    for axes in rows[-1]:
        axes.set_xlabel("$x_1$")
    return figure


def figure_surface(surface: Surface) -> Figure:
    """The surface that three features draw in space, and R on the first axis beside Gauss's."""
    figure = new_figure(9.5, 4.2)
    space = figure.add_subplot(1, 2, 1, projection="3d", box_aspect=(1, 1, 1))
    colours = colormaps[RICCI.colours](RICCI.norm()(surface.ricci))
    style = {"rstride": 1, "cstride": 1, "lightsource": LightSource(62, 40)}
    space.plot_surface(*surface.features, facecolors=colours, **style)
    space.set(title="the plane in feature space, coloured by $R$", xticks=[], yticks=[], zticks=[])
    space.view_init(24, 28)
    axes = figure.add_subplot(1, 2, 2)
    axes.plot(surface.line, surface.ricci_on_line, color=INK, label="closed form")
    axes.plot(surface.line, surface.printed_on_line, ":", color=RED, label="as printed")
    style = {"color": BLUE, "mfc": "none", "label": "Gauss: twice det II / det I"}
    axes.plot(surface.check_line, surface.checks, "o", **style)
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set(title="$R$ on the first axis", xlabel="$x_1$", yticks=[*RICCI.ticks, 1e5, -1e5])
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return figure


WEIGHTS = Handles(
    "w", "weights", CIRCLE, mark=Mark.ARROW, names=("w₁", "w₂", "w₃"), colours=COLOURS,
    tour=((1.0, 0.0), (0.95, 0.25), (0.85, 0.5), (0.7, 0.7), (0.5, TURN), (0.25, 0.95), (0.0, 1.0)),
)  # fmt: skip
bias = Slider("b", "b", -1.5, 1.5, 0.1, 1.0, "bias of every unit", least=-10, most=10)
CONTROLS = (WEIGHTS, bias)
TITLES = (VOLUME.title, RICCI.title)
FORMULA = (
    r"(\det g)^2R = \tfrac{2}{27}\left(\tfrac{2}{\pi}\right)^3 M_{12}M_{23}M_{31}"
    r"\left(M_{23}z_2z_3 + M_{31}z_3z_1 + M_{12}z_1z_2\right) e^{-z_1^2-z_2^2-z_3^2}"
)


def draw_network(axes: Sequence[Axes], network: PanelNetwork) -> Caption:
    """Both maps of a network, its bumps and lines, and numbers at the origin."""
    if not axes[0].images:
        _begin(axes)
    maps = network.maps
    if maps is None:
        for where in axes:
            where.images[0].set_data(np.full(COARSE.shape[:2], np.nan))
            for line in where.lines:
                line.set_data([], [])
        return Caption(r"\det g = 0", network.refusal)
    for one, where in zip((VOLUME, RICCI), axes, strict=True):
        one.move(where, maps)
    axes[1].lines[CONIC].set_data(maps.conic)
    for unit, where in zip(maps.units, UNITS, strict=True):
        axes[0].lines[where].set_data(unit)
    numbers = f"sqrt(det g) = {network.magnification_at_origin:.8g}"
    numbers += f", R = {network.ricci_at_origin + 0.0:.8g}; R = 0 {network.zeros}"
    return Caption(FORMULA, f"at x = 0: {numbers}")


def _begin(axes: Sequence[Axes]) -> None:
    """Empty maps, whose frames, numbers and colour bars are drawn once, since they cost most."""
    for one, where in zip((VOLUME, RICCI), axes, strict=True):
        one.begin(where, np.full(COARSE.shape[:2], np.nan))
        where.set(xlabel="$x_1$", ylabel="$x_2$")
    freeze(axes)


PANEL = Look(draw_network, CONTROLS, TITLES)

"""Pictures of three erf units in the plane: Figure B.1 of the curvature paper, and a panel to drag them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from contourpy import contour_generator
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LightSource, Normalize, SymLogNorm
from matplotlib.figure import Figure
from scipy.special import erf

from analytic.expressions.arguments import InputError
from analytic.finite.bumps import Bump, bumps, log_determinant
from notebooks.panels import Caption, Slider, freeze
from notebooks.panels.pad import Handles, Mark
from notebooks.panels.style import BLUE, INK, RED, new

TURN = 3**0.5 / 2
CIRCLE = ((1.0, 0.0), (-0.5, TURN), (-0.5, -TURN))  # the weights of (B.65)
COLOURS = ("#ff7f0e", "#e7298a", "#1e90ff")  # of the units, on white and on maps
REACH, TICKS = 4.0, (-4, -2, 0, 2, 4)  # of the maps, in both coordinates
PAIRS = ((1, 2), (2, 0), (0, 1))  # the pair beside unit 1, 2, 3


@dataclass(frozen=True, eq=False)
class Geometry:
    """What a metric of the plane says at points of any shape."""

    log_volume: np.ndarray  # ln sqrt(det g)
    ricci: np.ndarray


@dataclass(frozen=True, eq=False)
class Triple:
    """Three units erf((w.x + b)/sqrt 2) of one bias: volume and curvature on whole maps."""

    weights: Any  # (3, 2)
    bias: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", np.asarray(self.weights, dtype=float))
        if self.weights.shape != (3, 2) or not self.areas.any():
            raise InputError(
                f"the weights {self.weights.tolist()} were given: three pairs are needed that are not all "
                "parallel, or the network sees one direction only and has no metric. Turn one of them."
            )

    @cached_property
    def bumps(self) -> tuple[Bump, ...]:
        return bumps(self.weights, [self.bias] * 3)

    @property
    def centres(self) -> np.ndarray:
        """Where the lines w.x + b = 0 of two units cross, (B.63): (pairs that do, 2)."""
        return np.array([[float(v) for v in bump.centre] for bump in self.bumps])

    @cached_property
    def areas(self) -> np.ndarray:
        """M_23, M_31 and M_12 of (B.7): twice the area between two weights, with its sign."""
        (a, b), (c, d), (e, f) = self.weights
        M = np.array([c * f - d * e, e * b - f * a, a * d - b * c])
        return np.where(np.abs(M) > 1e-12 * np.square(self.weights).max(), M, 0.0)  # no rounding

    def heights(self, x: np.ndarray) -> np.ndarray:
        """w.x + b: (..., 2) -> (..., 3)."""
        return x @ self.weights.T + self.bias

    def conic(self, x: np.ndarray) -> np.ndarray:
        r"""$M_{12}M_{23}M_{31}(M_{23}z_2z_3 + M_{31}z_3z_1 + M_{12}z_1z_2)$, which has the sign of R."""
        z = self.heights(x)
        terms = (M * z[..., j] * z[..., k] for M, (j, k) in zip(self.areas, PAIRS, strict=True))
        return self.areas.prod() * sum(terms)

    def at(self, x: np.ndarray) -> Geometry:
        r"""By (B.62) and, without the printed 3, (B.16): points (..., 2)."""
        determinant = log_determinant(self.bumps, x)
        decay = np.exp(-(self.heights(x) ** 2).sum(-1) - 2 * determinant)
        return Geometry(determinant / 2, 2 / 27 * (2 / math.pi) ** 3 * self.conic(x) * decay)

    @property
    def zeros(self) -> str:
        """Where R vanishes: on an ellipse if the areas can be the sides of a triangle."""
        short, middle, long = np.sort(np.abs(self.areas))
        if short == 0:
            return "everywhere"  # two weights are parallel
        excess = (short + middle) / long - 1
        kind = 0 if abs(excess) < 1e-12 else math.copysign(1, excess)
        if abs(self.bias * self.areas.sum()) < 1e-12 * long:  # all three lines meet in one point
            return {1: "at one point", 0: "on a line", -1: "on two lines"}[kind]
        return {1: "on an ellipse", 0: "on a parabola", -1: "on a hyperbola"}[kind]


def grid(points: int) -> np.ndarray:
    """A square around the origin, rows upwards: (points, points, 2)."""
    line = np.linspace(-REACH, REACH, points)
    return np.stack(np.meshgrid(line, line), axis=-1)


def outline(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The curve where values on a grid are 0, its pieces apart by NaN: (2, points)."""
    pieces = contour_generator(x[0, :, 0], x[:, 0, 1], values).lines(0.0)
    gap = np.full((1, 2), np.nan)
    return np.concatenate([gap, *(part for piece in pieces for part in (piece, gap))]).T


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

    def move(self, axes: Axes, geometry: Geometry, centres: np.ndarray) -> None:
        axes.images[0].set_data(self.of(geometry))
        axes.lines[CENTRES].set_data(*centres.T)


SQUARE = Map(r"$\det g$", lambda at: np.exp(2 * at.log_volume), "viridis", "white", Normalize, {})
VOLUME = Map(
    r"$\log_{10}\sqrt{\det g}$", lambda at: at.log_volume / math.log(10), "viridis", "white",
    partial(Normalize, -4, 0), {v: str(v) for v in range(-4, 1)},
)  # fmt: skip
RICCI = Map(
    "$R$", lambda at: at.ricci, "RdBu_r", INK, partial(SymLogNorm, 0.1, vmin=-1e3, vmax=1e3),
    {-1e3: "-1000", -10: "-10", -0.1: "-0.1", 0: "0", 0.1: "0.1", 10: "10", 1e3: "1000"},
)  # fmt: skip


def figure_maps(networks: Mapping[str, Triple], points: int = 301) -> Figure:
    """det g as the paper shows it, its logarithm, and R with its zeros: a row for each network."""
    figure, x = new(11.0, 3.3 * len(networks)), grid(points)
    rows = figure.subplots(len(networks), 3, sharex=True, sharey=True, squeeze=False)
    for (label, triple), row in zip(networks.items(), rows, strict=True):
        geometry = triple.at(x)
        for one, axes in zip((SQUARE, VOLUME, RICCI), row, strict=True):
            one.begin(axes, one.of(geometry))
            one.move(axes, geometry, triple.centres)
            axes.set_title(f"{one.title}, {label}")
        row[2].lines[CONIC].set_data(outline(triple.conic(x), x))
        row[0].set_ylabel("$x_2$")
    for axes in rows[-1]:
        axes.set_xlabel("$x_1$")
    return figure


def figure_surface(triple: Triple, along: np.ndarray, found: np.ndarray) -> Figure:
    """The surface that three features draw in space, and R on the first axis beside `found`."""
    figure, x = new(9.5, 4.2), grid(121)
    space = figure.add_subplot(1, 2, 1, projection="3d", box_aspect=(1, 1, 1))
    features = np.moveaxis(erf(triple.heights(x) / 2**0.5) / 3**0.5, -1, 0)
    colours = colormaps[RICCI.colours](RICCI.norm()(triple.at(x).ricci))
    style = {"rstride": 1, "cstride": 1, "lightsource": LightSource(62, 40)}
    space.plot_surface(*features, facecolors=colours, **style)
    space.set(title="the plane in feature space, coloured by $R$", xticks=[], yticks=[], zticks=[])
    space.view_init(24, 28)
    axes = figure.add_subplot(1, 2, 2)
    line = np.stack([np.linspace(along[0], along[-1], 401), np.zeros(401)], axis=-1)
    scalar = triple.at(line).ricci
    axes.plot(line[:, 0], scalar, color=INK, label="closed form")
    axes.plot(line[:, 0], 3 * scalar, ":", color=RED, label="as printed")
    axes.plot(along, found, "o", color=BLUE, mfc="none", label="Gauss: twice det II / det I")
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set(title="$R$ on the first axis", xlabel="$x_1$", yticks=[*RICCI.ticks, 1e5, -1e5])
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return figure


W = Handles(
    "w", "weights", CIRCLE, mark=Mark.ARROW, names=("w₁", "w₂", "w₃"), colours=COLOURS,
    tour=((1.0, 0.0), (0.95, 0.25), (0.85, 0.5), (0.7, 0.7), (0.5, TURN), (0.25, 0.95), (0.0, 1.0)),
)  # fmt: skip
bias = Slider("b", "b", -1.5, 1.5, 0.1, 1.0)
TITLES = (VOLUME.title, RICCI.title)
COARSE, CENTRE = grid(81), (40, 40)  # of the panel, and where it has the origin


def network(axes: Sequence[Axes], w: Any, b: float) -> Caption:
    """Both maps of the network with these weights, its bumps and lines, and numbers at the origin."""
    if not axes[0].images:
        _begin(axes)
    try:
        triple = Triple(w, b)
    except InputError as refusal:
        for where in axes:
            where.images[0].set_data(np.full(COARSE.shape[:2], np.nan))
            for line in where.lines:
                line.set_data([], [])
        return Caption(r"\det g = 0", str(refusal))
    geometry = triple.at(COARSE)
    for one, where in zip((VOLUME, RICCI), axes, strict=True):
        one.move(where, geometry, triple.centres)
    axes[1].lines[CONIC].set_data(outline(triple.conic(COARSE), COARSE))
    for unit, where in zip(np.moveaxis(triple.heights(COARSE), -1, 0), UNITS, strict=True):
        axes[0].lines[where].set_data(outline(unit, COARSE))
    volume, scalar = (float(values[CENTRE]) for values in (geometry.log_volume, geometry.ricci))
    numbers = f"sqrt(det g) = {math.exp(volume):.8g}, R = {scalar + 0.0:.8g}"
    return Caption(FORMULA, f"at x = 0: {numbers}; R = 0 {triple.zeros}")


FORMULA = (
    r"(\det g)^2R = \tfrac{2}{27}\left(\tfrac{2}{\pi}\right)^3 M_{12}M_{23}M_{31}"
    r"\left(M_{23}z_2z_3 + M_{31}z_3z_1 + M_{12}z_1z_2\right) e^{-z_1^2-z_2^2-z_3^2}"
)


def _begin(axes: Sequence[Axes]) -> None:
    """Empty maps, whose frames, numbers and colour bars are drawn once and kept: they cost most."""
    figure = axes[0].figure
    figure.subplots_adjust(left=0.06, right=0.99, bottom=0.14, wspace=0.15)
    for one, where in zip((VOLUME, RICCI), axes, strict=True):
        one.begin(where, np.full(COARSE.shape[:2], np.nan))
        where.set(xlabel="$x_1$", ylabel="$x_2$")
    freeze(axes)

"""The picture of a panel: a figure, light or dark, with ghosts, locked limits and coordinates."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import matplotlib
import numpy as np
import traitlets
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection, LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import AsinhLocator, LogFormatterSciNotation
from matplotlib.transforms import ScaledTranslation

from notebooks.panels.style import BLUE, GREEN, GREY, INK, PURPLE, RED

DOTS = 100  # to an inch of the screen
NARROWEST, HEIGHT, LOWER = (
    270,
    340,
    270,
)  # of axes, in pixels; lower where they stand below each other
SMALL_BELOW = 340  # narrower axes have smaller letters
MARGINS = {"left": 62, "right": 34, "bottom": 50, "top": 34, "between": 72}  # in pixels
RADIUS = r"$|x|$"
DECADES = 2  # below that of the largest value, where an axis by powers of ten shows both signs
DARK_GROUND, DARK_INK = "#111111", "#dddddd"
ON_DARK = {
    INK: DARK_INK, GREY: "#999999", BLUE: "#7aa6dd", RED: "#ef7a8b", GREEN: "#7cc588", PURPLE: "#b79ae0",
}  # fmt: skip
RC_DARK = {
    "text.color": DARK_INK, "axes.labelcolor": DARK_INK, "axes.edgecolor": DARK_INK,
    "xtick.color": DARK_INK, "ytick.color": DARK_INK, "axes.facecolor": DARK_GROUND,
    "figure.facecolor": DARK_GROUND, "savefig.facecolor": DARK_GROUND,
}  # fmt: skip
GHOST = {
    "linewidths": 1.1,
    "zorder": -0.5,
}  # under all axes, which are clear, and over what is frozen
FAINT, FAINT_ON_DARK = 0.4, 0.65  # how opaque ghosts are: dark grounds swallow more
SMALLEST = 0.6  # of the size of titles, where they have little room


class Picture(anywidget.AnyWidget):
    """The widget; panel.js shows it and tells what the page is like."""

    _esm = Path(__file__).with_name("panel.js")
    kind = traitlets.Unicode("picture").tag(sync=True)
    value = traitlets.Bytes().tag(sync=True)  # PNG
    shown_width = traitlets.Int().tag(sync=True)  # in pixels of the page
    alt = traitlets.Unicode().tag(sync=True)
    axes = traitlets.List().tag(sync=True)  # where they are, and their data coordinates
    message = traitlets.Unicode().tag(sync=True)
    busy = traitlets.Bool().tag(sync=True)
    heavy = traitlets.Bool().tag(sync=True)
    ghost = traitlets.Bool(True).tag(sync=True)
    locked = traitlets.Bool().tag(sync=True)
    logarithmic = traitlets.Bool().tag(sync=True)
    can_log = traitlets.Bool().tag(sync=True)
    python = traitlets.Unicode().tag(sync=True)
    parameters = traitlets.Unicode().tag(sync=True)
    left_out = traitlets.Unicode().tag(sync=True)  # by `parameters`
    dark = traitlets.Bool().tag(sync=True)
    density = traitlets.Float(1.0).tag(sync=True)  # of the screen's pixels
    width = traitlets.Int().tag(sync=True)  # of the page that is free, 0: not known
    drag_axes = traitlets.Int(-1).tag(sync=True)  # where a point can be dragged, -1: nowhere


class Canvas:
    """Axes side by side, or below each other where the page is narrow."""

    def __init__(self, titles: Sequence[str], width: int, density: float, dark: bool) -> None:
        self.dark = dark
        count = len(titles)
        width = min(width, 450 * count) if width else 450 * count
        columns = min(max(width // NARROWEST, 1), count)
        rows = math.ceil(count / columns)
        height = min(HEIGHT if rows == 1 else LOWER, round(0.85 * width / columns) + 40) * rows
        small = width / columns < SMALL_BELOW
        self._rc = {"font.size": 9, "axes.titlesize": 10.5} if small else {}
        with self.colours():
            self.figure = Figure(figsize=(width / DOTS, height / DOTS), dpi=DOTS * density)
            self._canvas = FigureCanvasAgg(self.figure)
            grid = list(self.figure.subplots(rows, columns, squeeze=False).flat)
            for spare in grid[count:]:
                spare.remove()
            self.axes = grid[:count]
            for axes, title in zip(self.axes, titles, strict=True):
                axes.set_title(title, y=1.0)
                axes.set_xlabel(RADIUS)
                axes.spines[["top", "right"]].set_visible(False)
                axes.patch.set_visible(False)  # the figure's is of the same colour
        between = MARGINS["between"] / ((width - MARGINS["left"]) / columns - MARGINS["between"])
        self.figure.subplots_adjust(
            left=MARGINS["left"] / width, right=1 - MARGINS["right"] / width,
            bottom=MARGINS["bottom"] / height, top=1 - MARGINS["top"] / height,
            wspace=between, hspace=0.42,
        )  # fmt: skip
        for axes in self.axes:  # fixed places, since looking for free ones takes most of a redraw
            for axis, at, shift in (
                (axes.xaxis, (0.5, 0), (0, -0.34)),
                (axes.yaxis, (0, 0.5), (-0.42, 0)),
            ):
                inches = ScaledTranslation(*shift, self.figure.dpi_scale_trans)
                axis.set_label_coords(*at, transform=axes.transAxes + inches)
        self.width = width
        self._ghosts: list[Artist] = []
        self._limits: list[tuple[Any, Any]] | None = None
        self._scales: dict[Axes, str] = {}

    def colours(self) -> Any:
        return matplotlib.rc_context(self._rc | (RC_DARK if self.dark else {}))

    @property
    def graphs(self) -> list[Axes]:
        """Axes of curves, whose scale may change: no maps, no planes, none that are painted already."""
        drawn = (axes for axes in self.axes if axes.axison and axes.lines and not axes.images)
        return [axes for axes in drawn if axes.get_aspect() == "auto"]

    def curves(self) -> list[tuple[Axes, Any, np.ndarray]]:
        """All curves with their colours, to be drawn again as ghosts."""
        curves = []
        for axes in self.axes:
            for line in axes.lines:
                data = line.get_xydata()
                if line.get_visible() and line.get_linestyle() != "None" and len(data) > 2:
                    curves.append((axes, line.get_color(), np.array(data, float)))
        return curves

    def show_ghosts(self, curves: Sequence[tuple[Axes, Any, np.ndarray]]) -> None:
        """Shows these curves, faint, and no others."""
        for ghost in self._ghosts:
            ghost.remove()
        self._ghosts = []
        look = GHOST | {"alpha": FAINT_ON_DARK if self.dark else FAINT}
        for axes, colour, data in curves:  # perhaps drawn on a page of another theme
            ghost = LineCollection(
                [data], colors=[_on_ground(colour, self.dark)], transform=axes.transData, **look
            )
            self.figure.add_artist(ghost)
            ghost.set_clip_box(axes.bbox)
            self._ghosts.append(ghost)

    @property
    def locked(self) -> bool:
        return self._limits is not None

    def lock(self, locked: bool, as_on: Canvas | None = None) -> None:
        """Remembers the limits of all axes, these or those of another canvas, or forgets them."""
        axes = (as_on or self).axes
        self._limits = [(a.get_xlim(), a.get_ylim()) for a in axes] if locked else None
        if not locked:
            for one in self.graphs:
                one.autoscale_view()

    def settle(self, logarithmic: bool) -> None:
        """After curves have moved: the wanted scale, and locked limits."""
        for axes in self.graphs:
            own = self._scales.setdefault(axes, axes.get_yscale())
            wanted = "asinh" if logarithmic and _has_negative(axes) else "log"
            wanted = wanted if logarithmic and own == "linear" else own
            if wanted == "asinh" == axes.get_yscale() and self.locked:
                continue
            if wanted == "asinh":
                _powers_on_both_sides(axes)
            elif axes.get_yscale() != wanted:
                axes.set_yscale(wanted)
                axes.autoscale_view()
            if axes.get_yscale() == "log":
                _label_shortly(axes.yaxis)
        for axes, limits in zip(self.axes, self._limits or [], strict=bool(self._limits)):
            axes.set_xlim(limits[0], auto=None)
            axes.set_ylim(limits[1], auto=None)

    @property
    def can_log(self) -> bool:
        return any(self._scales.get(axes, axes.get_yscale()) == "linear" for axes in self.graphs)

    def png(self) -> bytes:
        if self.dark:
            recolour(self.figure)
        for axes in self.axes:
            if legend := axes.get_legend():  # in front of ghosts and curves
                legend.set_frame_on(True)
                legend.get_frame().set(facecolor=self.figure.get_facecolor(), alpha=0.8, lw=0)
        fit_titles(self.axes)
        buffer = io.BytesIO()
        self._canvas.print_png(buffer, pil_kwargs={"compress_level": 1})  # faster than smaller
        return buffer.getvalue()

    def coordinates(self) -> list[dict[str, Any]]:
        """For each axes its box as shares of the figure, and what its sides mean."""
        size = self.figure.bbox
        places = []
        for axes in self.axes:
            box = axes.get_window_extent()
            sides = (
                box.x0 / size.width,
                box.y0 / size.height,
                box.x1 / size.width,
                box.y1 / size.height,
            )
            x, y = _axis(axes.xaxis, axes.get_xlim()), _axis(axes.yaxis, axes.get_ylim())
            places.append({"box": [float(v) for v in sides], "x": x, "y": y})
        return places


def fit_titles(axes: Sequence[Axes]) -> None:
    """Titles that would leave the figure, or come to stand on those beside them, are made smaller."""
    sides = [_sides(one) for one in axes]
    ends = axes[0].figure.bbox.width
    for one, (low, high, level) in zip(axes, sides, strict=True):
        before = [(low + right) / 2 for _, right, other in sides if other == level and right < low]
        after = [(high + left) / 2 for left, _, other in sides if other == level and left > high]
        middle = (low + high) / 2
        free = 2 * min(middle - max(before, default=0), min(after, default=ends) - middle) - 2
        width = one.title.get_window_extent().width
        if width > free:
            one.title.set_fontsize(one.title.get_fontsize() * max(free / width, SMALLEST))


def _sides(axes: Axes) -> tuple[float, float, float]:
    """Left and right, in pixels, and the row of the figure."""
    axes.apply_aspect()
    box = axes.get_window_extent()
    return box.x0, box.x1, axes.get_subplotspec().rowspan.start


def _heights(axes: Axes) -> np.ndarray:
    """Of all curves, where they have one."""
    heights = np.concatenate([np.ravel(np.asarray(one.get_ydata(), float)) for one in axes.lines])
    return heights[np.isfinite(heights)]


def _has_negative(axes: Axes) -> bool:
    return bool(np.any(_heights(axes) <= 0))


class _Powers(AsinhLocator):
    """Zero, and on both sides powers of ten, but none so close to zero that their labels overlap."""

    def tick_values(self, vmin: float, vmax: float) -> np.ndarray:
        powers = self.linear_width * 10.0 ** np.arange(DECADES + 1)
        ticks = np.concatenate([-powers[::-1], [0.0], powers])
        return ticks[(ticks >= min(vmin, vmax)) & (ticks <= max(vmin, vmax))]


def _powers_on_both_sides(axes: Axes) -> None:
    """A vertical axis by powers of ten beyond a small part of the largest height, and even within."""
    most = np.abs(_heights(axes)).max(initial=0)
    width = 10.0 ** (math.floor(math.log10(most)) - DECADES) if most > 0 else 1.0
    if getattr(axes.yaxis.get_transform(), "linear_width", None) != width:
        axes.set_yscale("asinh", linear_width=width)
        axes.yaxis.set_major_locator(_Powers(width))
        axes.yaxis.set_major_formatter(_Short())
        axes.autoscale_view()


class _Short(LogFormatterSciNotation):
    """0.04 rather than 4 x 10^-2, which has no room beside the axis."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        label = super().__call__(x, pos)
        sizes = np.abs(self.axis.get_view_interval())
        wide = sizes.min() > 0 and sizes.max() > 1e4 * sizes.min()
        if r"\times" in label or (label and not wide and 1e-3 <= abs(x) <= 1e3):
            return f"{x:g}".replace("-", "\N{MINUS SIGN}")
        return label


def _label_shortly(axis: Any) -> None:
    if not isinstance(axis.get_minor_formatter(), _Short):
        axis.set_major_formatter(_Short())
        axis.set_minor_formatter(_Short(labelOnlyBase=False))


def _axis(axis: Any, ends: tuple[float, float]) -> dict[str, Any]:
    kind, ends = axis.get_scale(), tuple(map(float, ends))
    if kind in ("linear", "log"):
        return {"kind": kind, "ends": ends}
    there = axis.get_transform()
    low, high = there.transform(np.array(ends))
    values = there.inverted().transform(np.linspace(low, high, 129))
    return {"kind": "table", "values": [float(v) for v in values]}


def recolour(figure: Figure) -> None:
    """The colours of the suite as they are read on a dark ground."""
    for axes in figure.axes:
        legend = axes.get_legend()
        handles = legend.findobj(_has_colours) if legend else []
        own = () if axes.images else (*axes.lines, *axes.collections, *axes.texts)  # not on a map
        for artist in (*own, *handles):
            _lighten(artist)


def _has_colours(artist: Artist) -> bool:
    return isinstance(artist, Line2D | Collection)


def _lighten(artist: Any) -> None:
    if isinstance(artist, Collection):
        for get, put in (
            (artist.get_edgecolor, artist.set_edgecolor),
            (artist.get_facecolor, artist.set_facecolor),
        ):
            old = [to_hex(colour) for colour in get()]
            if len(old) == 1 and old[0] in ON_DARK:
                alpha = get()[0][3]
                put((*matplotlib.colors.to_rgb(ON_DARK[old[0]]), alpha))
        return
    if not hasattr(artist, "get_color"):
        return
    if (old := to_hex(artist.get_color())) in ON_DARK:
        artist.set_color(ON_DARK[old])
    if hasattr(artist, "get_markeredgecolor") and artist.get_markeredgecolor() in ON_DARK:
        artist.set_markeredgecolor(ON_DARK[artist.get_markeredgecolor()])


def _on_ground(colour: Any, dark: bool) -> str:
    """The same colour of the suite as it is on a dark ground, or on a light one."""
    table = ON_DARK if dark else {there: here for here, there in ON_DARK.items()}
    return table.get(to_hex(colour), to_hex(colour))


def is_dark(figure: Figure) -> bool:
    return to_hex(figure.get_facecolor()) == DARK_GROUND


def curve(axes: Axes, x: Any, y: Any, **style: Any) -> None:
    """One line that moves: three times faster than clearing the axes and plotting again."""
    if axes.lines:
        axes.lines[0].set_data(x, y)
        axes.relim()
        axes.autoscale_view()
    else:
        axes.plot(x, y, **style)


def wipe(axes: Sequence[Axes]) -> None:
    """Removes curves and marks where their number changes between pictures; labels keep their places."""
    for one in axes:
        for container in list(one.containers):  # with its own curves
            container.remove()
        for artist in (*one.lines, *one.collections):
            artist.remove()
        one.relim()  # forgets how far they went


def freeze(axes: Sequence[Axes]) -> None:
    """Frames, numbers, legends and colour bars become a picture behind the rest: they cost most to draw."""
    figure = axes[0].figure
    if is_dark(figure):
        recolour(figure)
    fit_titles(axes)
    figure.canvas.draw()
    still = np.array(figure.canvas.buffer_rgba())
    for where in axes:
        where.set_axis_off()
        where.set_title("", y=1)
        if legend := where.get_legend():
            legend.remove()
    for bar in figure.axes[len(axes) :]:
        bar.set_visible(False)
    figure.figimage(still, zorder=-1)

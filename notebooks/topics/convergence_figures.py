"""Pictures of kernels of finite networks that come near those of infinite ones, and their panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from notebooks.panels import Caption, Choice, Look, Slider, wipe
from notebooks.panels.style import BLUE, GREY, INK, RED, SMALL, frame_axes, new_figure
from notebooks.topics.convergence import ARCHITECTURES, KERNELS, WIDTHS

if TYPE_CHECKING:
    from notebooks.topics.convergence import Entries, FiniteKernels

LOOKS = dict(zip(KERNELS, ((BLUE, "o"), (RED, "s")), strict=True))
TITLES = {"ntk": "tangent kernel", "nngp": "NNGP kernel"}
MARKS = "os^Dv<>P"


def figure_bias(entries: Mapping[str, Mapping[str, Entries]], columns: int = 4) -> Figure:
    """For each architecture the mean over the limit, less 1, by 1/width: of the first two signals."""
    rows = -(-len(entries) // columns)
    figure = new_figure(2.7 * columns + 0.4, 2.5 * rows + 0.3)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, (name, kernels) in zip(grid.flat, entries.items(), strict=False):
        axes.axhline(0, color=GREY, lw=0.8)
        for shift, (kernel, one) in zip((-0.02, 0.02), kernels.items(), strict=True):
            colour, mark = LOOKS[kernel]
            x = np.array([1 / width for width in one.by_width])
            off, bars = zip(*(one.bias(width) for width in one.by_width), strict=True)
            y, bar = (np.array(part)[:, 1] for part in (off, bars))
            style = {"color": colour, "mfc": "none", "ms": 4, "capsize": 2, "lw": 1}
            axes.errorbar(x * (1 + shift), y, bar, fmt=mark, label=TITLES[kernel], **style)
        frame_axes(axes, name, "1 / width", 10).set_xlim(left=0)
    for axes in list(grid.flat)[len(entries) :]:
        axes.remove()
    for row in grid:
        row[0].set_ylabel("mean / limit - 1")
    grid[0, 0].legend(**SMALL)
    return figure


def figure_distances(entries: Mapping[str, Mapping[str, Entries]]) -> Figure:
    """Relative mean squares of single networks less the limit, by width, with fitted exponents."""
    kernels = list(next(iter(entries.values())))
    figure = new_figure(4.9 * len(kernels), 3.9)
    colours = [BLUE, RED, INK, GREY]
    for axes, kernel in zip(
        figure.subplots(1, len(kernels), squeeze=False)[0], kernels, strict=True
    ):
        for k, (name, both) in enumerate(entries.items()):
            law = both[kernel].law
            look = f"{MARKS[k % len(MARKS)]}{'-' if k < 4 else '--'}"
            text = f"{name}: {law.slope:.2f}"
            axes.loglog(
                law.x, law.y, look, color=colours[k % 4], mfc="none", ms=4, lw=1, label=text
            )
        widths = np.array(sorted(both[kernel].by_width), float)
        axes.set_xticks(widths, [f"{width:g}" for width in widths])
        axes.minorticks_off()
        frame_axes(axes, f"{TITLES[kernel]}: mean square off", "width", 10).legend(ncol=2, **SMALL)
    return figure


# The panel.


def draw_kernels(axes: Sequence[Axes], now: FiniteKernels) -> Caption:
    """Left all entries of the Gram matrix at one width, right one entry by width."""
    left, right = axes
    places = np.arange(len(now.now.exact))
    mean = now.now.by_width[now.width]
    wipe(axes)
    style = {"mfc": "none", "ms": 5, "capsize": 3, "lw": 1.2}
    left.plot(places, now.now.exact, "_", color=INK, ms=22, label="infinite width")
    left.errorbar(
        places, mean.mean, mean.stderr, fmt="o", color=BLUE, label="finite, mean", **style
    )
    left.set_xticks(places, ENTRIES)
    left.set_xlabel("pairs of signals")
    left.legend(**SMALL)
    right.axhline(now.limit, color=INK, lw=1.2)
    right.errorbar(now.widths, now.entry.mean, now.entry.stderr, fmt="o", color=BLUE, **style)
    one_network = now.entry.mean + np.array([[-1.0], [1.0]]) * now.entry.spread
    right.plot(np.stack([now.widths, now.widths]), one_network, "-", color=GREY, lw=0.8)
    right.set_xscale("log")
    ticks = [int(width) for width in now.widths]
    right.set_xticks(ticks, [str(width) for width in ticks])
    right.set_xticks([], minor=True)
    right.set_xlabel("channels $n$")
    off = now.now.sigmas(now.width)
    numbers = (
        f"{now.width} channels: means are off by {off:.1f} standard errors at most; one network is off by "
        f"{np.sqrt(now.now.off(now.width)):.0%}"
    )
    return Caption(r"\hat K_n \to K,\quad \hat\Theta_n \to \Theta", numbers)


ENTRIES = ("11", "12", "13", "22", "23", "33")
PANEL = Look(
    draw_kernels,
    (
        Choice("architecture", "architecture", tuple(ARCHITECTURES), "convolutions"),
        Choice("kernel", "kernel", KERNELS, "ntk"),
        Slider(
            "width", "n", 4, 64, 1, 8, "channels", least=1, most=256, ticks=(*WIDTHS, 64), play=True
        ),
        Slider(
            "draws", "M", 10, 100, 1, 20, "networks", least=2, most=1000, ticks=(10, 20, 50, 100)
        ),
    ),
    ("the Gram matrix", "signals 1 and 2, by channels"),
    heavy=True,
)  # fmt: skip

"""Pictures and films of flows in output space: paths, losses, kernels, deviations, and a panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from notebooks.panels import Caption, Look, Slider
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
    save_film,
)
from notebooks.topics.flows import CLASSES, LAST, TRIANGLE

if TYPE_CHECKING:
    from notebooks.topics.flows import Collapsing, Deviations, FlowInPlane, Race, Rectified

COLOURS = tuple((BLUE, RED, GREEN)[c] for c in CLASSES)  # of the points in the plane
LINES = (GREY, BLUE, GREEN, PURPLE, INK, RED)
REACH = 2.0  # of outputs that are shown
ROUNDING = 1e-9  # of kernels, which condition numbers up to 1e6 magnify
KERNELS = {"cmap": "RdBu_r", "vmin": -1.5, "vmax": 1.5}


def _begin_paths(axes: Axes, now: FlowInPlane) -> None:
    """Straight lines to the labels, and empty paths with a dot at the end of each."""
    for point, colour in enumerate(COLOURS):
        ends = np.stack([now.paths[0, point], now.labels[point]])
        axes.plot(*ends.T, ":", color=GREY, lw=1)
        axes.plot([], [], color=colour, lw=1.3)
        axes.plot([], [], "o", color=colour, ms=5)
    axes.plot(*np.array(TRIANGLE).T, "x", color=INK, ms=8, mew=1.6)
    axes.set(
        aspect="equal", xlim=(-REACH, REACH), ylim=(-REACH, REACH), xlabel="$f_1$", ylabel="$f_2$"
    )


def _move_paths(axes: Axes, now: FlowInPlane) -> None:
    behind = now.times < now.time
    for point, at in enumerate(now.outputs):
        line, path, dot = axes.lines[3 * point : 3 * point + 3]
        line.set_data(*np.stack([now.paths[0, point], now.labels[point]]).T)
        path.set_data(*np.concatenate([now.paths[behind, point], at[None]]).T)
        dot.set_data([at[0]], [at[1]])


def _begin_kernel(axes: Axes, now: FlowInPlane) -> None:
    axes.imshow(now.kernel, **KERNELS)
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel("outputs of all points; red above 0, blue below", fontsize=9)


def figure_flows(rows: Mapping[str, Sequence[FlowInPlane]]) -> Figure:
    """A column for each alpha: paths of outputs, and the kernel that moves them at the end."""
    figure = new_figure(3.0 * len(rows) + 3.2, 5.8)
    grid = figure.subplots(2, len(rows) + 1)
    for (label, times), column, colour in zip(
        rows.items(), grid.T[:-1], (BLUE, GREEN, RED), strict=True
    ):
        paths, kernel = column
        last = times[-1]
        _begin_paths(paths, last)
        _move_paths(paths, last)
        frame_axes(paths, f"{label}, outputs up to $t$ = {last.time:.2f}", "$f_1$", 10)
        _begin_kernel(kernel, last)
        kernel.set_title(rf"{label}: $K_\alpha$ over its mean diagonal", fontsize=9)
        grid[0, -1].semilogy(last.times, last.losses, color=colour, label=label)
    grid[0, -1].semilogy(last.times, last.straight, "--", color=INK, lw=1, label="$(1-t)^2 C(0)$")
    frame_axes(grid[0, -1], "cost", "$t$", 10).legend(**SMALL)
    figure.colorbar(kernel.images[0], ax=grid[1, -2], shrink=0.8)
    grid[1, -1].set_axis_off()
    return figure


def film_of_flows(rows: Mapping[str, Sequence[FlowInPlane]], name: str) -> HTML:
    """Outputs above, kernels below, a column for each alpha: a frame for each time."""
    figure = new_figure(2.5 * len(rows), 5.0)
    grid = figure.subplots(2, len(rows))
    for (label, times), column in zip(rows.items(), grid.T, strict=True):
        _begin_paths(column[0], times[0])
        frame_axes(column[0], label, "", 10)
        _begin_kernel(column[1], times[0])
    frames = []
    for k in range(min(map(len, rows.values()))):
        for times, (paths, kernel) in zip(rows.values(), grid.T, strict=True):
            _move_paths(paths, times[k])
            kernel.images[0].set_data(times[k].kernel)
            kernel.set_xlabel(f"$t$ = {times[k].time:.2f}", fontsize=9)
        frames.append(_pixels(figure))
        figure.set_layout_engine("none")  # it stays as the first frame has it
    return save_film(frames, name, "outputs on their way, and the kernel that moves them")


def _pixels(figure: Figure) -> Image.Image:
    figure.canvas.draw()
    pixels: Any = figure.canvas
    return Image.fromarray(np.asarray(pixels.buffer_rgba())[..., :3]).quantize(128)


def figure_morph(kernels: Mapping[float, np.ndarray]) -> Figure:
    """One kernel for each alpha, from the tangent kernel to the identity."""
    figure = new_figure(1.9 * len(kernels) + 0.6, 2.3)
    row = figure.subplots(1, len(kernels))
    for axes, (alpha, kernel) in zip(row, kernels.items(), strict=True):
        image = axes.imshow(kernel, **KERNELS)
        axes.set_title(rf"$\alpha$ = {alpha:g}", fontsize=10)
        axes.set(xticks=[], yticks=[])
    figure.colorbar(image, ax=list(row), shrink=0.8)
    return figure


def figure_deviations(runs: Sequence[Deviations]) -> Figure:
    """Distance from the straight line, as it is and as the lost directions predict it."""
    figure = new_figure(6.4, 3.6)
    axes = figure.subplots()
    for one, colour in zip(runs, (RED, PURPLE, BLUE), strict=False):
        label = f"K = {one.parameters}, rank {one.ranks[-1]} of {one.ranks[0]}"
        axes.plot(one.times, one.actual, color=colour, lw=3, alpha=0.35, label=label)
        axes.plot(one.times, one.predicted, "--", color=colour, lw=1.2)
    axes.plot([], [], "--", color=INK, lw=1.2, label="predicted")
    frame_axes(axes, "distance of outputs from the straight line", "$t$", 10).legend(**SMALL)
    return figure


def figure_rectified(one: Rectified) -> Figure:
    """Deviations of a ReLU network in short steps, predicted and real, and kinks that hold the limit."""
    figure = new_figure(10.0, 3.5)
    left, middle, right = figure.subplots(1, 3)
    for (count, (times, actual, errors)), colour in zip(
        one.steps.items(), (GREY, PURPLE, RED), strict=True
    ):
        left.plot(times, actual, color=colour, lw=1.3, label=f"{count} steps")
        middle.plot(times, errors, color=colour, lw=1.2, label=f"{count} steps")
    left.plot(one.times, one.sliding, color=BLUE, lw=2, label="sliding along kinks")
    frame_axes(left, "distance from the straight line", "$t$", 10).legend(**SMALL)
    frame_axes(middle, "error of the prediction", "$t$", 10).legend(**SMALL)
    right.step(*one.held, where="post", color=BLUE)
    frame_axes(right, "kinks that hold the sliding flow", "$t$", 10)
    return figure


def figure_collapse(one: Collapsing) -> Figure:
    """Errors of classification, class means and deviations, and variability at two layers."""
    figure = new_figure(10.5, 3.5)
    left, middle, right = figure.subplots(1, 3)
    errors = f"training errors, over {one.errors[0]}"
    left.plot(one.times, one.errors / one.errors[0], color=RED, label=errors)
    left.plot(one.times, one.accuracy, "--", color=GREEN, label="accuracy on other images")
    frame_axes(left, "digits", "$t$", 10).legend(**SMALL)
    middle.plot(one.times, one.means, color=BLUE, lw=0.8)
    middle.plot([], [], color=BLUE, lw=0.8, label="each class mean to its label")
    middle.plot(one.times, one.within, color=RED, lw=3, alpha=0.4, label="deviation within classes")
    middle.plot(one.times, 1 - one.times, "--", color=INK, lw=1, label="$1 - t$")
    frame_axes(middle, "at the outputs, over the start", "$t$", 10).legend(**SMALL)
    for (label, values), colour in zip(one.layers.items(), (BLUE, PURPLE), strict=True):
        right.semilogy(one.times, values, color=colour, label=label)
    frame_axes(right, "variance within over between classes", "$t$", 10).legend(**SMALL)
    return figure


def figure_race(races: Mapping[str, Race]) -> Figure:
    """Losses against CPU time, and against operations, which no other load on a machine can change."""
    figure = new_figure(10.0, 4.0)
    left, right = figure.subplots(1, 2, sharey=True)
    for k, (label, one) in enumerate(races.items()):
        look = {"color": LINES[k % len(LINES)], "ls": "--" if k >= len(LINES) else "-", "lw": 1.3}
        mark = {"marker": "o", "ms": 2.5} if len(one.losses) < 40 else {}
        left.loglog(one.seconds[1:], one.losses[1:], **look, **mark, label=label)
        right.loglog(one.operations[1:], one.losses[1:], **look, **mark, label=label)
    left.set(ylim=(1e-9, 5), ylabel="cost on the training points")
    frame_axes(left, "against CPU time", "seconds", 10)
    frame_axes(right, "against work", "floating-point operations", 10).legend(**SMALL)
    return figure


# The panel.


def draw_flow(axes: Sequence[Axes], now: FlowInPlane) -> Caption:
    """Outputs on their way to the labels, the cost so far, and the kernel that moves them now."""
    paths, cost, kernel = axes
    if not paths.lines:
        _begin_paths(paths, now)
        for look, label in (("-", "this flow"), ("--", "straight lines")):
            cost.plot([], [], look, color=RED if look == "-" else INK, label=label)
        cost.plot([], [], "o", color=RED, ms=6)
        cost.set(xlabel="$t$", xlim=(0, 1), ylim=(1e-4, 10), yscale="log")
        cost.legend(loc="lower left", **SMALL)
        _begin_kernel(kernel, now)
    _move_paths(paths, now)
    curve, straight, dot = cost.lines
    curve.set_data(now.times, now.losses)
    straight.set_data(now.times, now.straight)
    loss = float(np.interp(now.time, now.times, now.losses))
    dot.set_data([now.time], [loss])
    kernel.images[0].set_data(now.kernel)
    off = np.abs(now.kernel - np.eye(len(now.kernel))).max()
    kernel_is = f"{off:.1e} from the identity" if off > ROUNDING else "the identity up to rounding"
    numbers = (
        f"t = {now.time:.3f}: cost {loss:.2e}, {now.deviation:.1e} from the straight line, "
        f"kernel {kernel_is}; rank {now.rank}, {now.parameters} parameters"
    )
    return Caption(r"K_\alpha = \alpha P + (1-\alpha)\,D D^T", numbers)


# Not `alpha`, whose domain a slider of that name would have: there it divides neurons, and is above 0.
ADAPTED = Slider("adapted", "α", 0.0, 1.0, 0.1, 1.0, "1: straight lines", least=0, most=1.0)  # noqa: RUF001
TIME = Slider("t", "t", 0.0, LAST, 0.05, 0.6, "time", least=0, most=LAST, play=True)
UNITS = Slider("n", "n", 6, 20, 1, 10, "tanh units", least=6, most=60)
PANEL = Look(
    draw_flow,
    (TIME, ADAPTED, UNITS),
    ("outputs", "cost", r"$K_\alpha$ over its mean diagonal"),
    heavy=True,
)

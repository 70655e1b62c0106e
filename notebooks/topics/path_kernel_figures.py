"""Pictures of what training points did: rebuilt outputs, kernels on the plane, images, and two panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from notebooks.panels import Caption, DraggedPoint, Look, Slider
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
from notebooks.topics.path_kernel import STEPS, TRAINED

if TYPE_CHECKING:
    from notebooks.topics.path_kernel import (
        Agreement,
        AttributionMap,
        KernelValues,
        Line,
        Misalignment,
        PlaneMaps,
        Retrainings,
        TopAttributions,
        WeighedPoint,
        WrongLabels,
    )

COLOURS = (BLUE, RED, GREEN)  # of the three classes
PALE = ListedColormap(["#dbe5f2", "#f4dde0", "#deeddf"])  # of the regions where they are predicted
SIGNED = "RdBu_r"
MARKS = "osD^"
LINES = (RED, PURPLE, GREEN, BLUE)


def _scatter_classes(axes: Axes, points: np.ndarray, labels: np.ndarray, size: float = 7) -> None:
    for c, colour in enumerate(COLOURS):
        of_class = points[labels == c]
        axes.plot(
            *of_class.T, "o", color=colour, mec="white", mew=0.4, ms=size**0.5 * 1.7, alpha=0.9
        )


def _regions(axes: Axes, line: np.ndarray, regions: np.ndarray) -> None:
    extent = (line[0], line[-1]) * 2
    axes.imshow(regions, origin="lower", extent=extent, cmap=PALE, vmin=0, vmax=2, aspect="auto")
    axes.set(xlabel="$x_1$", ylabel="$x_2$")


def figure_agreement(one: Agreement, what: str) -> Figure:
    """Figures 4 and 7: rebuilt outputs against those of the network, a column for each rule."""
    figure = new_figure(2.75 * len(one.rebuilt) + 0.4, 3.3)
    row = figure.subplots(1, len(one.rebuilt), squeeze=False)[0]
    ends = [one.network.min(), one.network.max()]
    for axes, (label, rebuilt), colour in zip(row, one.rebuilt.items(), LINES, strict=False):
        axes.plot(ends, ends, color=GREY, lw=0.8)
        axes.plot(one.network, rebuilt, "o", color=colour, ms=3.5, mfc="none")
        frame_axes(axes, f"{label}\nlargest error {one.errors[label]:.1e}", f"network, {what}", 10)
    row[0].set_ylabel("rebuilt")
    return figure


def figure_misalignment(one: Misalignment) -> Figure:
    """Figure 2: what other representations miss in each step, and in all steps so far."""
    figure = new_figure(9.5, 3.6)
    left, right = figure.subplots(1, 2, sharey=True)
    for (label, values), colour in zip(one.by_step.items(), LINES, strict=True):
        left.semilogy(one.steps, values, color=colour, lw=1.2)
        right.semilogy(one.steps, one.total[label], color=colour, lw=1.4, label=label)
    frame_axes(left, "error of the change in one step", "training step", 10)
    frame_axes(right, "error of the output so far", "training step", 10).legend(**SMALL)
    left.set_ylabel("root mean square")
    return figure


def figure_planes(one: PlaneMaps, signed: bool) -> Figure:
    """Figures 3 and 5: functions on the plane with training points; signed ones are white at 0."""
    figure = new_figure(3.5 * len(one.maps) + 0.2, 3.4)
    extent = (one.line[0], one.line[-1]) * 2
    for axes, (title, values) in zip(
        figure.subplots(1, len(one.maps)), one.maps.items(), strict=True
    ):
        look: dict[str, Any] = {"cmap": "viridis"}
        if signed:
            most = np.quantile(np.abs(values), 0.95)
            look = {"cmap": SIGNED, "vmin": -most, "vmax": most}
        look |= {"interpolation": "bilinear", "interpolation_stage": "data"}
        image = axes.imshow(values, origin="lower", extent=extent, aspect="auto", **look)
        if signed:
            axes.contour(one.line, one.line, values, [0.0], colors=INK, linewidths=1.2)
        _scatter_classes(axes, one.points, one.labels)
        figure.colorbar(image, ax=axes, shrink=0.85, extend="both" if signed else "neither")
        frame_axes(axes, title, "$x_1$", 10).set_ylabel("$x_2$")
    return figure


def figure_kernel_values(one: KernelValues) -> Figure:
    """Figure 6: rows are test points, columns outputs; colour is the kernel with each training point."""
    figure = new_figure(9.6, 7.6)
    rows = figure.subplots(3, 3, sharex=True, sharey=True)
    most = np.quantile(np.abs(one.values), 0.98)
    for c, row in enumerate(rows):
        for k, axes in enumerate(row):
            _regions(axes, one.maps.line, one.maps.regions)
            look = {
                "cmap": SIGNED,
                "vmin": -most,
                "vmax": most,
                "s": 22,
                "edgecolors": INK,
                "linewidths": 0.4,
            }
            dots = axes.scatter(*one.maps.points.T, c=one.values[c, k], **look)
            axes.plot(*one.centres[c], "*", color="gold", mec=INK, ms=14)
            frame_axes(axes, f"mean of class {c + 1}, output {k + 1}", size=9)
            axes.set(xlabel="$x_1$" if c == 2 else "", ylabel="$x_2$" if k == 0 else "")
    figure.colorbar(dots, ax=rows.ravel().tolist(), label="$K(x, x_i)$", shrink=0.7, extend="both")
    return figure


def figure_line(one: Line) -> Figure:
    """Figure 8: accuracy, loss, norm and slope on the line between first and last weights."""
    figure = new_figure(9.0, 3.3)
    left, right = figure.subplots(1, 2)
    left.plot(one.t, one.accuracy, color=BLUE, label="accuracy")
    left.plot(one.t, one.loss / one.loss[0], color=RED, label=f"loss, over {one.loss[0]:.2f}")
    left.plot(
        one.t, one.norm / one.norm[-1], color=GREEN, label=f"norm of $w$, over {one.norm[-1]:.1f}"
    )
    frame_axes(left, "between first and last weights", "$t$", 10).legend(**SMALL)
    right.plot(one.t, one.slope, "--", color=PURPLE)
    right.axhline(0, color=GREY, lw=0.7)
    title = r"$\nabla_w \log p$ of the right class along $w_N - w_0$, mean"
    frame_axes(right, title, "$t$", 10)
    return figure


def figure_top_attributions(one: TopAttributions) -> Figure:
    """A row for each image: the image, then the training images that moved its largest output most."""
    count, shown = one.added.shape
    figure = new_figure(1.35 * (shown + 1) + 0.3, 1.75 * count)
    rows = figure.subplots(count, shown + 1, squeeze=False)
    for n, (first, *rest) in enumerate(rows):
        _image(first, one.images[n], f"{one.predicted[n]}? it is {one.actual[n]}", INK)
        first.set_xlabel(f"log p: {one.start[n]:.1f} → {one.values[n]:.2f}", fontsize=8)
        for axes, image, label, added in zip(
            rest, one.training_images[n], one.labels[n], one.added[n], strict=True
        ):
            colour = RED if added > 0 else BLUE
            _image(axes, image, f"a {label}", colour)
            axes.set_xlabel(f"{added:+.2f}", fontsize=9, color=colour)
    return figure


def _image(axes: Axes, image: np.ndarray, title: str, colour: str) -> None:
    axes.imshow(image, cmap="gray_r", vmin=0, vmax=1)
    axes.set_title(title, fontsize=9)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color=colour, linewidth=1.5)


def figure_wrong_labels(one: WrongLabels) -> Figure:
    """The share of wrong labels that are found, by the share of points that are looked at."""
    figure = new_figure(5.6, 3.6)
    axes = figure.subplots()
    for (name, share), colour, dash in zip(
        one.share_of_wrong.items(), (BLUE, GREEN, RED), ("-", "-.", "--"), strict=True
    ):
        label = f"{name}: area {one.areas[name]:.3f}"
        axes.plot(one.checked, share, dash, color=colour, lw=1.5, label=label)
    axes.plot([0, 1], [0, 1], color=GREY, lw=0.8)
    frame_axes(axes, "wrong labels found", "share of points looked at", 10).legend(
        loc="lower right", **SMALL
    )
    return figure


def figure_left_out(one: Retrainings) -> Figure:
    """Changes of outputs by leaving points out, against what scores say, a column for each method."""
    figure = new_figure(2.75 * len(one.scores) + 0.4, 3.3)
    row = figure.subplots(1, len(one.scores), sharey=True)
    for axes, (name, scores), colour in zip(row, one.scores.items(), LINES, strict=False):
        said = -scores[:, one.left_out]
        axes.plot(
            said.ravel(), one.without.ravel(), "o", color=colour, ms=2.5, mfc="none", alpha=0.7
        )
        axes.axline((0, 0), slope=1, color=GREY, lw=0.8)
        axes.set_xlim(*_span(said))
        axes.set_ylim(*_span(one.without))
        mean = one.leave_one_out(name).mean()
        frame_axes(axes, f"{name}\nrank correlation {mean:.2f}", "minus the score", 10)
    row[0].set_ylabel("change without the point")
    return figure


def _span(values: np.ndarray) -> tuple[float, float]:
    low, high = values.min(), values.max()
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def figure_scores(runs: Mapping[str, Retrainings]) -> Figure:
    """Completeness, leave-one-out and datamodelling scores of each method, by run."""
    figure = new_figure(10.5, 3.7)
    first, second, third = figure.subplots(1, 3)
    titles = (
        "largest |start + sum of scores - output|",
        "leave-one-out rank correlation",
        "linear datamodelling score",
    )
    names = [name.partition(",")[0] for name in next(iter(runs.values())).scores]
    width = 0.8 / len(runs)
    for r, ((label, one), colour) in enumerate(zip(runs.items(), (BLUE, RED, GREEN), strict=False)):
        place = np.arange(len(names)) + (r - (len(runs) - 1) / 2) * width
        first.bar(place, list(one.incomplete.values()), width, color=colour)
        for axes, measure in ((second, one.leave_one_out), (third, one.datamodel)):
            values = [measure(name) for name in one.scores]
            bars = [v.std(ddof=1) / len(v) ** 0.5 for v in values]
            heights = [v.mean() for v in values]
            axes.bar(place, heights, width, yerr=bars, color=colour, label=label, capsize=2)
    first.set_yscale("log")
    for axes, title in zip((first, second, third), titles, strict=True):
        frame_axes(axes, title, size=10)
        axes.set_xticks(range(len(names)), names, rotation=20, ha="right", fontsize=8)
    second.legend(**SMALL)
    return figure


# The panels.


def draw_attributions(axes: Sequence[Axes], now: AttributionMap) -> Caption:
    """What each training point added at the star, and how far rebuilt outputs are off by step."""
    plane, curve = axes
    most = max(np.abs(now.added).max(), 1e-12)
    if not plane.images:
        _regions(plane, now.line, now.regions)
        look = {"cmap": SIGNED, "s": 30, "edgecolors": INK, "linewidths": 0.5}
        plane.scatter(*now.points.T, c=now.added, **look)
        plane.plot([], [], "*", color="gold", mec=INK, ms=15)
        for (label, _), colour in zip(now.errors.items(), (RED, BLUE), strict=True):
            curve.semilogy([], [], color=colour, label=label)
        curve.set(xlabel="training step", xlim=(1, STEPS), ylim=(1e-17, 1e3))
        curve.legend(loc="upper left", **SMALL)
    plane.images[0].set_data(now.regions)
    dots = plane.collections[0]
    dots.set_array(now.added)
    dots.set_clim(-most, most)
    plane.lines[0].set_data([now.place[0]], [now.place[1]])
    for line, errors in zip(curve.lines, now.errors.values(), strict=True):
        line.set_data(now.steps, errors)
    total, coarse = now.start + now.added.sum(), now.errors["left Riemann sum"]
    numbers = (
        f"class {now.output + 1}: start {now.start:+.3f}, points {now.added.sum():+.3f}, "
        f"by a left sum {coarse[-1]:.3g} off, rebuilt {total:+.6f}, network {now.value:+.6f}"
    )
    return Caption(r"f_{w_s}(x) = f_{w_0}(x) + \sum_i A_i(x)", numbers)


def draw_weighed(axes: Sequence[Axes], now: WeighedPoint) -> Caption:
    """An output by the weight of a training point, and two scores of all points against each other."""
    left, right = axes
    styles = {"attribution": (RED, "--"), "derivative": (BLUE, "-")}
    if not left.lines:
        for name, (colour, dash) in styles.items():
            left.plot([], [], dash, color=colour, label=f"line by {name}")
        left.plot([], [], "o-", color=INK, ms=4, lw=1, label="retrained")
        left.legend(**SMALL)
        left.set_xlabel("weight $q$ of the training point")
        right.plot([], [], "o", color=GREY, ms=4)
        right.plot([], [], "o", color=RED, ms=8)
        right.set_xlabel("attribution")
    for line, values in zip(left.lines, (*now.lines.values(), now.retrained), strict=True):
        line.set_data(now.weights, values)
    right.lines[0].set_data(now.attributions, now.derivatives)
    right.lines[1].set_data([now.attributions[now.point]], [now.derivatives[now.point]])
    for one in (left, right):
        one.relim()
        one.autoscale_view()
    changed = now.retrained[0] - now.retrained[len(now.weights) // 2]
    numbers = (
        f"output of class {now.output + 1} without the point: {changed:+.4f}; its attribution says "
        f"{-now.attributions[now.point]:+.4f}, its derivative {-now.derivatives[now.point]:+.4f}"
    )
    return Caption(r"f(q) \approx f(1) + (q - 1)\,\partial f/\partial q_i", numbers)


RATES, NODES, LENGTHS = (0.01, 0.03, 0.1, 0.2, 0.5), (1, 2, 5, 10, 100), (4, 8, 16, 32)
RATE = Slider("rate", "ε", 0.01, 0.5, 1, 0.1, "step size", above=0, most=1.0, ticks=RATES)
X1 = Slider("x1", "x₁", -1.0, 7.0, 0.5, 3.0, "test point", least=-1e3, most=1e3)
X2 = Slider("x2", "x₂", -1.0, 7.0, 0.5, 3.0, "test point", least=-1e3, most=1e3)
PANEL = Look(
    draw_attributions,
    (
        Slider(
            "nodes", "T", 1, 100, 1, 1, "nodes of the left sum", least=1, most=1000, ticks=NODES
        ),
        RATE,
        Slider("step", "s", 1, STEPS, 1, STEPS, "training step", least=1, most=STEPS, play=True),
        X1,
        X2,
    ),
    ("what training points added at ★", "error of rebuilt outputs"),
    heavy=True,
    point=DraggedPoint(0, "x1", "x2"),
)
WEIGHED = Look(
    draw_weighed,
    (
        RATE,
        Slider("steps", "N", 4, 32, 1, STEPS, "training steps", least=1, most=200, ticks=LENGTHS),
        Slider("point", "i", 0, TRAINED - 1, 1, 0, "training point", least=0, most=TRAINED - 1),
        X1,
        X2,
    ),
    ("the output, trained again", "derivative against attribution"),
    heavy=True,
)

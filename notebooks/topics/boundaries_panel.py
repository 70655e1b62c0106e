"""A panel that trains a network on a task one picks or clicks together, and shows its geometry over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, SymLogNorm
from torch import Tensor

from analytic.expressions.arguments import InputError
from notebooks.panels import Caption, Choice, Slider, freeze
from notebooks.panels.pad import Box, Points
from notebooks.topics.boundaries_figures import CLASSES, RICCI, VOLUME, outline
from numeric.experiments.decision_boundaries import (
    Disc,
    GeometryMap,
    Lattice,
    Task,
    Zones,
    distance,
    geometry_map,
    perceptron,
)
from numeric.experiments.decision_boundaries.plane_geometry import log_volume
from numeric.experiments.decision_boundaries.tasks import sinusoid, xor
from numeric.runs import Run, train

Labelled = tuple[float, float, int]  # x, y, label
REACH, LAST, EVERY = 1.5, 300, 10
LATTICE, DISC = Lattice(REACH, 31), Disc(REACH, 12)
EIGHT = (
    (-1.0, -1.0, 0), (1.0, 1.0, 0), (-0.6, -0.4, 0), (0.4, 0.7, 0),
    (-1.0, 1.0, 1), (1.0, -1.0, 1), (-0.4, 0.8, 1), (0.7, -0.5, 1),
)  # fmt: skip
OWN = "your points"
TASK = Choice("task", "task", ("xor", "sinusoid", OWN), "xor")
width = Slider("n", "n", 2, 60, 1, 10)
rate = Slider("rate", r"\lg\eta", -3.0, 0.0, 0.25, -1.0)
step = Slider("step", "t", 0, LAST, EVERY, LAST)
POINTS = Points("points", "data", EIGHT, ("0", "1"), CLASSES, Box(-REACH, REACH, -REACH, REACH))
CONTROLS = (step, TASK, width, rate, POINTS)  # time first: frames open with it
TITLES = (r"$\log_{10}\sqrt{\det g}$ less its largest", "$R$")
BOUNDARY, ZERO, ONE = range(3)  # the lines of a map, by position
FORMULA = r"\Phi_j(x) = n^{-1/2}\,\sigma(w_j\cdot x + b_j),\qquad g = (\partial\Phi)^T\partial\Phi"


def relevant(control: str, values: Mapping[str, Any]) -> bool:
    """Points are clicked and dragged where they are the task."""
    return control != "points" or values["task"] == OWN


def _data(task: str, points: tuple[Labelled, ...]) -> tuple[Tensor, Tensor]:
    if task == OWN:
        labels = [int(label) for *_, label in points]
        if len(set(labels)) < 2:
            raise InputError("Click on the square to place points of both labels.")
        return Task.of([place for *place, _ in points], labels, reach=REACH).data(0)
    return {"xor": xor, "sinusoid": sinusoid}[task]().data(0)


@lru_cache(maxsize=64)
def trained(task: str, n: int, rate: float, points: tuple[Labelled, ...]) -> Run:
    """Adam on all data at once, for a person waits; steps are looked up in what it leaves."""
    return train(
        perceptron(n), F.cross_entropy, _data(task, points), partial(torch.optim.Adam, lr=10**rate),
        steps=LAST, at=range(0, LAST + 1, EVERY), device="cpu", progress=False,
    )  # fmt: skip


def play(
    axes: Sequence[Axes], task: str, step: int, n: int, rate: float, points: Sequence[Labelled]
) -> Caption:
    """Volume, curvature and decision boundary after so many steps, and how the network does."""
    if not axes[0].images:
        _begin(axes)
    own = tuple(tuple(place) for place in points) if task == OWN else ()
    try:
        run = trained(task, n, rate, own)
        model = run.model_at(step)
        one = geometry_map(model, LATTICE)
    except InputError as refusal:
        for where in axes:
            where.images[0].set_data(np.full((LATTICE.points,) * 2, np.nan))
            for line in where.lines:
                line.set_data([], [])
        return Caption(FORMULA, str(refusal))
    volume = VOLUME.of(one)[-1]
    curve, (x, y) = outline(one), run.data
    few = len(x) < 20
    for where, values in zip(axes, (volume - volume.max(), RICCI.of(one)[-1]), strict=True):
        where.images[0].set_data(values)
        where.lines[BOUNDARY].set_data(curve)
        for label, line in enumerate((ZERO, ONE)):
            where.lines[line].set_data(*x[y == label].T)
            where.lines[line].set(markersize=6 if few else 1.5, markeredgewidth=0.5 if few else 0)
    with torch.no_grad():
        outputs = model(x)
    right = int((outputs.argmax(1) == y).sum())
    loss = F.cross_entropy(outputs, y).item()
    told = f"t = {step}: loss {loss:.4g}, {right} of {len(x)} right, {_contrast(model, one)}"
    return Caption(FORMULA, told)


def _contrast(model: torch.nn.Module, one: GeometryMap) -> str:
    weights = Zones().weights(DISC, distance(DISC.x, one.boundary))
    near, far = (weights @ log_volume(model, DISC.x)[-1]).tolist()
    if near != near:
        return "no boundary in sight"
    return f"log volume {near - far:+.3f} larger at its boundary than away from it"


def _begin(axes: Sequence[Axes]) -> None:
    """Empty maps, whose frames, numbers and colour bars are drawn once and kept: they cost most."""
    figure = axes[0].figure
    figure.subplots_adjust(left=0.06, right=0.99, bottom=0.14, wspace=0.15)
    norms = (Normalize(-3, 0), SymLogNorm(1.0, vmin=-1e4, vmax=1e4))
    for where, one, norm in zip(axes, (VOLUME, RICCI), norms, strict=True):
        image = where.imshow(
            np.full((LATTICE.points,) * 2, np.nan), cmap=one.colours, norm=norm, origin="lower",
            interpolation="nearest", extent=(-REACH, REACH) * 2,
        )  # fmt: skip
        figure.colorbar(image, ax=where, extend="min" if one is VOLUME else "both")
        where.plot([], [], color=one.line, lw=1.5)
        for colour in CLASSES:
            where.plot([], [], "o", color=colour, mec="white")
        where.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xlabel="$x_1$", ylabel="$x_2$")
    freeze(axes)

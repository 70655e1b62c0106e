"""Networks that learn a boundary: maps of their geometry, contrasts over training, and a panel's own runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from contourpy import contour_generator
from torch import Tensor

from analytic.expressions.arguments import InputError
from notebooks.topics.statistics import Array
from numeric.experiments.decision_boundaries import (
    Comparison,
    Disc,
    Evidence,
    GeometryMap,
    Lattice,
    Task,
    Zones,
    distance,
    geometry_map,
    perceptron,
)
from numeric.experiments.decision_boundaries.evidence import DECOYS, SHUFFLED, TRUE
from numeric.experiments.decision_boundaries.plane_geometry import log_volume
from numeric.experiments.decision_boundaries.tasks import sinusoid, xor
from numeric.runs import Run, train

Labelled = tuple[float, float, int]  # x, y, label
REACH, LAST, EVERY = (
    1.5,
    300,
    10,
)  # of the panel: its square, its steps, and those that are looked at
LATTICE, DISC = Lattice(REACH, 31), Disc(REACH, 12)
OWN = "your points"
TASKS = {"xor": xor, "sinusoid": sinusoid}


@dataclass(frozen=True, eq=False)
class PlaneMap:
    """The geometry of a network on a square, rows from below, at every hidden layer."""

    reach: float
    log_volume: Array  # (layers, points, points): log10 sqrt(det g)
    ricci: Array  # the same
    margin: Array  # (points, points): the lead of label 1
    boundary: Array  # (2, k): the decision boundary, its pieces apart by NaN

    @classmethod
    def of(cls, one: GeometryMap) -> PlaneMap:
        margin, axis = one.margin.numpy(), one.lattice.axis.numpy()
        pieces = contour_generator(axis, axis, margin).lines(0.0)
        gap = np.full((1, 2), np.nan)
        boundary = np.concatenate([gap, *(part for piece in pieces for part in (piece, gap))]).T
        log = one.log_volume.numpy() / math.log(10)
        return cls(one.lattice.reach, log, one.ricci.numpy(), margin, boundary)


def plane_maps(maps: Mapping[int, GeometryMap]) -> dict[int, PlaneMap]:
    """By step of training."""
    return {step: PlaneMap.of(one) for step, one in maps.items()}


@dataclass(frozen=True, eq=False)
class Film:
    """One network, or one layer of it, over training."""

    maps: Mapping[int, PlaneMap]  # by step
    layer: int = 0


@dataclass(frozen=True, eq=False)
class Interval:
    """A mean over networks with its confidence interval; arrays of one shape."""

    mean: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, comparison: Comparison) -> Interval:
        return cls(*(part.cpu().numpy() for part in (comparison.mean, *comparison.interval)))


@dataclass(frozen=True, eq=False)
class ContrastCurves:
    """The contrast over training: at the boundary, at its decoy, and with shuffled labels."""

    share: Array  # of training, from 0 to 1
    boundary: Interval
    decoy: Interval
    shuffled: Interval


def contrast_curves(one: Evidence) -> ContrastCurves:
    here, there = one.contrast(one.curve)[..., -1], one.contrast(DECOYS[one.curve])[..., -1]
    parts = (here[TRUE], there[TRUE], here[SHUFFLED])
    intervals = (Interval.of(Comparison.of(part, one.level)) for part in parts)
    return ContrastCurves(np.array(one.steps) / one.steps[-1], *intervals)


@dataclass(frozen=True, eq=False)
class Profile:
    """Log volume less the mean of its circle, by the distance from the boundary over the disc's radius."""

    distance: Array
    trained: Interval
    shuffled: Interval
    untrained: Interval


def profile(one: Evidence, bins: int = 12) -> Profile:
    away = one.away[one.curve][0] / one.disc.reach
    edges = torch.linspace(0, away.quantile(0.98).item(), bins + 1).to(away)
    inside = F.one_hot(torch.bucketize(away, edges[1:]), bins + 1).to(away)[:, :bins]
    shares = inside / inside.sum(0).clamp(min=1)

    def interval(labels: int, step: int) -> Interval:
        values = one.disc.beside(one.log_volume[labels, :, step, -1]) @ shares
        return Interval.of(Comparison.of(values, one.level))

    middles = ((edges[1:] + edges[:-1]) / 2).cpu().numpy()
    return Profile(middles, interval(TRUE, -1), interval(SHUFFLED, -1), interval(TRUE, 0))


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network of the panel after some steps: maps, data and numbers, or why there are none."""

    log_volume: Array  # (points, points): log10 sqrt(det g) less its largest
    ricci: Array
    boundary: Array  # (2, k)
    examples: tuple[Array, ...]  # (2, n) by label
    step: int = 0
    loss: float = math.nan
    right: int = 0  # of the examples
    contrast: float = math.nan  # of log volume at the boundary, less away from it; NaN: no boundary
    refusal: str = ""


def trained_network(
    task: str, step: int, n: int, rate: float, points: Sequence[Labelled]
) -> TrainedNetwork:
    """Volume, curvature and decision boundary after so many steps, and how the network does."""
    own = tuple(tuple(place) for place in points) if task == OWN else ()
    try:
        run = panel_run(task, n, rate, own)
        model = run.model_at(step)
        geometry = geometry_map(model, LATTICE)
    except InputError as refusal:
        nothing, none = np.full((LATTICE.points,) * 2, np.nan), np.empty((2, 0))
        return TrainedNetwork(nothing, nothing, none, (none, none), refusal=str(refusal))
    maps, (x, y) = PlaneMap.of(geometry), run.data
    with torch.no_grad():
        outputs = model(x)
    volume = maps.log_volume[-1]
    weights = Zones().weights(DISC, distance(DISC.x, geometry.boundary))
    near, far = (weights @ log_volume(model, DISC.x)[-1]).tolist()
    return TrainedNetwork(
        volume - volume.max(),
        maps.ricci[-1],
        maps.boundary,
        tuple(x[y == label].T.numpy() for label in (0, 1)),
        step,
        F.cross_entropy(outputs, y).item(),
        int((outputs.argmax(1) == y).sum()),
        near - far,
    )


@lru_cache(maxsize=64)
def panel_run(task: str, n: int, rate: float, points: tuple[Labelled, ...]) -> Run:
    """Adam on all data at once, for a person waits; steps are looked up in what it leaves."""
    return train(
        perceptron(n), F.cross_entropy, _data(task, points), partial(torch.optim.Adam, lr=rate),
        steps=LAST, at=range(0, LAST + 1, EVERY), device="cpu", progress=False,
    )  # fmt: skip


def _data(task: str, points: tuple[Labelled, ...]) -> tuple[Tensor, Tensor]:
    if task != OWN:
        return TASKS[task]().data(0)
    labels = [int(label) for *_, label in points]
    if len(set(labels)) < 2:
        raise InputError("Click on the square to place points of both labels.")
    places: list[Any] = [place for *place, _ in points]
    return Task.of(places, labels, reach=REACH).data(0)

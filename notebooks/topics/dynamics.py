"""Univariate ReLU networks in training: states, paths, velocities, knots at samples, and films by delta."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import torch

from analytic.relu_dynamics import RayKind, Samples, VelocityField
from notebooks.topics.statistics import Array
from numeric.experiments.knots import Shares
from numeric.relu_dynamics import Neurons, Trajectory
from numeric.relu_dynamics.regimes import milestones, regime

GRID = torch.linspace(-1.3, 1.3, 1_041, dtype=torch.float64)
ATTRACTOR, REPULSOR = "attractor", "repulsor"
SIZES = (0.3, 1.0, 3.0, 10.0, 30.0)
DELTAS = (-math.inf, *(-size for size in SIZES[::-1]), 0.0, *SIZES, math.inf)
STOPS = 21  # of each film
SPAN = 3e4  # of training, long enough for every loss to settle


@dataclass(frozen=True, eq=False)
class LineData:
    """Samples of a function on a line."""

    title: str
    x: torch.Tensor  # (s,)
    y: torch.Tensor  # (s,)


def _even(reach: float, count: int) -> torch.Tensor:
    return torch.linspace(-reach, reach, count, dtype=torch.float64)


def square_wave(count: int = 10) -> LineData:
    x = _even(0.9, count)
    return LineData("square wave", x, torch.sign(torch.cos(2.5 * math.pi * x)))


def sinusoid(count: int = 10) -> LineData:
    x = _even(1.0, count)
    return LineData("sinusoid", x, torch.sin(2 * math.pi * x))


TASKS = {
    "sinusoid": sinusoid,
    "square wave": square_wave,
    "sinusoid, 6 samples": partial(sinusoid, 6),
}


def train(
    neurons: Neurons, data: LineData, delta: float, span: float, tolerance: float = 1e-4
) -> Trajectory:
    return regime(neurons, data.x, data.y, delta, span, tolerance)


@dataclass(frozen=True, eq=False)
class NetworkState:
    """A network and the samples it learns: its function, its knots, and its neurons in the plane (u, v)."""

    x: Array  # samples
    y: Array
    grid: Array
    function: Array  # on the grid
    knots: Array  # those within the grid
    heights: Array  # of the function there
    u: Array  # (m,)
    v: Array
    sign: Array  # of r

    @classmethod
    def of(cls, neurons: Neurons, data: LineData) -> NetworkState:
        knots = neurons.knots[neurons.knots.abs() <= GRID[-1]]
        parts = (
            *(data.x, data.y, GRID, neurons.predict(GRID), knots, neurons.predict(knots)),
            *(neurons.u, neurons.v, neurons.sign),
        )
        return cls(*(part.cpu().numpy() for part in parts))

    @property
    def reach(self) -> float:
        """The radius of a disc that holds almost all neurons."""
        return float(1.05 * np.quantile(np.hypot(self.u, self.v), 0.995))


@dataclass(frozen=True)
class ActiveArc:
    """Angles, in degrees, of neurons with one pattern of active samples, and the share that is active."""

    start: float
    stop: float
    share: float
    dead: bool


def active_arcs(data: LineData) -> list[ActiveArc]:
    samples = Samples.of(data.x.tolist())
    return [
        ActiveArc(*map(math.degrees, arc.angles), len(arc.pattern) / len(samples.x), arc.dead)
        for arc in samples.arcs
    ]


@dataclass(frozen=True, eq=False)
class NeuronPaths:
    """A network after training, and the paths of some of its neurons in the plane."""

    final: NetworkState
    u: Array  # (times, neurons)
    v: Array
    sign: Array  # (neurons,)


def neuron_paths(run: Trajectory, data: LineData, count: int = 100) -> NeuronPaths:
    states = [run.at(t) for t in milestones(run, 60)]
    which = torch.linspace(0, run.final.m - 1, count).long()
    u, v = (_stack(part) for part in zip(*[(s.u[which], s.v[which]) for s in states], strict=True))
    sign = run.final.sign[which].cpu().numpy()
    return NeuronPaths(NetworkState.of(run.final, data), u, v, sign)


@dataclass(frozen=True, eq=False)
class Velocities:
    """How neurons of one sign move at delta = infinity, at points of the plane, and the rays of samples."""

    sign: int
    u: Array
    v: Array
    du: Array
    dv: Array
    rays: Mapping[str, Array]  # unit directions (k, 2) of attractors and repulsors


def velocities(data: LineData, residuals: Sequence[Any]) -> list[Velocities]:
    """For neurons of either sign; lengths are roots of the speeds, so that slow ones are seen, too."""
    field = VelocityField.of(data.x.tolist(), residuals)
    pulls = {tuple(arc.pattern): field.residual_sum(arc.pattern) for arc in field.samples.arcs}
    return [_velocities(field, pulls, sign) for sign in (1, -1)]


def _velocities(field: VelocityField, pulls: Mapping[Any, Any], sign: int) -> Velocities:
    kinds = {ATTRACTOR: RayKind.ATTRACTOR, REPULSOR: RayKind.REPULSOR}
    rays = {
        name: np.array(
            [ray.direction for ray in field.samples.rays if field.kind(ray, sign) is kind], float
        ).reshape(-1, 2)
        for name, kind in kinds.items()
    }
    rays = {
        name: directions / np.hypot(*directions.T)[:, None] for name, directions in rays.items()
    }
    angles = np.linspace(0, 2 * math.pi, 72, endpoint=False) + 0.01
    u, v = (np.outer((0.4, 0.7, 1.0), part(angles)).ravel() for part in (np.cos, np.sin))
    x = np.array([float(value) for value in field.samples.x])
    active = [tuple(np.flatnonzero(a * x + b > 0)) for a, b in zip(u, v, strict=True)]
    flow = -sign * np.array([[float(part) for part in pulls[pattern]] for pattern in active]).T
    size = np.hypot(*flow)
    flow *= np.sqrt(size / size.max()) / np.maximum(size, 1e-300)
    return Velocities(sign, u, v, *flow, rays)


@dataclass(frozen=True, eq=False)
class KnotShares:
    """The weight of knots near samples over training: a mean over networks, and what chance would give."""

    progress: Array  # from 0 to 1
    mean: Array
    stderr: Array
    expected: float  # of knots that never moved

    @classmethod
    def of(cls, shares: Shares) -> KnotShares:
        estimate = shares.estimate
        mean, stderr = (part[:, 1].cpu().numpy() for part in (estimate.mean, estimate.stderr))
        return cls(np.linspace(0, 1, len(mean)), mean, stderr, shares.probability)


@dataclass(frozen=True, eq=False)
class Film:
    """A run at equal steps along the path of its residuals."""

    curves: Array  # (STOPS, grid)
    knots: Array  # (STOPS, 2, m): x and f(x)
    plane: Array  # (STOPS, 2, m): u and v
    sign: Array  # (STOPS, m)
    losses: Array  # (STOPS,)

    @classmethod
    def of(cls, run: Trajectory, data: LineData) -> Film:
        states = [run.at(time) for time in milestones(run, STOPS)]
        knots = [torch.stack([s.knots, s.predict(s.knots.clamp(-9, 9))]) for s in states]
        residuals = torch.stack([s.predict(data.x) for s in states]).cpu() - data.y
        return cls(
            _stack(s.predict(GRID) for s in states),
            _stack(knots),
            _stack(torch.stack([s.u, s.v]) for s in states),
            _stack(s.sign for s in states),
            (residuals**2).sum(1).numpy() / 2,
        )


def _stack(parts: Iterable[torch.Tensor]) -> Array:
    return torch.stack(list(parts)).cpu().numpy()


@dataclass(frozen=True, eq=False)
class FilmFrame:
    """One moment of a film, and how many knots are within 0.02 of a sample, now and at the start."""

    x: Array  # samples
    y: Array
    grid: Array
    function: Array
    knots: Array  # (2, m): x and f(x)
    u: Array
    v: Array
    sign: Array
    reach: float  # of the plane, the same for all moments
    loss: float
    near: float
    near_at_start: float


@dataclass(frozen=True, eq=False)
class Films:
    """Films by what is fitted and by delta; a run is made when it is first asked for, and once."""

    neurons: Neurons
    data: Mapping[str, LineData]
    span: float

    def frame(self, task: str, delta: float, progress: float) -> FilmFrame:
        """Progress is the share of the whole path of the residuals, from 0 to 1."""
        data, film = self.data[task], _film(self, task, delta)
        stop, x = round(progress * (STOPS - 1)), data.x.numpy()
        reach = float(1.05 * np.quantile(np.hypot(*film.plane[-1]), 0.99))
        near, at_start = (
            float((np.abs(film.knots[k, 0][:, None] - x).min(1) < 0.02).mean()) for k in (stop, 0)
        )
        return FilmFrame(
            x, data.y.numpy(), GRID.numpy(), film.curves[stop], film.knots[stop],
            *film.plane[stop], film.sign[stop], reach, float(film.losses[stop]), near, at_start,
        )  # fmt: skip


@lru_cache(maxsize=64)
def _film(films: Films, task: str, delta: float) -> Film:
    data = films.data[task]
    return Film.of(train(films.neurons, data, delta, films.span, 1e-3), data)


@cache
def _panel_films() -> Films:
    neurons = Neurons.drawn(300, seed=0, antisymmetric=True, device="cpu")
    return Films(neurons, {name: make() for name, make in TASKS.items()}, SPAN)


def trained_neurons(task: str, delta: float, progress: float) -> FilmFrame:
    """A moment in the training of 300 neurons that start from zero, at any delta, also an infinite one."""
    return _panel_films().frame(task, delta, progress)

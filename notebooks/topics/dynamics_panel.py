"""Training from kernel to adaptive under a slider for delta: every run is made once and kept as a film."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from tqdm import tqdm

from notebooks.panels import Caption, Choice, Control, Scale, Slider
from notebooks.panels.style import BLUE, INK, RED
from notebooks.topics.dynamics_figures import (
    GREEN,
    GREY,
    GRID,
    Array,
    Data,
    trained,
)
from numeric.relu_dynamics import Neurons, Trajectory
from numeric.relu_dynamics.regimes import milestones

SIZES = (0.3, 1.0, 3.0, 10.0, 30.0)
DELTAS = (-math.inf, *(-size for size in SIZES[::-1]), 0.0, *SIZES, math.inf)
STOPS = 21  # of each film
TITLES = ("the function and its knots", "neurons in the plane")
FORMULA = r"\dot w_i = -P_{\delta}(r_i)\,\nabla_{w_i}\tilde L, \quad \delta = c_i^2 - a_i^2 - b_i^2"


@dataclass(frozen=True, eq=False)
class Film:
    """A run at equal shares of the way that its residuals go."""

    curves: Array  # (STOPS, grid)
    knots: Array  # (STOPS, 2, m): x and f(x)
    plane: Array  # (STOPS, 2, m): u and v
    sign: Array  # (STOPS, m)
    losses: Array  # (STOPS,)

    @classmethod
    def of(cls, run: Trajectory, data: Data) -> Film:
        states = [run.at(time) for time in milestones(run, STOPS)]
        knots = [torch.stack([s.knots, s.predict(s.knots.clamp(-9, 9))]) for s in states]
        rest = torch.stack([s.predict(data.x) for s in states]).cpu() - data.y
        return cls(
            _stacked(s.predict(GRID) for s in states),
            _stacked(knots),
            _stacked(torch.stack([s.u, s.v]) for s in states),
            _stacked(s.sign for s in states),
            (rest**2).sum(1).numpy() / 2,
        )


@dataclass(frozen=True, eq=False)
class Show:
    """Films by what is fitted and by delta, and how to draw one picture of them."""

    data: Mapping[str, Data]
    films: Mapping[tuple[str, float], Film]

    @classmethod
    def of(
        cls, neurons: Neurons, data: Sequence[Data], span: float, deltas: Sequence[float] = DELTAS
    ) -> Show:
        wanted = [(one, delta) for one in data for delta in deltas]
        films = {}
        for one, delta in tqdm(wanted, desc="runs", leave=False):
            films[one.title, delta] = Film.of(trained(neurons, one, delta, span, 1e-3), one)
        return cls({one.title: one for one in data}, films)

    @property
    def controls(self) -> tuple[Control, ...]:
        titles, deltas = tuple(self.data), tuple(sorted({delta for _, delta in self.films}))
        return (
            Choice("task", "data", titles, titles[0]),
            Scale("delta", r"\delta", deltas, 0.0),
            Slider("progress", "t", 0.0, 1.0, 1 / (STOPS - 1), 1.0),
        )

    def play(self, axes: Sequence[Axes], task: str, delta: float, progress: float) -> Caption:
        """One picture: how far training has come is the share of the residuals' whole way."""
        data, film = self.data[task], self.films[task, delta]
        stop = round(progress * (STOPS - 1))
        left, right = axes
        if not left.lines:
            _begin(left, right)
        curve, knots, samples = left.lines
        curve.set_data(GRID, film.curves[stop])
        knots.set_data(*film.knots[stop])
        samples.set_data(data.x, data.y)
        u, v = film.plane[stop]
        reach = 1.05 * np.quantile(np.hypot(*film.plane[-1]), 0.99)
        rays, *signs = right.lines
        rays.set_data(*_rays(data, reach))
        for line, value in zip(signs, (1, -1), strict=True):
            line.set_data(u[film.sign[stop] == value], v[film.sign[stop] == value])
        right.set(xlim=(-reach, reach), ylim=(-reach, reach))
        near = [_near(film.knots[k, 0], data) for k in (0, stop)]
        return Caption(
            FORMULA,
            f"loss {film.losses[stop]:.3g}; knots within 0.02 of a sample: {near[1]:.1%}, "
            f"at the start {near[0]:.1%}",
        )


def _begin(left: Axes, right: Axes) -> None:
    left.set(xlim=(-1.3, 1.3), ylim=(-2, 2), xlabel="$x$")
    left.plot([], [], color=BLUE, lw=1.4)
    left.plot([], [], "o", color=GREEN, ms=3, alpha=0.4, mew=0)
    left.plot([], [], "x", color=INK, ms=6, mew=1.6)
    right.set(xlabel="$u$", aspect="equal")
    right.plot([], [], color=GREY, lw=0.5, zorder=0)
    for colour in (RED, BLUE):
        right.plot([], [], "o", color=colour, ms=2.5, alpha=0.5, mew=0)


def _rays(data: Data, reach: float) -> tuple[Array, Array]:
    """The lines of all samples as one, broken by NaN."""
    x, gap = data.x.numpy(), np.full(len(data.x), np.nan)
    u = np.stack([0 * x - reach, 0 * x + reach, gap], 1).ravel()
    v = np.stack([reach * x, -reach * x, gap], 1).ravel()
    return u, v


def _near(knots: Array, data: Data) -> float:
    return float((np.abs(knots[:, None] - data.x.numpy()).min(1) < 0.02).mean())


def _stacked(parts: Sequence[torch.Tensor]) -> Array:
    return torch.stack(list(parts)).cpu().numpy()

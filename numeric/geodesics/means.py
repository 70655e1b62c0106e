r"""The Riemannian mean of a small set: the point of least sum of squared distances.

The energy of the geodesic from x to a point, as a function of x, has half the gradient $-\log_x$, and
half the covariant Hessian that is left of its second variation when the inner nodes follow, a
Schur complement. So Newton's method takes nothing but the geodesics themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.linalg import eigh
from torch import Tensor
from tqdm import tqdm

from numeric.geodesics.chart import Chart, array, charted
from numeric.geodesics.elements import Array, Curve
from numeric.geodesics.geodesic import Geodesic
from numeric.geodesics.refinement import NotConverged
from numeric.geodesics.search import STANDARD, Search, found, settled
from numeric.geodesics.variation import Variation
from numeric.inputs import InputError

STEPS = 40
FLAT = 1e-3  # in flat space the Hessian is 1
CURVED = 0.2
SHORTEST = 1e-6  # share of a step that is tried
SLOPE = 0.1  # share of the expected gain that a step must bring
SHORTER = 1 - 1e-6  # what a new geodesic must be of the old one to take its place


@dataclass(frozen=True, eq=False)
class Mean:
    """Where the variance is stationary and no geodesic to a point is known to be shorter."""

    point: Tensor
    variance: float  # the weighted mean of squared distances
    gradient: float  # the norm of the mean logarithm, 0 at a mean
    iterations: int
    geodesics: tuple[Geodesic, ...] = field(repr=False)  # from the mean to each point


def mean(
    features: Any,
    points: Tensor,
    weights: Any = None,
    *,
    layer: str | None = None,
    search: Search = STANDARD,
    progress: bool = True,
) -> Mean:
    """Of points (n, ...), with weights (n,) that are 0 or above; equal ones by default.

    Far from the points there may be other means; the descent starts at the mean of coordinates.
    """
    with charted(features, points, layer) as (chart, flat):
        share = _shares(weights, len(flat))
        start = torch.as_tensor(share).to(flat) @ (flat - flat[0]) + flat[0]
        here = _Around.searched(chart.moved(start), points, flat, share, search)
        bar = tqdm(range(STEPS), desc="mean", unit="step", disable=not progress, leave=False)
        for step in bar:
            bar.set_postfix(gradient=f"{here.gradient:.1e}")
            if here.gradient <= chart.unit**0.6 * math.sqrt(here.variance):
                fresh = _Around.searched(here.chart, points, flat, share, search)
                if not fresh.variance < SHORTER * here.variance:
                    bar.close()
                    point = here.chart.origin.reshape(points.shape[1:])
                    return Mean(point, here.variance, here.gradient, step, tuple(here.geodesics))
                here = fresh
            here = here.stepped(search)
    raise NotConverged(
        f"The mean is not found in {STEPS} steps: the gradient at the last one is {here.gradient:.2g}, the "
        f"root of the variance {math.sqrt(here.variance):.2g}. Points may be too far apart for one mean."
    )


@dataclass(frozen=True, eq=False)
class _Around:
    """A candidate, the origin of its chart, and geodesics from it to each point."""

    chart: Chart
    share: Array
    geodesics: list[Geodesic]

    @classmethod
    def searched(
        cls, chart: Chart, points: Tensor, flat: Tensor, share: Array, search: Search
    ) -> _Around:
        origin = chart.origin.reshape(points.shape[1:])
        ends = [array(point - chart.origin) for point in flat]
        geodesics = [found(chart, origin, end, search)[0] for end in ends]
        if not all(geodesic.refined for geodesic in geodesics):
            raise InputError(
                "The map has creases or too many inputs for geodesics that are more than relaxed, and "
                "their directions are not known well enough for a mean: take a smooth activation and "
                "fewer inputs."
            )
        return cls(chart, share, geodesics)

    @property
    def variance(self) -> float:
        return float(self.share @ [geodesic.length**2 for geodesic in self.geodesics])

    @property
    def logarithm(self) -> Array:
        """The mean of the logarithms, (d,)."""
        zero = np.zeros(1)
        return self.share @ np.concatenate([g.curve.at(zero, 1) for g in self.geodesics])

    @property
    def gradient(self) -> float:
        here = self.logarithm[None]
        return float(self.chart.speeds(np.zeros_like(here), here)[0])

    def stepped(self, search: Search) -> _Around:
        """Newton's step downhill, halved until the variance falls."""
        step, gain = self._step()
        bend = self.chart.transport(np.zeros_like(step[None]), step[None])
        bend = array(bend.acceleration(self.chart.tensor(step[None])))[0]
        part = 1.0
        while part >= SHORTEST:
            move = part * step + part**2 * bend / 2  # the geodesic, up to its third order
            try:
                moved = self._moved(move, search)
            except InputError:
                moved = None
            bound = self.variance * (1 + 100 * self.chart.unit) - 2 * SLOPE * part * gain
            if moved is not None and moved.variance <= bound:
                return moved
            part /= 2
        raise NotConverged(
            f"The mean comes to no rest: no step lowers the variance {self.variance:.6g}, whose gradient is "
            f"{self.gradient:.2g}. A point may be so far away that geodesics to it are not unique."
        )

    def _step(self) -> tuple[Array, float]:
        """A displacement, and half of what the variance falls by along it at first."""
        d = len(self.chart.origin)
        slope, second = np.zeros(d), np.zeros((d, d))
        for share, geodesic in zip(self.share, self.geodesics, strict=True):
            here = Variation.at(self.chart, geodesic.curve)
            slope += share * here.first[:d]
            second += share * here.follow(d)
        stretch = array(self.chart.transport(np.zeros((1, d)), np.zeros((1, d))).stretch)[0]
        values, fields = eigh(second, stretch.T @ stretch)
        # Uphill from a saddle, or where the variance is flat, a step is no longer than a few logarithms.
        rates = np.where(values > FLAT, values, np.maximum(np.abs(values), CURVED))
        step = -fields @ (fields.T @ slope / rates)
        return step, float(-slope @ step)

    def _moved(self, move: Array, search: Search) -> _Around:
        """The candidate elsewhere; geodesics are led along, their far ends kept."""
        chart = self.chart.moved(self.chart.places(move[None])[0])
        move = array(chart.origin - self.chart.origin)
        geodesics = []
        for old in self.geodesics:
            curve = old.curve
            nodes = curve.nodes - np.outer(curve.times, move)
            origin = chart.origin.reshape(old.origin.shape)
            geodesics.append(settled(chart, origin, Curve.through(curve.breaks, nodes), search))
        return _Around(chart, self.share, geodesics)


def _shares(weights: Any, n: int) -> Array:
    if weights is None:
        return np.full(n, 1 / n)
    weights = array(weights) if isinstance(weights, Tensor) else np.asarray(weights, float)
    if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError(
            f"weights = {weights} were given, but {n} points need {n} finite weights of 0 or above."
        )
    if not weights.sum() > 0:
        raise InputError("All weights are 0: at least one must be above.")
    return weights / weights.sum()

r"""The Riemannian mean of a small set: the point that minimises the sum of squared distances.

Half the energy of the geodesic from x to a point, as a function of x, has the gradient $-\log_x$; its
covariant Hessian is half the second variation, minimised over the inner nodes: a Schur complement. So
Newton's method needs only the geodesics themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.linalg import eigh
from torch import Tensor

from numeric.geodesics.chart import Chart, array, open_chart
from numeric.geodesics.elements import Array, Curve
from numeric.geodesics.geodesic import Geodesic
from numeric.geodesics.refinement import NotConverged
from numeric.geodesics.search import (
    STANDARD,
    Search,
    find_geodesics,
    refined_geodesic,
    require_search,
)
from numeric.geodesics.variation import Variation
from numeric.inputs import ArrayLike, InputError, as_numbers
from numeric.models.model import ModelLike
from numeric.progress import progress_bar

__all__ = ["Mean", "mean"]

STEPS = 40  # of Newton's method
FLAT = 1e-3  # eigenvalues of the Hessian below this are not used for Newton steps; in flat space all are 1
CURVED = 0.2  # least absolute value by which those are replaced
SHORTEST = 1e-6  # smallest share of a step that is tried
SLOPE = 0.1  # share of the expected gain that a step must bring
SHORTER = 1 - 1e-6  # ratio of variances below which geodesics searched anew replace the old ones


@dataclass(frozen=True, eq=False)
class Mean:
    """A stationary point of the variance, whose geodesics are the shortest that were found."""

    point: Tensor
    variance: float  # the weighted mean of squared distances
    gradient: float  # the norm of the mean logarithm, 0 at a mean
    iterations: int
    geodesics: tuple[Geodesic, ...] = field(repr=False)  # from the mean to each point


def mean(
    model: ModelLike,
    points: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    layer: str | None = None,
    search: Search = STANDARD,
    progress: bool = True,
) -> Mean:
    """The Riemannian mean of points (n, ...): the least weighted sum of squared distances.

    Weights (n,) are 0 or above, equal ones by default; the other arguments are those of
    `geodesics.between`. Far from the points there may be other means; the descent starts at the mean of
    coordinates. Returned is a `Mean`. Refused are what `between` refuses, maps with kinks, and weights that
    are negative or all 0; `NotConverged` is raised where the descent does not end.

    >>> result = mean(lambda x: torch.exp(x), [[0.0], [2.0]], search=Search(starts=1))
    >>> round(result.point.exp().item(), 6)  # halfway between 1 and e^2
    4.194528
    """
    require_search(search)
    points = as_numbers("points", points)
    with open_chart(model, points, layer) as (chart, flat):
        share = _shares(weights, len(flat))
        start = torch.as_tensor(share).to(flat) @ (flat - flat[0]) + flat[0]
        here = _Candidate.searched(chart.recentred(start), points, flat, share, search)
        bar = progress_bar(range(STEPS), of="steps to the mean", show=progress)
        for step in bar:
            bar.set_postfix(gradient=f"{here.gradient:.1e}")
            if here.gradient <= chart.unit**0.6 * math.sqrt(here.variance):
                fresh = _Candidate.searched(here.chart, points, flat, share, search)
                if not fresh.variance < SHORTER * here.variance:
                    bar.close()
                    point = here.chart.origin.reshape(points.shape[1:])
                    return Mean(point, here.variance, here.gradient, step, tuple(here.geodesics))
                here = fresh
            here = here.stepped(search)
    raise NotConverged(
        f"The mean does not converge in {STEPS} steps: the gradient at the last one is {here.gradient:.2g}, "
        f"the root of the variance {math.sqrt(here.variance):.2g}. Points may be too far apart for one mean."
    )


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A candidate for the mean, the origin of its chart, with geodesics to each point."""

    chart: Chart
    share: Array
    geodesics: list[Geodesic]

    @classmethod
    def searched(
        cls, chart: Chart, points: Tensor, flat: Tensor, share: Array, search: Search
    ) -> _Candidate:
        origin = chart.origin.reshape(points.shape[1:])
        ends = [array(point - chart.origin) for point in flat]
        geodesics = [find_geodesics(chart, origin, end, search)[0] for end in ends]
        if not all(geodesic.refined for geodesic in geodesics):
            raise InputError(
                "The map has kinks or too many inputs for geodesics that are more than relaxed, and "
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

    def stepped(self, search: Search) -> _Candidate:
        """The next candidate: a Newton step, halved until the variance decreases."""
        step, gain = self._step()
        bend = self.chart.covariant_derivative(np.zeros_like(step[None]), step[None])
        bend = array(bend.acceleration(self.chart.tensor(step[None])))[0]
        part = 1.0
        while part >= SHORTEST:
            move = part * step + part**2 * bend / 2  # the geodesic, up to terms of third order
            try:
                candidate = self._moved(move, search)
            except InputError:
                candidate = None
            bound = self.variance * (1 + 100 * self.chart.unit) - 2 * SLOPE * part * gain
            if candidate is not None and candidate.variance <= bound:
                return candidate
            part /= 2
        raise NotConverged(
            f"The mean does not converge: no step lowers the variance {self.variance:.6g}, whose gradient is "
            f"{self.gradient:.2g}. A point may be so far away that geodesics to it are not unique."
        )

    def _step(self) -> tuple[Array, float]:
        """Newton's displacement, and half the rate at which the variance decreases along it."""
        d = len(self.chart.origin)
        slope, second = np.zeros(d), np.zeros((d, d))
        for share, geodesic in zip(self.share, self.geodesics, strict=True):
            here = Variation.at(self.chart, geodesic.curve)
            slope += share * here.first[:d]
            second += share * here.follow(d)
        R = array(self.chart.covariant_derivative(np.zeros((1, d)), np.zeros((1, d))).R)[0]
        values, fields = eigh(second, R.T @ R)
        # Where the Hessian is not clearly positive, go downhill by at most 1/CURVED logarithms.
        rates = np.where(values > FLAT, values, np.maximum(np.abs(values), CURVED))
        step = -fields @ (fields.T @ slope / rates)
        return step, float(-slope @ step)

    def _moved(self, move: Array, search: Search) -> _Candidate:
        """The candidate at another point; geodesics are deformed linearly and refined."""
        chart = self.chart.recentred(self.chart.places(move[None])[0])
        move = array(chart.origin - self.chart.origin)
        geodesics = []
        for old in self.geodesics:
            curve = old.curve
            nodes = curve.nodes - np.outer(curve.times, move)
            origin = chart.origin.reshape(old.origin.shape)
            geodesics.append(
                refined_geodesic(chart, origin, Curve.through(curve.breaks, nodes), search)
            )
        return _Candidate(chart, self.share, geodesics)


def _shares(weights: ArrayLike | None, n: int) -> Array:
    if weights is None:
        return np.full(n, 1 / n)
    weights = array(as_numbers("weights", weights))
    if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError(
            f"weights = {weights} were given, but {n} points need {n} finite weights of 0 or above."
        )
    if not weights.sum() > 0:
        raise InputError("All weights are 0: at least one must be above.")
    return weights / weights.sum()

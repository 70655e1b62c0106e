r"""Do knots gather at the samples? The fraction near a sample, over training and over networks.

Neurons of one network are not independent, since they feel the same residuals, so networks are what
is counted. The null is the law of the knots b / a at the start, which training at delta = -infinity
keeps: for a and b uniform on (-1, 1), $F(u) = \frac12 + \frac u4$ up to u = 1 and $1 - \frac1{4u}$ beyond.
Neurons that die in training stop at an end sample, and count there. For one network see `clusters`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from analytic.splines import INITIALISATIONS
from numeric.estimate import Estimate
from numeric.inputs import InputError, positive, samples_on_a_line, whole
from numeric.progress import progress_bar
from numeric.relu_dynamics.neurons import Neurons
from numeric.relu_dynamics.regimes import milestones, regime

STEPS = 4096  # of the integral over a law of knots


def near(neurons: Neurons, x: Tensor, distance: float) -> Tensor:
    """(2,): the share of knots within a distance of a sample, by number and by weight |r|."""
    close = ((neurons.knots[:, None] - x).abs().amin(1) <= distance).to(neurons.a)
    weight = neurons.r.abs()
    total = weight.sum()
    return torch.stack([close.mean(), (close * weight).sum() / torch.where(total > 0, total, 1)])


def chance(x: Tensor, distance: float) -> float:
    """The probability that a knot of uniform slopes and biases is near a sample: its density, integrated."""
    edges = torch.linspace(-distance, distance, STEPS + 1, dtype=torch.float64)
    points = (x.double().cpu()[:, None] + (edges[1:] + edges[:-1]) / 2).flatten()
    density = INITIALISATIONS["uniform"].knots.torch(u=points, A=1.0, B=1.0)
    return density.sum().item() * 2 * distance / STEPS


@dataclass(frozen=True, eq=False)
class Shares:
    """Fractions of near knots at milestones from the start to the end of training, by number and by |r|."""

    draws: Tensor  # (networks, milestones, 2)
    chance: float  # of one knot before training

    @property
    def found(self) -> Estimate:
        """Over networks."""
        return Estimate.of(self.draws)

    @property
    def rise(self) -> Estimate:
        """Since the start, each network compared with itself."""
        return Estimate.of(self.draws - self.draws[:, :1])

    @property
    def sigmas(self) -> Tensor:
        """(milestones, 2): the mean rise in its standard errors, below 0 where it is a fall."""
        return self.rise.mean.sign() * self.rise.sigmas_from(torch.zeros_like(self.rise.mean))


@dataclass(frozen=True, eq=False)
class Gathering:
    """Networks of uniform neurons, in pairs so that f = 0 at the start, trained at one delta."""

    x: Any  # (s,)
    y: Any  # (s,)
    delta: float
    m: int = 200
    networks: int = 12
    span: float = 3e4
    distance: float = 0.01
    milestones: int = 11
    scale: float = 1.0  # of a, b and c at the start
    seed: int = 0
    tolerance: float = 1e-3
    device: str = "auto"

    def __post_init__(self) -> None:
        whole("m", self.m, 2)
        whole("networks", self.networks, 2)
        whole("milestones", self.milestones, 2)
        whole("seed", self.seed, 0)
        positive("distance", self.distance)
        positive("scale", self.scale)
        x, _ = samples_on_a_line(self.x, self.y, self._drawn(0).a)
        gap = x.sort().values.diff().min().item() if len(x) > 1 else float("inf")
        if 2 * self.distance >= gap:
            raise InputError(
                f"distance = {self.distance} was given, but it must be below half of the least gap "
                f"{gap:.3g} between samples: take a smaller one."
            )

    def _drawn(self, k: int) -> Neurons:
        widths = dict.fromkeys("abc", self.scale)
        return Neurons.drawn(
            self.m, self.seed + k, antisymmetric=True, device=self.device, **widths
        )

    def run(self, progress: bool = True) -> Shares:
        draws = []
        for k in progress_bar(range(self.networks), of="networks", show=progress):
            neurons = self._drawn(k)
            x, y = samples_on_a_line(self.x, self.y, neurons.a)
            run = regime(neurons, x, y, self.delta, self.span, self.tolerance)
            times = milestones(run, self.milestones)
            draws.append(torch.stack([near(run.at(t), x, self.distance) for t in times]))
        return Shares(torch.stack(draws).cpu(), chance(x, self.distance))

r"""Do knots gather at the samples? The fraction of knots near one, in one network and over many.

In one network, `clustering`: under the null hypothesis knots do not know where in its cell, half-way to
its neighbours, a sample lies. So samples are drawn anew, each uniformly in its cell, and the fraction of
knots near those is what the null gives, however knots are spread over cells and whether or not neurons
depend on each other. Neurons that are active at no sample are left out: those that die stop at an end sample.

Over networks, `Gathering`: neurons of one network are not independent, since they feel the same residuals,
so networks are what is counted. The null is the law of the knots b / a at the start, which training at
delta = -infinity keeps: for a and b uniform on (-1, 1), $F(u) = \frac12 + \frac u4$ up to u = 1 and
$1 - \frac1{4u}$ beyond. Neurons that die in training stop at an end sample, and count there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from analytic.splines import INITIALISATIONS
from numeric.estimate import Estimate
from numeric.inputs import (
    ArrayLike,
    InputError,
    number,
    positive,
    require_seed,
    samples_on_a_line,
    values_on_a_line,
    whole,
)
from numeric.progress import progress_bar
from numeric.relu_dynamics.gradient import Samples
from numeric.relu_dynamics.neurons import Neurons, require_neurons
from numeric.relu_dynamics.regimes import milestones, regime

__all__ = [
    "Clustering", "Gathering", "Share", "Shares", "clustering", "near", "probability_near",
]  # fmt: skip

BLOCK = 2**22  # distances held at once
STEPS = 4096  # of the integral over a law of knots


@dataclass(frozen=True)
class Share:
    """The fraction of knots near a sample, or its growth, with its mean and spread under the null."""

    value: float
    expected: float  # under the null
    spread: float
    p_value: float  # of the null hypothesis, against more than chance

    @property
    def effect(self) -> float:
        """How much the fraction exceeds what the null gives."""
        return self.value - self.expected


@dataclass(frozen=True)
class Clustering:
    """The fraction before training, after it, and its growth."""

    before: Share
    after: Share
    gain: Share


def clustering(
    x: ArrayLike,
    before: Neurons,
    after: Neurons,
    distance: float | None = None,
    weighted: bool = False,
    draws: int = 999,
    seed: int = 0,
) -> Clustering:
    """Test whether knots cluster at the samples of one network more than the null hypothesis allows.

    x: samples (s,), two at least. before, after: the neurons before training and after it.
    distance: up to which a knot is near a sample; a twentieth of the least gap unless given.
    weighted: whether a neuron counts |r| instead of one. draws: of displaced samples, 19 at least.

    Returned are the fractions before and after, and the growth, each with its p-value. Refused are
    samples that repeat, a distance of half the least gap or more, and neurons that all are dead.

    >>> neurons = Neurons.drawn(50, 0, device="cpu")
    >>> clustering([-0.5, 0.0, 0.5], neurons, neurons, draws=19).gain.value
    0.0
    """
    for name, neurons in (("before", before), ("after", after)):
        require_neurons(neurons, name)
    x = values_on_a_line("x", x, before.a).sort().values
    if len(x) < 2 or not (gaps := x.diff()).min() > 0:
        raise InputError(f"{len(x)} samples were given: clusters need at least 2, no one twice.")
    least = gaps.min().item()
    distance = least / 20 if distance is None else positive("distance", distance)
    if 2 * distance >= least:
        problem = f"distance = {distance} was given, but the least gap between samples is {least}"
        raise InputError(
            f"{problem}: take less than half of it, so that a knot is near one sample only."
        )
    displaced = _displaced(x, whole("draws", draws, 19), require_seed(seed))
    points = torch.cat([x[None], displaced])  # (1 + draws, s)
    shares = [_shares(points, x, neurons, distance, weighted) for neurons in (before, after)]
    return Clustering(*map(_against_null, (*shares, shares[1] - shares[0])))


def _displaced(x: Tensor, draws: int, seed: int) -> Tensor:
    """(draws, s): each sample drawn anew from its cell; the outermost cells are symmetric."""
    middles = (x[1:] + x[:-1]) / 2
    lower = torch.cat([2 * x[:1] - middles[:1], middles])
    upper = torch.cat([middles, 2 * x[-1:] - middles[-1:]])
    uniform = torch.rand(
        draws, len(x), generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).to(x)
    return lower + uniform * (upper - lower)


def _shares(points: Tensor, x: Tensor, neurons: Neurons, distance: float, weighted: bool) -> Tensor:
    """(n, s) -> (n,)."""
    samples, _ = Samples.of(x)
    alive = samples.patterns(neurons.a, neurons.b) % (2 * len(x)) > 0
    if not alive.any():
        raise InputError("every neuron is dead: there is no knot to count.")
    knots = neurons.knots[alive]
    weights = neurons.r[alive].abs() if weighted else torch.ones_like(knots)
    weights_near = []
    for chunk in points.split(max(1, BLOCK // len(knots))):
        weights_near.append(_is_near(knots, chunk, distance).to(weights) @ weights)
    return torch.cat(weights_near) / weights.sum()


def _against_null(shares: Tensor) -> Share:
    """Compare the first share, at the true samples, with the others, at the displaced ones."""
    value, null = shares[0], shares[1:]
    exceeded = int((null >= value).sum())
    p_value = (1 + exceeded) / (1 + len(null))
    return Share(value.item(), null.mean().item(), null.std().item(), p_value)


def near(neurons: Neurons, x: Tensor, distance: float) -> Tensor:
    """(2,): the share of knots within a distance of one of the samples (s,), by number and by weight |r|."""
    close = _is_near(neurons.knots, x.sort().values[None], distance)[0].to(neurons.a)
    weight = neurons.r.abs()
    total = weight.sum()
    return torch.stack([close.mean(), (close * weight).sum() / torch.where(total > 0, total, 1)])


def _is_near(knots: Tensor, points: Tensor, distance: float) -> Tensor:
    """Whether each knot is within a distance of one of the sorted points: (m,), (n, s) -> (n, m)."""
    place = torch.searchsorted(points, knots.expand(len(points), -1).contiguous())
    left, right = (points.gather(1, k.clamp(0, points.shape[1] - 1)) for k in (place - 1, place))
    return torch.minimum((knots - left).abs(), (right - knots).abs()) <= distance


def probability_near(x: Tensor, distance: float) -> float:
    """The probability that a knot of uniform slopes and biases is near a sample: its density, integrated."""
    edges = torch.linspace(-distance, distance, STEPS + 1, dtype=torch.float64)
    points = (x.double().cpu()[:, None] + (edges[1:] + edges[:-1]) / 2).flatten()
    density = INITIALISATIONS["uniform"].knots.torch(u=points, A=1.0, B=1.0)
    return density.sum().item() * 2 * distance / STEPS


@dataclass(frozen=True, eq=False)
class Shares:
    """Fractions of near knots at milestones from the start to the end of training, by number and by |r|."""

    draws: Tensor  # (networks, milestones, 2)
    probability: float  # that one knot is near a sample before training

    @property
    def estimate(self) -> Estimate:
        """Over networks, (milestones, 2)."""
        return Estimate.of(self.draws)

    @property
    def change(self) -> Estimate:
        """Since the start, each network compared with itself."""
        return Estimate.of(self.draws - self.draws[:, :1])

    @property
    def sigmas(self) -> Tensor:
        """(milestones, 2): the mean change in its standard errors, with its sign."""
        return self.change.mean.sign() * self.change.sigmas_from(torch.zeros_like(self.change.mean))


@dataclass(frozen=True, eq=False)
class Gathering:
    """Networks of uniform neurons, in pairs so that f = 0 at the start, trained at one delta.

    x, y: samples, (s,) each. m: neurons, an even number. span: the time, as in `regime`. distance: up to
    which a knot is near a sample, below half of the least gap. milestones: how many times to look, 2 at
    least. `run` returns the Shares of near knots.

    >>> sizes = {"m": 10, "networks": 2, "span": 1.0, "milestones": 3, "device": "cpu"}
    >>> Gathering([-0.5, 0.5], [1.0, -1.0], 1.0, **sizes).run(progress=False).draws.shape
    torch.Size([2, 3, 2])
    """

    x: ArrayLike  # (s,)
    y: ArrayLike  # (s,)
    delta: float
    m: int = 200
    networks: int = 12
    span: float = 3e4
    distance: float = 0.01
    milestones: int = 11
    scale: float = 1.0  # of a, b and c at the start
    seed: int = 0
    tolerance: float = 1e-3
    device: str | torch.device = "auto"

    def __post_init__(self) -> None:
        whole("m", self.m, 2)
        whole("networks", self.networks, 2)
        whole("milestones", self.milestones, 2)
        whole("seed", self.seed, 0)
        number("delta", self.delta, endless=True)
        positive("span", self.span)
        positive("tolerance", self.tolerance)
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
        scale = self.scale
        return Neurons.drawn(
            self.m, self.seed + k, a=scale, b=scale, c=scale, antisymmetric=True, device=self.device
        )

    def run(self, progress: bool = True) -> Shares:
        """Train all networks, and count near knots at the milestones of each."""
        draws = []
        for k in progress_bar(range(self.networks), of="networks", show=progress):
            neurons = self._drawn(k)
            x, y = samples_on_a_line(self.x, self.y, neurons.a)
            run = regime(neurons, x, y, self.delta, self.span, self.tolerance)
            times = milestones(run, self.milestones)
            draws.append(torch.stack([near(run.at(t), x, self.distance) for t in times]))
        return Shares(torch.stack(draws).cpu(), probability_near(x, self.distance))

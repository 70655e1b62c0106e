"""Do knots cluster at samples? The share of knots near one, before and after training, and its null.

Under the null hypothesis knots do not know where in its cell, half-way to its neighbours, a sample lies.
So samples are drawn anew, each uniformly in its cell, and the share of knots near those is what chance
gives, however knots are spread over cells and whether or not neurons depend on each other. Neurons that
are active at no sample are left out: those that die stop at an end sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from numeric.inputs import InputError, positive, values_on_a_line, whole
from numeric.relu_dynamics.gradient import Samples
from numeric.relu_dynamics.neurons import Neurons

BLOCK = 2**22  # distances held at once


@dataclass(frozen=True)
class Share:
    """The fraction of knots near a sample, or its growth, with its mean and spread under the null."""

    value: float
    chance: float
    spread: float
    p_value: float  # of the null hypothesis, against more than chance

    @property
    def effect(self) -> float:
        return self.value - self.chance


@dataclass(frozen=True)
class Clustering:
    """The fraction before training, after it, and its growth."""

    before: Share
    after: Share
    gain: Share


def clustering(
    x: Any,
    before: Neurons,
    after: Neurons,
    distance: float | None = None,
    weighted: bool = False,
    draws: int = 999,
    seed: int = 0,
) -> Clustering:
    """Within a distance, a twentieth of the least gap unless given; each neuron counts one, or |r|."""
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
    points = torch.cat([x[None], _displaced(x, whole("draws", draws, 19), seed)])  # (1 + draws, s)
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
    for some in points.split(max(1, BLOCK // len(knots))):
        at = torch.searchsorted(some, knots.expand(len(some), -1).contiguous())  # (n, alive)
        left, right = (some.gather(1, k.clamp(0, len(x) - 1)) for k in (at - 1, at))
        near = torch.minimum((knots - left).abs(), (right - knots).abs()) <= distance
        weights_near.append(near.to(weights) @ weights)
    return torch.cat(weights_near) / weights.sum()


def _against_null(shares: Tensor) -> Share:
    """Compare the first share, at the true samples, with the others, at the displaced ones."""
    value, null = shares[0], shares[1:]
    exceeded = int((null >= value).sum())
    p_value = (1 + exceeded) / (1 + len(null))
    return Share(value.item(), null.mean().item(), null.std().item(), p_value)

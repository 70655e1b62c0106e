"""Networks trained on augmented data beside equivariant ones: exact means, and ensembles of finite ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

from analytic.activations import relu
from notebooks.topics.statistics import Array, Mean, PowerLaw
from numeric.estimate import Estimate
from numeric.experiments.ensembles import Ensemble
from numeric.infinite import (
    Convolution,
    Dense,
    Flatten,
    GlobalPool,
    GroupConvolution,
    GroupPool,
    Lift,
    Network,
    Window,
    gradient_flow,
)
from numeric.infinite.groups import Action, Averaged, cyclic, orbit, p4, symmetric, torus
from numeric.infinite.groups.action import ActsOnSignals
from numeric.inputs import generator_for

GROUPS: Mapping[str, Action] = {
    "Z6": Action(cyclic(6)),
    "S3": Action(symmetric(3)),
    "quarter turns": Action(cyclic(4), p4.sources((3, 3))),
    "turns and shifts": torus(3, cyclic(4)),
}
EQUIVARIANT, AVERAGED, SUMMED, PLAIN = (
    "equivariant", "augmented, loss averaged", "augmented, loss summed", "not augmented",
)  # fmt: skip
TIMES = np.geomspace(0.01, 100, 41)
SCALES = {"sigma_w": 1.4, "sigma_b": 0.2, "progress": False}
FAR = 5.0  # size of signals off the distribution, over that of the data


@dataclass(frozen=True, eq=False)
class Pair:
    """A network that knows nothing of a group, and one whose layers do."""

    plain: Network
    grouped: Network
    group: ActsOnSignals

    @property
    def theorem(self) -> Averaged:
        """The tangent kernel that the second must have: the first's, averaged over the group."""
        return Averaged(self.plain.ntk, self.group)


def dense_pair(group: Action) -> Pair:
    plain = [Flatten(), Dense(), relu, Dense(), relu, Dense()]
    grouped = [Lift(group), relu, GroupConvolution(), relu, GroupConvolution(), GroupPool()]
    return Pair(Network(plain, **SCALES), Network(grouped, **SCALES), group)


def pixel_pair() -> Pair:
    """A convolutional network with global pooling, and one on rotations and translations."""
    window = Window(3)
    plain = [Convolution(3), relu, Convolution(3), GlobalPool()]
    grouped = [Lift(p4, window), relu, GroupConvolution(window), GroupPool()]
    return Pair(Network(plain, **SCALES), Network(grouped, **SCALES), p4)


def normal(*shape: int, of: str, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator_for(of, seed), dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Task:
    """Signals with targets to train on, and others."""

    x: Tensor  # (n, channels, ...)
    y: Tensor  # (n, outputs)
    test: Tensor  # (m, channels, ...), of the same distribution
    out_of_distribution: Tensor  # (k, channels, ...), of another


def random_task(shape: Sequence[int], seed: int = 0, outputs: int = 1) -> Task:
    """Six signals of normal numbers with targets 1 and -1; others alike, and five times as large."""
    x, test, out_of_distribution = (
        normal(n, *shape, of=name, seed=seed) for n, name in ((6, "x"), (3, "new"), (3, "far"))
    )
    return Task(x, normal(6, outputs, of="y", seed=seed).sign(), test, FAR * out_of_distribution)


def digits_task(count: int, others: int, size: int, seed: int = 0) -> Task:
    """Images (n, 1, size, size) of digits, size 8 or 4, with one-hot targets less 1/10; noise afar."""
    bunch = load_digits()
    order = torch.randperm(len(bunch.target), generator=generator_for("digits", seed))
    images = torch.tensor(bunch.images / 16)[order, None]
    small = torch.nn.functional.avg_pool2d(images, 8 // size)
    small = (small - small.mean()) / small.std()
    targets = torch.eye(10, dtype=torch.float64)[torch.tensor(bunch.target)[order]] - 0.1
    out_of_distribution = normal(others, 1, size, size, of="noise", seed=seed)
    return Task(small[:count], targets[:count], small[count : count + others], out_of_distribution)


def exact_means(pair: Pair, task: Task, x: Tensor, times: Sequence[float]) -> Mapping[str, Tensor]:
    """Means of infinite ensembles after each time at signals x: (times, m, outputs)."""
    order = pair.group.order
    augmented, repeated = orbit(pair.group, task.x), task.y.repeat(order, 1)
    averaged = [t / order for t in times]
    return {
        EQUIVARIANT: gradient_flow(pair.grouped, task.x, task.y, x, list(times)).mean,
        AVERAGED: gradient_flow(pair.plain, augmented, repeated, x, averaged).mean,
        SUMMED: gradient_flow(pair.plain, augmented, repeated, x, list(times)).mean,
        PLAIN: gradient_flow(pair.plain, task.x, task.y, x, list(times)).mean,
    }


@dataclass(frozen=True, eq=False)
class Orbits:
    """Mean outputs at a signal moved by every element of a group, and differences to the equivariant mean."""

    elements: Array  # numbers of elements
    outputs: Mapping[str, Array]  # (order,)
    times: Array
    apart: Mapping[str, Array]  # (times,), the largest over elements and signals
    time: float
    order: int


def orbits(group: str, time: float) -> Orbits:
    """A signal that was not trained on, in all its positions, after training for a time."""
    pair, task = _of_group(group)
    order = pair.group.order
    moved = orbit(pair.group, task.test[:1])
    now = exact_means(pair, task, moved, [time])
    outputs = {name: mean[0, :, 0].numpy() for name, mean in now.items()}
    return Orbits(np.arange(order, dtype=float), outputs, TIMES, _apart(group), time, order)


@lru_cache(maxsize=8)
def _of_group(group: str) -> tuple[Pair, Task]:
    action = GROUPS[group]
    return dense_pair(action), random_task((1, action.positions))


@lru_cache(maxsize=8)
def _apart(group: str) -> Mapping[str, Array]:
    pair, task = _of_group(group)
    return differences(pair, task, TIMES)


def delay(pair: Pair, task: Task, times: Sequence[float]) -> float:
    """How far the summed loss is, relatively, from the equivariant network after |G| times as long."""
    x, order = torch.cat([task.test, task.out_of_distribution]), pair.group.order
    summed = exact_means(pair, task, x, times)[SUMMED]
    later = gradient_flow(pair.grouped, task.x, task.y, x, [order * t for t in times]).mean
    return float((summed - later).abs().max() / later.abs().max())


def differences(pair: Pair, task: Task, times: Array) -> Mapping[str, Array]:
    """The largest difference to the equivariant mean, at new signals and at far ones, by time."""
    means = exact_means(pair, task, torch.cat([task.test, task.out_of_distribution]), list(times))
    right = means[EQUIVARIANT]
    scale = right.abs().max()
    return {
        name: np.maximum(((mean - right).abs().amax((1, 2)) / scale).numpy(), 1e-18)
        for name, mean in means.items()
        if name != EQUIVARIANT
    }


@dataclass(frozen=True, eq=False)
class FiniteEnsembles:
    """Mean outputs of two ensembles and the exact mean, at signals by time."""

    times: Array
    exact: Array  # (times, m)
    means: Mapping[str, Mean]  # each (times, m)
    invariance: Mapping[
        str, float
    ]  # how far one member's outputs are apart over orbits, over their size

    def sigmas(self, name: str) -> float:
        """How many standard errors an ensemble is off the exact mean, at most."""
        mean = self.means[name]
        return float((np.abs(mean.mean - self.exact) / mean.stderr).max())

    @property
    def learned(self) -> Mapping[str, float]:
        """How many standard errors each ensemble is from 0, where untrained ones are, at most."""
        return {
            name: float((np.abs(one.mean) / one.stderr).max()) for name, one in self.means.items()
        }

    @property
    def apart(self) -> float:
        """How many standard errors the ensembles are apart, at most."""
        one, other = self.means.values()
        return float((np.abs(one.mean - other.mean) / np.hypot(one.stderr, other.stderr)).max())


def finite_ensembles(
    pair: Pair, task: Task, times: Sequence[float], width: int, members: int, seed: int = 0
) -> FiniteEnsembles:
    """Trained from one time to the next, in Runge-Kutta steps that are stable."""
    x = torch.cat([task.test, task.out_of_distribution])
    exact = gradient_flow(pair.grouped, task.x, task.y, x, list(times)).mean[..., 0]
    moved = orbit(pair.group, task.test)
    means, invariance = {}, {}
    for name, now in drawn(pair, task, width, members, seed).items():
        rows, before = [], 0.0
        for t in times:
            now, before = flow(now, pair, task, t - before, name), t
            rows.append(now(x)[..., 0])
        means[name] = Mean.of(Estimate.of(torch.stack(rows, 1)))
        outputs = now(moved).unflatten(1, (pair.group.order, -1))
        invariance[name] = float(
            outputs.std(1).square().mean().sqrt() / outputs.square().mean().sqrt()
        )
    return FiniteEnsembles(np.array(times), exact.numpy(), means, invariance)


def drawn(pair: Pair, task: Task, width: int, members: int, seed: int) -> dict[str, Ensemble]:
    """Ensembles of both networks before training, which share no network."""
    kind = {"shape": tuple(task.x.shape[1:]), "outputs": task.y.shape[1]}
    nets = {EQUIVARIANT: pair.grouped, AVERAGED: pair.plain}
    return {
        name: Ensemble.draw(net, width, members, seed=1_000_000 * (2 * seed + k), **kind)
        for k, (name, net) in enumerate(nets.items())
    }


def flow(now: Ensemble, pair: Pair, task: Task, t: float, name: str) -> Ensemble:
    """One of the ensembles after a further time t, on augmented data if its layers know no group."""
    order = pair.group.order
    if name != AVERAGED:
        return now.trained(
            task.x, task.y, t, steps=_steps(pair.plain if name == PLAIN else pair.grouped, task, t)
        )
    steps = _steps(pair.grouped, task, t)
    return now.trained(orbit(pair.group, task.x), task.y.repeat(order, 1), t, 1 / order, steps)


def _steps(net: Network, task: Task, t: float) -> int:
    """So many that Runge-Kutta is stable: narrow networks have eigenvalues up to twice as large."""
    return max(1, math.ceil(0.8 * t * float(torch.linalg.matrix_norm(net.ntk(task.x), 2))))


@dataclass(frozen=True, eq=False)
class Logits:
    """L2 differences between mean logits of two ensembles, by their size, on the data and off it."""

    counts: Sequence[int]
    augmented: Mapping[str, PowerLaw]  # to the equivariant ensemble, on and off the distribution
    plain: Mapping[str, Array]  # the same of an ensemble that saw no turned image
    floor: Mapping[str, float]  # what is left of that at infinite width and count
    sizes: Mapping[str, float]  # L2 norms of the equivariant mean


def logits(task: Task, t: float, width: int, counts: Sequence[int], seed: int = 0) -> Logits:
    """Of convolutional networks on turned images and of networks on rotations, after a time t."""
    pair = pixel_pair()
    ensembles = drawn(pair, task, width, counts[-1], seed)
    trained = {name: flow(one, pair, task, t, name) for name, one in ensembles.items()}
    trained[PLAIN] = flow(ensembles[AVERAGED], pair, task, t, PLAIN)
    places = {"digits": orbit(p4, task.test), "noise": task.out_of_distribution}
    outputs = {
        where: {name: one(x) for name, one in trained.items()} for where, x in places.items()
    }
    exact = {where: exact_means(pair, task, x, [t]) for where, x in places.items()}
    apart = {
        name: {where: [_distance(means[EQUIVARIANT], means[name], n) for n in counts]
               for where, means in outputs.items()}
        for name in (AVERAGED, PLAIN)
    }  # fmt: skip
    return Logits(
        counts,
        {where: PowerLaw.fit(counts, values) for where, values in apart[AVERAGED].items()},
        {where: np.array(values) for where, values in apart[PLAIN].items()},
        {where: _size(means[PLAIN] - means[EQUIVARIANT]) for where, means in exact.items()},
        {where: _size(means[EQUIVARIANT]) for where, means in exact.items()},
    )


def _size(values: Tensor) -> float:
    """The L2 norm over outputs, root mean square over signals."""
    return float(values.square().sum(-1).mean().sqrt())


def _distance(one: Tensor, other: Tensor, count: int) -> float:
    """The L2 difference of mean logits of so many members, root mean square over signals and draws."""
    means = [
        part[: len(part) // count * count].unflatten(0, (-1, count)).mean(1)
        for part in (one, other)
    ]
    return _size(means[0] - means[1])

"""Finite networks: the moment form of the Ricci scalar against the paper's sum over triples (B.15)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from analytic.activations import erf
from analytic.formula import Formula
from analytic.symbols import z
from numeric.shallow import ShallowNetwork


def run(width: int = 1000, points: int = 20) -> Iterator[str]:
    generator = torch.Generator().manual_seed(0)
    network = ShallowNetwork.gaussian(erf, width, 2, 1.0, 1.0, generator=generator)
    x = torch.randn(points, 2, generator=generator, dtype=torch.float64)
    ours, rival = _timed(lambda: network.ricci_scalar(x)), _timed(lambda: triple_sum(network, x))
    off = ((ours[1] - rival[1]) / rival[1]).abs().max().item()
    yield (
        f"width {width}, {points} points: {rival[0] / ours[0]:.0f} times faster than the triple sum, "
        f"relative difference {off:.0e}"
    )


def triple_sum(network: ShallowNetwork, x: Tensor) -> Tensor:
    """(B.15) with its factor corrected: a sum over all triples of units."""
    first, second = (Formula("slope", (z,), erf.derivative(k)).torch for k in (1, 2))
    at = network.preactivations(x)
    p, c = first(at) ** 2, first(at) * second(at)
    w, n = network.weights, len(network.weights)
    M = w[:, None, 0] * w[None, :, 1] - w[:, None, 1] * w[None, :, 0]
    pairs = (
        M**2 * (M.mT @ (pi[:, None] * M)) * ci[:, None] * ci for pi, ci in zip(p, c, strict=True)
    )
    total = torch.stack([pair.sum() for pair in pairs])
    return -total / (n**3 * torch.linalg.det(network.metric(x)) ** 2)


def _timed(job: Callable[[], Tensor], repeats: int = 5) -> tuple[float, Tensor]:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = job()
        times.append(time.perf_counter() - start)
    return min(times), result

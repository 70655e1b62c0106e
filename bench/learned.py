"""Learned kernels: a recursive feature machine against a plain transcription and against a physical floor.

The floor is what no such machine can leave out: for each fit one product X X^T and one Cholesky solve,
and for each update of M one product of an (n, n) matrix with the points.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from bench.clock import interleaved
from numeric.learned import FeatureMachine, Laplace

TURNS, BANDWIDTH, RIDGE = 5, 10.0, 1e-3
BLOCK = 2_000_000  # differences that the plain transcription holds at once


def run(n: int = 2000, d: int = 50, repeats: int = 2) -> Iterator[str]:
    x, y, u = single_index(n, d)
    machine = FeatureMachine(Laplace(BANDWIDTH), ridge=RIDGE, iterations=TURNS)
    jobs = (partial(floor, x, y), partial(plain, x, y), partial(machine.fit, x, y))
    threads = torch.get_num_threads()
    for count, clock, what in (
        (1, time.process_time, "CPU time on one thread"),
        (2, time.perf_counter, "wall time on two"),
    ):
        torch.set_num_threads(count)
        least, rival, ours = interleaved(jobs, clock, repeats)
        yield (
            f"{n} points, d = {d}, {TURNS} iterations, {what}: ours {ours:.2f} s, floor {least:.2f} s, "
            f"plain {rival / least:.1f}, ours {ours / least:.2f} times it"
        )
    torch.set_num_threads(threads)
    M = machine.kernel_.matrix
    cosine = abs(torch.linalg.eigh(M)[1][:, -1] @ u).item()
    off = (M - plain(x, y)).abs().max() / M.abs().max()
    yield f"cosine with the direction of the target {cosine:.6f}; M differs from plain by {off:.0e}"


def single_index(n: int, d: int) -> tuple[Tensor, Tensor, Tensor]:
    """Targets that know one direction of the points, and the direction."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    u = torch.randn(d, generator=generator, dtype=torch.float64)
    u = u / u.norm()
    return x, torch.tanh(2 * x @ u), u


def floor(x: Tensor, y: Tensor) -> None:
    for turn in range(TURNS + 1):
        gram = x @ x.T
        gram.diagonal().add_(float(len(x)))
        torch.cholesky_solve(y[:, None], torch.linalg.cholesky(gram))
        if turn:
            gram @ x


def plain(x: Tensor, y: Tensor) -> Tensor:
    """M by (F.1)-(F.4), with the differences of all pairs, in blocks that fit into memory."""
    M = torch.eye(x.shape[1], dtype=x.dtype)
    for _ in range(TURNS):
        distances, gram, weights = _fit(x, y, M)
        rate = (gram / distances).fill_diagonal_(0.0) * weights
        rows = max(1, BLOCK // x.numel())
        blocks = zip(rate.split(rows), x.split(rows), strict=True)
        slopes = torch.cat([torch.einsum("ab,abi->ai", r, a[:, None] - x) for r, a in blocks]) @ M
        M = slopes.T @ slopes
        M = M * (len(M) / M.trace())
    _fit(x, y, M)
    return M


def _fit(x: Tensor, y: Tensor, M: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Distances, Gram matrix and weights."""
    values, vectors = torch.linalg.eigh(M)
    seen = x @ (vectors * values.clamp(min=0).sqrt())
    distances = torch.cdist(seen, seen)
    gram = torch.exp(-distances / BANDWIDTH)
    weights = torch.linalg.solve(gram + RIDGE * torch.eye(len(x), dtype=x.dtype), y)
    return distances, gram, weights

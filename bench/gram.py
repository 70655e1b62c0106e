"""Gram matrices: depth-3 NTK in float64 against a plain transcription and against a physical floor.

The floor is one product X X^T and one elementwise pass over the result for each layer.
"""

from __future__ import annotations

import math
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from analytic.activations import erf, relu
from bench.clock import interleaved
from numeric.infinite import FullyConnected

DEPTH, WEIGHT, BIAS = 3, 1.5, 0.1
GIGABYTE = 2**30


def run(sizes: tuple[int, ...] = (1000, 2000), d: int = 784) -> Iterator[str]:
    threads = torch.get_num_threads()
    for count, clock, what in (
        (1, time.process_time, "CPU time on one thread"),
        (2, time.perf_counter, "wall time on two"),
    ):
        torch.set_num_threads(count)
        for n in sizes:
            x = torch.randn(n, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
            for name, act, plain in (("ReLU", relu, plain_relu), ("erf", erf, plain_erf)):
                net = FullyConnected(act, DEPTH, WEIGHT, BIAS)
                jobs = (partial(floor, x), partial(plain, x), partial(net.ntk, x))
                turns = 30_000 // n  # short calls are more easily disturbed
                least, rival, ours = interleaved(jobs, clock, turns)
                yield (
                    f"{name}, N = {n}, d = {d}, {what}: floor {1e3 * least:.0f} ms, plain "
                    f"{rival / least:.1f}, ours {ours / least:.2f} times it"
                )
    torch.set_num_threads(threads)
    for n, d in ((4000, 784), (10_000, 100)):
        command = [sys.executable, "-m", "bench.gram", str(n), str(d)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True)
        yield printed.stdout.strip()


def floor(x: Tensor) -> Tensor:
    gram = x @ x.T
    for _ in range(DEPTH):
        gram.mul_(1.0000001)
    return gram


def plain_relu(x: Tensor) -> Tensor:
    """The arc-cosine recursion as a textbook prints it."""
    k = theta = WEIGHT**2 / x.shape[1] * (x @ x.T) + BIAS**2
    for _ in range(DEPTH):
        scale = torch.sqrt(torch.outer(k.diagonal(), k.diagonal()))
        angle = torch.acos((k / scale).clamp(-1, 1))
        kernel = scale / (2 * math.pi) * (angle.sin() + (math.pi - angle) * angle.cos())
        k = WEIGHT**2 * kernel + BIAS**2
        theta = k + WEIGHT**2 * (math.pi - angle) / (2 * math.pi) * theta
    return theta


def plain_erf(x: Tensor) -> Tensor:
    """The arc-sine recursion as a textbook prints it."""
    k = theta = WEIGHT**2 / x.shape[1] * (x @ x.T) + BIAS**2
    for _ in range(DEPTH):
        both = torch.outer(1 + k.diagonal(), 1 + k.diagonal())
        kernel = 2 / math.pi * torch.asin(k / torch.sqrt(both))
        slope = 2 / (math.pi * torch.sqrt(both - k**2))
        k = WEIGHT**2 * kernel + BIAS**2
        theta = k + WEIGHT**2 * slope * theta
    return theta


def memory(n: int, d: int) -> str:
    """Of a process that computes one Gram matrix; its peak bounds what that needed."""
    net = FullyConnected(relu, DEPTH, WEIGHT, BIAS)
    net.ntk(torch.randn(300, d, dtype=torch.float64))
    x = torch.randn(n, d, dtype=torch.float64)
    before, start = _resident(), time.perf_counter()
    gram = net.ntk(x)
    seconds, size = time.perf_counter() - start, gram.numel() * gram.element_size()
    return (
        f"ReLU, N = {n}, d = {d}: {seconds:.1f} s, at most {(peak() - before) / size:.1f} Gram matrices "
        f"of memory beside the points, peak of the process {peak() / GIGABYTE:.2f} GB"
    )


def _resident() -> int:
    return _process_status("VmRSS") or peak()


def peak() -> int:
    """Linux counts the process that started this one into ru_maxrss, but not into VmHWM."""
    unit = 1 if sys.platform == "darwin" else 1024
    return _process_status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _process_status(name: str) -> int:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    print(memory(*map(int, sys.argv[1:])))

"""Log volumes along a segment between images: a ResNet-20, against the public code, and a ResNet-18.

The public code takes rows by autograd with a graph of their own, and all singular values of the transpose
(`bench.log_volume.published`); it is tried at one image and at as many at once as 3 GB allow, on the same
weights, in the same run. Weights are untrained: the work is the same. Times are of the CPU, on one thread;
memory is the peak of a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from bench.gram import GIGABYTE, peak
from bench.log_volume import published
from numeric import geometry, models
from numeric.experiments.images import segment

POINTS = 64
SHARE = 4  # images that the public code takes at once; forty, its default, need more than 3 GB
CASES = {"resnet20": (POINTS, 0.5), "resnet18": (1, 1.0)}  # points, and a budget in GB


def run() -> Iterator[str]:
    for case in ("resnet20", "resnet18", "rival"):
        command = [sys.executable, "-m", "bench.images", case]
        yield subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def network(name: str) -> nn.Module:
    if name == "resnet18":
        return models.resnet18(activation=nn.ReLU())
    return models.cifar_resnet(20, classes=None)


def points(count: int) -> Tensor:
    first, second = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    return segment(first, second, POINTS)[:count]


def memory(name: str) -> str:
    """Of a process that computes these volumes and nothing else."""
    count, budget = CASES[name]
    net, x = network(name), points(count)
    before, start = peak(), time.process_time()
    volume = geometry.log_volume(net, x, memory=int(budget * GIGABYTE), progress=False)
    spent = time.process_time() - start
    return (
        f"{name}, {count} images of 3 x 32 x 32, rank {volume.rank.max().item()}: {spent:.1f} s of CPU time, "
        f"peak {peak() / GIGABYTE:.2f} GB resident, {before / GIGABYTE:.2f} of them before"
    )


def rival() -> str:
    net, x = network("resnet20").eval(), points(16)
    ours, values = _timed(lambda: geometry.log_volume(net, x, progress=False).value)
    alone, one = _timed(lambda: published(net, x[:1]))
    batch, four = _timed(lambda: published(net, x[:SHARE]))
    off = max((values[:1] - one).abs().max(), (values[:SHARE] - four).abs().max())
    each = ours / len(x)
    return (
        f"resnet20, an image of {len(x)}: {1e3 * each:.0f} ms; the public code takes {alone / each:.1f} "
        f"times that for one image and {batch / SHARE / each:.1f} in batches of {SHARE}; values differ by "
        f"{off:.0e} nat"
    )


def _timed(job: Callable[[], Tensor]) -> tuple[float, Tensor]:
    start = time.process_time()
    result = job()
    return time.process_time() - start, result


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(rival() if sys.argv[1] == "rival" else memory(sys.argv[1]))

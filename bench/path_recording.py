"""Records of training: 1000 steps of a network with a million parameters, against training alone.

784-1000-200-10 ReLU units in float32 on batches of 64, by the same loop, with a record on disk and without.
Runs take turns, and the least ratio of neighbours is that of a machine that does nothing else. Reading goes
through all steps in a process of its own, whose peak of memory is printed, and before that what it takes to
import torch.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from numeric import path_kernel
from numeric.runs import train

OPTIMIZERS = {
    "SGD": partial(torch.optim.SGD, lr=0.01),
    "SGD with momentum": partial(torch.optim.SGD, lr=0.01, momentum=0.9),
    "AdamW": partial(torch.optim.AdamW, lr=1e-4),
}
QUIET: dict[str, Any] = {"device": "cpu", "progress": False}
READ = """
import resource, sys
from bench.path_recording import data, network
import torch.nn.functional as F
from numeric import path_kernel
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run = path_kernel.load(sys.argv[1], network(), F.cross_entropy, data())
for step in range(run.steps):
    run.parameters(step), run.rule.second_moments(step), run.batch(step)
print(before / 2**20, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def network() -> nn.Module:
    torch.manual_seed(0)
    parts = [nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 200), nn.ReLU(), nn.Linear(200, 10)]
    return nn.Sequential(*parts)


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4096, 784, generator=generator)
    return x, torch.randint(0, 10, (4096,), generator=generator)


def run(steps: int = 1000, batch_size: int = 64, turns: int = 3) -> Iterator[str]:
    net, pair = network(), data()
    size = sum(p.numel() for p in net.parameters())
    kind = {"batch_size": batch_size} | QUIET
    for name, make in OPTIMIZERS.items():
        train(net, F.cross_entropy, pair, make, steps=10, **kind)  # imports, threads
        pairs, memory = [], ""
        for _ in range(turns):
            alone = _seconds(partial(train, net, F.cross_entropy, pair, make, steps=steps, **kind))
            with tempfile.TemporaryDirectory() as folder:
                store = Path(folder) / "record"
                job = partial(path_kernel.record, net, F.cross_entropy, make, pair, store=store)
                recording = _seconds(partial(job, steps=steps, **kind))
                memory = memory or _memory_of_reading(store)
            pairs.append((alone, recording))
        ratios = ", ".join(f"{recording / alone:.2f}" for alone, recording in pairs)
        alone, recording = min(pairs, key=lambda pair: pair[1] / pair[0])
        yield (
            f"{name}, {size} parameters, {steps} steps of {batch_size}: "
            f"{1e3 * alone / steps:.1f} ms a step alone, {1e3 * recording / steps:.1f} ms recorded, "
            f"{recording / alone:.2f} times (turns: {ratios}); "
            f"reading raises the peak of memory from {memory}"
        )


def _memory_of_reading(store: Path) -> str:
    read = [sys.executable, "-c", READ, str(store)]
    told = subprocess.run(read, capture_output=True, text=True, check=True).stdout
    before, after = map(float, told.split())
    return f"{before:.2f} to {after:.2f} GB"


def _seconds(job: Any) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


if __name__ == "__main__":
    for line in run(*map(int, sys.argv[1:])):
        print(line)

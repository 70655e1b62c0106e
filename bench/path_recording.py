"""Records of training: 1000 steps of a network with a million parameters, against training alone.

784-1000-200-10 ReLU units in float32 on batches of 64, by the same loop, with a record on disk and without.
Runs take turns on one thread, and the least CPU times count, that of the thread that writes among them; in
wall time a busy machine or a slow disk shows. Reading goes through all steps in a process of its own, whose
peak of memory is printed, and before that what it takes to import torch.
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
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    net, pair = network(), data()
    size = sum(p.numel() for p in net.parameters())
    kind = {"batch_size": batch_size} | QUIET
    for name, make in OPTIMIZERS.items():
        train(net, F.cross_entropy, pair, make, steps=10, **kind)  # imports
        turns_of, memory = [], ""
        for _ in range(turns):
            alone = _seconds(partial(train, net, F.cross_entropy, pair, make, steps=steps, **kind))
            with tempfile.TemporaryDirectory() as folder:
                store = Path(folder) / "record"
                job = partial(path_kernel.record, net, F.cross_entropy, make, pair, store=store)
                recording = _seconds(partial(job, steps=steps, **kind))
                memory = memory or _memory_of_reading(store)
            turns_of.append((alone, recording))
        (alone, alone_wall), (recorded, recorded_wall) = (
            [min(times) for times in zip(*of, strict=True)] for of in zip(*turns_of, strict=True)
        )
        yield (
            f"{name}, {size} parameters, {steps} steps of {batch_size}, one thread: "
            f"{1e3 * alone / steps:.1f} ms of CPU a step alone, {1e3 * recorded / steps:.1f} ms recorded, "
            f"{recorded / alone:.2f} times ({recorded_wall / alone_wall:.2f} times in wall time); "
            f"reading raises the peak of memory from {memory}"
        )
    torch.set_num_threads(threads)


def _memory_of_reading(store: Path) -> str:
    read = [sys.executable, "-c", READ, str(store)]
    printed = subprocess.run(read, capture_output=True, text=True, check=True).stdout
    before, after = map(float, printed.split())
    return f"{before:.2f} to {after:.2f} GB"


def _seconds(job: Any) -> tuple[float, float]:
    """CPU time, that of the thread that writes included, and wall time."""
    begun, start = time.process_time(), time.perf_counter()
    job()
    return time.process_time() - begun, time.perf_counter() - start


if __name__ == "__main__":
    for line in run(*map(int, sys.argv[1:])):
        print(line)

"""Least times of jobs, alone or taking turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence


def interleaved(
    jobs: Sequence[Callable[[], object]], clock: Callable[[], float], repeats: int = 15
) -> list[float]:
    """The least time of each job; they take turns, so that a busy moment strikes all.

    Each turn is two calls, and the second counts: caches, memory and threads that go on waiting for
    work are then a job's own, and not what the one before it left behind.
    """
    times = [math.inf] * len(jobs)
    for _ in range(repeats):
        for k, job in enumerate(jobs):
            job()
            start = clock()
            job()
            times[k] = min(times[k], clock() - start)
    return times


def seconds(job: Callable[[], object], repeats: int = 7) -> float:
    """The least time of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return min(times)

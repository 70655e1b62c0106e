"""Least times of jobs, alone or taking turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

PAUSE = 0.05  # seconds


def interleaved(
    jobs: tuple[Callable[[], object], ...], clock: Callable[[], float], repeats: int = 15
) -> list[float]:
    """The least time of each job; they take turns, so that a busy moment strikes all.

    Between them is a pause, because torch's threads wait for work at full speed for a while.
    """
    times = [math.inf] * len(jobs)
    for _ in range(repeats):
        for k, job in enumerate(jobs):
            time.sleep(PAUSE)
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

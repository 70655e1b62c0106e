"""Work shared by threads of Python, each of which keeps torch to itself."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import TypeVar

import torch

T = TypeVar("T")


def each(fill: Callable[[int, int], None], count: int, threads: int) -> None:
    """fill(k, worker) for k below count, shared by threads of Python, whose lock torch lets go of."""
    left = deque(range(count))

    def work(worker: int) -> None:
        try:
            with torch.no_grad():  # each thread has a switch of its own
                while left:
                    try:
                        k = left.popleft()
                    except IndexError:  # another thread took the last
                        return
                    fill(k, worker)
        finally:
            left.clear()  # nothing is begun after a failure or an interrupt

    others = [_pool(threads).submit(work, k) for k in range(1, min(threads, count))]
    try:
        work(0)
    finally:
        wait(others)
    for other in others:
        other.result()


def once(make: Callable[[], T]) -> Callable[[], T]:
    """What the first who asks makes, while the others wait; one that failed is made again."""
    lock, results = Lock(), []

    def get() -> T:
        with lock:
            if not results:
                results.append(make())
        return results[0]

    return get


@lru_cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Kept, because a matrix product is slow in a thread that never had one."""
    return ThreadPoolExecutor(threads, thread_name_prefix="gram")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not follow


@contextmanager
def sharing(device: torch.device) -> Iterator[int]:
    """How many may share the work; on a CPU each operation keeps to one of them meanwhile.

    That holds for all that the process does with torch. It begins before the first operation,
    because threads that have shared one go on waiting for the next, at full speed.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1:
        yield 1
        return
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)

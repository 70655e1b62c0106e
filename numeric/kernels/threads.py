"""Work shared by Python threads, each of which runs torch single-threaded."""

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

__all__ = ["computed_once", "run_in_threads", "worker_threads"]

T = TypeVar("T")


def run_in_threads(fill: Callable[[int, int], None], count: int, threads: int) -> None:
    """fill(k, worker) for k below count, shared by Python threads; torch releases the interpreter lock."""
    left = deque(range(count))

    def work(worker: int) -> None:
        try:
            with torch.no_grad():  # gradient mode is local to a thread
                while left:
                    try:
                        k = left.popleft()
                    except IndexError:  # another thread took the last
                        return
                    fill(k, worker)
        finally:
            left.clear()  # after a failure or an interrupt no further work is started

    others = [_pool(threads).submit(work, k) for k in range(1, min(threads, count))]
    try:
        work(0)
    finally:
        wait(others)
    for other in others:
        other.result()


def computed_once(make: Callable[[], T]) -> Callable[[], T]:
    """Call `make` once, in the first thread that asks, while others wait; retry if it failed."""
    lock, results = Lock(), []

    def get() -> T:
        with lock:
            if not results:
                results.append(make())
        return results[0]

    return get


@lru_cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Cached, because the first matrix product of a new thread is slow."""
    return ThreadPoolExecutor(threads, thread_name_prefix="gram")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child does not inherit threads


@contextmanager
def worker_threads(device: torch.device) -> Iterator[int]:
    """The number of threads for `run_in_threads`; inside, torch uses a single thread on the CPU.

    This setting holds for the whole process. It is made before the first operation, because torch's own
    worker threads would otherwise keep spinning while they wait for the next one.
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

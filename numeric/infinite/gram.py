"""Gram matrices by tiles that stay in cache: a matrix product for a panel, then layers on its tiles."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from analytic.domain import InputError
from numeric.infinite.recursion import Points, Recursion

if TYPE_CHECKING:
    from numeric.infinite.network import FullyConnected

SIDE = 200  # of a tile: a few of them stay in cache
VECTOR = 8  # matrix products of other sizes are slower
WIDE = 4096  # the same on other devices


def matrix(net: FullyConnected, x: Tensor, y: Tensor | None, tangent: bool) -> Tensor:
    """NNGP or NTK on (n, d) and (m, d); for y = None one half is computed, and mirrored."""
    check(x, y)
    recursion, symmetric = Recursion.of(net, tangent), y is None
    with torch.no_grad(), _threads(x.device) as threads:
        others, side = x if y is None else y, SIDE if x.device.type == "cpu" else WIDE
        rows = _blocks(recursion.points(x), side)
        columns = rows if symmetric else _blocks(recursion.points(others), side)
        out = x.new_empty(len(x), len(others))

        def fill(k: int) -> None:
            row, met = rows[k], columns[k:] if symmetric else columns
            start = met[0].at.start
            torch.mm(row.points.x, others[start:].T, out=out[row.at, start:])
            for column in met:
                i, j, same = row.at, column.at, column is row
                value = recursion.tile(row.points, column.points, out[i, j], same)
                out[i, j] = (value + value.T) / 2 if same else value
                if symmetric and not same:
                    out[j, i] = value.T

        _each(fill, len(rows), threads)
    return out


def gradient(net: FullyConnected, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """d/d(sigma_w, sigma_b) of sum(weights * NNGP), with the graph of one tile at a time."""
    check(x, None)
    fits = torch.is_tensor(weights) and weights.shape == (len(x), len(x))
    if not fits or weights.dtype != x.dtype:
        told = f"{tuple(weights.shape)} of {weights.dtype}" if torch.is_tensor(weights) else weights
        raise InputError(
            f"weights must be a tensor ({len(x)}, {len(x)}) of {x.dtype}, but {told} was given."
        )
    kind = {"dtype": x.dtype, "device": x.device, "requires_grad": True}
    sigma_w, sigma_b = (torch.tensor(part, **kind) for part in (net.sigma_w, net.sigma_b))
    recursion = Recursion(net.layers, sigma_w, sigma_b, net.parametrisation, tangent=False)
    total = [torch.zeros_like(part) for part in (sigma_w, sigma_b)]
    cuts = [slice(start, start + 4 * SIDE) for start in range(0, len(x), 4 * SIDE)]
    for i, j in combinations_with_replacement(cuts, 2):
        a, b = recursion.points(x[i]), recursion.points(x[j])
        value = recursion.tile(a, b, a.x @ b.x.T, same=i == j)
        weight = weights[i, j] if i == j else weights[i, j] + weights[j, i].T
        parts = torch.autograd.grad((weight * value).sum(), (sigma_w, sigma_b))
        total = [sum_ + part for sum_, part in zip(total, parts, strict=True)]
    return total[0], total[1]


def check(x: Tensor, y: Tensor | None) -> None:
    """Refuse wrong shapes, integers, and tensors that do not belong together."""
    for name, points in (("x", x), ("y", y)):
        if points is None and name == "y":
            continue
        if not torch.is_tensor(points) or points.ndim != 2 or 0 in points.shape:
            what = tuple(points.shape) if torch.is_tensor(points) else type(points).__name__
            raise InputError(f"{name} must be a tensor of points (n, d), but {what} was given.")
        if points.dtype not in (torch.float32, torch.float64):
            raise InputError(f"{name} is {points.dtype}: convert it to torch.float64 or float32.")
    if y is None:
        return
    if x.shape[1] != y.shape[1]:
        raise InputError(
            f"x has dimension {x.shape[1]} and y has {y.shape[1]}: they must be the same."
        )
    if x.dtype != y.dtype or x.device != y.device:
        raise InputError(
            f"x is {x.dtype} on {x.device} and y is {y.dtype} on {y.device}: convert one of them."
        )


@dataclass(frozen=True)
class _Block:
    """Some of the points, and where they stand."""

    at: slice
    points: Points


def _blocks(points: Points, side: int) -> list[_Block]:
    """All points in blocks of nearly one size, at most `side` and a multiple of what vectors hold."""
    n = len(points.x)
    count = -(-n // side)
    size = -(-n // (count * VECTOR)) * VECTOR
    cuts = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    return [_Block(at, points[at]) for at in cuts]


def _each(fill: Callable[[int], None], count: int, threads: int) -> None:
    """fill(0), ..., fill(count - 1), shared by threads of Python, whose lock torch lets go of."""
    if min(threads, count) == 1:
        for k in range(count):
            fill(k)
        return

    def work(k: int) -> None:
        with torch.no_grad():  # each thread has a switch of its own
            fill(k)

    list(_pool(threads).map(work, range(count)))


@lru_cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Kept, because a matrix product is slow in a thread that never had one."""
    return ThreadPoolExecutor(threads, thread_name_prefix="gram")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not follow


@contextmanager
def _threads(device: torch.device) -> Iterator[int]:
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

"""Gram matrices by tiles that stay in cache: a matrix product for a panel, then layers on its tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from analytic.domain import InputError
from numeric.infinite.recursion import Recursion

if TYPE_CHECKING:
    from numeric.infinite.network import FullyConnected

ROWS, COLUMNS = 160, 200  # a tile is below the size at which torch splits one operation on threads
CELLS = 2**24  # of a panel on other devices
Panel = tuple[slice, list[slice]]  # rows, and tiles of columns


def matrix(net: FullyConnected, x: Tensor, y: Tensor | None, tangent: bool) -> Tensor:
    """NNGP or NTK on (n, d) and (m, d); for y = None one half is computed, and mirrored."""
    check(x, y)
    recursion, symmetric = Recursion.of(net, tangent), y is None
    with torch.no_grad():
        rows = recursion.points(x)
        columns = rows if y is None else recursion.points(y)
        out = x.new_empty(len(rows.x), len(columns.x))

        def fill(i: slice, tiles: list[slice]) -> None:
            first = tiles[0].start
            panel = rows.x[i] @ columns.x[first:].T
            for j in tiles:
                same = symmetric and i == j
                inner = panel[:, j.start - first : j.stop - first]
                value = recursion.tile(rows[i], columns[j], inner, same)
                out[i, j] = (value + value.T) / 2 if same else value
                if symmetric and not same:
                    out[j, i] = value.T

        _each(fill, list(_panels(out, symmetric)), x.device)
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
    for i in _blocks(0, len(x), 4 * ROWS):
        for j in _blocks(i.start, len(x), 4 * ROWS):
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


def _panels(out: Tensor, symmetric: bool) -> Iterator[Panel]:
    """Groups of rows, each with its tiles of columns; the first is the diagonal one if symmetric."""
    n, m = out.shape
    on_cpu = out.device.type == "cpu"
    rows = ROWS if on_cpu else max(1, min(n, CELLS // m))
    columns = COLUMNS if on_cpu else m
    for i in _blocks(0, n, rows):
        if symmetric:
            yield i, [i, *_blocks(i.stop, n, columns)]
        else:
            yield i, list(_blocks(0, m, columns))


def _blocks(start: int, stop: int, size: int) -> Iterator[slice]:
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))


def _each(fill: Callable[..., None], panels: list[Panel], device: torch.device) -> None:
    """All panels, shared by as many threads as torch has: it lets go of Python's lock.

    Meanwhile each operation keeps to one thread, for all that the process does with torch.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or min(threads, len(panels)) == 1:
        for panel in panels:
            fill(*panel)
        return

    def work(panel: Panel) -> None:
        with torch.no_grad():  # each thread has a switch of its own
            fill(*panel)

    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, panels))
    finally:
        torch.set_num_threads(threads)

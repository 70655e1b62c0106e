"""Gram matrices by tiles that fit into the cache: one matrix product for a row of tiles, then the layers."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from numeric.infinite import jets
from numeric.infinite.points import Points
from numeric.infinite.recursion import Recursion
from numeric.inputs import ArrayLike, InputError, as_numbers, require_points
from numeric.kernels.jets import Jet
from numeric.kernels.scratch_memory import NoScratch, Scratch
from numeric.kernels.threads import computed_once, run_in_threads, worker_threads

if TYPE_CHECKING:
    from numeric.infinite.network import FullyConnected

__all__ = ["GRAPH", "TILE", "diagonal", "gradient", "jet", "matrix"]

TILE = (128, 1024)  # largest tile, rows and columns: a few of them fit into the cache
LARGE = (2048, 4096)  # the same on other devices than the CPU
GRAPH = 800  # side of a tile that is differentiated
VECTOR = 8  # tile sizes are multiples of this: matrix products of other sizes are slower


def matrix(net: FullyConnected, x: ArrayLike, y: ArrayLike | None, tangent: bool) -> Tensor:
    """NNGP or NTK on (n, d) and (m, d); for y = None one triangle is computed, and mirrored.

    Without biases and with phi(0) = 0 the output at x = 0 is always 0, and so are its row and column.
    """
    left, right = require_points(x, y)
    recursion, symmetric = Recursion.of(net, tangent), right is None
    columns = left if right is None else right
    height, width = TILE if left.device.type == "cpu" else LARGE
    plain = torch.inference_mode(False)  # other threads may not write to inference tensors
    with plain, torch.no_grad(), worker_threads(left.device) as threads:
        out, rows = left.new_empty(len(left), len(columns)), _cuts(0, len(left), height)
        cells = min(height, len(left)) * min(width, len(columns))
        memories = [_memory(cells, left) for _ in range(threads)]

        @computed_once
        def precomputed() -> tuple[Points, Points]:
            points = recursion.points(left)
            return points, points if symmetric else recursion.points(columns)

        def fill(k: int, worker: int) -> None:
            if worker == 0:
                precomputed()  # while the other threads begin with a matrix product
            i, memory = rows[k], memories[worker]
            start = i.start if symmetric else 0
            torch.mm(left[i], columns[start:].T, out=out[i, start:])
            points, others = precomputed()
            own = points[i]
            for j in _cuts(start, len(columns), width):
                tile, same = out[i, j], symmetric and j.start == start
                tile.copy_(recursion.tile(own, others[j], tile, same, memory))
                done = len(tile) if same else 0  # leading columns that are this tile's own rows
                if same:
                    square = tile[:, :done]
                    square.copy_((square + square.T) / 2)
                if symmetric:
                    out[j, i][done:] = tile.T[done:]

        run_in_threads(fill, len(rows), threads)
        points, others = precomputed()
        if symmetric:
            out.diagonal().copy_(points.diagonal)
        if points.always_zero.any() or others.always_zero.any():
            out[points.always_zero], out[:, others.always_zero] = 0.0, 0.0
    return out


def diagonal(net: FullyConnected, x: ArrayLike, tangent: bool) -> Tensor:
    """k(x, x), (n, d) -> (n,): the diagonal of `matrix`, without the rest of it."""
    x, _ = require_points(x)
    with torch.inference_mode(False), torch.no_grad():
        points = Recursion.of(net, tangent).points(x)
        return torch.where(points.always_zero, 0.0, points.diagonal)


def jet(net: FullyConnected, x: ArrayLike, tangent: bool) -> Jet:
    """The kernel and its derivatives at y = x, in closed form: (n,), (n, d), (n, d, d)."""
    x, _ = require_points(x)
    with torch.inference_mode(False), torch.no_grad():
        return jets.jet(Recursion.of(net, tangent), x)


def _memory(cells: int, like: Tensor) -> Scratch | NoScratch:
    return Scratch(cells, like) if like.device.type == "cpu" else NoScratch()


def gradient(net: FullyConnected, x: ArrayLike, weights: ArrayLike) -> tuple[Tensor, Tensor]:
    """d/d(sigma_w, sigma_b) of sum(weights * NNGP), with the graph of one tile at a time."""
    x, _ = require_points(x)
    converted = as_numbers("weights", weights, f"({len(x)}, {len(x)})")
    weights = converted if isinstance(weights, Tensor) else converted.to(x)
    if weights.shape != (len(x), len(x)) or weights.dtype != x.dtype:
        raise InputError(
            f"weights must have shape ({len(x)}, {len(x)}) and be {x.dtype}, but shape "
            f"{tuple(weights.shape)} of {weights.dtype} was given."
        )
    kind = {"dtype": x.dtype, "device": x.device, "requires_grad": True}
    sigma_w, sigma_b = (torch.tensor(part, **kind) for part in (net.sigma_w, net.sigma_b))
    recursion = Recursion(net.layers, sigma_w, sigma_b, net.parametrisation, tangent=False)
    total = [torch.zeros_like(part) for part in (sigma_w, sigma_b)]
    cuts = _cuts(0, len(x), GRAPH)
    for i, j in combinations_with_replacement(cuts, 2):
        a, b = recursion.points(x[i]), recursion.points(x[j])
        value = recursion.tile(a, b, a.x @ b.x.T, i == j, NoScratch())
        value = value.diagonal_scatter(a.diagonal) if i == j else value
        weight = weights[i, j] if i == j else weights[i, j] + weights[j, i].T
        parts = torch.autograd.grad((weight * value).sum(), (sigma_w, sigma_b))
        total = [sum_ + part for sum_, part in zip(total, parts, strict=True)]
    return total[0], total[1]


def _cuts(start: int, stop: int, most: int) -> list[slice]:
    """Slices of nearly equal length, at most `most`, all but the last a multiple of VECTOR."""
    count = -(-(stop - start) // most)
    size = -(-(stop - start) // (count * VECTOR)) * VECTOR
    return [slice(at, min(at + size, stop)) for at in range(start, stop, size)]

r"""Inner products of gradients in factored form, in tiles that stay in a processor's cache.

Rows are pairs (c, n) of a signal and a point, in this order, so that the Gram matrix of the inputs, which all
signals share, multiplies whole blocks. Where both sides are the same, half of the tiles are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TypeVar

import torch
from torch import Tensor

from numeric.inputs import InputError
from numeric.kernels.threads import run_in_threads, worker_threads
from numeric.tangents.factors import Dense, Factor, Outer, TableRows, outer_products

__all__ = ["Pair", "inner", "squares", "trace"]

ROWS, COLUMNS = 256, 1024  # of a tile: its product and its sum stay in the cache
LEAST_ROWS, FEWEST_TILES = (
    64,
    5,
)  # where half of a matrix is computed, in at least so many rows of tiles
FORMED = 4  # times a dense gradient: those of two points, each formed and copied into a matrix
Pair = tuple[Factor, Factor]
F = TypeVar("F", Outer, Dense)


def inner(pairs: Sequence[Pair], memory: int) -> Tensor:
    """The sum over pairs of the inner products of all gradients of both sides, (n, c, m, c').

    `memory` bounds, in bytes, what is formed on the way.
    """
    one, other = pairs[0]
    (n, c), (m, e) = one.counts, other.counts
    result = one.like.new_empty(c * n, e * m)
    dense, single, others = [], [], []
    for a, b in pairs:
        if isinstance(a, Dense) and isinstance(b, Dense):
            dense.append((a, b))
        elif isinstance(a, Outer) and isinstance(b, Outer) and a.is_single and b.is_single:
            single.append((a, b))
        elif a.positions and b.positions:
            others.append((a, b))
    if dense or single:
        values = [_both(lambda side: _rows(side.values), a, b) for a, b in dense]
        symmetric = all(a is b for a, b in (*dense, *single))
        _add_tiles(result, single, values, (n, m), symmetric, first=True)
    else:
        result.zero_()
    for a, b in others:
        if _positions_are_cheaper(a, b):
            _add_positions(result.view(c, n, e, m), a, b)
        elif isinstance(a, Outer) and isinstance(b, Outer) and a.groups == b.groups:
            for both in _dense_blocks(a, b, memory):
                _add_tiles(result, [], [both], (n, m), a is b, first=False)
        else:
            _add_dense(result.view(c, n, e, m), a, b, memory)
    return result.view(c, n, e, m).permute(1, 0, 3, 2)


def _rows(values: Tensor) -> Tensor:
    """(n, c, ...) -> (c n, size)."""
    return values.transpose(0, 1).flatten(0, 1).flatten(1)


def _both(make: Callable[[F], Tensor], one: F, other: F) -> tuple[Tensor, Tensor]:
    """`make` of both sides, computed once where they are the same."""
    made = make(one)
    return made, (made if one is other else make(other))


def _positions_are_cheaper(one: Factor, other: Factor) -> bool:
    """Compare the multiplications by positions with those by dense gradients."""
    (n, c), (m, e) = one.counts, other.counts
    p, q, size = one.positions, other.positions, math.prod(one.shape)
    match one, other:
        case Outer(), Outer() if one.groups == other.groups:
            a = one.inputs.shape[3]
            of_pair = one.groups * (a + c * e * (one.signals.shape[4] + 1))
        case TableRows(), TableRows():
            of_pair = 1 + c * e * (one.shape[1] + 1)
        case (Outer(), TableRows()) | (TableRows(), Outer()):
            of_pair = max(c, e) * one.shape[1] + c * e
        case _:
            return False
    return n * m * p * q * of_pair <= size * (n * c * p + m * e * q + n * m * c * e)


def _add_tiles(
    result: Tensor,
    singles: Sequence[tuple[Outer, Outer]],
    dense: Sequence[tuple[Tensor, Tensor]],
    points: tuple[int, int],
    symmetric: bool,
    first: bool,
) -> None:
    """Add S S'^T times A A'^T, and D D'^T, to a result (c n, e m); with `first`, it is overwritten."""
    n, m = points
    signals = [_both(lambda side: _rows(side.signals), a, b) for a, b in singles]
    # Of the tiles on the diagonal both halves are computed: where few are tall, that is much of the whole.
    height = min(ROWS, max(LEAST_ROWS, len(result) // FEWEST_TILES)) if symmetric else ROWS
    wide = COLUMNS if m <= height else height  # where points are split, columns start as rows do
    pairs = [
        (r, q)
        for r in _tiles(len(result), n, height)
        for q in _tiles(result.shape[1], m, wide, r.start - r.start % m if symmetric else 0)
        if not symmetric or q.start >= r.start
    ]
    with worker_threads(result.device) as threads:
        grams: list[Tensor] = [result.new_empty(0)] * len(singles)

        def gram(k: int, _: int) -> None:
            one, other = singles[k]
            grams[k] = one.inputs[:, 0, 0] @ other.inputs[:, 0, 0].T
            if one.bias:
                grams[k] += 1

        def tile(k: int, _: int) -> None:
            r, q = pairs[k]
            block = result[r, q]
            total = None if first else block.clone(memory_format=torch.contiguous_format)
            for (a, b), both in zip(signals, grams, strict=True):
                part = a[r] @ b[q].T
                by_point = part.view(-1, min(n, len(part)), *_split(part.shape[1], m))
                scale = both[_within(r, n), None, _within(q, m)]
                if total is None:
                    by_point.mul_(scale)
                    total = part
                else:
                    total.view_as(by_point).addcmul_(by_point, scale)
            for a, b in dense:
                total = a[r] @ b[q].T if total is None else total.addmm_(a[r], b[q].T)
            assert total is not None
            block.copy_(total)
            if symmetric:
                result[q, r] = total.T

        run_in_threads(gram, len(grams), threads)
        run_in_threads(tile, len(pairs), threads)


def _tiles(count: int, points: int, size: int, start: int = 0) -> list[slice]:
    """Rows (c, n) from a signal's first on, in tiles: all points of some signals, or some of one signal."""
    if points <= size:
        signals = (count - start) // points
        step = points * math.ceil(signals / math.ceil(signals / (size // points)))
        return [slice(k, min(k + step, count)) for k in range(start, count, step)]
    step = math.ceil(points / math.ceil(points / size))
    return [
        slice(first + k, first + min(k + step, points))
        for first in range(start, count, points)
        for k in range(0, points, step)
    ]


def _split(length: int, points: int) -> tuple[int, int]:
    """The signals and the points of a tile's columns."""
    each_signal = min(length, points)
    return length // each_signal, each_signal


def _within(tile: slice, points: int) -> slice:
    """The points of a tile."""
    start = tile.start % points
    return slice(start, start + min(points, tile.stop - tile.start))


def _add_positions(result: Tensor, one: Factor, other: Factor) -> None:
    """Add, for each pair of positions, what signals have in common times what inputs have in common."""
    n, m = result.shape[1], result.shape[3]
    heights, widths = (
        [slice(k, min(k + step, count)) for k in range(0, count, step)]
        for count, step in (
            (n, max(1, ROWS // max(1, one.positions))),
            (m, max(1, ROWS // max(1, other.positions))),
        )
    )
    symmetric = one is other
    pairs = [(r, q) for r, q in product(heights, widths) if not symmetric or r.start <= q.start]

    def block(k: int, _: int) -> None:
        r, q = pairs[k]
        for c, e, values in _products(one[r], other[q]):
            summed = values.view(r.stop - r.start, one.positions, -1, other.positions).sum((1, 3))
            result[c, r, e, q] += summed
            if symmetric and r != q:
                result[e, q, c, r] += summed.T

    with worker_threads(result.device) as threads:
        run_in_threads(block, len(pairs), threads)


def _products(one: Factor, other: Factor) -> Iterator[tuple[int, int, Tensor]]:
    """For signals c and e, (n P, m Q) products of all positions of both sides."""
    (_, c), (_, e) = one.counts, other.counts
    match one, other:
        case Outer(), Outer():
            for g in range(one.groups):
                shared = one.inputs[:, g].flatten(0, 1) @ other.inputs[:, g].flatten(0, 1).T
                if one.bias:
                    shared += 1
                yield from _scaled(one.signals[:, :, g], other.signals[:, :, g], shared)
        case TableRows(), TableRows():
            same = one.index.flatten()[:, None] == other.index.flatten()
            yield from _scaled(one.signals, other.signals, same.to(one.signals.dtype))
        case Outer(), TableRows():
            inputs, index = one.inputs[:, 0].flatten(0, 1), other.index.flatten()
            columns = [inputs @ other.signals[:, k].flatten(0, 1).T for k in range(e)]
            for k in range(c):
                picked = one.signals[:, k, 0].flatten(0, 1)[:, index]
                for j in range(e):
                    yield k, j, picked * columns[j]
        case TableRows(), Outer():
            for j, k, values in _products(other, one):
                yield k, j, values.T


def _scaled(one: Tensor, other: Tensor, shared: Tensor) -> Iterator[tuple[int, int, Tensor]]:
    columns = [other[:, j].flatten(0, 1).T for j in range(other.shape[1])]
    for k in range(one.shape[1]):
        rows = one[:, k].flatten(0, 1)
        for j, column in enumerate(columns):
            yield k, j, (rows @ column).mul_(shared)


def _dense_blocks(one: Outer, other: Outer, memory: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The dense gradients (c n, size) and (e m, size), some outputs of the layer at a time."""
    (n, c), (m, e) = one.counts, other.counts
    outputs = one.signals.shape[4]
    bytes_each = one.like.element_size() * (c * n + e * m) * one.groups * one.inputs.shape[3]
    if bytes_each > memory:
        raise InputError(
            f"{memory} bytes are free to work in, but {bytes_each} are needed for the gradients by one "
            "output of a layer: give more memory, or fewer points at a time."
        )
    step = max(1, min(outputs, memory // bytes_each))
    for k in range(0, outputs, step):
        chosen = slice(k, k + step)
        yield _both(
            lambda side, chosen=chosen: _rows(outer_products(side.signals[..., chosen], side.inputs)),
            one, other,
        )  # fmt: skip
    if one.bias:
        yield _both(lambda side: _rows(side.signals.sum(3)), one, other)


def _add_dense(result: Tensor, one: Factor, other: Factor, memory: int) -> None:
    """Add the products of gradients of different kinds, some points at a time."""
    size = math.prod(one.shape)
    bytes_each = one.like.element_size() * size * max(result.shape[0], result.shape[2])
    needed = FORMED * bytes_each
    if needed > memory:
        raise InputError(
            f"{memory} bytes are free to work in, but {needed} are needed for the dense gradients at two "
            "points: give more memory."
        )

    def formed(side: Factor) -> Tensor:
        whole = side.dense()
        return whole.values if one.bias == other.bias else whole.weight.flatten(2)

    step = memory // needed
    for r in range(0, result.shape[1], step):
        rows = formed(one[r : r + step])
        for q in range(0, result.shape[3], step):
            columns = formed(other[q : q + step])
            products = torch.einsum("ncs,mes->cnem", rows, columns)
            result[:, r : r + step, :, q : q + step] += products


def trace(pairs: Sequence[Pair], memory: int) -> Tensor:
    """The sum over pairs and signals of the inner products of equal signals, (n, m)."""
    entries = {id(side): side.signals_as_entries() for pair in pairs for side in pair}
    alike = [(entries[id(a)], entries[id(b)]) for a, b in pairs if _are_alike(a, b)]
    mixed = [(a, b) for a, b in pairs if not _are_alike(a, b)]
    (n, _), (m, _) = pairs[0][0].counts, pairs[0][1].counts
    total = inner(alike, memory)[:, 0, :, 0] if alike else pairs[0][0].like.new_zeros(n, m)
    for pair in mixed:
        total += inner([pair], memory).diagonal(dim1=1, dim2=3).sum(-1)
    return total


def _are_alike(one: Factor, other: Factor) -> bool:
    """Whether the entries of both come in the same order."""
    if isinstance(one, Outer) and isinstance(other, Outer):
        return one.groups == other.groups
    return type(one) is type(other)


def squares(pairs: Sequence[Pair], memory: int) -> Tensor:
    """The sum over pairs and signals of the inner products at equal points, (n,)."""
    positions = max(factor.positions for pair in pairs for factor in pair)
    (n, c), like = pairs[0][0].counts, pairs[0][0].like
    step = max(1, memory // (4 * like.element_size() * c * max(1, positions) ** 2))
    return torch.cat(
        [
            sum((_squares(a[k : k + step], b[k : k + step]) for a, b in pairs), like.new_zeros(()))
            for k in range(0, n, step)
        ]
    )


def _squares(one: Factor, other: Factor) -> Tensor:
    match one, other:
        case Dense(), Dense():
            return (one.values * other.values).sum((1, 2))
        case Outer(), Outer() if one.groups == other.groups:
            signals, others = one.signals_as_entries().signals, other.signals_as_entries().signals
            shared = one.inputs @ other.inputs.mT
            return ((signals @ others.mT)[:, 0] * (shared + one.bias)).sum((1, 2, 3))
        case TableRows(), TableRows():
            signals, others = one.signals_as_entries().signals, other.signals_as_entries().signals
            same = one.index[:, :, None] == other.index[:, None]
            return ((signals @ others.mT)[:, 0] * same).sum((1, 2))
        case Outer(), TableRows():
            n, c, _, p, _ = one.signals.shape
            index = other.index[:, None, None].expand(n, c, p, -1)
            picked = one.signals[:, :, 0].gather(3, index)  # (n, c, P, Q)
            return (picked * (one.inputs @ other.signals.mT)).sum((1, 2, 3))
        case TableRows(), Outer():
            return _squares(other, one)
    return _squares(one.dense(), other.dense())

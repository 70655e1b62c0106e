"""Gram matrices of composed networks: what each signal gives alone, then tiles of pairs within a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from numeric.infinite.composition import propagation
from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.dropout import Dropout
from numeric.infinite.composition.layer import Layer, Observed
from numeric.inputs import ArrayLike, InputError, require_finite, require_signals
from numeric.kernels.threads import run_in_threads, worker_threads
from numeric.models.memory import keep_memory
from numeric.progress import progress_bar

if TYPE_CHECKING:
    from numeric.infinite.composition.network import Network

__all__ = ["Observations", "Recursion", "SignalChunk", "chunks", "diagonal", "matrix"]

COPIES = 7  # covariances alive at once: two before a layer, two after it, and what it needs between
TILE = 2**22  # bytes of a covariance in a tile: calls are long enough, and a few fit the cache
LARGE = 2**28  # the same on other devices than the CPU
ROWS = 8  # rows of tiles of a symmetric matrix, of whose lower half they compute a share of one in so many


@dataclass(frozen=True, eq=False)
class Observations:
    """What the layers observed of signals, and, where it was asked for, the diagonal of their kernel."""

    x: Tensor
    parts: tuple[tuple[Observed, ...], ...]  # of groups of signals
    size: int  # signals of a group
    diagonal: Tensor | None  # (n,)


@dataclass(frozen=True)
class Recursion:
    """A network's recursion for signals of one shape."""

    network: Network
    tangent: bool
    pairs: list[bool]  # for each layer whether different positions of x and y are needed
    last_reader: int  # the layer after which none reads covariances, or -1

    @classmethod
    def of(cls, network: Network, x: Tensor, tangent: bool) -> Recursion:
        network.signals(x.shape[1:])
        last_reader = propagation.last_reader(network.layers) if tangent else -1
        return cls(network, tangent, propagation.cross_pairs(network.layers), last_reader)

    def cells(self, x: Tensor, pairs: Sequence[bool]) -> int:
        """Numbers in the largest covariance of one pair of signals."""
        shapes = self.network.signals(x.shape[1:])
        needed = [*pairs, False]
        before = [False, *needed[:-1]]  # what a layer returns has the form of its input
        return max(
            signal.orbit * signal.positions**2 if full or was else signal.positions
            for signal, full, was in zip(shapes, needed, before, strict=True)
        )

    def at_once(self, x: Tensor, pairs: Sequence[bool], threads: int) -> int:
        """Pairs of signals whose covariances fit into the budget together."""
        cells = self.cells(x, pairs)
        one = _copies(self.network.layers) * threads * cells * x.element_size()
        if one > self.network.memory:
            raise InputError(
                f"memory = {self.network.memory} bytes was given, but one pair of signals needs {one}"
                f"{f' on {threads} threads' if threads > 1 else ''}: give at least that."
            )
        most = TILE if x.device.type == "cpu" else LARGE
        return max(1, min(self.network.memory // one, most // (cells * x.element_size())))

    def observe(self, x: Tensor, diagonal: bool) -> Observations:
        """What the layers observe of x, and the diagonal of the kernel."""
        net = self.network
        masks = _any(net.layers, Dropout)
        layers = net.layers if diagonal else propagation.observed_layers(net.layers)
        nothing = (None,) * (len(net.layers) - len(layers))
        pairs = propagation.own_pairs(layers, to_the_end=diagonal)
        size = self.at_once(x, [*pairs, *(False for _ in nothing)], 1)
        parts, ends = [], []
        for chunk in x.split(size):
            own = Covariance.of(chunk, None, any(pairs[:1]), self.tangent and diagonal)
            last_reader = self.last_reader if diagonal else -1
            observed, end = propagation.observe(
                layers, own, self.tangent, net.scales, pairs, last_reader
            )
            if diagonal and masks:
                own = Covariance.of(chunk, None, pairs[0], self.tangent, same=False)
                end = propagation.advance(
                    layers, own, observed, observed, net.scales, pairs, last_reader
                )
            parts.append((*observed, *nothing))
            if diagonal:
                ends.append(self.result(end)[:, 0])
        return Observations(x, tuple(parts), size, torch.cat(ends) if diagonal else None)

    def tile(self, rows: SignalChunk, columns: SignalChunk) -> Tensor:
        """The Gram matrix of two groups of signals."""
        net = self.network
        state = Covariance.of(rows.x, columns.x, self.pairs[0], self.tangent)
        kind = net.scales, self.pairs, self.last_reader
        return self.result(
            propagation.advance(net.layers, state, rows.observed, columns.observed, *kind)
        )

    def result(self, end: Covariance) -> Tensor:
        end = end.equal_positions()
        k = end.k if not self.tangent else end.theta
        return torch.zeros_like(end.k[0]) if k is None else k[0]


@dataclass(frozen=True, eq=False)
class SignalChunk:
    """Consecutive signals, with what was observed of them."""

    x: Tensor
    observed: tuple[Observed, ...]


def chunks(observations: Observations, size: int) -> list[tuple[int, SignalChunk]]:
    """Groups of at most so many signals, each with the number of its first; none crosses a group observed."""
    pieces = []
    for k, observed in enumerate(observations.parts):
        start = k * observations.size
        stop = min(start + observations.size, len(observations.x))
        for first in range(start, stop, size):
            end = min(first + size, stop)
            cut = slice(first - start, end - start)
            pieces.append(
                (first, SignalChunk(observations.x[first:end], propagation.select(observed, cut)))
            )
    return pieces


def matrix(network: Network, x: ArrayLike, y: ArrayLike | None, tangent: bool) -> Tensor:
    """NNGP or NTK on signals; for y = None one triangle is computed, and mirrored."""
    left, right = require_signals(x, y)
    symmetric = right is None
    other = left if right is None else right
    for name, points in (("x", left), ("y", other)):
        require_finite(name, points)
    recursion = Recursion.of(network, left, tangent)
    if left.device.type == "cpu":
        keep_memory()
    plain = torch.inference_mode(False)  # other threads may not write to inference tensors
    with plain, torch.no_grad(), worker_threads(left.device) as threads:
        rows = recursion.observe(left, diagonal=symmetric)
        columns = rows if symmetric else recursion.observe(other, diagonal=False)
        count = recursion.at_once(left, recursion.pairs, threads)
        height = (
            max(1, math.isqrt(count)) if count < len(other) else min(len(left), count // len(other))
        )
        if symmetric:
            height = min(height, -(-len(left) // ROWS))
        out = left.new_empty(len(left), len(other))
        tiles = [
            (i, a, j, b)
            for i, a in chunks(rows, height)
            for j, b in chunks(columns, max(1, count // height))
            if not symmetric or j + len(b.x) > i
        ]
        with progress_bar(of="tiles", show=network.progress, total=len(tiles)) as bar:

            def fill(t: int, worker: int) -> None:
                i, a, j, b = tiles[t]
                redundant = (
                    i + (len(a.x) == 1) - j if symmetric else 0
                )  # columns left of the diagonal, or on it
                if redundant > 0:
                    b = SignalChunk(
                        b.x[redundant:], propagation.select(b.observed, slice(redundant, None))
                    )
                    j = j + redundant
                if len(b.x):
                    out[i : i + len(a.x), j : j + len(b.x)] = recursion.tile(a, b)
                bar.update(1)

            run_in_threads(fill, len(tiles), threads)
        if symmetric and rows.diagonal is not None:
            upper = out.triu(1)
            out = upper + upper.T
            out.diagonal().copy_(rows.diagonal)
    return out


def diagonal(network: Network, x: ArrayLike, tangent: bool) -> Tensor:
    """k(x, x), (n,): the diagonal of `matrix`, without the rest of it."""
    x, _ = require_signals(x)
    require_finite("x", x)
    with torch.inference_mode(False), torch.no_grad(), worker_threads(x.device):
        entries = Recursion.of(network, x, tangent).observe(x, diagonal=True).diagonal
    if entries is None:
        raise AssertionError("observe(diagonal=True) returns a diagonal")
    return entries


def _copies(layers: Sequence[Layer]) -> int:
    """Covariances alive at once, of which each branch of a residual layer adds two."""
    branches = [getattr(layer, "branches", ()) for layer in layers]
    return max(
        (max(map(_copies, parts)) + 2 * len(parts) for parts in branches if parts), default=COPIES
    )


def _any(layers: Sequence[Layer], kind: type) -> bool:
    """Whether some layer, or one of a branch, is of this class."""
    return any(
        isinstance(layer, kind)
        or any(_any(branch, kind) for branch in getattr(layer, "branches", ()))
        for layer in layers
    )

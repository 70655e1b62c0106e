"""What a filter sees beyond the border of a grid: SAME, VALID and CIRCULAR, and sums over its taps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Protocol

import torch.nn.functional as F
from torch import Tensor

from numeric.inputs import InputError

__all__ = ["CIRCULAR", "SAME", "VALID", "Circular", "Padding", "Same", "Valid", "filter_sum"]

Piece = tuple[slice, slice]  # outputs, and the inputs that one tap of the filter adds to them


class Padding(Protocol):
    """How many outputs an axis has, and which input each tap adds to which output."""

    def size(self, length: int, taps: int, stride: int) -> int: ...

    def pieces(self, tap: int, length: int, taps: int, stride: int) -> list[Piece]: ...

    def pad(self, x: Tensor, taps: int, stride: int) -> Tensor:
        """Signals (n, channels, *space), padded so that a plain convolution does the rest."""
        ...


@dataclass(frozen=True)
class Valid:
    """Only where the filter fits into the grid."""

    def size(self, length: int, taps: int, stride: int) -> int:
        if taps > length:
            raise InputError(
                f"a filter of {taps} does not fit into {length} positions under VALID: use SAME."
            )
        return (length - taps) // stride + 1

    def pieces(self, tap: int, length: int, taps: int, stride: int) -> list[Piece]:
        size = self.size(length, taps, stride)
        return [(slice(0, size), slice(tap, tap + (size - 1) * stride + 1, stride))]

    def pad(self, x: Tensor, taps: int, stride: int) -> Tensor:
        return x


@dataclass(frozen=True)
class Same:
    """As many outputs as positions (divided by the stride, rounded up), with zeros beyond the border."""

    def size(self, length: int, taps: int, stride: int) -> int:
        return -(-length // stride)

    def before(self, length: int, taps: int, stride: int) -> tuple[int, int]:
        """Zeros before the first position and after the last."""
        size = self.size(length, taps, stride)
        total = max((size - 1) * stride + taps - length, 0)
        return total // 2, total - total // 2

    def pieces(self, tap: int, length: int, taps: int, stride: int) -> list[Piece]:
        offset = tap - self.before(length, taps, stride)[0]
        first = max(0, -(offset // stride))  # the least t with t stride + offset >= 0
        last = min(self.size(length, taps, stride) - 1, (length - 1 - offset) // stride)
        if last < first:
            return []
        start = first * stride + offset
        return [(slice(first, last + 1), slice(start, start + (last - first) * stride + 1, stride))]

    def pad(self, x: Tensor, taps: int, stride: int) -> Tensor:
        sides = [s for length in reversed(x.shape[2:]) for s in self.before(length, taps, stride)]
        return F.pad(x, sides)


@dataclass(frozen=True)
class Circular:
    """As Same on a grid that closes on itself."""

    def size(self, length: int, taps: int, stride: int) -> int:
        if length % stride or taps > length:
            raise InputError(
                f"a filter of {taps} with stride {stride} does not fit {length} positions that close on "
                "themselves: choose a stride that divides them, and no larger filter."
            )
        return length // stride

    def pieces(self, tap: int, length: int, taps: int, stride: int) -> list[Piece]:
        size, offset = self.size(length, taps, stride), tap - (taps - 1) // 2
        pieces = []
        for wrap in (-length, 0, length):
            start = offset + wrap
            first = max(0, -(start // stride))
            last = min(size - 1, (length - 1 - start) // stride)
            if last >= first:
                at = first * stride + start
                inside = slice(at, at + (last - first) * stride + 1, stride)
                pieces.append((slice(first, last + 1), inside))
        return pieces

    def pad(self, x: Tensor, taps: int, stride: int) -> Tensor:
        before = (taps - 1) // 2
        return F.pad(x, [before, taps - 1 - before] * (x.ndim - 2), mode="circular")


SAME, VALID, CIRCULAR = Same(), Valid(), Circular()


def filter_sum(
    k: Tensor,
    axis: int,
    other: int | None,
    taps: int,
    stride: int,
    padding: Padding,
    out: Tensor | None = None,
) -> Tensor:
    """Sums of k over the taps of a filter along one axis of positions, and along their axis of y at once.

    `other` is None where only equal positions are kept, so that one axis stands for both. `out`, where it is
    given, is contiguous memory for the result.
    """
    length = k.shape[axis]
    shape = list(k.shape)
    shape[axis] = padding.size(length, taps, stride)
    if other is not None:
        shape[other] = shape[axis]
    out = k.new_empty(shape) if out is None else out
    middle = (taps - 1) // 2  # the tap that reaches every output, wherever there is one
    blocks = [
        _block(k.ndim, axis, other, row, column)
        for tap in sorted(range(taps), key=lambda tap: tap != middle)
        for row, column in _squares(padding.pieces(tap, length, taps, stride), other)
    ]
    (first, of), *rest = blocks
    if out[first].shape == out.shape:
        out.copy_(k[of])
    else:
        out.zero_()
        rest = blocks
    for into, of in rest:
        out[into].add_(k[of])
    return out


def _squares(pieces: list[Piece], other: int | None) -> list[tuple[Piece, Piece]]:
    """Pieces of rows with those of columns, which are the same ones where there are no columns."""
    return list(product(pieces, pieces)) if other is not None else [(p, p) for p in pieces]


def _block(
    ndim: int, axis: int, other: int | None, row: Piece, column: Piece
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    into, of = [slice(None)] * ndim, [slice(None)] * ndim
    into[axis], of[axis] = row
    if other is not None:
        into[other], of[other] = column
    return tuple(into), tuple(of)

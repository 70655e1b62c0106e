"""What a filter sees beyond the border of a grid: SAME, VALID and CIRCULAR, and sums over its taps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from numeric.inputs import InputError

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
        found = []
        for wrap in (-length, 0, length):
            start = offset + wrap
            first = max(0, -(start // stride))
            last = min(size - 1, (length - 1 - start) // stride)
            if last >= first:
                at = first * stride + start
                inside = slice(at, at + (last - first) * stride + 1, stride)
                found.append((slice(first, last + 1), inside))
        return found

    def pad(self, x: Tensor, taps: int, stride: int) -> Tensor:
        before = (taps - 1) // 2
        return F.pad(x, [before, taps - 1 - before] * (x.ndim - 2), mode="circular")


SAME, VALID, CIRCULAR = Same(), Valid(), Circular()


def filter_sum(
    k: Tensor, axis: int, other: int | None, taps: int, stride: int, padding: Padding
) -> Tensor:
    """Sums of k over the taps of a filter along one axis of positions, and along their axis of y at once.

    `other` is None where only equal positions are kept, so that one axis stands for both.
    """
    length = k.shape[axis]
    size = padding.size(length, taps, stride)
    shape = list(k.shape)
    shape[axis] = size
    if other is not None:
        shape[other] = size
    out: Tensor | None = None
    middle = (taps - 1) // 2  # the tap that reaches every output, wherever there is one
    for tap in sorted(range(taps), key=lambda tap: tap != middle):
        pieces = padding.pieces(tap, length, taps, stride)
        blocks = product(pieces, pieces) if other is not None else ((piece, None) for piece in pieces)
        for row, column in blocks:
            into, of = [slice(None)] * k.ndim, [slice(None)] * k.ndim
            into[axis], of[axis] = row
            if other is not None and column is not None:
                into[other], of[other] = column
            part = k[tuple(of)]
            if out is None and list(part.shape) == shape:
                out = part.clone(memory_format=torch.contiguous_format)
                continue
            out = k.new_zeros(shape) if out is None else out
            out[tuple(into)].add_(part)
    return k.new_zeros(shape) if out is None else out

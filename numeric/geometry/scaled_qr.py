r"""QR of matrices whose rows differ in scale by more decades than floats have, with scales kept as logs.

A matrix $J = \mathrm{diag}(e^l)\,U$ with unit rows has the singular values of
$T\,\mathrm{diag}(e^h)$, where T is triangular and well conditioned:

1. Rotations applied to the right bring U to a lower trapezoid. The next pivot is a row whose part outside
   the span of the pivots before it is the largest, scale included, up to a factor. Rows of different scales
   are never added, so each keeps its relative accuracy.
2. In units $e^{h_k}$ of its pivot no entry of the trapezoid's column k exceeds 1/SHARE, and an
   ordinary QR of the result is accurate.

This is the column-pivoted QR of J^T, and what Powell and Reid (1969) and Cox and Higham (1998) get from
pivots in rows and columns; here scales exist only as logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["LARGEST", "Graded", "compressed", "factored", "graded", "unit_columns", "upper"]

PANEL = 64  # rows that may become pivots before all others are rotated
SHARE = 0.1  # a pivot is at least this share of the largest row
LARGEST = 700.0  # of exponents; above it e^x overflows
STEPS = 8  # each divides off-diagonal entries by the ratio of their scales
CORE, RIM = 4.0, 4.0  # in nats: windows of scales, and their overlap at each end


@dataclass(frozen=True, eq=False)
class Graded:
    """A matrix with the singular values of `triangle * exp(scales)`, of full rank r."""

    scales: Tensor  # (r,)
    triangle: Tensor  # (r, r), upper, with entries of order 1

    @property
    def rank(self) -> int:
        return len(self.scales)

    @property
    def log_volume(self) -> Tensor:
        """The log of the product of all singular values."""
        return (self.scales + self.triangle.diagonal().abs().log()).sum()

    @cached_property
    def log_singular(self) -> Tensor:
        """(r,), descending, each with full relative accuracy."""
        diagonalised = self
        for _ in range(STEPS):
            diagonalised = diagonalised._transposed()
        return _singular_by_windows(diagonalised)

    def _transposed(self) -> Graded:
        """The QR factor of the transpose, which has the same singular values and is nearer to diagonal."""
        drop = (self.scales[:, None] - self.scales).clamp(max=LARGEST).exp()
        return unit_columns(self.scales, upper(self.triangle.mT * drop))


def graded(logs: Tensor, rows: Tensor, tolerance: float | None = None) -> Graded:
    """From log scales (n,), which may be -inf, and rows (n, d) of any finite length.

    Rows are assumed accurate to `tolerance` times their length, by default max(n, d) eps. The part of a
    row outside the span of larger rows counts as 0 if it is no longer than this uncertainty allows.
    """
    logs, heights, coordinates = _trapezoid(logs, rows, tolerance)
    return unit_columns(heights, upper(_relative(logs, heights, coordinates)))


def compressed(logs: Tensor, rows: Tensor, tolerance: float | None = None) -> tuple[Tensor, Tensor]:
    """Reduce rows (n, d) to at most d rows, with log scales, of the same singular values."""
    relative, heights, axes = _trapezoid_and_axes(logs, rows, tolerance)
    factor = unit_columns(heights, upper(relative))
    drop = (factor.scales - factor.scales[:, None]).clamp(max=LARGEST).exp()
    return factor.scales, (factor.triangle * drop) @ axes.mT


def factored(logs: Tensor, rows: Tensor) -> tuple[Tensor, Graded, Tensor]:
    """Q (n, r), a graded matrix and V (d, r), with orthonormal columns: the rows are Q graded V^T."""
    relative, heights, axes = _trapezoid_and_axes(logs, rows, None)
    left, triangle = torch.linalg.qr(relative)
    return left, unit_columns(heights, triangle), axes


def _trapezoid_and_axes(
    logs: Tensor, rows: Tensor, tolerance: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows on new axes, each column in units of its pivot (n, r), the logs of these, and the axes (d, r)."""
    n, d = rows.shape
    axes = torch.eye(d, dtype=rows.dtype, device=rows.device)
    logs = torch.cat([logs, logs.new_full((d,), -math.inf)])  # rotated with the rows, never pivots
    logs, heights, coordinates = _trapezoid(logs, torch.cat([rows, axes]), tolerance)
    return _relative(logs[:n], heights, coordinates[:n]), heights, coordinates[n:]


def _trapezoid(
    logs: Tensor, rows: Tensor, tolerance: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Logs of the rows' lengths (n,), of the pivots' new parts (r,), and unit rows on new axes (n, r)."""
    if tolerance is None:
        tolerance = max(rows.shape) * torch.finfo(rows.dtype).eps
    lengths = rows.norm(dim=1)
    logs = logs + lengths.log()
    # The part of each row outside the span of the pivots.
    rest = rows / lengths.clamp(min=torch.finfo(rows.dtype).tiny)[:, None]
    coordinates = rest[:, :0]
    pivots, heights = logs.new_empty(0, dtype=torch.long), logs[:0]
    while rest.shape[1]:
        lengths = rest.norm(dim=1)
        rest[lengths <= _noise(lengths, coordinates, pivots, tolerance)] = 0
        new = _panel(logs, rest, math.sqrt(tolerance))
        if not len(new):
            break
        k = len(new)
        factor, tau = torch.geqrf(rest[new].mT)
        rotated = _rotated(rest, factor, tau)
        rotated[new] = 0
        rotated[new, :k] = factor[:k].triu().mT
        heights = torch.cat([heights, logs[new] + factor.diagonal().abs().log()])
        coordinates, rest = torch.cat([coordinates, rotated[:, :k]], 1), rotated[:, k:]
        pivots = torch.cat([pivots, new])
    return logs, heights, coordinates


def _relative(logs: Tensor, heights: Tensor, coordinates: Tensor) -> Tensor:
    """Each column in units of its pivot."""
    return (logs[:, None] - heights).clamp(max=LARGEST).exp_().mul_(coordinates)


def _noise(lengths: Tensor, coordinates: Tensor, pivots: Tensor, tolerance: float) -> Tensor:
    """The length that the remainder of each row would have if it were rounding alone.

    A row is a combination of pivots plus a remainder, and errors of the pivots enter by the coefficients.
    These are solved for only where the remainder is short.
    """
    noise = torch.full_like(lengths, tolerance)
    short = (lengths > tolerance) & (lengths < math.sqrt(tolerance))
    if short.any():
        basis = coordinates[pivots]  # lower triangular
        parts = torch.linalg.solve_triangular(basis, coordinates[short], upper=False, left=False)
        noise[short] *= (1 + parts.square().sum(1)).sqrt()
    return noise


def _panel(logs: Tensor, rest: Tensor, short: float) -> Tensor:
    """Indices of the next pivots, in order: each has the largest part outside the span of those before."""
    heights = logs + rest.norm(dim=1).log()
    size = min(PANEL, *rest.shape)
    top, chosen = heights.topk(min(size + 1, len(heights)))
    floor = top[size].item() + math.log(SHARE) if len(top) > size else -math.inf
    chosen = chosen[:size][top[:size] > -math.inf]
    logs, rows = logs[chosen], rest[chosen]
    order: list[Tensor] = []
    for _ in range(len(chosen)):
        lengths = rows.norm(dim=1)
        heights = logs + lengths.log()
        best = heights.argmax()
        if order and not (heights[best] > floor and lengths[best] > short):
            break  # a short remainder may be rounding: the next panel decides
        order.append(best)
        direction = rows[best] / lengths[best]
        rows -= (rows @ direction)[:, None] * direction
        rows[best] = 0
    return chosen[torch.stack(order)] if order else chosen


def _rotated(rows: Tensor, factor: Tensor, tau: Tensor) -> Tensor:
    """Rows times the orthogonal matrix I - Y T Y^T of a QR; torch.ormqr takes twice as long."""
    reflectors = factor.tril(-1)
    reflectors.diagonal().fill_(1)
    inverse = (reflectors.mT @ reflectors).triu(1)
    inverse.diagonal().copy_(1 / tau)
    parts = torch.linalg.solve_triangular(inverse, rows @ reflectors, upper=True, left=False)
    return torch.addmm(rows, parts, reflectors.mT, alpha=-1)


def upper(matrix: Tensor) -> Tensor:
    """The triangle of a QR."""
    return torch.geqrf(matrix)[0][: matrix.shape[1]].triu()


def unit_columns(scales: Tensor, triangle: Tensor) -> Graded:
    """`triangle * exp(scales)`, with columns of length 1."""
    lengths = triangle.norm(dim=0)
    return Graded(scales + lengths.log(), triangle / lengths)


def _singular_by_windows(diagonalised: Graded) -> Tensor:
    """Logs of singular values by windows of scales: values far apart do not influence each other."""
    scales, order = diagonalised.scales.sort(descending=True)
    triangle = diagonalised.triangle[order][:, order]
    parts, start = [], 0
    while start < len(scales):
        top = scales[start]
        # At least one: where |top| is very large, top - CORE rounds to top.
        stop = max(start + 1, int((scales > top - CORE).sum()))
        first = min(start, int((scales >= top + RIM).sum()))
        last = max(stop, int((scales > top - CORE - RIM).sum()))
        block = triangle[first:last, first:last] * (scales[first:last] - top).exp()
        parts.append(torch.linalg.svdvals(block)[start - first : stop - first].log() + top)
        start = stop
    return torch.cat(parts) if parts else scales

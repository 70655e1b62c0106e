r"""QR of matrices whose rows differ in scale by more decades than floats have, with scales kept as logs.

A matrix $J = \mathrm{diag}(e^l)\,U$ with unit rows has the singular values of
$T\,\mathrm{diag}(e^h)$, where T is triangular and well conditioned:

1. The rows of U, each by itself, are rotated until they form a trapezoid. The next pivot is a row
   that is the largest outside the span of the pivots before it, scale included, up to a factor. Nothing
   is ever added to a row of another scale, so that each keeps its own digits.
2. In units $e^{h_k}$ of its pivot no entry of the trapezoid's column k exceeds 1/SHARE, and a QR
   of what results is as harmless as any.

This is the column-pivoted QR of J^T, and what Powell and Reid (1969) and Cox and Higham (1998) get from
pivots in rows and columns; here no float ever holds a scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

PANEL = 64  # rows that may become pivots before all others are rotated
SHARE = 0.1  # a pivot is at least this share of the largest row
LARGEST = 700.0  # of exponents; above it e^x overflows
STEPS = 8  # each divides couplings by the ratio of their scales
CORE, RIM = 4.0, 4.0  # in nats: windows of scales, and what they see beyond their ends


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
        """(r,), descending, each with its own digits."""
        settled = self
        for _ in range(STEPS):
            settled = settled._flipped()
        return _windowed(settled)

    def _flipped(self) -> Graded:
        """The QR factor of the transpose, which has the same singular values and is nearer to diagonal."""
        drop = (self.scales[:, None] - self.scales).clamp(max=LARGEST).exp()
        return unit_columns(self.scales, upper(self.triangle.mT * drop))


def graded(logs: Tensor, rows: Tensor, tolerance: float | None = None) -> Graded:
    """From log scales (n,), which may be -inf, and rows (n, d) of any finite length.

    Rows are taken to be known to `tolerance` times their length, max(n, d) eps unless told. What of
    a row lies outside the span of larger ones, and is no longer than that uncertainty makes it,
    counts as nothing.
    """
    logs, heights, found = _trapezoid(logs, rows, tolerance)
    return unit_columns(heights, upper(_relative(logs, heights, found)))


def compressed(logs: Tensor, rows: Tensor, tolerance: float | None = None) -> tuple[Tensor, Tensor]:
    """At most d rows, with log scales, that have the singular values of (n, d) rows together."""
    relative, heights, turn = _apart(logs, rows, tolerance)
    factor = unit_columns(heights, upper(relative))
    drop = (factor.scales - factor.scales[:, None]).clamp(max=LARGEST).exp()
    return factor.scales, (factor.triangle * drop) @ turn.mT


def factored(logs: Tensor, rows: Tensor) -> tuple[Tensor, Graded, Tensor]:
    """Q (n, r), a graded matrix and V (d, r), with orthonormal columns: the rows are Q graded V^T."""
    relative, heights, turn = _apart(logs, rows, None)
    left, triangle = torch.linalg.qr(relative)
    return left, unit_columns(heights, triangle), turn


def _apart(logs: Tensor, rows: Tensor, tolerance: float | None) -> tuple[Tensor, Tensor, Tensor]:
    """Rows on new axes, each column in units of its pivot (n, r), the logs of these, and the axes (d, r)."""
    n, d = rows.shape
    axes = torch.eye(d, dtype=rows.dtype, device=rows.device)
    logs = torch.cat([logs, logs.new_full((d,), -math.inf)])  # turned with the rows, never pivots
    logs, heights, found = _trapezoid(logs, torch.cat([rows, axes]), tolerance)
    return _relative(logs[:n], heights, found[:n]), heights, found[n:]


def _trapezoid(
    logs: Tensor, rows: Tensor, tolerance: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Logs of the rows' lengths (n,), of the pivots' new parts (r,), and unit rows on new axes (n, r)."""
    if tolerance is None:
        tolerance = max(rows.shape) * torch.finfo(rows.dtype).eps
    lengths = rows.norm(dim=1)
    logs = logs + lengths.log()
    rest = rows / lengths.clamp(min=torch.finfo(rows.dtype).tiny)[:, None]  # what no pivot spans
    found = rest[:, :0]
    pivots, heights = logs.new_empty(0, dtype=torch.long), logs[:0]
    while rest.shape[1]:
        lengths = rest.norm(dim=1)
        rest[lengths <= _noise(lengths, found, pivots, tolerance)] = 0
        new = _panel(logs, rest, math.sqrt(tolerance))
        if not len(new):
            break
        k = len(new)
        factor, tau = torch.geqrf(rest[new].mT)
        turned = _turned(rest, factor, tau)
        turned[new] = 0
        turned[new, :k] = factor[:k].triu().mT
        heights = torch.cat([heights, logs[new] + factor.diagonal().abs().log()])
        found, rest = torch.cat([found, turned[:, :k]], 1), turned[:, k:]
        pivots = torch.cat([pivots, new])
    return logs, heights, found


def _relative(logs: Tensor, heights: Tensor, found: Tensor) -> Tensor:
    """Each column in units of its pivot."""
    return (logs[:, None] - heights).clamp(max=LARGEST).exp_().mul_(found)


def _noise(lengths: Tensor, found: Tensor, pivots: Tensor, tolerance: float) -> Tensor:
    """How long the rest of each row would be if it were made of errors alone.

    A row is a combination of pivots and its rest, and errors of pivots enter it by the coefficients; these
    are worth a solve only for rows with a short rest.
    """
    noise = torch.full_like(lengths, tolerance)
    short = (lengths > tolerance) & (lengths < math.sqrt(tolerance))
    if short.any():
        basis = found[pivots]  # lower triangular
        parts = torch.linalg.solve_triangular(basis, found[short], upper=False, left=False)
        noise[short] *= (1 + parts.square().sum(1)).sqrt()
    return noise


def _panel(logs: Tensor, rest: Tensor, short: float) -> Tensor:
    """Rows for the next pivots, in order: the largest first, each without its part along those before."""
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
            break  # what is short may be noise, which is for the next panel to tell
        order.append(best)
        way = rows[best] / lengths[best]
        rows -= (rows @ way)[:, None] * way
        rows[best] = 0
    return chosen[torch.stack(order)] if order else chosen


def _turned(rows: Tensor, factor: Tensor, tau: Tensor) -> Tensor:
    """Rows times the orthogonal matrix I - Y T Y^T of a QR; torch.ormqr takes twice as long."""
    ways = factor.tril(-1)
    ways.diagonal().fill_(1)
    inverse = (ways.mT @ ways).triu(1)
    inverse.diagonal().copy_(1 / tau)
    parts = torch.linalg.solve_triangular(inverse, rows @ ways, upper=True, left=False)
    return torch.addmm(rows, parts, ways.mT, alpha=-1)


def upper(matrix: Tensor) -> Tensor:
    """The triangle of a QR."""
    return torch.geqrf(matrix)[0][: matrix.shape[1]].triu()


def unit_columns(scales: Tensor, triangle: Tensor) -> Graded:
    """`triangle * exp(scales)`, with columns of length 1."""
    lengths = triangle.norm(dim=0)
    return Graded(scales + lengths.log(), triangle / lengths)


def _windowed(settled: Graded) -> Tensor:
    """Singular values by windows of scales, since values far apart no longer know of each other."""
    scales, order = settled.scales.sort(descending=True)
    triangle = settled.triangle[order][:, order]
    parts, start = [], 0
    while start < len(scales):
        top = scales[start]
        stop = max(start + 1, int((scales > top - CORE).sum()))  # far out top - CORE is top
        first = min(start, int((scales >= top + RIM).sum()))
        last = max(stop, int((scales > top - CORE - RIM).sum()))
        block = triangle[first:last, first:last] * (scales[first:last] - top).exp()
        parts.append(torch.linalg.svdvals(block)[start - first : stop - first].log() + top)
        start = stop
    return torch.cat(parts) if parts else scales

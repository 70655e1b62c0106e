r"""Frames in which a Jacobian is well conditioned, for the Ricci scalar does not depend on coordinates.

Features are picked one by one, each time the one whose gradient has most left when the span of those
picked before is taken out. On axes made of them, whatever the condition number, a picked gradient has
no part on later axes and no gradient a part far above that of the picked one. What is left to whiten is
then harmless. Arrays have the features last: (m, d, n) for m points.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SPLIT = 2.0**27 + 1  # halves the digits of a float64


@dataclass(frozen=True, eq=False)
class Picked:
    """Features whose gradients span the tangent space, and axes: k lies in the span of k + 1 of them."""

    rows: Tensor  # (m, d)
    axes: Tensor  # (m, d, d), orthonormal up to rounding
    rank: Tensor  # (m,)


@dataclass(frozen=True, eq=False)
class Whitened:
    """Vectors on axes on which the metric is the unit matrix."""

    vectors: Tensor  # (m, d, n)
    tangents: Tensor  # (m, d, n), orthonormal: the Jacobian on these axes
    condition: Tensor  # (m,), of the Jacobian before


def pick(vectors: Tensor, size: Tensor, noise: Tensor) -> Picked:
    """From gradients size_j v_j: (m or 1, d, n), (m, n), (m or 1, 1 or n); v below noise is none."""
    m, d = len(size), vectors.shape[1]
    rest, weight, floor = vectors, size.square(), noise.square()
    rows, axes, rank = [], [], torch.zeros(m, dtype=torch.long, device=size.device)
    for k in range(d):
        largest = (rest.square().sum(1).sub_(floor) * weight).max(1)  # of (m, n)
        rank += largest.values > 0
        row = largest.indices[:, None]
        axis = rest.expand(m, -1, -1).gather(2, row[:, None].expand(-1, d, 1))  # (m, d, 1)
        for other in axes:  # rounding left some of it, which the norm below would magnify
            axis = axis - other * (other.mT @ axis)
        axis = axis / axis.square().sum(1, keepdim=True).sqrt()
        rows.append(row)
        axes.append(axis)
        if k < d - 1:
            rest = torch.addcmul(rest, axis, axis.mT @ rest, value=-1)
    return Picked(torch.cat(rows, 1), torch.cat(axes, 2).mT, rank)


def whiten(parts: Tensor, size: Tensor, rows: Tensor) -> Whitened:
    """From parts (m, d, n) of the vectors on the axes; the Jacobian is size_j times vector j."""
    _shear(parts, rows)
    jacobian = parts * size[:, None]
    scale = jacobian.gather(2, rows[:, None].expand(-1, parts.shape[1], -1))
    scale = scale.diagonal(dim1=1, dim2=2)[:, :, None]  # (m, d, 1)
    factor = torch.linalg.cholesky(jacobian @ jacobian.mT / scale / scale.mT)
    whitening = torch.linalg.inv(factor) / scale.mT
    vectors = whitening @ parts
    # The norm of the inverse, and not the least singular value, which the others would hide.
    norm, least = (torch.linalg.matrix_norm(a, 2) for a in (scale * factor, whitening))
    return Whitened(vectors, vectors * size[:, None], norm * least)


def _shear(parts: Tensor, rows: Tensor) -> None:
    """In place, until picked row l has no part on any axis k > l.

    Those parts are rounding of the axes. Where gradients differ by many orders of magnitude, they
    would hide what is smaller.
    """
    d = parts.shape[1]
    for l in range(d - 1):
        at = rows[:, l, None, None].expand(-1, d - l, 1)
        picked = parts[:, l:].gather(2, at)  # (m, d - l, 1)
        ratio = picked[:, 1:] / picked[:, :1]
        parts[:, l + 1 :].addcmul_(ratio, parts[:, l : l + 1], value=-1).scatter_(2, at[:, 1:], 0.0)


def product(axes: Tensor, vectors: Tensor) -> Tensor:
    """(m, k, d), (d, n) -> (m, k, n) rounded once, as if computed with twice as many digits."""
    total = rest = None
    for x, y in zip(axes.unbind(2), vectors, strict=True):
        x = x[:, :, None]
        term = x * y
        error = term.neg()
        for a in _halves(x):
            for b in _halves(y):
                error.addcmul_(a, b)
        if total is None:
            total, rest = term, error
            continue
        rest += error
        new = total + term
        back = new - total
        rest += total.sub_(new - back).add_(term.sub_(back))
        total = new
    return total.add_(rest)


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """x as a sum of two numbers of half as many digits, whose products are exact."""
    big = SPLIT * x
    high = big - (big - x)
    return high, x - high

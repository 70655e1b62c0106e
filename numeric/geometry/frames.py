r"""Frames in which a Jacobian is well conditioned; the Ricci scalar does not depend on coordinates.

d features are selected as pivots, as in a pivoted QR: each is the one whose gradient has the largest part
outside the span of the pivots before it. The axes are these parts, normalised. A pivot's gradient has no
part on later axes, and no other gradient has a part on its axis that is much larger. So after dividing each
axis by its pivot the metric is well conditioned, and a Cholesky factor whitens it, whatever the condition
number of the Jacobian. Arrays have the features last: (m, d, n) for m points.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Pivots", "Whitened", "compensated_product", "select_pivots", "whiten"]

SPLIT = 2.0**27 + 1  # halves the digits of a float64


@dataclass(frozen=True, eq=False)
class Pivots:
    """Features whose gradients span the tangent space; axis k lies in the span of the first k + 1 of them."""

    features: Tensor  # (m, d), indices
    axes: Tensor  # (m, d, d), orthonormal up to rounding
    rank: Tensor  # (m,)


@dataclass(frozen=True, eq=False)
class Whitened:
    """Vectors expressed in axes in which the metric is the identity."""

    vectors: Tensor  # (m, d, n)
    tangents: Tensor  # (m, d, n), the Jacobian in these axes: orthonormal rows
    condition: Tensor  # (m,), of the Jacobian before whitening


def select_pivots(vectors: Tensor, size: Tensor, noise: Tensor) -> Pivots:
    """Select among gradients size_j v_j: vectors (m or 1, d, n), size (m, n), noise (m or 1, 1 or n).

    What is left of v_j counts as 0 if it is shorter than the noise.
    """
    m, d = len(size), vectors.shape[1]
    remainder, weight, floor = vectors, size.square(), noise.square()
    features, axes, rank = [], [], torch.zeros(m, dtype=torch.long, device=size.device)
    for k in range(d):
        largest = (remainder.square().sum(1).sub_(floor) * weight).max(1)  # of (m, n)
        rank += largest.values > 0
        row = largest.indices[:, None]
        axis = remainder.expand(m, -1, -1).gather(2, row[:, None].expand(-1, d, 1))  # (m, d, 1)
        for other in axes:  # orthogonalise again: normalising would magnify rounding
            axis = axis - other * (other.mT @ axis)
        axis = axis / axis.square().sum(1, keepdim=True).sqrt()
        features.append(row)
        axes.append(axis)
        if k < d - 1:
            remainder = torch.addcmul(remainder, axis, axis.mT @ remainder, value=-1)
    return Pivots(torch.cat(features, 1), torch.cat(axes, 2).mT, rank)


def whiten(parts: Tensor, size: Tensor, features: Tensor) -> Whitened:
    """Whiten the vectors' coordinates (m, d, n), in place; gradient j is size_j times vector j."""
    _shear(parts, features)
    jacobian = parts * size[:, None]
    scale = jacobian.gather(2, features[:, None].expand(-1, parts.shape[1], -1))
    scale = scale.diagonal(dim1=1, dim2=2)[:, :, None]  # (m, d, 1)
    factor = torch.linalg.cholesky(jacobian @ jacobian.mT / scale / scale.mT)
    whitening = torch.linalg.inv(factor) / scale.mT
    vectors = whitening @ parts
    # Not by the smallest singular value: next to larger ones it would be lost to rounding.
    norm, least = (torch.linalg.matrix_norm(a, 2) for a in (scale * factor, whitening))
    return Whitened(vectors, vectors * size[:, None], norm * least)


def _shear(parts: Tensor, features: Tensor) -> None:
    """Shear the axes, in place, until pivot l has exactly no part on any axis k > l.

    In exact arithmetic these parts are 0. Where gradients differ by many orders of magnitude, their
    rounding would exceed the smaller gradients.
    """
    d = parts.shape[1]
    for l in range(d - 1):
        at = features[:, l, None, None].expand(-1, d - l, 1)
        pivots = parts[:, l:].gather(2, at)  # (m, d - l, 1)
        ratio = pivots[:, 1:] / pivots[:, :1]
        parts[:, l + 1 :].addcmul_(ratio, parts[:, l : l + 1], value=-1).scatter_(2, at[:, 1:], 0.0)


def compensated_product(axes: Tensor, vectors: Tensor) -> Tensor:
    """(m, k, d), (d, n) -> (m, k, n) by compensated sums, as if in twice the digits and rounded once."""
    columns = zip(axes.unbind(2), vectors, strict=True)
    products = (_exact_product(x[:, :, None], y) for x, y in columns)
    total, remainder = next(products)
    for term, error in products:
        remainder += error
        new = total + term
        back = new - total
        remainder += total.sub_(new - back).add_(term.sub_(back))
        total = new
    return total.add_(remainder)


def _exact_product(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """x y rounded, and what rounding took away."""
    term = x * y
    error = term.neg()
    for a in _halves(x):
        for b in _halves(y):
            error.addcmul_(a, b)
    return term, error


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Split x into two numbers of half as many digits, whose products are exact (Dekker)."""
    big = SPLIT * x
    high = big - (big - x)
    return high, x - high

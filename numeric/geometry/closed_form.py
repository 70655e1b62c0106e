r"""The Ricci scalar of a hidden layer in closed form, by one of two methods.

By moments (`numeric.models.shallow`): three products of matrices for all points. The relative error is the
rounding unit times the squared condition number of the Jacobian times the cancellation between the terms.

By frames (`frames`): each point selects d of its own units as axes, all weights are expressed in them with
twice the digits, and the Gauss equation (`gauss_equation`) is applied to
$\tilde H_j = \phi''_j \tilde w_j\tilde w_j^T$. No digits are lost at any condition number, whether units
are saturated or weights collinear: 1e-13 from 1 to 1e14 and beyond, up to the rounding of phi' itself.

Both cost O(n d^3) a point. Moments are tried first; the points where condition^2 times cancellation is
above `TRUST`, so that the error would exceed a few 1e-14, are recomputed by frames.
"""

from __future__ import annotations

import torch
from torch import Tensor

from numeric.geometry.frames import compensated_product, select_pivots, whiten
from numeric.geometry.gauss_equation import (
    Curvatures,
    contract,
    scalar_curvature,
    without_curvature,
)
from numeric.models.hidden_layers import HiddenLayer
from numeric.models.memory import keep_memory
from numeric.models.shallow import moment_form

__all__ = ["CHUNK_SIZE", "by_frames", "by_moments", "curvature"]

TRUST = 100.0
EPSILON = torch.finfo(torch.float64).eps
CHUNK_SIZE = 2**19  # numbers in the arrays of one chunk of points, which should fit into a cache
FRAME_CHUNK_SIZE = 2**19  # the same by frames


def curvature(layer: HiddenLayer, x: Tensor) -> Curvatures:
    """Ricci scalar, condition and rank at points (m, d): by moments where accurate, else by frames."""
    keep_memory()
    n, d = layer.weights.shape
    parts = [_trusted(layer, chunk) for chunk in x.split(max(1, CHUNK_SIZE // (n + d**3)))]
    value, condition, rank = (torch.cat(part) for part in zip(*parts, strict=True))
    return value, condition, rank


def _trusted(layer: HiddenLayer, x: Tensor) -> Curvatures:
    derivatives = layer.derivatives(x)
    # Third powers of the weights may exceed a chunk.
    if layer.weights.numel() * layer.weights.shape[1] ** 2 > CHUNK_SIZE:
        return by_frames(layer, *derivatives)
    value, condition, rank, trusted = by_moments(layer, *derivatives)
    doubtful = (~trusted).nonzero()[:, 0]
    if len(doubtful):
        recomputed = by_frames(layer, *(part[doubtful] for part in derivatives))
        for old, new in zip((value, condition, rank), recomputed, strict=True):
            old[doubtful] = new
    return value, condition, rank


def by_moments(
    layer: HiddenLayer, log_scale: Tensor, slope: Tensor, bend: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Value, condition, rank, and whether the value is accurate enough: (m,) each."""
    n, d = layer.weights.shape
    form = moment_form(slope, bend, layer.weights)
    values = torch.linalg.eigvalsh(form.metric)
    squared = values[:, -1] / values[:, 0].clamp(min=EPSILON * values[:, -1])
    trusted = squared * form.size <= TRUST * form.value.abs()  # False where the value is NaN
    value = form.value * torch.exp(-2 * log_scale[:, 0]) / n
    return value, squared.sqrt(), torch.full_like(trusted, d, dtype=torch.long), trusted


def by_frames(layer: HiddenLayer, log_scale: Tensor, slope: Tensor, bend: Tensor) -> Curvatures:
    """Value, condition and rank: (m,) each; NaN if the rank is below d somewhere."""
    n, d = layer.weights.shape
    step = max(1, FRAME_CHUNK_SIZE // (n * d * (d + 1) // 2))
    vectors = layer.weights.T.contiguous()
    parts = [
        _in_frames(vectors, p, q) for p, q in zip(slope.split(step), bend.split(step), strict=True)
    ]
    value, condition, rank = (torch.cat(part) for part in zip(*parts, strict=True))
    return value * torch.exp(-2 * log_scale[:, 0]), condition, rank


def _in_frames(weights: Tensor, slope: Tensor, bend: Tensor) -> Curvatures:
    """Value, condition and rank of a chunk, from weights (d, n), phi' (m, n) and phi'' (m, n)."""
    d = len(weights)
    noise = 4 * d * EPSILON * weights.square().sum(0).sqrt()
    pivots = select_pivots(weights[None], slope, noise[None])
    if (pivots.rank < d).any():
        return without_curvature(pivots.rank)
    # Only later axes need extra digits, as what is left for them may be small.
    first = pivots.axes[:, 0] @ weights
    parts = torch.cat([first[:, None], compensated_product(pivots.axes[:, 1:], weights)], 1)
    frame = whiten(parts, slope, pivots.features)
    H = _packed_hessian(frame.vectors, bend)
    # Each unit's Hessian has rank one, so the full Hessians contract to 0, and R is also minus the
    # contraction of their tangential parts. With many units those terms are smaller and cancel less.
    value, size = scalar_curvature(frame.tangents, H, pivots.features)
    inside, smaller = contract(H @ frame.tangents.mT, d)
    return torch.where(smaller < size, -inside, value), frame.condition, pivots.rank


def _packed_hessian(vectors: Tensor, bend: Tensor) -> Tensor:
    """bend_j v_j v_j^T: (m, d, n), (m, n) -> (m, pairs, n)."""
    m, d, n = vectors.shape
    H, scaled = vectors.new_empty(m, d * (d + 1) // 2, n), vectors * bend[:, None]
    torch.mul(vectors, scaled, out=H[:, :d])
    start = d
    for a in range(d - 1):
        torch.mul(
            vectors[:, a : a + 1],
            scaled[:, a + 1 :],
            out=H[:, start : (start := start + d - 1 - a)],
        )
    return H

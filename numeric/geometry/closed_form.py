r"""The Ricci scalar of a hidden layer in closed form, by one of two ways.

By moments (`numeric.models.shallow`): three products of matrices for all points. The condition number of the
Jacobian, squared, and the cancellation between its terms come off the digits.

By frames: each point picks d of its own units as axes, all weights are expressed in them with twice the
digits, and the Gauss equation takes $\tilde H_j = \phi''_j \tilde w_j\tilde w_j^T$. No digits are lost at any
condition number, whether units are saturated or weights collinear: 1e-13 from 1 to 1e14 and beyond,
up to the rounding of phi' itself.

Both cost O(n d^3) a point. Moments are tried first; the points where condition^2 times cancellation is
above `TRUST`, so that more than a few 1e-14 would be lost, are done again by frames.
"""

from __future__ import annotations

import torch
from torch import Tensor

from numeric.geometry.frames import pick, product, whiten
from numeric.geometry.gauss_equation import Curved, contracted, scalar, unknown
from numeric.models.hidden_layers import HiddenLayer
from numeric.models.memory import keep_memory
from numeric.models.shallow import moment_form

TRUST = 100.0
EPSILON = torch.finfo(torch.float64).eps
HELD = 2**19  # numbers in the arrays of one chunk of points, most of which should stay in a cache
HOT = 2**19  # the same by frames


def curvature(layer: HiddenLayer, x: Tensor) -> Curved:
    """By moments where they can be trusted, and else by frames."""
    keep_memory()
    n, d = layer.weights.shape
    parts = [_best(layer, some) for some in x.split(max(1, HELD // (n + d**3)))]
    return tuple(torch.cat(part) for part in zip(*parts, strict=True))


def _best(layer: HiddenLayer, x: Tensor) -> Curved:
    given = layer.derivatives(x)
    if layer.weights.numel() * layer.weights.shape[1] ** 2 > HELD:  # powers of weights take memory
        return by_frames(layer, *given)
    value, condition, rank, trusted = by_moments(layer, *given)
    again = (~trusted).nonzero()[:, 0]
    if len(again):
        better = by_frames(layer, *(part[again] for part in given))
        for old, new in zip((value, condition, rank), better, strict=True):
            old[again] = new
    return value, condition, rank


def by_moments(
    layer: HiddenLayer, log_scale: Tensor, slope: Tensor, bend: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Value, condition, rank, and whether they can be trusted."""
    n, d = layer.weights.shape
    form = moment_form(slope, bend, layer.weights)
    values = torch.linalg.eigvalsh(form.metric)
    squared = values[:, -1] / values[:, 0].clamp(min=EPSILON * values[:, -1])
    trusted = squared * form.size <= TRUST * form.value.abs()  # not if the value is no number
    value = form.value * torch.exp(-2 * log_scale[:, 0]) / n
    return value, squared.sqrt(), torch.full_like(trusted, d, dtype=torch.long), trusted


def by_frames(layer: HiddenLayer, log_scale: Tensor, slope: Tensor, bend: Tensor) -> Curved:
    """Value, condition and rank; no value where the rank is below d."""
    n, d = layer.weights.shape
    step = max(1, HOT // (n * d * (d + 1) // 2))
    vectors = layer.weights.T.contiguous()
    parts = [
        _framed(vectors, p, q) for p, q in zip(slope.split(step), bend.split(step), strict=True)
    ]
    value, condition, rank = (torch.cat(part) for part in zip(*parts, strict=True))
    return value * torch.exp(-2 * log_scale[:, 0]), condition, rank


def _framed(weights: Tensor, slope: Tensor, bend: Tensor) -> Curved:
    """(d, n), (m, n), (m, n)."""
    d = len(weights)
    noise = 4 * d * EPSILON * weights.square().sum(0).sqrt()
    picked = pick(weights[None], slope, noise[None])
    if (picked.rank < d).any():
        return unknown(picked.rank)
    first = picked.axes[:, 0] @ weights  # the other axes hold what is left, which may be small
    parts = torch.cat([first[:, None], product(picked.axes[:, 1:], weights)], 1)
    frame = whiten(parts, slope, picked.rows)
    H = _packed(frame.vectors, bend)
    # Each unit bends along one direction, so that R is also minus what lies in the tangent space. That
    # has the smaller terms where there are many units, and R is small against what each of them bends.
    value, size = scalar(frame.tangents, H, picked.rows)
    inside, smaller = contracted(H @ frame.tangents.mT, d)
    return torch.where(smaller < size, -inside, value), frame.condition, picked.rank


def _packed(vectors: Tensor, bend: Tensor) -> Tensor:
    """bend_j v_j v_j^T: (m, d, n), (m, n) -> (m, pairs, n)."""
    m, d, n = vectors.shape
    H, bent = vectors.new_empty(m, d * (d + 1) // 2, n), vectors * bend[:, None]
    torch.mul(vectors, bent, out=H[:, :d])
    at = d
    for a in range(d - 1):
        torch.mul(vectors[:, a : a + 1], bent[:, a + 1 :], out=H[:, at : (at := at + d - 1 - a)])
    return H

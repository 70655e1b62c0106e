r"""The Ricci scalar from first and second derivatives of the features, by the Gauss equation.

With P the projection off the tangent space, and in an orthonormal frame of it,
$R = \sum_{a\ne b} \langle P H_{aa}, P H_{bb}\rangle - |P H_{ab}|^2$. Derivatives of the metric do not appear,
so no third ones of the features do. The error is relative to the squared norm of the second fundamental
form, $\sum_{ab} |P H_{ab}|^2$: where R is smaller, as on a cylinder, it has no digits of its own.

Symmetric pairs (a, b) are packed: (0, 0), (1, 1), ..., then (0, 1), (0, 2), ..., (1, 2), ...
"""

from __future__ import annotations

import torch
from torch import Tensor

Curved = tuple[Tensor, Tensor, Tensor]  # value, condition, rank: (m,) each


def pairs(d: int) -> tuple[Tensor, Tensor]:
    """The indices a and b of packed pairs."""
    own, off = torch.arange(d), torch.triu_indices(d, d, 1)
    return torch.cat([own, off[0]]), torch.cat([own, off[1]])


def contracted(H: Tensor, d: int) -> tuple[Tensor, Tensor]:
    r"""$\sum_{a\ne b} \langle H_{aa}, H_{bb}\rangle - |H_{ab}|^2$ of (m, pairs, k), and its terms' size."""
    own, off = H[:, :d], H[:, d:]
    products = own @ own.mT
    norms = products.diagonal(dim1=1, dim2=2).sqrt()
    sizes = norms[:, :, None] * norms[:, None]
    products, sizes = (part.triu(1).sum((1, 2)) for part in (products, sizes))
    squares = off.square().sum((1, 2))
    return 2 * (products - squares), 2 * (sizes + squares)


def norm_squared(H: Tensor, d: int) -> Tensor:
    r"""$\sum_{ab} |H_{ab}|^2$ of (m, pairs, k), whatever the frame."""
    squares = H.square().sum(2)
    return squares[:, :d].sum(1) + 2 * squares[:, d:].sum(1)


def normal(tangents: Tensor, hessian: Tensor, rows: Tensor) -> Tensor:
    """What lies off the tangent space: (m, d, n) orthonormal, (m, k, n), (m, d) picked -> (m, k, n)."""
    d, count = tangents.shape[1], hessian.shape[1]
    # The picked features can be the steepest by many orders of magnitude. So each Hessian is freed of
    # a combination of theirs, which vanish exactly then, where a projection would leave rounding.
    at = rows[:, None].expand(-1, count, -1)
    share = torch.linalg.solve(
        tangents.gather(2, rows[:, None].expand(-1, d, -1)), hessian.gather(2, at), left=False
    )
    rest = torch.baddbmm(hessian, share, tangents, alpha=-1).scatter_(2, at, 0.0)
    return rest.baddbmm_(rest @ tangents.mT, tangents, alpha=-1)


def scalar(tangents: Tensor, hessian: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """R and the size of its terms: (m, d, n) orthonormal, (m, pairs, n) in that frame, (m, d) picked."""
    return contracted(normal(tangents, hessian, rows), tangents.shape[1])


def unknown(rank: Tensor) -> Curved:
    """What is said of points among which some have no curvature, for want of rank."""
    nothing = torch.full_like(rank, torch.nan, dtype=torch.float64)
    return nothing, nothing, rank

r"""The Ricci scalar from first and second derivatives of the features, by the Gauss equation.

With P the projection to the normal space, in an orthonormal frame of the tangent space,
$R = \sum_{a\ne b} \langle P H_{aa}, P H_{bb}\rangle - |P H_{ab}|^2$. Derivatives of the metric do not appear,
so third derivatives of the features are not needed. The error is relative to the squared norm of the second
fundamental form, $\sum_{ab} |P H_{ab}|^2$: where R is much smaller, as on a cylinder, its own digits are
lost.

Symmetric pairs (a, b) are packed: (0, 0), (1, 1), ..., then (0, 1), (0, 2), ..., (1, 2), ...
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = [
    "Curvatures", "contract", "norm_squared", "normal_part", "pairs", "scalar_curvature",
    "without_curvature",
]  # fmt: skip

Curvatures = tuple[Tensor, Tensor, Tensor]  # value, condition, rank: (m,) each


def pairs(d: int) -> tuple[Tensor, Tensor]:
    """The indices a and b of packed pairs."""
    diagonal, off_diagonal = torch.arange(d), torch.triu_indices(d, d, 1)
    return torch.cat([diagonal, off_diagonal[0]]), torch.cat([diagonal, off_diagonal[1]])


def contract(H: Tensor, d: int) -> tuple[Tensor, Tensor]:
    r"""$\sum_{a\ne b} \langle H_{aa}, H_{bb}\rangle - |H_{ab}|^2$ of (m, pairs, k), and its terms' size."""
    diagonal, off_diagonal = H[:, :d], H[:, d:]
    products = diagonal @ diagonal.mT
    norms = products.diagonal(dim1=1, dim2=2).sqrt()
    sizes = norms[:, :, None] * norms[:, None]
    products, sizes = (part.triu(1).sum((1, 2)) for part in (products, sizes))
    squares = off_diagonal.square().sum((1, 2))
    return 2 * (products - squares), 2 * (sizes + squares)


def norm_squared(H: Tensor, d: int) -> Tensor:
    r"""$\sum_{ab} |H_{ab}|^2$ of (m, pairs, k), whatever the frame."""
    squares = H.square().sum(2)
    return squares[:, :d].sum(1) + 2 * squares[:, d:].sum(1)


def normal_part(tangents: Tensor, hessian: Tensor, pivots: Tensor) -> Tensor:
    """Normal parts of Hessians: orthonormal (m, d, n), (m, k, n), pivot features (m, d) -> (m, k, n)."""
    d, count = tangents.shape[1], hessian.shape[1]
    # The pivots can be steeper than all other features by orders of magnitude, and a projection would leave
    # their rounding. So first subtract the tangents that make each Hessian exactly 0 at the pivots.
    at = pivots[:, None].expand(-1, count, -1)
    share = torch.linalg.solve(
        tangents.gather(2, pivots[:, None].expand(-1, d, -1)), hessian.gather(2, at), left=False
    )
    rest = torch.baddbmm(hessian, share, tangents, alpha=-1).scatter_(2, at, 0.0)
    return rest.baddbmm_(rest @ tangents.mT, tangents, alpha=-1)


def scalar_curvature(tangents: Tensor, hessian: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor]:
    """R and the size of its terms: orthonormal (m, d, n), Hessians (m, pairs, n) on it, pivots (m, d)."""
    return contract(normal_part(tangents, hessian, pivots), tangents.shape[1])


def without_curvature(rank: Tensor) -> Curvatures:
    """NaN for curvature and condition of a chunk in which some rank is deficient."""
    nan = torch.full_like(rank, torch.nan, dtype=torch.float64)
    return nan, nan, rank

r"""Mehler's series $\sum_k a_k(k_{xx})\,a_k(k_{yy})\,\rho^k$ on whole tiles, and a bound of its error."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from numeric.infinite.mehler.expansion import Expansion, safe_root
from numeric.inputs import InputError

__all__ = ["correlation", "on_list", "on_tile", "pairs"]

NEGLIGIBLE = (
    1e-24  # relative to the largest term: smaller ones are skipped, as the even terms of an odd phi
)
ROUNDING = (
    32  # in eps: coefficients are sums over hundreds of nodes, in whatever order a machine takes
)


def pairs(
    rows: Expansion, cols: Expansion, kxy: Tensor, order: int | None = None
) -> tuple[Tensor, Tensor]:
    r"""K (n, m) by the series to an order, or all of it, and a bound of the error of each entry.

    Cauchy and Schwarz bound what is left out. Rounding is bounded with it: the partial sums of
    Horner's rule are tails, so their errors add up to a few $\epsilon\sqrt{N(k_{xx})N(k_{yy})}$ with
    $N = \sum_k (k+1) a_k^2 = E[\phi^2] + V E[\phi'^2]$, and the coefficients' own are no larger.

    rows, cols: Expansions of n and m variances. kxy: covariances (n, m). order: None, or at least 0.
    Returned are K and the bound, (n, m) each. Refused are covariances of another shape.

    >>> from numeric.infinite.mehler import expand
    >>> one = expand(torch.sin, torch.ones(1, dtype=torch.float64))
    >>> K, error = pairs(one, one, torch.tensor([[0.5]], dtype=torch.float64))
    >>> round(K.item(), 4), bool(error < 1e-13)  # sinh(1/2) / e
    (0.1917, True)
    """
    most = min(rows.order, cols.order)
    order = most if order is None else min(order, most)
    rho = correlation(rows, cols, kxy)

    def across(parts: list[Tensor]) -> Tensor:
        return parts[0][:, None] * parts[1]

    with torch.no_grad():
        left_out = across([side.tails[:, order] for side in (rows, cols)])
        steep = across([(side.tails**2).sum(1).add(side.size**2).sqrt() for side in (rows, cols)])
        bound = rho.abs() ** (order + 1) * left_out + ROUNDING * torch.finfo(rho.dtype).eps * steep
    return on_tile(rows, cols, rho, order), bound


def correlation(rows: Expansion, cols: Expansion, kxy: Tensor) -> Tensor:
    """rho, 0 where a variance is 0, clipped to [-1, 1] without clipping its gradient."""
    if kxy.shape != (len(rows), len(cols)):
        raise InputError(
            f"{len(rows)} rows and {len(cols)} columns need covariances of that shape, "
            f"but {tuple(kxy.shape)} was given."
        )
    scale = safe_root(rows.V)[:, None] * safe_root(cols.V)
    slack = torch.finfo(kxy.dtype).eps ** 0.5
    if not (kxy.abs() <= (1 + slack) * scale).all():
        raise InputError(
            "Covariances must be numbers with |kxy| <= sqrt(kxx kyy), but some are larger or NaN: "
            "give the variances of the same Gaussians."
        )
    rho = torch.where(scale > 0, kxy / torch.where(scale > 0, scale, 1.0), 0.0)
    return rho + (rho.clamp(-1, 1) - rho).detach()


def on_tile(rows: Expansion, cols: Expansion, rho: Tensor, order: int) -> Tensor:
    """The series for every row with every column: (n, m)."""
    left, right = (side.coefficients[:, : order + 1].mT.contiguous() for side in (rows, cols))
    return _Horner.apply(left[:, :, None], right[:, None, :], rho)


def on_list(rows: Expansion, cols: Expansion, rho: Tensor) -> Tensor:
    """The whole series for each row with the column of the same index: (n,)."""
    most = min(rows.order, cols.order)
    left, right = (side.coefficients[:, : most + 1].mT.contiguous() for side in (rows, cols))
    return _Horner.apply(left, right, rho)


class _Horner(torch.autograd.Function):
    """The sum over the first axis of left right rho^k, in place: autograd would store every term."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, rho: Tensor) -> Tensor:
        ctx.save_for_backward(left, right, rho)
        return _horner(left, right, rho)

    @staticmethod
    @once_differentiable
    # torch declares any number of gradients, but there is one for each output
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # pyrefly: ignore[bad-override]
        left, right, rho = ctx.saved_tensors
        degree = torch.arange(1, len(left)).to(left).reshape(-1, *[1] * (left.ndim - 1))
        slope = _horner(degree * left[1:], right[1:], rho)
        by_left, by_right, power = torch.zeros_like(left), torch.zeros_like(right), grad.clone()
        for k, gap, step in _terms(left, right, rho):
            power = power.mul_(step) if gap else power
            by_left[k] = (power * right[k]).sum_to_size(left[k].shape)
            by_right[k] = (power * left[k]).sum_to_size(right[k].shape)
        return by_left, by_right, grad * slope


def _horner(left: Tensor, right: Tensor, rho: Tensor) -> Tensor:
    total = torch.zeros_like(rho)
    for k, gap, step in reversed(_terms(left, right, rho)):
        total.addcmul_(left[k], right[k])
        if gap:
            total.mul_(step)
    return total


def _terms(left: Tensor, right: Tensor, rho: Tensor) -> list[tuple[int, int, Tensor]]:
    """The orders that are not negligible, each with its gap to the previous one and that power of rho."""
    size = left.flatten(1).norm(dim=1) * right.flatten(1).norm(dim=1)
    orders = (size > NEGLIGIBLE * size.max()).nonzero()[:, 0].tolist()
    gaps = [upper - lower for lower, upper in pairwise([0, *orders])]
    powers = {gap: rho if gap == 1 else rho**gap for gap in set(gaps)}
    return [(k, gap, powers[gap]) for k, gap in zip(orders, gaps, strict=True)]

"""Roots of many functions of one variable at once, each between two places where its signs differ."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["bracketed_roots"]

ALMOST = 2.0**-48  # the next step of a search for a root that need not be taken
STEPS = 60  # of bisection and interpolation, which find a root to the last digit long before


def bracketed_roots(
    function: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, at_a: Tensor, at_b: Tensor
) -> Tensor:
    """Roots of continuous functions of one variable with values of opposite sign at a and b, (r,).

    `function(rows, t)` gives the values of some of the functions. Chandrupatla's method: inverse quadratic
    interpolation where it is safe, bisection elsewhere.
    """
    eps = torch.finfo(a.dtype).eps
    small = 4 * eps * torch.maximum(at_a.abs(), at_b.abs())
    root = torch.where(at_a.abs() < at_b.abs(), a, b)
    active = torch.arange(len(a), device=a.device)
    x1, x2, f1, f2 = b, a, at_b, at_a
    share = (f1 / (f1 - f2)).clamp(0, 1)  # the secant first: a line is solved at once
    for _ in range(STEPS):
        x = x1 + share * (x2 - x1)
        f = function(active, x)
        same = torch.sign(f) == torch.sign(f1)
        x3, f3 = torch.where(same, x1, x2), torch.where(same, f1, f2)
        x2, f2 = torch.where(same, x2, x1), torch.where(same, f2, f1)
        x1, f1 = x, f
        better = f1.abs() < f2.abs()
        best = torch.where(better, x1, x2)
        width = (x2 - x1).abs()
        limit = 2 * eps * best.abs() + eps / 4
        secant = torch.maximum(  # by the slopes towards either side
            (f1 * (x2 - x1) / (f2 - f1)).abs(), (f1 * (x3 - x1) / (f3 - f1)).abs()
        )
        done = (f1.abs() <= small) | (width <= 2 * limit) | (secant <= ALMOST)
        root[active[done]] = torch.where(f1.abs() <= f2.abs(), x1, x2)[done]
        keep = ~done
        if not keep.any():
            break
        root[active] = best
        active, small = active[keep], small[keep]
        x1, x2, x3, f1, f2, f3 = (v[keep] for v in (x1, x2, x3, f1, f2, f3))
        limit, width = limit[keep], width[keep]
        xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
        safe = (1 - torch.sqrt((1 - xi).clamp(min=0)) < phi) & (phi < torch.sqrt(xi.clamp(min=0)))
        inverse = (f1 / (f2 - f1)) * (f3 / (f2 - f3)) + ((x3 - x1) / (x2 - x1)) * (
            f1 / (f3 - f1)
        ) * (f2 / (f3 - f2))
        share = torch.where(safe & inverse.isfinite(), inverse, 0.5)
        least = (limit / width).clamp(max=0.5)
        share = torch.minimum(torch.maximum(share, least), 1 - least)
    return root

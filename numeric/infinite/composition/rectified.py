r"""Activations that are linear on both sides of 0, in place, for pairs that are not nearly collinear.

With slopes a and b, $j = (b - a)^2/2\pi$ and $d = \sqrt{k_{xx}k_{yy} - k_{xy}^2}$ for two Gaussian variables,

$$E[\phi'\phi'] = \tfrac{(a+b)^2}{4} + j\arctan\frac{k_{xy}}d,\qquad
  E[\phi\phi] = E[\phi'\phi']\,k_{xy} + j\,d.$$
"""

from __future__ import annotations

import torch
from torch import Tensor

from numeric.infinite.layers import Sides
from numeric.infinite.tile_steps import constant
from numeric.kernels.scratch_memory import NoScratch, Scratch

__all__ = ["averages"]


def averages(
    k: Tensor,
    det: Tensor,
    theta: Tensor | None,
    sides: Sides,
    theta_only: bool,
    memory: Scratch | NoScratch,
) -> None:
    """E[phi phi] in the place of k, unless `theta_only`, and theta times E[phi' phi']; det is overwritten.

    The root of the determinant is det / sqrt(det), because torch's sqrt takes many times as long as its
    rsqrt; the arc tangent of two arguments takes two thirds of the time of an arc sine, and needs no
    correlation.
    """
    root = torch.rsqrt(det, out=memory[0]).mul_(det)
    slope = torch.atan2(k, root, out=det)
    mean = constant(sides.mean, k.dtype, k.device)
    torch.add(mean, slope, alpha=sides.jump, out=slope)
    if theta is not None:
        theta.mul_(slope)
    if not (theta_only and theta is not None):
        k.mul_(slope).add_(root, alpha=sides.jump)

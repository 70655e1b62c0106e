r"""Activations that are linear on both sides of 0, in place, for pairs that are not nearly collinear.

With slopes a and b, $j = (b - a)^2/2\pi$ and the correlation c of two Gaussian variables,

$$E[\phi'\phi'] = \tfrac{(a+b)^2}{4} + j\arcsin c,\qquad
  E[\phi\phi] = E[\phi'\phi']\,k_{xy} + j\sqrt{k_{xx}k_{yy} - k_{xy}^2}.$$
"""

from __future__ import annotations

import torch
from torch import Tensor

from numeric.infinite.layers import Sides
from numeric.infinite.tile_steps import constant
from numeric.kernels.scratch_memory import Fresh, Scratch

__all__ = ["correlations", "kernels", "slopes"]


def correlations(k: Tensor, kxx: Tensor, kyy: Tensor, memory: Scratch | Fresh) -> Tensor:
    """k over the roots of the variances of its row and column, in scratch memory that is kept."""
    correlation = torch.mul(k, kxx.rsqrt(), out=memory[0]).mul_(kyy.rsqrt())
    memory.keep(correlation)
    return correlation


def slopes(correlation: Tensor, sides: Sides) -> Tensor:
    """E[phi' phi'], in the place of correlations."""
    mean = constant(sides.mean, correlation.dtype, correlation.device)
    angle = torch.asin(correlation, out=correlation)
    return torch.add(mean, angle, alpha=sides.jump, out=correlation)


def kernels(
    k: Tensor, kxx: Tensor, kyy: Tensor, slope: Tensor, sides: Sides, memory: Scratch | Fresh
) -> None:
    """E[phi phi], in the place of k.

    The root of the determinant is det / sqrt(det), because torch's sqrt takes twice as long as its rsqrt.
    """
    det = torch.mul(kxx, kyy, out=memory[0]).addcmul_(k, k, value=-1)
    root = torch.rsqrt(det, out=memory[1])
    k.mul_(slope).addcmul_(root, det, value=sides.jump)

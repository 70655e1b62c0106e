r"""How far apart two points come out of a curved layer, in sums whose terms do not cancel.

Turn the points together: let $\theta$ be the angle of u and $\pm v$, with the sign of $k_{xy}$, and
$k_0$ the kernel at $\theta = 0$, $n = \sqrt{k_{xx}k_{yy}}$. By Price's theorem $k_0 = k \pm J$ with
$J = \int_0^\theta E[\phi'\phi'](\pm n\cos t)\,n\sin t\,dt$, so that

$$F_xF_y - k^2 = (F_xF_y - k_0^2) + J\,(J \pm 2k),\qquad F_x + F_y - 2k = (F_x + F_y - 2k_0) \pm 2J.$$

What is left in brackets are averages over one Gaussian, found from $E[(\phi(u) \mp \phi(v))^2]$.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.infinite.layers import Layer
from numeric.infinite.mehler.direct import line
from numeric.infinite.mehler.expansion import gauss_legendre

NODES = (6, 10)  # of the integral over an angle
DENSITIES = (8, 12)  # of nodes along a line
RESOLVED = 1e-9  # change from fewer nodes to more: errors fall to its power 3/2 or less


@dataclass(frozen=True)
class Parted:
    """Of phi at pairs of points, (n,) each; not trusted where phi is too steep for the nodes."""

    spread: Tensor  # F_x + F_y - 2 k
    det: Tensor  # F_x F_y - k^2
    trusted: Tensor


def part(
    layer: Layer, kxx: Tensor, kyy: Tensor, kxy: Tensor, det: Tensor, kernel: Tensor
) -> Parted:
    """Of pairs whose kernel is known, for a layer with closed forms and a slope."""
    side = torch.where(kxy < 0, -1.0, 1.0).to(kxy)
    angle = torch.atan2(det.sqrt(), kxy.abs())
    rough, turn = (_turn(layer, kxx, kyy, side, angle, count) for count in NODES)
    start = kernel + side * turn
    facing = torch.where(start < 0, -1.0, 1.0).to(kxy)
    coarse, gap = (_gap(layer, kxx, kyy, side, facing, density) for density in DENSITIES)
    squares = layer.square(kxx), layer.square(kyy)
    mean, half = (squares[0] + squares[1]) / 2, (squares[0] - squares[1]) / 2
    straight = (mean * gap - gap**2 / 4 - half**2).clamp_min(0)
    if layer.homogeneous:
        straight = torch.where((side > 0) | layer.mirrored, 0.0, straight)
    spread = torch.where(facing > 0, gap + 2 * side * turn, 2 * (mean - kernel))
    allowed = max(RESOLVED, 64 * torch.finfo(kxy.dtype).eps)
    known = (gap - coarse).abs() <= allowed * (gap * mean).sqrt()
    known &= (turn - rough).abs() <= allowed * turn.abs()
    return Parted(spread, straight + turn * (turn + 2 * side * kernel), known)


def _turn(
    layer: Layer, kxx: Tensor, kyy: Tensor, side: Tensor, angle: Tensor, count: int
) -> Tensor:
    """J."""
    x, weight = gauss_legendre(count, angle)
    kxx, kyy, side, angle = (part[:, None] for part in (kxx, kyy, side, angle))
    n, t = kxx.sqrt() * kyy.sqrt(), angle * (x + 1) / 2
    aside = n * t.sin()
    slope = layer.elements(kxx, kyy, side * n * t.cos(), aside**2, slopes=True).slope
    return (slope * aside * weight * angle / 2).sum(1)


def _gap(
    layer: Layer, kxx: Tensor, kyy: Tensor, side: Tensor, facing: Tensor, density: int
) -> Tensor:
    """E[(phi(u) - facing phi(v))^2] of points on one line, on the given side of the origin."""
    x, y = (root[:, None] for root in (kxx.sqrt(), side * kyy.sqrt()))
    feature = 1 / torch.maximum(x, y.abs()).clamp(min=1)
    t, weight = line(torch.zeros_like(x), feature, density)
    phi = layer.activation.phi.torch
    return ((phi(x * t) - facing[:, None] * phi(y * t)) ** 2 * weight).sum(1)

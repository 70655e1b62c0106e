r"""How far apart two points come out of a curved layer, in sums whose terms do not cancel.

Turn the points together: let $\theta$ be the angle of u and $\pm v$, with the sign of $k_{xy}$, and
$k_0$ the kernel at $\theta = 0$, $n = \sqrt{k_{xx}k_{yy}}$. By Price's theorem $k_0 = k \pm J$ with
$J = \int_0^\theta E[\phi'\phi'](\pm n\cos t)\,n\sin t\,dt$, so that

$$F_xF_y - k^2 = (F_xF_y - k_0^2) + J\,(J \pm 2k),\qquad F_x + F_y - 2k = (F_x + F_y - 2k_0) \pm 2J.$$

What is left in brackets are averages over one Gaussian, found from
$D = E[(\phi(u) \mp \phi(v))^2]$: $F_xF_y - k_0^2 = \bar F D - D^2/4 - (F_x - F_y)^2/4$. Where E[phi' phi']
is a quadrature itself, the same is done without turning, by quadratures in the plane.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.infinite.layers import Layer
from numeric.infinite.mehler.direct import distance
from numeric.infinite.mehler.expansion import gauss_legendre

NODES = (6, 10)  # of the integral over an angle
DENSITIES = (12, 18)  # of nodes along a line
RESOLVED = 1e-11  # change from fewer nodes to more, beyond which phi is too steep for them


@dataclass(frozen=True)
class Separation:
    """Of phi at pairs of points, (n,) each; not trusted where phi is too steep for the nodes."""

    spread: Tensor  # F_x + F_y - 2 k
    det: Tensor  # F_x F_y - k^2
    trusted: Tensor


def separate(
    layer: Layer, kxx: Tensor, kyy: Tensor, kxy: Tensor, det: Tensor, kernel: Tensor
) -> Separation:
    """Of pairs whose kernel is known, for a curved layer."""
    if not layer.homogeneous:
        return _separate(layer, kxx, kyy, kxy, det, kernel)
    x, y, ratio = layer.square(kxx), layer.square(kyy), kxx / kyy  # the scale of y is but a factor
    rescaled = _separate(layer, kxx, kxx, kxy * ratio.sqrt(), det * ratio, kernel * (x / y).sqrt())
    spread = (y / x).sqrt() * rescaled.spread + (x.sqrt() - y.sqrt()) ** 2
    return Separation(spread, rescaled.det * (y / x), rescaled.trusted)


def _separate(
    layer: Layer, kxx: Tensor, kyy: Tensor, kxy: Tensor, det: Tensor, kernel: Tensor
) -> Separation:
    side = torch.where(kxy < 0, -1.0, 1.0).to(kxy)
    rough = turn = torch.zeros_like(kxy)
    gram = torch.stack([kxx, kxy, kyy, det], 1)
    if layer.closed:
        angle, n = torch.atan2(det.sqrt(), kxy.abs()), kxx.sqrt() * kyy.sqrt()
        rough, turn = (_turn(layer, kxx, kyy, side * n, angle, count) for count in NODES)
        gram = torch.stack([kxx, side * n, kyy, 0 * det], 1)
    facing = torch.where(kernel + side * turn < 0, -1.0, 1.0).to(kxy)
    coarse, gap = (_gap(layer, gram, facing, density) for density in DENSITIES)
    x, y = layer.square(kxx), layer.square(kyy)
    mean, half = (x + y) / 2, (x - y) / 2
    straight = (mean * gap - gap**2 / 4 - half**2).clamp_min(0)
    spread = torch.where(facing > 0, gap + 2 * side * turn, 2 * (mean - kernel))
    allowed = max(RESOLVED, 64 * torch.finfo(kxy.dtype).eps)
    known = (gap - coarse).abs() <= allowed * (gap * mean).sqrt()
    known &= (turn - rough).abs() <= allowed * turn.abs()
    return Separation(spread, straight + turn * (turn + 2 * side * kernel), known)


def _turn(layer: Layer, kxx: Tensor, kyy: Tensor, end: Tensor, angle: Tensor, count: int) -> Tensor:
    """J, with the covariance at the end of the turn."""
    x, weight = gauss_legendre(count, angle)
    kxx, kyy, end, angle = (part[:, None] for part in (kxx, kyy, end, angle))
    t = angle * (x + 1) / 2
    aside = end.abs() * t.sin()
    slope = layer.elements(kxx, kyy, end * t.cos(), aside**2, slopes=True).slope
    return (slope * aside * weight * angle / 2).sum(1)


def _gap(layer: Layer, gram: Tensor, facing: Tensor, density: int) -> Tensor:
    """D, where facing is the sign in it."""
    gap, phi = torch.zeros_like(facing), layer.activation.phi.torch
    for sign in (1.0, -1.0):
        some = facing == sign
        if some.any():
            gap[some] = distance(phi, layer.kinks, gram[some], sign, density)
    return gap

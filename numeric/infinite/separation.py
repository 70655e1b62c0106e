r"""Distance and determinant of two points after a nonlinear layer, without cancellation.

Rotate the points onto each other: let $\theta$ be the angle of u and $\pm v$, with the sign of $k_{xy}$, and
$k_0$ the kernel at $\theta = 0$, $n = \sqrt{k_{xx}k_{yy}}$. By Price's theorem $k_0 = k \pm J$ with
$J = \int_0^\theta E[\phi'\phi'](\pm n\cos t)\,n\sin t\,dt$, so that

$$F_xF_y - k^2 = (F_xF_y - k_0^2) + J\,(J \pm 2k),\qquad F_x + F_y - 2k = (F_x + F_y - 2k_0) \pm 2J.$$

The terms in brackets are averages over a single Gaussian, computed from
$D = E[(\phi(u) \mp \phi(v))^2]$: $F_xF_y - k_0^2 = \bar F D - D^2/4 - (F_x - F_y)^2/4$. Where E[phi' phi']
is a quadrature itself, the same formulas are used without the rotation, with quadratures in the plane.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.infinite.layers import Layer
from numeric.infinite.mehler.direct import distance
from numeric.infinite.mehler.expansion import gauss_legendre

__all__ = ["Separation", "separate"]

NODES = (6, 10)  # quadrature nodes of the integral over the angle: a coarse rule and a fine one
DENSITIES = (12, 18)  # of quadrature nodes along a line: coarse and fine
RESOLVED = 1e-11  # relative change from coarse to fine above which a result is not trusted


@dataclass(frozen=True)
class Separation:
    """Second moments of phi at n pairs of points, (n,) each; `trusted` where coarse and fine rules agree."""

    spread: Tensor  # F_x + F_y - 2 k
    det: Tensor  # F_x F_y - k^2
    trusted: Tensor


def separate(
    layer: Layer, kxx: Tensor, kyy: Tensor, kxy: Tensor, det: Tensor, kernel: Tensor
) -> Separation:
    """Spread and determinant for pairs whose kernel E[phi phi] is already known."""
    if not layer.homogeneous:
        return _separate(layer, kxx, kyy, kxy, det, kernel)
    x, y, ratio = (
        layer.square(kxx),
        layer.square(kyy),
        kxx / kyy,
    )  # phi is homogeneous: scaling y only scales the result
    rescaled = _separate(layer, kxx, kxx, kxy * ratio.sqrt(), det * ratio, kernel * (x / y).sqrt())
    spread = (y / x).sqrt() * rescaled.spread + (x.sqrt() - y.sqrt()) ** 2
    return Separation(spread, rescaled.det * (y / x), rescaled.trusted)


def _separate(
    layer: Layer, kxx: Tensor, kyy: Tensor, kxy: Tensor, det: Tensor, kernel: Tensor
) -> Separation:
    side = torch.where(kxy < 0, -1.0, 1.0).to(kxy)
    coarse_integral = integral = torch.zeros_like(kxy)
    gram = torch.stack([kxx, kxy, kyy, det], 1)
    if layer.has_closed_form:
        angle, n = torch.atan2(det.sqrt(), kxy.abs()), kxx.sqrt() * kyy.sqrt()
        coarse_integral, integral = (
            _rotation_integral(layer, kxx, kyy, side * n, angle, count) for count in NODES
        )
        gram = torch.stack([kxx, side * n, kyy, 0 * det], 1)
    sign_of_v = torch.where(kernel + side * integral < 0, -1.0, 1.0).to(kxy)
    coarse_gap, gap = (_squared_gap(layer, gram, sign_of_v, density) for density in DENSITIES)
    x, y = layer.square(kxx), layer.square(kyy)
    mean, half = (x + y) / 2, (x - y) / 2
    straight = (mean * gap - gap**2 / 4 - half**2).clamp_min(0)
    spread = torch.where(sign_of_v > 0, gap + 2 * side * integral, 2 * (mean - kernel))
    allowed = max(RESOLVED, 64 * torch.finfo(kxy.dtype).eps)
    trusted = (gap - coarse_gap).abs() <= allowed * (gap * mean).sqrt()
    trusted &= (integral - coarse_integral).abs() <= allowed * integral.abs()
    return Separation(spread, straight + integral * (integral + 2 * side * kernel), trusted)


def _rotation_integral(
    layer: Layer, kxx: Tensor, kyy: Tensor, end: Tensor, angle: Tensor, count: int
) -> Tensor:
    """The integral J over the rotation; `end` is the covariance where the angle is 0."""
    x, weight = gauss_legendre(count, angle)
    kxx, kyy, end, angle = (part[:, None] for part in (kxx, kyy, end, angle))
    t = angle * (x + 1) / 2
    aside = end.abs() * t.sin()
    slope = layer.slope_elements(kxx, kyy, end * t.cos(), aside**2)
    return (slope * aside * weight * angle / 2).sum(1)


def _squared_gap(layer: Layer, gram: Tensor, sign_of_v: Tensor, density: int) -> Tensor:
    """D = E[(phi(u) - sign_of_v phi(v))^2]."""
    gap, phi = torch.zeros_like(sign_of_v), layer.activation.phi.torch
    for sign in (1.0, -1.0):
        chosen = sign_of_v == sign
        if chosen.any():
            gap[chosen] = distance(phi, layer.kinks, gram[chosen], sign, density)
    return gap

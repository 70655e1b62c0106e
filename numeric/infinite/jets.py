r"""The jets of NNGP and tangent kernels at y = x, which hold their metrics, layer by layer.

Of a covariance with variance V, drift $h = \frac12\nabla V$ and metric g, a layer makes the kernel
$E[\phi\phi]$ with $F(V)$, $F'(V)\,h$ and $G(V)\,g + 2G'(V)\,hh^T$, where $F = E[\phi^2]$ and
$G = E[\phi'^2]$. Of $E[\phi'\phi']$ the jet is the same with $G$ and $G_2 = E[\phi''^2]$ in their place, and
sums and products of kernels are sums and products of jets.

All these kernels are invariant under rotations. So the jet at x is that of the point $(|x|, 0)$ of a plane,
turned: the metric has one eigenvalue along x, and another one across it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from numeric.infinite.layers import Layer, OnePointMoments
from numeric.infinite.recursion import Recursion, require_finite_variances, require_representable
from numeric.kernels.jets import Jet, outer

__all__ = ["jet"]


def jet(recursion: Recursion, x: Tensor) -> Jet:
    """The jet of a recursion's kernel at points (n, d); refused where an activation is not smooth enough."""
    plane = _jet_in_the_plane(recursion, x)
    radius = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    direction = torch.where(radius > 0, x / radius, 0.0)
    along, across = plane.metric[:, :1, :1], plane.metric[:, 1:, 1:]
    unit = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    metric = across * unit + (along - across) * outer(direction, direction)
    return Jet(plane.value, plane.drift[:, :1] * direction, metric)


def _jet_in_the_plane(recursion: Recursion, x: Tensor) -> Jet:
    """The jet at (|x|, 0) for each x of d coordinates."""
    d, (w, b) = x.shape[1], recursion.numbers
    inner_product = _inner_product(x)
    covariance = inner_product.scaled(w[0] ** 2 / d).plus_constant(b[0] ** 2)
    require_finite_variances(covariance.value)
    rate_w, rate_b = recursion.parametrisation.rates(d, w[0], b[0])
    tangent = inner_product.scaled(rate_w / d).plus_constant(rate_b)
    for l, layer in enumerate(recursion.layers):
        kernel = _after_layer(covariance, layer, layer.moments)
        if recursion.tangent:
            rate_w, rate_b = recursion.parametrisation.rates(None, w[l + 1], b[l + 1])
            slope = _after_layer(covariance, layer, layer.slope_moments)
            from_below = (slope * tangent).scaled(w[l + 1] ** 2)
            tangent = kernel.scaled(rate_w).plus_constant(rate_b) + from_below
        covariance = kernel.scaled(w[l + 1] ** 2).plus_constant(b[l + 1] ** 2)
        require_representable(covariance.value, x, l)
    return tangent if recursion.tangent else covariance


def _inner_product(x: Tensor) -> Jet:
    """The jet of x.y at (|x|, 0)."""
    square = torch.linalg.vecdot(x, x)
    drift = torch.stack([square.sqrt(), torch.zeros_like(square)], 1)
    return Jet(square, drift, torch.eye(2, dtype=x.dtype, device=x.device).expand(len(x), 2, 2))


def _after_layer(covariance: Jet, layer: Layer, moments: OnePointMoments) -> Jet:
    """The jet of E[f(u) f(v)], of whose f the moments are, for u and v of this covariance."""
    V = layer.clamped(covariance.value)
    drift, factor = covariance.drift, moments.dF(V)[:, None]
    bend = 2 * moments.dG(V)[:, None, None]
    metric = moments.G(V)[:, None, None] * covariance.metric + bend * outer(drift, drift)
    value = torch.where((covariance.value == 0) & moments.zero_at_zero, 0.0, moments.F(V))
    return Jet(value, factor * drift, metric)

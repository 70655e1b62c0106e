r"""Geometry of deep kernels: any depth, any activation and any sigma, zeta in each layer.

$$\Sigma_1 = \sigma^2 x\cdot y + \zeta^2,\quad \Theta_1 = 1 + x\cdot y;\qquad
  k = E[\phi\phi](\Sigma),\quad \dot k = E[\phi'\phi'](\Sigma);$$
$$\Sigma \leftarrow \sigma^2 k + \zeta^2,\quad \Theta \leftarrow k + 1 + \sigma^2\dot k\,\Theta;
  \qquad \text{readout: } k, \text{ or } k + \xi^2\dot k\,\Theta.$$

The same lines, read as operations on the jets of kernels, give metric, volume and curvature at
every depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from analytic.geometry.kernel_jet import KernelJet, LayerMoments, linear

__all__ = ["Layer", "nngp", "ntk"]


@dataclass(frozen=True)
class Layer:
    """One layer: its moments as functions of the preactivation variance, and its two scales."""

    moments: Callable[[Any], LayerMoments]  # of E[phi phi]
    derivative_moments: Callable[[Any], LayerMoments] | None  # of E[phi' phi']; None if phi'' = 0
    sigma: Any
    zeta: Any


def nngp(layers: Sequence[Layer], s: Any) -> KernelJet:
    """The jet of the NNGP kernel k at |x|^2 = s."""
    first = layers[0]
    covariance = linear(s).scaled(first.sigma**2).plus_constant(first.zeta**2)
    for layer, after in pairwise(layers):
        kernel = covariance.through(layer.moments(covariance.T))
        covariance = kernel.scaled(after.sigma**2).plus_constant(after.zeta**2)
    return covariance.through(layers[-1].moments(covariance.T))


def ntk(layers: Sequence[Layer], s: Any, xi: Any) -> KernelJet:
    """The jet of the NTK Theta at |x|^2 = s."""
    first = layers[0]
    covariance = linear(s).scaled(first.sigma**2).plus_constant(first.zeta**2)
    tangent = linear(s).plus_constant(1)
    for layer, after in zip(layers, [*layers[1:], None], strict=True):
        kernel = covariance.through(layer.moments(covariance.T))
        rate = (xi if after is None else after.sigma) ** 2
        from_below = _derivative(layer, covariance, tangent).scaled(rate)
        if after is None:
            return kernel + from_below
        tangent = (kernel + from_below).plus_constant(1)
        covariance = kernel.scaled(after.sigma**2).plus_constant(after.zeta**2)
    raise AssertionError("a network has at least one layer")


def _derivative(layer: Layer, covariance: KernelJet, tangent: KernelJet) -> KernelJet:
    """The jet of E[phi' phi'] Theta, for the tangent kernel Theta of the layers below."""
    if layer.derivative_moments is None:  # then E[phi' phi'] is the constant G
        return tangent.scaled(layer.moments(covariance.T).G)
    return covariance.through(layer.derivative_moments(covariance.T)) * tangent

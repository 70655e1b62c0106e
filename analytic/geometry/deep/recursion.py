r"""Geometry of deep kernels: any depth, any activation and any sigma, zeta in each layer.

$$\Sigma_1 = \sigma^2 x\cdot y + \zeta^2,\quad \Theta_1 = 1 + x\cdot y;\qquad
  k = E[\phi\phi](\Sigma),\quad \dot k = E[\phi'\phi'](\Sigma);$$
$$\Sigma \leftarrow \sigma^2 k + \zeta^2,\quad \Theta \leftarrow k + 1 + \sigma^2\dot k\,\Theta;
  \qquad \text{readout: } k, \text{ or } k + \xi^2\dot k\,\Theta.$$

The same lines, read as operations on germs, give metric, volume and curvature of every depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from analytic.geometry.kernel_jet import Germ, Passage, linear


@dataclass(frozen=True)
class Layer:
    """One layer at work: functions of its variance that give passages, and its two scales."""

    plain: Callable[[Any], Passage]
    derived: Callable[[Any], Passage] | None  # None where phi'' = 0
    sigma: Any
    zeta: Any


def nngp(layers: Sequence[Layer], s: Any) -> Germ:
    first = layers[0]
    covariance = linear(s).scaled(first.sigma**2).raised(first.zeta**2)
    for layer, after in pairwise(layers):
        kernel = covariance.through(layer.plain(covariance.T))
        covariance = kernel.scaled(after.sigma**2).raised(after.zeta**2)
    return covariance.through(layers[-1].plain(covariance.T))


def ntk(layers: Sequence[Layer], s: Any, xi: Any) -> Germ:
    first = layers[0]
    covariance = linear(s).scaled(first.sigma**2).raised(first.zeta**2)
    tangent = linear(s).raised(1)
    for layer, after in zip(layers, [*layers[1:], None], strict=True):
        kernel = covariance.through(layer.plain(covariance.T))
        rate = (xi if after is None else after.sigma) ** 2
        moved = _derivative(layer, covariance, tangent).scaled(rate)
        if after is None:
            return kernel + moved
        tangent = (kernel + moved).raised(1)
        covariance = kernel.scaled(after.sigma**2).raised(after.zeta**2)
    raise AssertionError("a network has at least one layer")


def _derivative(layer: Layer, covariance: Germ, tangent: Germ) -> Germ:
    """The kernel E[phi' phi'] times the tangent kernel below it."""
    if layer.derived is None:
        return tangent.scaled(layer.plain(covariance.T).g)
    return covariance.through(layer.derived(covariance.T)) * tangent

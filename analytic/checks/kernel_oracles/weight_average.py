"""The metric of the shallow tangent kernel as an average over weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import mp

from analytic.checks.kernel_oracles.composed_kernel import WideNetwork
from analytic.checks.kernel_oracles.layer_averages import moment_derivatives
from analytic.checks.kernel_oracles.power_series import (
    Series,
    coordinates,
    metric_jet,
    norm_squared,
)
from analytic.checks.oracles import MetricJet, Vector


def ntk_by_weight_average(net: WideNetwork, x: Vector) -> MetricJet:
    r"""$E[\phi'^2 ww^T] + \xi^2(1+s) E[\phi''^2 ww^T] + \xi^2(E[\phi'\phi''w] x^T + x
    E[\phi'\phi''w]^T) + \xi^2 E[\phi'^2] I$, (D.12) of the curvature paper.

    It is $\partial_x\partial_y$ of $E[\phi\phi + \xi^2\phi'\phi'(1 + x\cdot y)]$, taken inside the average.
    Given z, the weights have mean $\sigma^2 xz/V$ and covariance $\sigma^2(I - \sigma^2 xx^T/V)$.
    """
    d, point = range(len(x)), coordinates(x)
    s, weight, readout = norm_squared(point), net.sigma**2, net.xi**2
    V = s * weight + net.zeta**2
    inverse = V.compose([(-1) ** n * mp.factorial(n) / V.at_point() ** (n + 1) for n in range(4)])
    first, second = net.phi(1), net.phi(2)

    def mean(f: Callable[[Any], Any]) -> Series:
        return V.compose(moment_derivatives(f, V.at_point(), net.act.kinks))

    def outer(plain: Series, along: Series) -> tuple[Series, Series]:
        """E[f^2 w w^T] as coefficients of I and x x^T, from E[f^2] and E[z^2 f^2]."""
        return plain * weight, (along * inverse + plain * -1) * inverse * weight**2

    slope = mean(lambda z: first(z) ** 2)
    a1, b1 = outer(slope, mean(lambda z: (z * first(z)) ** 2))
    a2, b2 = outer(mean(lambda z: second(z) ** 2), mean(lambda z: (z * second(z)) ** 2))
    mixed = mean(lambda z: z * first(z) * second(z)) * inverse * weight
    a = a1 + ((s + 1) * a2 + slope) * readout
    b = b1 + ((s + 1) * b2 + mixed * 2) * readout
    return metric_jet([[a * int(i == j) + b * point[i] * point[j] for j in d] for i in d])

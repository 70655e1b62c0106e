"""Metrics by one-point averages of phi: of deep kernels layer by layer, of the shallow NTK over weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mpmath import mp, mpf

from analytic.checks.kernel_oracles.composed_kernel import WideNetwork
from analytic.checks.kernel_oracles.power_series import (
    Metric,
    Series,
    coordinates,
    identity,
    metric_jet,
    norm_squared,
)
from analytic.checks.oracles import MetricJet, Vector
from analytic.expressions import quadrature
from analytic.expressions.quadrature.rules import half_line

__all__ = [
    "moment_derivatives", "nngp_by_layer_averages", "ntk_by_layer_averages",
    "ntk_by_weight_average",
]  # fmt: skip


def moment_derivatives(f: Callable[[Any], Any], V: Any, kinks: Sequence[Any]) -> list[Any]:
    r"""E[f(z)] for z of variance V and its first three derivatives by V, without derivatives of f.

    The Gaussian density obeys the heat equation, so d/dV is half its second derivative by z, which
    puts Hermite polynomials under the average: $d^n E[f]/dV^n = (2V)^{-n} E[f He_{2n}(z/\sqrt V)]$.
    """
    m0, m2, m4, m6 = _even_moments(f, V, kinks)
    hermite = (m0, m2 - m0, m4 - 6 * m2 + 3 * m0, m6 - 15 * m4 + 45 * m2 - 15 * m0)
    return [value / (2 * V) ** n for n, value in enumerate(hermite)]


def _even_moments(f: Callable[[Any], Any], V: Any, kinks: Sequence[Any]) -> list[Any]:
    r"""$E[t^k f(\sqrt V t)]$ for k = 0, 2, 4, 6; with a kink at 0, f is evaluated once for all four."""
    if set(kinks) != {0}:
        f = cache(f)  # the four quadratures share their nodes
        return [quadrature.moment(f, V, k, kinks) for k in (0, 2, 4, 6)]
    digits = mp.dps
    with mp.workdps(digits + 10):
        for spread in (
            0,
            digits,
            4 * digits,
            16 * digits,
        ):  # nodes closer to 0 if f is singular there
            rule, scale = half_line(digits, spread), mp.sqrt(V)
            terms = [w * mp.npdf(t) * (f(scale * t) + f(-scale * t)) for t, w in rule]
            if abs(terms[0]) <= mpf(10) ** -digits * abs(mp.fsum(terms)):
                return [mp.fdot(terms, [t**k for t, _ in rule]) for k in (0, 2, 4, 6)]
    raise ArithmeticError("An average diverges: the function is not integrable at its kink.")


def _squared_moments(net: WideNetwork, order: int, Q: Series) -> list[Any]:
    """E[phi^(order)(z)^2] and its derivatives by the variance, at the value of Q at the point."""
    phi = net.phi(order)
    return moment_derivatives(lambda value: phi(value) ** 2, Q.at_point(), net.act.kinks)


def _pullback(h: Metric, Q: Series, G: Sequence[Any]) -> Metric:
    r"""The metric $G h + \frac12 G' \partial Q\,\partial Q^T$ of E[f(u) f(v)] where G = E[f'^2].

    The kernel is $\kappa(Q(x), S(x, y), Q(y))$, and at y = x both first derivatives of S are half of
    Q's. So $\partial_x\partial_y\kappa = \kappa_2 h + (\frac14\kappa_{22} + \frac12\kappa_{12} +
    \frac12\kappa_{23} + \kappa_{13})\,\partial Q\,\partial Q^T$. By Price's theorem $\kappa_2 =
    E[f'f']$ and the bracket is $\frac12 E[f'' f'' + f' f^{(3)}] = \frac12 G'$.
    """
    d = range(len(h))
    G_series, rate = Q.compose(G), Q.compose(G[1:])  # G and G' as functions of the coordinates
    return [
        [G_series * h[i][j] + rate * Q.derivative(i) * Q.derivative(j) * mpf("0.5") for j in d]
        for i in d
    ]


def _scaled(g: Metric, factor: Any) -> Metric:
    return [[entry * factor for entry in row] for row in g]


def nngp_by_layer_averages(net: WideNetwork, x: Vector) -> MetricJet:
    """The metric of the last hidden layer, from E[phi^2] and E[phi'^2] of each layer."""
    Q = norm_squared(coordinates(x)) * net.sigma**2 + net.zeta**2
    g = _pullback(identity(len(x), net.sigma**2), Q, _squared_moments(net, 1, Q))
    for _ in range(net.depth - 1):
        Q = Q.compose(_squared_moments(net, 0, Q)) * net.sigma**2 + net.zeta**2
        g = _pullback(_scaled(g, net.sigma**2), Q, _squared_moments(net, 1, Q))
    return metric_jet(g)


def ntk_by_layer_averages(net: WideNetwork, x: Vector) -> MetricJet:
    r"""The metric of the tangent kernel, from E[phi^2], E[phi'^2] and E[phi''^2] of each layer.

    A symmetric kernel has half of its derivative along the diagonal in either argument, so
    $\partial_x\partial_y(N\Theta) = n T + N t + \frac14(\partial N\,\partial T^T + \partial
    T\,\partial N^T)$ for kernels with metrics n, t and with values N, T at y = x. Where phi' jumps
    there is no such metric: do not call this for ReLU, as phi'' between kinks would not show it.
    """
    d, s = range(len(x)), norm_squared(coordinates(x))
    Q, h = s * net.sigma**2 + net.zeta**2, identity(len(x), net.sigma**2)
    T, t = s + 1, identity(len(x), mpf(1))
    for layer in range(1, net.depth + 1):
        bias, scale = (0, net.xi**2) if layer == net.depth else (1, net.sigma**2)
        F, G, G2 = (_squared_moments(net, order, Q) for order in range(3))
        N, g, n = Q.compose(G), _pullback(h, Q, G), _pullback(h, Q, G2)
        cross = [
            [
                (N.derivative(i) * T.derivative(j) + N.derivative(j) * T.derivative(i))
                * mpf("0.25")
                for j in d
            ]
            for i in d
        ]
        t = [[g[i][j] + (n[i][j] * T + N * t[i][j] + cross[i][j]) * scale for j in d] for i in d]
        T = Q.compose(F) + bias + N * T * scale
        Q, h = Q.compose(F) * net.sigma**2 + net.zeta**2, _scaled(g, net.sigma**2)
    return metric_jet(t)


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

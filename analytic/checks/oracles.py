"""Oracles for the closed forms: quadrature of phi, and curvature by its textbook definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.activations.activation import Activation
from analytic.expressions import quadrature
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.symbols import z
from analytic.geometry.riemann import Curvature, curvature_of_jet

__all__ = [
    "MetricJet", "Vector", "determinant", "network_jet", "nngp_jet", "nngp_metric_oracle",
    "omega_jet", "point_at_radius", "squared_moment", "two_point_average",
]  # fmt: skip

Vector = Sequence[Any]


@dataclass(frozen=True)
class MetricJet:
    """A metric at a point with its first two derivatives: g[i][j], dg[i][j][k], ddg[i][j][k][l]."""

    g: Any
    dg: Any
    ddg: Any

    def curvature(self) -> Curvature:
        """Christoffel symbols, Riemann and Ricci tensors by their definitions."""
        return curvature_of_jet(self.g, self.dg, self.ddg)

    def scalar(self) -> Any:
        """The Ricci scalar."""
        return self.curvature().scalar

    def volume(self) -> Any:
        """sqrt(det g)."""
        return mp.sqrt(determinant(self.g))


@lru_cache
def squared_moment(act: Activation, order: int = 1) -> Callable[..., Any]:
    """(V, power, *parameters) -> E[t^power phi^(order)(sqrt(V) t)^2] by quadrature of phi itself."""
    body = compile_mpmath((z, *act.parameters), act.derivative(order) if order else act.phi.expr)

    @lru_cache
    def squared(digits: int, *parameters: Any) -> Callable[[Any], Any]:
        return cache(lambda x: body(x, *parameters) ** 2)  # every power has the same nodes

    def average(V: Any, power: int, *parameters: Any) -> Any:
        return quadrature.moment(squared(mp.dps, *parameters), V, power, act.kinks)

    return average


def two_point_average(act: Activation, order: int = 0) -> Callable[..., Any]:
    """(kxx, kxy, kyy, *parameters) -> E[phi^(order)(u) phi^(order)(v)] by quadrature."""
    body = compile_mpmath((z, *act.parameters), act.derivative(order) if order else act.phi.expr)

    def average(kxx: Any, kxy: Any, kyy: Any, *parameters: Any) -> Any:
        def f(x: Any) -> Any:
            return body(x, *parameters)

        return quadrature.pair(f, f, kxx, kxy, kyy, act.kinks)

    return average


def nngp_jet(act: Activation, x: Vector, sigma: Any, zeta: Any, *parameters: Any) -> MetricJet:
    r"""The metric $E[\phi'(w\cdot x+b)^2 w w^T]$ and its derivatives from moments $E[t^k\phi'^2]$.

    Given z, the weights are Gaussian with mean $\sigma^2 x z/V$ and covariance
    $\sigma^2(I - \sigma^2 xx^T/V)$; a derivative by V puts Hermite polynomials under the average.
    """
    V = sigma**2 * mp.fsum(v * v for v in x) + zeta**2
    average = squared_moment(act)
    m0, m2, m4, m6 = (average(V, k, *parameters) for k in (0, 2, 4, 6))
    A = (m0, (m2 - m0) / (2 * V), (m4 - 6 * m2 + 3 * m0) / (4 * V**2))
    B = (V * m2, (m4 - m2) / 2, (m6 - 6 * m4 + 3 * m2) / (4 * V))  # E[z^2 phi'^2]
    c = (
        B[0] / V**2 - A[0] / V,
        B[1] / V**2 - 2 * B[0] / V**3 - A[1] / V + A[0] / V**2,
        B[2] / V**2
        - 4 * B[1] / V**3
        + 6 * B[0] / V**4
        - A[2] / V
        + 2 * A[1] / V**2
        - 2 * A[0] / V**3,
    )
    return _radial_jet(x, [sigma**2 * v for v in A], [sigma**4 * v for v in c], sigma**2)


def nngp_metric_oracle(act: Activation, read: Callable[[MetricJet], Any]) -> Callable[..., Any]:
    """`read` of the NNGP metric by quadrature, as a function of d, sigma, zeta, r and parameters."""

    def oracle(d: Any, sigma: Any, r: Any, zeta: Any = 0, **parameters: Any) -> Any:
        return read(nngp_jet(act, point_at_radius(r, int(d)), sigma, zeta, *parameters.values()))

    return oracle


def omega_jet(x: Vector, omega: Sequence[Any]) -> MetricJet:
    r"""The metric $e^\Omega(I + 2\Omega' xx^T)$ from Omega and its first three derivatives by s = |x|^2."""
    o0, o1, o2, o3 = omega
    a = mp.exp(o0)
    a1, a2 = a * o1, a * (o2 + o1**2)
    a3 = a * (o3 + 3 * o1 * o2 + o1**3)
    return _radial_jet(x, (a, a1, a2), (2 * a1, 2 * a2, 2 * a3), 1)


def _radial_jet(x: Vector, a: Vector, b: Vector, rate: Any) -> MetricJet:
    """a(V) I + b(V) x x^T with V = rate |x|^2 + const, by the product rule, index by index."""
    d = range(len(x))
    delta = [[int(i == j) for j in d] for i in d]

    def first(f: Vector, k: int) -> Any:
        return f[1] * 2 * rate * x[k]

    def second(f: Vector, k: int, l: int) -> Any:
        return f[2] * 4 * rate**2 * x[k] * x[l] + f[1] * 2 * rate * delta[k][l]

    def outer1(i: int, j: int, k: int) -> Any:
        return delta[i][k] * x[j] + x[i] * delta[j][k]

    def outer2(i: int, j: int, k: int, l: int) -> Any:
        return delta[i][k] * delta[j][l] + delta[i][l] * delta[j][k]

    g = [[a[0] * delta[i][j] + b[0] * x[i] * x[j] for j in d] for i in d]
    dg, ddg = _zeros(len(x), 3), _zeros(len(x), 4)
    for i, j, k in product(d, repeat=3):
        dg[i][j][k] = first(a, k) * delta[i][j] + first(b, k) * x[i] * x[j] + b[0] * outer1(i, j, k)
        for l in d:
            ddg[i][j][k][l] = (
                second(a, k, l) * delta[i][j]
                + second(b, k, l) * x[i] * x[j]
                + first(b, k) * outer1(i, j, l)
                + first(b, l) * outer1(i, j, k)
                + b[0] * outer2(i, j, k, l)
            )
    return MetricJet(g, dg, ddg)


def network_jet(slopes: Sequence[Vector], weights: Sequence[Vector]) -> MetricJet:
    r"""The metric $\frac1n\sum_j \phi'(z_j)^2 w_j w_j^T$ from $(\phi', \phi'', \phi''')$ of each unit."""
    n, d = len(weights), range(len(weights[0]))

    def total(order: int, *indices: int) -> Any:
        value = 0
        for (p, pp, ppp), w in zip(slopes, weights, strict=True):
            term = (p * p, 2 * p * pp, 2 * (pp * pp + p * ppp))[order]
            for index in indices:
                term = term * w[index]
            value = value + term
        return value / n

    g, dg, ddg = _zeros(len(d), 2), _zeros(len(d), 3), _zeros(len(d), 4)
    for i, j in product(d, repeat=2):
        g[i][j] = total(0, i, j)
        for k in d:
            dg[i][j][k] = total(1, i, j, k)
            for l in d:
                ddg[i][j][k][l] = total(2, i, j, k, l)
    return MetricJet(g, dg, ddg)


def point_at_radius(r: Any, d: int) -> list[Any]:
    """A point of norm r in general position: no coordinate vanishes, no two are equal."""
    direction = [mp.mpf(k + 2) * (-1) ** k for k in range(d)]
    norm = mp.sqrt(mp.fsum(v * v for v in direction))
    return [r * v / norm for v in direction]


def determinant(g: Sequence[Vector]) -> Any:
    return mp.det(mp.matrix(g)) if len(g) > 1 else g[0][0]


def _zeros(size: int, rank: int) -> Any:
    return [_zeros(size, rank - 1) if rank > 1 else sp.S.Zero for _ in range(size)]

"""Curvature of rotation-invariant metrics and of the shallow tangent kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.activations import elu, erf, gaussian, monomial
from analytic.catalogue import catalogue
from analytic.checks.claims import Claim, Point, sample
from analytic.checks.kernel_oracles import (
    ntk_by_differences,
    ntk_by_weight_average,
    oracle_at_radius,
)
from analytic.checks.kernel_oracles.power_series import coordinates, metric_jet, norm_squared
from analytic.checks.oracles import MetricJet, nngp_jet, point_at_radius
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V, d, r, s, sigma, xi, zeta
from analytic.geometry import ntk
from analytic.geometry.radial import RadialMetric, origin_curvature
from analytic.ledger.verification import Verification, holds, real_symbols

__all__ = ["ROUTES", "planar"]

HIGHEST = mpf(3) / 8  # an arbitrary value of the highest derivatives, on which no curvature depends
SHAPES: tuple[Point, ...] = (
    {"d": 3, "sigma": "0.6", "zeta": "0.5", "xi": "1.3", "r": "1.4"},
    {"d": 2, "sigma": "1.1", "zeta": "0.2", "xi": "0.7", "r": "0.9"},
)


def _textbook(a: Sequence[Any], b: Sequence[Any], r: Any, d: Any) -> Any:
    """The Ricci scalar of a(s) I + b(s) x x^T by its definition, from derivatives at s = r^2."""
    x = coordinates(point_at_radius(r, int(d)))
    across, along = (norm_squared(x).compose(part) for part in (a, b))
    size = range(len(x))
    rows = [[across * int(i == j) + along * x[i] * x[j] for j in size] for i in size]
    return metric_jet(rows).scalar()


def planar(jet: MetricJet, r: Any) -> tuple[Any, Any, Any]:
    """a, b and a' of a radial metric, from its entries and derivatives at `point_at_radius(r, 2)`."""
    x, y = point_at_radius(r, 2)
    b = jet.g[0][1] / (x * y)
    rate = (jet.dg[0][1][0] - b * y) / (2 * x**2 * y)  # of b
    return jet.g[0][0] - b * x**2, b, jet.dg[1][1][0] / (2 * x) - rate * y**2


def _in_d(
    name: str, jets: tuple[sp.Symbol, ...], expr: sp.Expr, oracle: Callable[..., Any]
) -> Claim:
    formula = Formula(name, (d, r, *jets), expr)
    points = tuple(sample(formula, 1, seed=k, d=k)[0] for k in (2, 3, 4))
    return Claim(formula, "textbook curvature", oracle, points)


def _any_metric() -> Claim:
    """The general formula of the code, for Taylor polynomials around s = r^2."""
    jets = (sp.Symbol("a0", positive=True), *real_symbols("a1 a2 b0 b1"))
    a0, a1, a2, b0, b1 = jets
    t = s - r**2
    curvature = RadialMetric(a0 + a1 * t + a2 * t**2 / 2, b0 + b1 * t).scalar_curvature()

    def oracle(d: Any, r: Any, a0: Any, a1: Any, a2: Any, b0: Any, b1: Any) -> Any:
        return _textbook((a0, a1, a2, HIGHEST), (b0, b1, HIGHEST), r, d)

    return _in_d("Ricci scalar of a I + b xx^T", jets, curvature.subs(s, r**2), oracle)


def _any_tangent_metric() -> Claim:
    """a = Psi, b = 2(Psi' - c)."""
    jets = (sp.Symbol("P0", positive=True), *real_symbols("P1 P2 c0 c1"))
    P0, P1, P2, c0, c1 = jets
    along = P0 + 2 * r**2 * (P1 - c0)
    rate = 3 * P1 - 2 * c0 + 2 * r**2 * (P2 - c1)  # of the eigenvalue along x
    curvature = -(d - 2) * (2 * P0 * c0 + r**2 * P1**2) / (P0**2 * along)
    curvature -= 4 * (2 * P1 + r**2 * P2) / (P0 * along)
    curvature += 2 * (P0 + r**2 * P1) * (P1 * along + P0 * rate) / (P0**2 * along**2)

    def oracle(d: Any, r: Any, P0: Any, P1: Any, P2: Any, c0: Any, c1: Any) -> Any:
        b = (2 * (P1 - c0), 2 * (P2 - c1), HIGHEST)
        return _textbook((P0, P1, P2, HIGHEST), b, r, d)

    return _in_d("Ricci scalar from Psi and c", jets, (d - 1) * curvature, oracle)


def _flat_origin() -> Claim:
    r"""The NNGP's R is $-(d-1)(d+2)e^{-\Omega}\Omega'^2 s$ near x = 0, so that it vanishes there."""
    omega = sp.log(sigma**2 * gaussian.require("G").expr.subs(V, sigma**2 * s + zeta**2))
    rate = (-(d - 1) * (d + 2) * sp.exp(-omega) * sp.diff(omega, s) ** 2).subs(s, 0)
    formula = Formula("R/s of the NNGP at the origin", (d, sigma, zeta), rate)

    def oracle(d: Any, sigma: Any, zeta: Any) -> Any:
        near = mpf(10) ** -18
        with mp.workdps(80):
            return nngp_jet(gaussian, point_at_radius(near, int(d)), sigma, zeta).scalar() / near**2

    points = ({"d": 3, "sigma": "0.8", "zeta": "1.2"},)
    return Claim(formula, "metric by quadrature near the origin", oracle, points)


def _limit(curvature: Callable[[Any], Any], digits: int) -> Any:
    """At r = 0 of a function with a power series in r, by what three points near it leave over."""
    with mp.workdps(digits):
        one, two, three = (curvature(k * mpf(10) ** -12) for k in (1, 2, 3))
        return 3 * one - 3 * two + three


def _series_near_the_origin() -> Claim:
    """a = a0 + a1 r + a2 s, and along x a + r a_r - 2 c s: the metric has a limit, its rates have none."""
    jets = (sp.Symbol("a0", positive=True), *real_symbols("a1 a2 c"))
    a0, a1, _, c = jets
    formula = Formula("R at a bare origin", (d, *jets), origin_curvature(a0, c, a1))

    def oracle(d: Any, a0: Any, a1: Any, a2: Any, c: Any) -> Any:
        def near(r: Any) -> Any:
            across = (a0 + a1 * r + a2 * r**2, a1 / (2 * r) + a2, -a1 / (4 * r**3), HIGHEST)
            return _textbook(across, (a1 / r + 2 * (a2 - c), -a1 / (2 * r**3), HIGHEST), r, d)

        return _limit(near, 120)

    points = tuple(sample(formula, 1, seed=k, d=k)[0] for k in (2, 3))
    return Claim(formula, "textbook curvature near the origin", oracle, points)


def _bare_elu() -> Claim:
    formula = catalogue["nngp.elu.ricci"].at(zeta=0, r=0)

    def oracle(d: Any, sigma: Any) -> Any:
        def near(r: Any) -> Any:
            return nngp_jet(elu, point_at_radius(r, int(d)), sigma, mpf(0)).scalar()

        return _limit(near, 65)

    return Claim(
        formula, "metric by quadrature near the origin", oracle, ({"d": 3, "sigma": "0.8"},)
    )


def _quadratic() -> tuple[Claim, Claim]:
    """phi = z^2/sqrt(3), for which the curvature is a rational function."""
    S, m, t = sigma**2 + xi**2, sigma**2 * xi**2, r**2
    p, rest, beta = S * sigma**2 + m, S * zeta**2 + m, 2 * S * sigma**2
    alpha, eps = p * t + rest, rest + (p + beta) * t
    bracket = (d - 2) * (alpha * beta - 2 * p * alpha - t * p**2) / (alpha**2 * eps)
    bracket -= 8 * p / (alpha * eps)
    bracket += 2 * (2 * p * t + rest) * (p * eps + alpha * (p + beta)) / (alpha**2 * eps**2)
    expr = sp.Rational(3, 4) * (d - 1) * bracket
    formula = Formula("Ricci scalar of the quadratic NTK", (d, sigma, zeta, xi, r), expr)
    act = monomial(2)

    def derived(**values: Any) -> Any:
        return ntk.ricci(act).mpmath(**values)

    return (
        Claim(
            formula,
            "differences of the kernel",
            oracle_at_radius(ntk_by_differences, act)(MetricJet.scalar),
            SHAPES,
        ),
        Claim(formula, "SymPy from G and G2", derived, sample(formula, 2)),
    )


def _catalogue_claim(
    name: str, route: str, oracle: Callable[..., Any], points: tuple[Point, ...]
) -> Claim:
    return Claim(catalogue[name], route, oracle, points)


_differences, _averages = (
    oracle_at_radius(ntk_by_differences, erf),
    oracle_at_radius(ntk_by_weight_average, erf),
)
_origin: tuple[Point, ...] = ({"d": 4, "sigma": "0.8", "zeta": "1.2", "xi": "0.4"},)

ROUTES: dict[str, Verification] = {
    "beyond/radial-ricci": holds(_any_metric()),
    "beyond/ntk-ricci": holds(
        _any_tangent_metric(),
        _catalogue_claim(
            "ntk.erf.ricci", "differences of the kernel", _differences(MetricJet.scalar), SHAPES
        ),
        _catalogue_claim(
            "ntk.erf.ricci", "average over weights", _averages(MetricJet.scalar), SHAPES
        ),
    ),
    "beyond/ntk-origin": holds(
        _catalogue_claim(
            "ntk.erf.origin", "differences of the kernel", _differences(MetricJet.scalar), _origin
        ),
        _catalogue_claim(
            "ntk.erf.origin", "average over weights", _averages(MetricJet.scalar), _origin
        ),
        _flat_origin(),
    ),
    "beyond/bare-origin": holds(_series_near_the_origin(), _bare_elu()),
    "beyond/ntk-quadratic": holds(*_quadratic()),
}

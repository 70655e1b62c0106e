"""Geometry of monomial networks, (C.29) and (C.44) to (C.51)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.activations import monomial
from analytic.catalogue import catalogue
from analytic.checks.claims import Claim, Point, sample
from analytic.checks.oracles import MetricJet, nngp_metric_oracle, squared_moment
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import d, q, r, sigma, zeta
from analytic.ledger.verification import Verification, holds, printed_times_three

__all__ = ["ROUTES"]

MONOMIAL = monomial()
_variance = sigma**2 * r**2 + zeta**2


def _in_d(formula: Formula, read: Callable[[MetricJet], Any], *shapes: tuple[int, int]) -> Claim:
    """For pairs (d, q), against the metric by quadrature."""
    points = tuple(sample(formula, 1, seed=k, d=k, q=n)[0] for k, n in shapes)
    return Claim(formula, "metric by quadrature", nngp_metric_oracle(MONOMIAL, read), points)


def _average(name: str, expr: sp.Expr, order: int) -> Claim:
    """A function of (sigma, zeta, r, q) against E[phi^2] or E[phi'^2]."""
    formula = Formula(name, (sigma, zeta, r, q), expr)
    average = squared_moment(MONOMIAL, order)

    def oracle(sigma: Any, zeta: Any, r: Any, q: Any) -> Any:
        return average(sigma**2 * r**2 + zeta**2, 0, q)

    return Claim(formula, "quadrature", oracle, sample(formula, 3))


# The non-monotonic curvature of monomials with bias, in t = sigma^2 |x|^2.
t = sp.Symbol("t", positive=True)
_ricci = catalogue["nngp.monomial.ricci"]
_in_t = Formula(
    "monomial Ricci in t", (d, t, zeta, q), _ricci.expr.subs({sigma: 1}).subs(r, sp.sqrt(t))
)


def _derivative() -> Claim:
    """(C.49), with the factor, positive for d > 1 and q > 1, that the paper leaves out."""
    cubic = (
        (d - 2) * q * (2 * q - 1) ** 2 * t**3
        + (2 * q - 1) * ((2 * q - 1) * d + 6) * zeta**2 * t**2
        - (8 + q * (d - 14)) * zeta**4 * t
        - (d + 2) * zeta**6
    )
    front = (d - 1) * (q - 1) ** 2 * (2 * q - 1)
    below = q**2 * (t + zeta**2) ** (q + 1) * ((2 * q - 1) * t + zeta**2) ** 3
    formula = Formula("dR/dt of monomials", (d, t, zeta, q), front / below * cubic)

    def oracle(d: Any, t: Any, zeta: Any, q: Any) -> Any:
        return mp.diff(lambda at: _in_t.mpmath(d, at, zeta, q), t)

    points = tuple(sample(formula, 1, seed=k, d=k, q=n)[0] for k, n in ((2, 2), (3, 3), (7, 5)))
    return Claim(formula, "numerical derivative", oracle, points)


def _turning_point(q: Any, zeta: Any) -> Any:
    """Where R of a monomial in d = 2 turns, where its numerical derivative vanishes."""
    two = mpf(2)

    def slope(at: Any) -> Any:
        return mp.diff(lambda s: _in_t.mpmath(two, s, zeta, q), at)

    return mp.findroot(slope, (zeta**2 / 100, zeta**2), solver="anderson")


def _threshold() -> Claim:
    formula = Formula(
        "threshold C",
        (q, zeta),
        (sp.sqrt(17 * q**2 - 8 * q) - 3 * q + 2) / (2 * (2 * q**2 + q - 1)) * zeta**2,
    )
    points = ({"q": 2, "zeta": 1}, {"q": 3, "zeta": "0.5"}, {"q": 7, "zeta": "1.5"})
    return Claim(formula, "root of the numerical derivative", _turning_point, points, digits=25,
                 reason="the derivative at a root is known to fewer digits")  # fmt: skip


def _quadratic() -> Claim:
    """(C.50), solved for the square of its root: zeta^4 - (3q-2) zeta^2 C over the leading factor."""
    C = sp.Symbol("C", positive=True)
    formula = Formula(
        "C^2", (q, zeta, C), (zeta**4 - (3 * q - 2) * zeta**2 * C) / (2 * q**2 + q - 1)
    )

    def point(degree: int, bias: str) -> Point:
        with mp.workdps(60):
            return {"q": degree, "zeta": bias, "C": _turning_point(mpf(degree), mpf(bias))}

    points = (point(2, "1"), point(4, "0.5"))
    return Claim(formula, "square of the turning point", lambda q, zeta, C: C**2, points, digits=25,
                 reason="the derivative at a root is known to fewer digits")  # fmt: skip


_magnification = Formula(
    "monomial magnification",
    (d, sigma, zeta, r, q),
    sp.sqrt(1 + 2 * (q - 1) * sigma**2 * r**2 / _variance)
    * (q**2 * sigma**2 / (2 * q - 1) * _variance ** (q - 1)) ** (d / 2),
)
_magnification_without_bias = Formula(
    "monomial magnification, zeta=0",
    (d, sigma, r, q),
    q**d * (2 * q - 1) ** ((1 - d) / 2) * sigma ** (q * d) * r ** ((q - 1) * d),
)
_ricci_without_bias = Formula(
    "monomial Ricci, zeta=0",
    (d, sigma, r, q),
    -(d - 1) * (d - 2) * (q - 1) ** 2 / (q**2 * sigma ** (2 * q) * r ** (2 * q)),
)
_t = sigma**2 * r**2
_corrected_ricci = Formula(
    "monomial Ricci scalar",
    (d, sigma, zeta, r, q),
    -(d - 1)
    * (q - 1) ** 2
    * (2 * q - 1)
    * _t
    * ((d + 2) * zeta**2 + (d - 2) * (2 * q - 1) * _t)
    / (q**2 * _variance**q * ((2 * q - 1) * _t + zeta**2) ** 2),
)
_spread = ((2, 2), (3, 3), (4, 4))

ROUTES: dict[str, Verification] = {
    "curvature/C.29": holds(_average("monomial k(x, x)", _variance**q, 0)),
    "curvature/C.44": holds(_average("monomial G", q**2 / (2 * q - 1) * _variance ** (q - 1), 1)),
    "curvature/C.45": holds(_in_d(_magnification, MetricJet.volume, *_spread)),
    "curvature/C.46": printed_times_three(_in_d(_corrected_ricci, MetricJet.scalar, *_spread)),
    "curvature/C.47": holds(_in_d(_magnification_without_bias, MetricJet.volume, *_spread)),
    "curvature/C.48": printed_times_three(
        _in_d(_ricci_without_bias, MetricJet.scalar, (3, 2), (4, 3))
    ),
    "curvature/C.49": holds(_derivative()),
    "curvature/C.50": holds(_quadratic()),
    "curvature/C.51": holds(_threshold()),
}

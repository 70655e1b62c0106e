"""Error-function networks, (C.24) to (C.28)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.activations import erf
from analytic.checks.claims import Claim, sample
from analytic.checks.oracles import MetricJet, nngp_metric_oracle, squared_moment, two_point_average
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import d, r, sigma, zeta
from analytic.ledger.verification import Verification, holds, printed_times_three, real_symbols

__all__ = ["ROUTES"]

_variance = sigma**2 * r**2 + zeta**2


def _in_d(formula: Formula, read: Callable[[MetricJet], Any]) -> Claim:
    """In dimensions 2, 3 and 4, against the metric by quadrature."""
    points = tuple(sample(formula, 1, seed=k, d=k)[0] for k in (2, 3, 4))
    return Claim(formula, "metric by quadrature", nngp_metric_oracle(erf, read), points)


def _erf_kernel() -> Claim:
    x, y = real_symbols("x1 x2"), real_symbols("y1 y2")

    def inner(a: Any, b: Any) -> Any:
        return sigma**2 * sum(p * q for p, q in zip(a, b, strict=True)) + zeta**2

    expr = 2 / sp.pi * sp.asin(inner(x, y) / sp.sqrt((1 + inner(x, x)) * (1 + inner(y, y))))
    formula = Formula("erf NNGP kernel", (sigma, zeta, *x, *y), expr)
    average = two_point_average(erf)

    def oracle(sigma: Any, zeta: Any, x1: Any, x2: Any, y1: Any, y2: Any) -> Any:
        xx, xy, yy = x1 * x1 + x2 * x2, x1 * y1 + x2 * y2, y1 * y1 + y2 * y2
        return average(*(sigma**2 * k + zeta**2 for k in (xx, xy, yy)))

    points = ({"sigma": "0.6", "zeta": "0.4", "x1": "1.1", "x2": "-0.5", "y1": "0.3", "y2": 2},)
    return Claim(formula, "two-point quadrature", oracle, points)


def _slope(name: str, expr: sp.Expr, read: Callable[[Any, Any], Any]) -> Claim:
    """A function of (sigma, zeta, r) against E[phi'^2]."""
    formula = Formula(name, (sigma, zeta, r), expr)
    average = squared_moment(erf)

    def oracle(sigma: Any, zeta: Any, r: Any) -> Any:
        return read(average(sigma**2 * r**2 + zeta**2, 0), sigma)

    return Claim(formula, "quadrature", oracle, sample(formula, 3))


_magnification = Formula(
    "erf magnification",
    (d, sigma, zeta, r),
    (2 * sigma**2 / (sp.pi * sp.sqrt(1 + 2 * _variance))) ** (d / 2)
    * sp.sqrt((2 * zeta**2 + 1) / (1 + 2 * _variance)),
)
_ricci = Formula(
    "erf Ricci scalar",
    (d, sigma, zeta, r),
    -sp.pi
    * (d - 1)
    * (d + 2)
    * sigma**2
    * r**2
    / (2 * (2 * zeta**2 + 1) * sp.sqrt(1 + 2 * _variance)),
)
_log = -sp.log(1 + 2 * _variance) / 2 + sp.log(2 * sigma**2 / sp.pi)

ROUTES: dict[str, Verification] = {
    "curvature/C.24": holds(_erf_kernel()),
    "curvature/C.25": holds(
        _slope("erf G", 2 / (sp.pi * sp.sqrt(1 + 2 * _variance)), lambda mean, sigma: mean)
    ),
    "curvature/C.26": holds(_slope("erf Omega", _log, lambda mean, sigma: mp.log(sigma**2 * mean))),
    "curvature/C.27": holds(_in_d(_magnification, MetricJet.volume)),
    "curvature/C.28": printed_times_three(_in_d(_ricci, MetricJet.scalar)),
}

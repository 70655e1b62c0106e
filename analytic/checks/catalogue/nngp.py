"""Claims about every nngp.* formula, by quadrature of phi itself and textbook curvature of the metric.

The kernel and the slope are claimed in `moments`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from mpmath import mp

from analytic.activations import ACTIVATIONS, relu
from analytic.activations.activation import Activation
from analytic.catalogue import catalogue
from analytic.checks.catalogue.moments import parameters
from analytic.checks.claims import Claim
from analytic.checks.oracles import MetricJet, nngp_metric_oracle, squared_moment
from analytic.expressions.formula import Formula

__all__ = ["plus_one"]

SHAPES = (
    {"d": 2, "sigma": "0.6", "zeta": "0.5", "r": "1.4"},
    {"d": 3, "sigma": "1.1", "zeta": 0, "r": "0.9"},
    {"d": 4, "sigma": "0.8", "zeta": "1.2", "r": "0.4"},
)


def _by_metric(act: Activation, what: str, read: Callable[[MetricJet], Any]) -> Claim:
    """A formula with the argument d, against `read` of the metric: its volume or its curvature."""
    points = tuple({**shape, **values} for shape in SHAPES for values in parameters(act)[-1:])
    formula, oracle = catalogue[f"nngp.{act.name}.{what}"], nngp_metric_oracle(act, read)
    if act.name == "relu" and what == "ricci":
        formula, oracle = plus_one(formula, oracle)
    return Claim(formula, "metric by quadrature", oracle, points)


def plus_one(formula: Formula, oracle: Callable[..., Any]) -> tuple[Formula, Callable[..., Any]]:
    """1 + the formula and 1 + the oracle, for a formula that is 0: zero has no relative error."""
    shifted = replace(formula, expr=1 + formula.expr, stable=None)
    return shifted, lambda **values: 1 + oracle(**values)


def _by_average(act: Activation, what: str, read: Callable[..., Any]) -> Claim:
    """A formula in (sigma, zeta, r), against E[phi'^2] and E[t^2 phi'^2] by quadrature."""
    average = squared_moment(act)

    def oracle(sigma: Any, zeta: Any, r: Any, **values: Any) -> Any:
        V = sigma**2 * r**2 + zeta**2
        plain, squared = (average(V, k, *values.values()) for k in (0, 2))
        share = sigma**2 * r**2 / V  # of the variance of z that is due to the weights
        return read(sigma**2 * plain, sigma**2 * (share * squared + (1 - share) * plain))

    points = tuple(
        {k: v for k, v in {**shape, **values}.items() if k != "d"}
        for shape in SHAPES[:2]
        for values in parameters(act)
    )
    return Claim(catalogue[f"nngp.{act.name}.{what}"], "average over weights", oracle, points)


def _claims(act: Activation) -> Iterator[Claim]:
    yield _by_average(act, "omega", lambda across, along: mp.log(across))
    yield _by_average(act, "tangential", lambda across, along: across)
    yield _by_average(act, "radial", lambda across, along: along)
    yield _by_metric(act, "magnification", MetricJet.volume)
    yield _by_metric(act, "ricci", MetricJet.scalar)


CLAIMS = {f"nngp.{act.name}": partial(_claims, act) for act in (*ACTIVATIONS.values(), relu)}

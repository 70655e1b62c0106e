"""Every nngp.* formula: against averages of phi itself and textbook curvature of the metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from mpmath import mp

from analytic.activations import ACTIVATIONS
from analytic.activations.activation import Activation
from analytic.catalogue import catalogue
from analytic.checks.catalogue.moments import parameters
from analytic.checks.claims import Claim
from analytic.checks.oracles import MetricJet, nngp_metric_oracle, squared_moment

SHAPES = (
    {"d": 2, "sigma": "0.6", "zeta": "0.5", "r": "1.4"},
    {"d": 3, "sigma": "1.1", "zeta": 0, "r": "0.9"},
    {"d": 4, "sigma": "0.8", "zeta": "1.2", "r": "0.4"},
)


def _by_metric(act: Activation, what: str, read: Callable[[MetricJet], Any]) -> Claim:
    """A function of d against the metric, its determinant or its curvature."""
    points = tuple({**shape, **values} for shape in SHAPES for values in parameters(act)[-1:])
    formula = catalogue[f"nngp.{act.name}.{what}"]
    return Claim(formula, "metric by quadrature", nngp_metric_oracle(act, read), points)


def _by_average(act: Activation, what: str, read: Callable[..., Any]) -> Claim:
    """A function of (sigma, zeta, r) against E[phi'^2] and E[t^2 phi'^2]."""
    average = squared_moment(act)

    def oracle(sigma: Any, zeta: Any, r: Any, **values: Any) -> Any:
        V = sigma**2 * r**2 + zeta**2
        plain, squared = (average(V, k, *values.values()) for k in (0, 2))
        share = sigma**2 * r**2 / V  # w.x/|x| given z has mean (share z)/r, the rest is noise
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


CLAIMS = {f"nngp.{name}": partial(_claims, act) for name, act in ACTIVATIONS.items()}

"""Claims about both erf3.* formulas, by numerical derivatives of erf and textbook curvature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mpmath import mp, mpf

from analytic.checks.claims import Claim
from analytic.checks.oracles import MetricJet, network_jet
from analytic.expressions.formula import Formula
from analytic.finite.erf3 import magnification, ricci

__all__ = ["network"]

POINTS = (
    {"x1": "0.4", "x2": "-0.7", "b": 0},
    {"x1": "-0.6", "x2": "0.9", "b": "0.8"},
    {"x1": "1.7", "x2": "1.1", "b": "-0.5"},
)


def network(x1: Any, x2: Any, b: Any) -> MetricJet:
    """The metric's 2-jet at a point, from three numerical derivatives of each unit's erf."""
    weights = [(mp.cospi(turn), mp.sinpi(turn)) for turn in (0, mpf(2) / 3, mpf(4) / 3)]
    slopes = []
    for w in weights:
        z = w[0] * x1 + w[1] * x2 + b
        slopes.append([mp.diff(lambda t: mp.erf(t / mp.sqrt(2)), z, k) for k in (1, 2, 3)])
    return network_jet(slopes, weights)


def _by_metric(formula: Formula, read: Callable[[MetricJet], Any]) -> Claim:
    def oracle(**values: Any) -> Any:
        return read(network(**values))

    return Claim(formula, "derivatives of the features", oracle, POINTS)


def _claims() -> Iterator[Claim]:
    yield _by_metric(magnification, MetricJet.volume)
    yield _by_metric(ricci, MetricJet.scalar)


CLAIMS = {"erf3": _claims}

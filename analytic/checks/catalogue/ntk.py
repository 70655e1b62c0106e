"""Claims about every ntk.* formula, by differences of the kernel or averages over the weights."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from mpmath import mp

from analytic.activations import ACTIVATIONS, relu
from analytic.activations.activation import Activation
from analytic.catalogue import catalogue
from analytic.checks.catalogue.moments import GRAMS, parameters
from analytic.checks.claims import Claim, Point
from analytic.checks.kernel_oracles import (
    ntk_by_differences,
    ntk_by_weight_average,
    oracle_at_radius,
)
from analytic.checks.oracles import MetricJet

__all__ = ["CLAIMS"]

SHAPES: tuple[Point, ...] = (
    {"d": 3, "sigma": "0.6", "zeta": "0.5", "xi": "1.3", "r": "1.4"},
    {"d": 2, "sigma": "1.1", "zeta": 0, "xi": "0.7", "r": "0.9"},
)
ORIGIN: Point = {"d": 4, "sigma": "0.8", "zeta": "1.2", "xi": "0.4"}
PAIR: Point = {**GRAMS[0], "xy": "-0.3", "xi": "1.3"}


def _kernel(act: Activation) -> Claim:
    """The tangent kernel from E[phi phi] alone: its derivative is E[phi' phi'] by Price's theorem."""
    kernel = act.kernel.mpmath

    def oracle(kxx: Any, kxy: Any, kyy: Any, xy: Any, xi: Any, **values: Any) -> Any:
        slope = mp.diff(lambda k: kernel(kxx, k, kyy, **values), kxy)
        return kernel(kxx, kxy, kyy, **values) + xi**2 * (1 + xy) * slope

    points = tuple({**PAIR, **values} for values in parameters(act))
    return Claim(catalogue[f"ntk.{act.name}.kernel"], "Price: d(kernel)/d(kxy)", oracle, points)


def _claims(act: Activation) -> Iterator[Claim]:
    yield _kernel(act)
    if act.name == "relu":
        return  # phi' jumps: there is no metric
    if act.name == "elu":  # its kernel is a quadrature, too slow to differentiate
        route, oracle_of = "average over weights", oracle_at_radius(ntk_by_weight_average, act)
    else:
        route, oracle_of = "differences of the kernel", oracle_at_radius(ntk_by_differences, act)
    values = parameters(act)[-1]
    points = tuple({**shape, **values} for shape in SHAPES)
    for what, read, where in (
        ("magnification", MetricJet.volume, points),
        ("ricci", MetricJet.scalar, points),
        ("origin", MetricJet.scalar, ({**ORIGIN, **values},)),
    ):
        yield Claim(catalogue[f"ntk.{act.name}.{what}"], route, oracle_of(read), where)


CLAIMS = {f"ntk.{act.name}": partial(_claims, act) for act in (*ACTIVATIONS.values(), relu)}

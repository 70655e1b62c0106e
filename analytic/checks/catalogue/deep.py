"""Claims about every deep.* formula, by differences of the composed kernel or averages in each layer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from analytic.activations import ACTIVATIONS, relu
from analytic.activations.activation import Activation
from analytic.catalogue import catalogue
from analytic.checks.catalogue.moments import parameters
from analytic.checks.catalogue.nngp import plus_one
from analytic.checks.claims import Claim, Point
from analytic.checks.kernel_oracles import (
    nngp_by_differences,
    nngp_by_layer_averages,
    ntk_by_differences,
    ntk_by_layer_averages,
    oracle_at_radius,
)
from analytic.checks.oracles import MetricJet

__all__ = ["CLAIMS"]

SHAPES: tuple[Point, ...] = (
    {"d": 4, "sigma": "0.8", "zeta": "1.2", "xi": "0.4", "r": "0.4", "depth": 1},
    {"d": 3, "sigma": "1.1", "zeta": 0, "xi": "0.7", "r": "0.9", "depth": 2},
    {"d": 2, "sigma": "0.6", "zeta": "0.5", "xi": "1.3", "r": "1.4", "depth": 3},
    {"d": 2, "sigma": "0.9", "zeta": "0.7", "xi": "0.8", "r": 0, "depth": 2},
)
DIFFERENCES = {"nngp": nngp_by_differences, "ntk": ntk_by_differences}
AVERAGES = {"nngp": nngp_by_layer_averages, "ntk": ntk_by_layer_averages}


def _claims(act: Activation, kind: str) -> Iterator[Claim]:
    # The kernel of elu is a quadrature, too slow to differentiate; that of relu is not smooth enough.
    if act.name in ("elu", "relu"):
        route, jets, shapes = "averages layer by layer", AVERAGES, SHAPES[1:3]
    else:
        route, jets, shapes = "differences of the kernel", DIFFERENCES, SHAPES
    oracle_of = oracle_at_radius(jets[kind], act)
    for what, read in (("magnification", MetricJet.volume), ("ricci", MetricJet.scalar)):
        formula = catalogue[f"deep.{act.name}.{kind}.{what}"]
        oracle = oracle_of(read)
        if act.name == "relu" and what == "ricci":
            formula, oracle = plus_one(formula, oracle)
        names = {symbol.name for symbol in formula.args}
        points = tuple(
            {k: v for k, v in {**shape, **parameters(act)[-1]}.items() if k in names}
            for shape in shapes
        )
        yield Claim(formula, route, oracle, points)


CLAIMS = {
    f"deep.{name}.{kind}": partial(_claims, act, kind)
    for name, act in ACTIVATIONS.items()
    for kind in DIFFERENCES
}
CLAIMS["deep.relu.nngp"] = partial(_claims, relu, "nngp")

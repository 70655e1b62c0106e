"""Where deep curvature loses digits in floats: limits that are known, so that mending one is noticed."""

from typing import Any

import pytest

from analytic import catalogue

EVEN = "the rate of lift * pi is O(V) but found from terms of O(1), and R of surfaces rests on it"
KINK = "moments near a kink at variance 0 go with sqrt(V)"
LIMITS = [
    ("gaussian", EVEN, {"d": 2, "r": "1e-4", "depth": 3}),
    ("cosine", EVEN, {"d": 2, "r": "1e-4", "depth": 3, "w": 1}),
    ("elu", KINK, {"d": 3, "r": "1e-8", "depth": 2}),
]


def off(activation: str, values: dict[str, Any]) -> float:
    """The relative error of float64 for a network without biases."""
    formula, values = catalogue[f"deep.{activation}.nngp.ricci"], values | {"sigma": 1, "zeta": 0}
    floats = {name: float(v) if name in ("r", "w") else v for name, v in values.items()}
    return float(abs(formula.numpy(**floats) / formula.evaluate(25, **values) - 1))


@pytest.mark.parametrize(
    ("activation", "values"),
    [
        pytest.param(name, values, marks=pytest.mark.xfail(strict=True, reason=why), id=name)
        for name, why, values in LIMITS
    ],
)
def test_curvature_near_a_degenerate_origin(activation: str, values: dict[str, Any]) -> None:
    assert off(activation, values) < 1e-12


@pytest.mark.parametrize(("activation", "values"), [(name, v) for name, _, v in LIMITS])
def test_curvature_somewhat_further_out(activation: str, values: dict[str, Any]) -> None:
    assert off(activation, values | {"r": "0.01"}) < 1e-12

"""The least total variation that makes a function, against a linear programme and known cases."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from analytic.relu_dynamics.variation import affine_cost
from numeric.relu_dynamics import Neurons
from numeric.relu_dynamics.total_variation import variation


def least_by_programme(neurons: Neurons, rays: int = 500) -> float:
    """Over masses at the knots' angles and at many others, which must bend nothing."""
    knots = torch.unique(neurons.knots[neurons.a != 0]).numpy()
    more = np.tan(np.linspace(-np.pi / 2, np.pi / 2, rays + 2)[1:-1])
    places = np.concatenate([knots, more])
    right = np.arctan2(-places, 1)
    angle = np.concatenate([right, right + np.pi, [np.pi / 2]])
    at = np.array([-0.37, 0.41])
    bend = np.zeros((len(places), len(angle)))
    index = np.arange(len(places))
    bend[index, index] = bend[index, index + len(places)] = np.cos(right)
    values = np.maximum(at[:, None] * np.cos(angle) + np.sin(angle), 0)
    jumps = np.zeros(len(places))
    for a, b, c in zip(neurons.a.tolist(), neurons.b.tolist(), neurons.c.tolist(), strict=True):
        if a:
            jumps[np.abs(knots - b / a).argmin()] += c * abs(a) / neurons.alpha
    rows = np.concatenate([bend, values])
    right_side = np.concatenate([jumps, neurons.predict(at).numpy()])
    costs = np.ones(2 * len(angle))
    return linprog(costs, A_eq=np.hstack([rows, -rows]), b_eq=right_side, bounds=(0, None)).fun


def neurons_of(*rows: tuple[float, float, float]) -> Neurons:
    return Neurons(*torch.tensor(rows, dtype=torch.float64).T, 1.0)


@pytest.mark.parametrize(
    "neurons",
    [
        Neurons.drawn(7, 0, alpha=2.0, device="cpu"),
        neurons_of((1, 0.5, 2), (-1, -0.5, -1.5)),  # mostly a line
        neurons_of((1, 0.25, 1), (-2, -0.5, 1), (1, -1, -2), (-1, 1, 1)),
        neurons_of((1, 0.25, 1), (-1, -0.25, -1), (1, -1, 3), (0, -1, 4)),
        neurons_of((1, 0, 1), (-1, 0, -1)),  # x itself
        neurons_of((0, -3, 2)),  # a constant
        neurons_of((1, 3, 1), (-1, -3, -1), (0, -1, 2.5)),  # x - 0.5
    ],
    ids=["random", "line", "shared", "spread", "slope", "level", "both"],
)
def test_least_variation_is_that_of_a_linear_programme(neurons: Neurons) -> None:
    """Its angles are few, so that it finds at most a little more."""
    costs = variation(neurons)
    least = least_by_programme(neurons)
    assert costs.least <= least * (1 + 1e-9) < costs.least * (1 + 1e-4)
    assert costs.spent >= costs.least - 1e-12


@pytest.mark.parametrize(("slope", "level"), [(2.0, 1.0), (1.0, -2.0), (0.0, 3.0), (-1.5, 0.0)])
def test_a_line_costs_what_its_formula_says(slope: float, level: float) -> None:
    costs = variation(neurons_of((slope, -level, 1), (-slope, level, -1)))
    exact = affine_cost.evaluate(l1=slope, l0=level)
    assert costs.bending < 1e-15
    assert costs.affine == pytest.approx(float(exact), rel=1e-14)


def test_variation_of_one_neuron_is_its_size_with_the_corrected_weight() -> None:
    """r = 1.7 at theta = 2.5: the integral of |f''| alone, as printed, is 1.362."""
    one = Neurons.canonical(*torch.tensor([[1.7], [2.5]], dtype=torch.float64), 0.0)
    costs = variation(one)
    assert costs.spent == pytest.approx(1.7, rel=1e-14)
    assert costs.bending == pytest.approx(1.7, rel=1e-14)
    assert costs.affine < 1e-14
    assert 1.7 * abs(math.cos(2.5)) == pytest.approx(1.362, abs=1e-3)

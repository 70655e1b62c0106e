"""Clusters of knots at samples: the share near one, what chance gives, and what training does."""

import math

import pytest
import torch

from analytic.expressions.arguments import InputError
from numeric.estimate import Estimate
from numeric.experiments.knots import clustering
from numeric.relu_dynamics import Flow, Neurons

X = torch.linspace(-0.9, 0.9, 10, dtype=torch.float64)
SQUARE = torch.sign(torch.sin(2 * math.pi * X / 0.9))


def at_knots(knots: torch.Tensor, c: torch.Tensor | None = None) -> Neurons:
    """Active at the samples on the right of their knots."""
    one = torch.ones_like(knots)
    return Neurons(one, knots, one if c is None else c, 1.0)


def scattered(m: int, seed: int) -> torch.Tensor:
    return 1.8 * torch.rand(m, generator=torch.Generator().manual_seed(seed)).double() - 0.9


def test_shares_are_counted_and_weighed() -> None:
    """Three of five knots are within 0.01, with 1.5 of 4 of |r|; one is dead, and not counted."""
    knots = torch.tensor([-0.9, -0.705, 0.305, 0.0, 0.42, 1.5], dtype=torch.float64)
    r = torch.tensor([0.25, -0.75, 0.5, 1.0, -1.5, 9.0], dtype=torch.float64)
    neurons = at_knots(knots, r / torch.hypot(knots, torch.ones_like(knots)))
    plain = clustering(X, neurons, neurons, 0.01)
    assert plain.before.value == plain.after.value == pytest.approx(3 / 5)
    assert plain.gain.value == 0
    assert plain.gain.p_value == 1
    weighted = clustering(X, neurons, neurons, 0.01, weighted=True)
    assert weighted.before.value == pytest.approx(1.5 / 4)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    assert clustering(X[order], neurons, neurons, 0.01) == plain


@pytest.mark.parametrize("weighted", [False, True])
def test_chance_gives_any_p_value_alike(weighted: bool) -> None:
    """Knots that know of no sample: p values are uniform, and shares what lengths say."""
    p_value_pairs, off = [], []
    for seed in range(150):
        first, last = (at_knots(scattered(60, 2 * seed + k)) for k in (0, 1))
        one = clustering(X, first, last, 0.02, weighted, draws=199, seed=seed)
        p_value_pairs.append([one.after.p_value, one.gain.p_value])
        off.append(one.after.effect)
        assert one.after.expected == pytest.approx(0.04 / 0.2, rel=0.25)
    for p_values in torch.tensor(p_value_pairs, dtype=torch.float64).T:
        middle = Estimate.of(p_values)
        assert middle.sigmas_from(torch.tensor(0.5)).item() < 3.5
        assert abs(middle.spread.item() - math.sqrt(1 / 12)) < 0.05
        assert (p_values <= 0.05).double().mean() < 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / 150)
    assert Estimate.of(torch.tensor(off, dtype=torch.float64)).sigmas_from(torch.tensor(0.0)) < 3.5


def test_planted_clusters_are_found() -> None:
    first = scattered(100, 1)
    last = first.clone()
    last[:20] = X[torch.arange(20) % 10]
    clusters = clustering(X, at_knots(first), at_knots(last))
    assert clusters.gain.value == pytest.approx(0.2, abs=0.05)
    assert clusters.after.effect > 0.1
    assert clusters.gain.p_value < 0.005
    assert clusters.before.p_value > 0.01


@pytest.mark.parametrize("weighted", [False, True])
def test_training_of_a_and_b_makes_clusters_and_training_of_c_does_not(weighted: bool) -> None:
    start = Neurons.drawn(200, 0, device="cpu")
    for delta, time in ((math.inf, 100.0), (-math.inf, math.inf)):
        end = Flow(X, SQUARE, start, delta, time).run(progress=False).final
        clusters = clustering(X, start, end, weighted=weighted)
        if delta > 0:
            assert clusters.after.value > 5 * clusters.after.expected
            assert clusters.gain.p_value < 0.01
        else:
            assert clusters.after.p_value > 0.05


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda n: clustering([0.3], n, n), "at least 2"),
        (lambda n: clustering([0.3, 0.3], n, n), "no one twice"),
        (lambda n: clustering(X, n, n, 0.1), "less than half"),
        (lambda n: clustering(X, n, n, -0.1), "distance = -0.1"),
        (lambda n: clustering(X, n, n, draws=5), "draws = 5"),
        (lambda n: clustering(X - 9, n, n), "every neuron is dead"),
    ],
)
def test_bad_input_is_told(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(at_knots(scattered(9, 0)))

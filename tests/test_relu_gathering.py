"""Knots near samples: counted rightly, against a null that is exact, over networks."""

import math

import pytest
import torch
from scipy.stats import binom

from analytic.expressions.arguments import InputError
from numeric.experiments.knots import Gathering, near, probability_near
from numeric.relu_dynamics import Neurons
from numeric.relu_dynamics.regimes import milestones, regime

X = torch.linspace(-1, 1, 6, dtype=torch.float64)
Y = torch.sin(2 * math.pi * X)


def test_shares_count_knots_and_weigh_them() -> None:
    knots = torch.tensor([-1.0, -0.5999, 0.0, 1.02], dtype=torch.float64)
    a = torch.tensor([1.0, -2.0, 1.0, 3.0], dtype=torch.float64)
    c = torch.tensor([2.0, 1.0, -5.0, 0.1], dtype=torch.float64)
    neurons = Neurons(a, a * knots, c, 1.0)
    weight = (c * torch.hypot(a, a * knots)).abs()
    expected = [0.5, ((weight[0] + weight[1]) / weight.sum()).item()]
    assert near(neurons, X, 0.01).tolist() == pytest.approx(expected, rel=1e-14)
    assert near(neurons, X, 0.03)[0] == 0.75


def test_knots_that_do_not_exist_are_near_nothing() -> None:
    one, none = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    assert near(Neurons(none, one, one, 1.0), X, 0.1).tolist() == [0, 0]
    assert near(Neurons(none, none, one, 1.0), X, 0.1).tolist() == [0, 0]  # nor has it a weight


@pytest.mark.parametrize("x", [(0.0,), (-0.8, 0.3, 2.5)])
def test_the_null_is_what_random_neurons_do(x: tuple[float, ...]) -> None:
    m, points = 200_000, torch.tensor(x, dtype=torch.float64)
    count = round(m * near(Neurons.drawn(m, 5, device="cpu"), points, 0.05)[0].item())
    p = probability_near(points, 0.05)
    assert 1e-6 < binom.cdf(count, m, p) < 1 - 1e-6
    assert not 1e-6 < binom.cdf(count, m, 1.1 * p) < 1 - 1e-6


def test_the_null_inside_is_a_quarter_of_what_is_covered() -> None:
    assert probability_near(torch.tensor([-0.4, 0.1]), 0.05) == pytest.approx(
        2 * 0.1 / 4, rel=1e-12
    )


def test_neurons_that_stand_still_do_not_cluster() -> None:
    shares = Gathering(X, Y, -math.inf, m=60, networks=5, device="cpu").run(progress=False)
    assert torch.equal(shares.draws[:, 0, 0], shares.draws[:, -1, 0])
    assert shares.estimate.sigmas_from(torch.tensor(shares.probability))[0, 0] < 4


def test_knots_stay_at_samples_that_are_all_corners() -> None:
    """Between neighbours that pull the other way, a residual that vanishes leaves a knot where it is."""
    shares = Gathering(X, Y, math.inf, m=60, networks=5, device="cpu").run(progress=False)
    assert shares.estimate.mean[-1, 1] > 0.9 > 5 * shares.probability
    assert shares.sigmas[-1, 1] > 8


def test_knots_leave_samples_that_come_in_pairs() -> None:
    """The square wave's samples attract on the way, but their straight pieces need no knot there."""
    x = torch.linspace(-0.9, 0.9, 10, dtype=torch.float64)
    y = torch.sign(torch.cos(2.5 * math.pi * x))
    shares = Gathering(x, y, math.inf, m=60, networks=5, device="cpu").run(progress=False)
    best = shares.estimate.mean[:, 1].max(0)
    assert shares.sigmas[best.indices, 1] > 8
    assert best.values > 5 * shares.probability
    assert shares.estimate.mean[-1, 1] < 0.5 * best.values


def test_regimes_start_from_one_function_and_milestones_span_the_run() -> None:
    neurons = Neurons.drawn(30, 1, device="cpu")
    start = neurons.predict(X)
    for delta in (-math.inf, -2.0, 0.5, math.inf):
        run = regime(neurons, X, Y, delta, 20.0)
        torch.testing.assert_close(run.at(0.0).predict(X), start, rtol=0, atol=1e-7)
        times = milestones(run, 4)
        assert times[0] == 0
        assert times[-1] == run.times[-1]
        assert times == sorted(times)


BAD = {
    "odd m": ({"m": 7}, "do not make pairs"),
    "one network": ({"networks": 1}, "networks = 1 was given"),
    "no distance": ({"distance": 0.0}, "distance"),
    "wide": ({"distance": 0.3}, "below half of the least gap 0.4"),
    "one milestone": ({"milestones": 1}, "milestones = 1 was given"),
    "nan": ({"x": [0.0, math.nan, *[1.0] * 4]}, "finite"),
    "twice": ({"x": [0.0, 0.0, 0.1, 0.2, 0.3, 0.4]}, "0.0"),
}


@pytest.mark.parametrize(("more", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused(more: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Gathering(**({"x": X, "y": Y, "delta": 0.0, "device": "cpu"} | more)).run(progress=False)

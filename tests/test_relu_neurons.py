"""Neurons on a line: full and canonical parameters, one function under many invariants."""

import math

import pytest
import torch
from mpmath import mp

from analytic import catalogue
from analytic.expressions.arguments import InputError
from numeric.relu_dynamics import Neurons

WIDE = torch.float64
ONE = torch.ones(1, dtype=WIDE)


def dense(neurons: Neurons, x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x[:, None] * neurons.a - neurons.b) @ neurons.c / neurons.alpha


@pytest.mark.parametrize("m", [1, 2, 7, 500])
@pytest.mark.parametrize("n", [1, 3, 1000])
def test_prediction_is_the_sum_over_neurons(m: int, n: int) -> None:
    neurons = Neurons.drawn(m, 1, a=2.0, c=3.0)
    x = 4 * torch.rand(n, generator=torch.Generator().manual_seed(n), dtype=WIDE) - 2
    x[0] = neurons.knots[0]
    x[-1] = x[n // 2]  # a point may come twice, and in any order
    size = (neurons.c * neurons.lengths).abs().sum() / neurons.alpha * (1 + x.abs().max())
    assert (neurons.predict(x) - dense(neurons, x)).abs().max() < 4e-16 * size


def test_canonical_parameters_in_every_quadrant() -> None:
    """(5) by atan2: the function is (1/m) sum r <(x, 1), d(theta)>_+, and (u, v) = |r| d(theta)."""
    angle = torch.linspace(-3, 3, 13, dtype=WIDE)
    c = torch.linspace(-2, 1.1, 13, dtype=WIDE)
    neurons = Neurons(2 * angle.cos(), -2 * angle.sin(), c, 5.0)
    x = torch.linspace(-3, 3, 40, dtype=WIDE)
    r, theta = neurons.r, neurons.theta
    outputs = torch.relu(x[:, None] * theta.cos() + theta.sin()) @ r / 13
    assert (outputs - neurons.predict(x)).abs().max() < 1e-14
    assert (theta - angle).abs().max() < 1e-15
    assert (neurons.u - r.abs() * theta.cos()).abs().max() < 1e-14
    assert (neurons.v - r.abs() * theta.sin()).abs().max() < 1e-14
    assert (neurons.knots + neurons.v / neurons.u).abs().max() < 1e-13
    assert (neurons.sign == r.sign()).all()


@pytest.mark.parametrize("delta", [-1e6, -3.0, -1e-9, 0.0, 1e-9, 2.0, 1e6])
def test_rescaled_neurons_are_one_function_with_another_invariant(delta: float) -> None:
    neurons = Neurons.drawn(300, 2, alpha=4.0)
    equivalent, x = neurons.rescaled(delta), torch.linspace(-2, 2, 50, dtype=WIDE)
    size = equivalent.c**2 + equivalent.lengths**2
    assert ((equivalent.delta - delta).abs() / size).max() < 1e-15
    assert (equivalent.predict(x) - neurons.predict(x)).abs().max() < 1e-13
    assert ((equivalent.r - neurons.r) / neurons.r).abs().max() < 2e-15
    assert (equivalent.theta - neurons.theta).abs().max() < 1e-15
    back = Neurons.canonical(equivalent.r, equivalent.theta, delta, 4.0)
    for part in "abc":
        new, old = getattr(back, part), getattr(equivalent, part)
        assert (new - old).abs().max() < 1e-14 * old.abs().max()


def test_both_parts_of_a_neuron_keep_their_digits_where_they_differ_most() -> None:
    """c^2 = (delta + sqrt(delta^2 + 4 r^2)) / 2 cancels for delta far below 0, as |w|^2 does above."""
    for delta in (-1e8, 1e8):
        neuron = Neurons.canonical(3e-3 * ONE, 0.3 * ONE, delta, 1.0)
        with mp.workdps(50):
            root = mp.sqrt(mp.mpf(delta) ** 2 + 4 * mp.mpf(3e-3) ** 2)
            c, length = mp.sqrt((root + delta) / 2), mp.sqrt((root - delta) / 2)
            assert abs(neuron.c.item() / c - 1) < 4e-16
            assert abs(neuron.lengths.item() / length - 1) < 4e-16


def test_readout_squared_is_the_formula_of_the_catalogue() -> None:
    neurons = Neurons.drawn(50, 4, alpha=3.0)
    for delta in (-5.0, 0.0, 2.0):
        exact = catalogue["relu.c_squared"].torch(delta=delta, r=neurons.r, m=50, alpha=3.0)
        assert (neurons.rescaled(delta).c ** 2 / exact - 1).abs().max() < 2e-15


def test_laws() -> None:
    drawn = Neurons.drawn(20_000, 0, a=2.0, b=0.5, c=3.0)
    assert drawn.alpha == math.sqrt(20_000)
    for part, width in ((drawn.a, 2.0), (drawn.b, 0.5), (drawn.c, 3.0)):
        assert 0.999 * width < part.abs().max() < width
        assert abs(part.mean()) < 5 * width / math.sqrt(3 * 20_000)
    torches = Neurons.pytorch(20_000, 0)
    linear = torch.nn.Linear(20_000, 1)
    assert torches.alpha == 1
    assert abs(torches.c.abs().max() / linear.weight.abs().max() - 1).item() < 1e-3
    pairs = Neurons.drawn(100, 0, antisymmetric=True)
    assert pairs.predict(torch.linspace(-1, 1, 9)).abs().max() < 1e-15
    assert pairs.c.abs().min() > 0
    assert (Neurons.drawn(9, 1).a == Neurons.drawn(9, 1).a).all()


def test_a_neuron_without_a_knot_has_none() -> None:
    neurons = Neurons(
        torch.tensor([0.0, 0.0, 1.0]), torch.tensor([-1.0, 0.0, 3.0]), torch.ones(3), 1
    )
    assert neurons.knots.tolist() == [math.inf, math.inf, 3.0]
    assert neurons.predict([-5.0, 4.0]).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Neurons.drawn(0, 0), "m = 0"),
        (lambda: Neurons.pytorch(0, 0), "m = 0"),
        (lambda: Neurons.drawn(2.5, 0), "m = 2.5"),
        (lambda: Neurons.drawn(3, 0, antisymmetric=True), "take 4"),
        (lambda: Neurons.drawn(3, 0, c=math.nan), "half-width c"),
        (lambda: Neurons.drawn(3, 0, alpha=0.0), "alpha = 0.0"),
        (lambda: Neurons(ONE[:0], ONE[:0], ONE[:0], 1.0), "m at least 1"),
        (lambda: Neurons(ONE, ONE, torch.ones(2, dtype=WIDE), 1.0), "one shape"),
        (lambda: Neurons(ONE, ONE, ONE.float(), 1.0), "share a dtype"),
        (lambda: Neurons(ONE, ONE * math.nan, ONE, 1.0), "NaN"),
        (lambda: Neurons([1.0], [1.0], [1.0], 1.0), "tensors of floats"),
        (lambda: Neurons(ONE, ONE, ONE, 1.0).predict([math.inf]), "NaN or infinite"),
        (lambda: Neurons(ONE, ONE, ONE, 1.0).predict([]), "n at least 1"),
        (lambda: Neurons(ONE, ONE, ONE, 1.0).predict("here"), "numbers"),
        (lambda: Neurons(ONE, ONE, ONE, 1.0).rescaled(math.inf), "limits"),
        (lambda: Neurons(ONE, ONE, ONE, 1.0).rescaled(torch.zeros(2)), "one for each"),
        (lambda: Neurons(ONE, ONE, 0 * ONE, 1.0).rescaled(2.0), "no factor"),
        (lambda: Neurons(ONE, ONE, 0 * ONE, 1.0).rescaled(0.0), "no factor"),
        (lambda: Neurons(0 * ONE, 0 * ONE, ONE, 1.0).rescaled(-2.0), "no factor"),
        (lambda: Neurons.canonical(0 * ONE, ONE, 2.0), "sign is lost"),
        (lambda: Neurons.canonical(ONE, ONE, math.nan), "finite invariants"),
        (lambda: Neurons.canonical(ONE * math.nan, ONE, 1.0), "NaN"),
        (lambda: Neurons.canonical(ONE, torch.ones(2, dtype=WIDE), 1.0), "shape"),
        (lambda: Neurons.canonical(ONE[:0], ONE[:0], 1.0), "= 0 was given"),
    ],
)  # fmt: skip
def test_bad_input_is_told(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_neurons_that_only_some_invariants_fit() -> None:
    """hypot, sin and cos may err by an ulp, all else by half of one; zeros are exact."""
    inactive = Neurons(ONE, ONE, 0 * ONE, 1.0).rescaled(-8.0)
    assert abs(inactive.a.item() - 2) <= 3 * math.ulp(2)  # two hypots, a root and a quotient
    assert inactive.c.item() == 0
    nowhere = Neurons(0 * ONE, 0 * ONE, -3 * ONE, 1.0).rescaled(4.0)
    assert abs(nowhere.c.item() + 2) <= math.ulp(2)  # a hypot under a root
    assert nowhere.a.item() == 0
    length = Neurons.canonical(0 * ONE, ONE, -4.0).lengths.item()
    assert abs(length - 2) <= 4 * math.ulp(2)  # two hypots, a root, sin and cos, and a product

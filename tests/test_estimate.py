"""Standard errors and slopes mean what they say."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import linregress

from analytic.expressions.arguments import InputError
from numeric.estimate import Estimate, power_law


def test_standard_errors_are_calibrated() -> None:
    """Over many repeats the mean lies about one standard error from the truth, and rarely four."""
    generator = torch.Generator().manual_seed(0)
    draws = 3 + 2 * torch.randn(400, 2000, generator=generator, dtype=torch.float64)
    sigmas = Estimate.of(draws).sigmas_from(torch.tensor(3.0, dtype=torch.float64))
    assert 0.9 < sigmas.square().mean().sqrt() < 1.1
    assert (sigmas > 4).double().mean() < 1e-3


def test_spread_is_that_of_one_draw() -> None:
    estimate = Estimate.of(torch.tensor([[1.0, 5.0], [3.0, 5.0]], dtype=torch.float64))
    assert estimate.mean.tolist() == [2.0, 5.0]
    assert estimate.stderr.tolist() == pytest.approx([1.0, 0.0])


def test_exact_agreement_is_zero_sigmas_and_a_constant_off_is_infinitely_many() -> None:
    estimate = Estimate.of(torch.full((4, 1), 2.0))
    assert estimate.sigmas_from(torch.tensor([2.0])).item() == 0
    assert torch.isinf(estimate.sigmas_from(torch.tensor([2.5]))).item()


def test_slope_of_a_power_is_its_exponent() -> None:
    x = [10.0, 100.0, 1000.0, 1e4]
    slope = power_law(x, [3 * v**-0.5 for v in x])
    assert slope.value == pytest.approx(-0.5, abs=1e-14)
    assert slope.stderr < 1e-12


def test_the_error_of_a_slope_is_that_of_least_squares() -> None:
    """log y = 0, 1, 0 at log x = -1, 0, 1: residuals -1/3, 2/3, -1/3 with one degree of freedom left."""
    slope = power_law([1 / math.e, 1.0, math.e], [1.0, math.e, 1.0])
    assert slope.value == pytest.approx(0, abs=1e-15)
    assert slope.stderr == pytest.approx(3**-0.5, rel=1e-14)
    x, noise = np.geomspace(1, 100, 7), np.random.default_rng(0).standard_normal(7)
    y = x**-0.5 * np.exp(noise)
    slope, other = power_law(x.tolist(), y.tolist()), linregress(np.log(x), np.log(y))
    assert slope.value == pytest.approx(other.slope, rel=1e-12)
    assert slope.stderr == pytest.approx(other.stderr, rel=1e-12)


@pytest.mark.parametrize("draws", [torch.ones(1, 3), torch.tensor([[1.0], [float("nan")]])])
def test_too_few_or_broken_draws_are_refused(draws: torch.Tensor) -> None:
    with pytest.raises(InputError, match="needs"):
        Estimate.of(draws)


@pytest.mark.parametrize(
    ("x", "y"), [([1, 2], [1, 2]), ([1, 2, 3], [1, 2]), ([1, 2, 3], [1, 0, 2])]
)
def test_slopes_without_enough_positive_points_are_refused(x: list, y: list) -> None:
    with pytest.raises(InputError, match="needs"):
        power_law(x, y)

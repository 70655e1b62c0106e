"""Does automatic differentiation overestimate curvature? No: the printed formula is three times too large."""

import pytest
import torch
from torch.func import jacfwd

from analytic.activations import erf, gelu, sigmoid
from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError
from numeric import geometry
from numeric.estimate import power_law
from numeric.experiments.autodiff_curvature import (
    CurvatureComparison,
    compare,
    printed,
    ricci_by_nesting,
)
from numeric.models.shallow import ShallowNetwork

DOUBLE = {"dtype": torch.float64}


def comparison(
    act: Activation, seed: int, size: float = 2.0, points: int = 8
) -> CurvatureComparison:
    rng = torch.Generator().manual_seed(seed)
    net = ShallowNetwork.gaussian(act, 10, 2, size, 1.0, generator=rng)
    return compare(net, 3 * torch.rand(points, 2, generator=rng, **DOUBLE) - 1.5)


@pytest.fixture(scope="module")
def result() -> list[CurvatureComparison]:
    return [comparison(act, seed) for seed, act in enumerate((sigmoid, erf, gelu))]


def test_nested_differentiation_is_right_and_errs_to_both_sides(
    result: list[CurvatureComparison],
) -> None:
    errors = torch.cat([one.error("nested") for one in result])
    assert errors.abs().max() < 1e-9
    assert errors.min() < 0 < errors.max()


def test_the_printed_formula_is_three_times_too_large(result: list[CurvatureComparison]) -> None:
    for one in result:
        torch.testing.assert_close(one.printed, 3 * one.exact, rtol=1e-9, atol=0)
        torch.testing.assert_close(one.flipped, 3 * one.exact, rtol=1e-9, atol=0)


def test_so_a_right_value_looks_too_large_wherever_curvature_is_negative(
    result: list[CurvatureComparison],
) -> None:
    """R lies above the printed 3R there, which is nearly everywhere for wide networks of sigmoids."""
    for one in result:
        assert torch.equal(one.nested > one.printed, one.exact < 0)
    axis = torch.linspace(-1.5, 1.5, 40, **DOUBLE)
    rng = torch.Generator().manual_seed(0)
    wide = ShallowNetwork.gaussian(sigmoid, 100, 2, 1.0, 1.0, generator=rng)
    value = geometry.ricci_scalar(wide, torch.cartesian_prod(axis, axis)).value
    assert (value < 0).double().mean() > 0.95


def test_closed_form_and_gauss_equation_are_right_too(result: list[CurvatureComparison]) -> None:
    for one in result:
        assert one.error("closed").abs().max() < 1e-13
        assert one.error("gauss").abs().max() < 1e-12


def test_what_third_derivatives_lose_is_the_fourth_power_of_the_condition_number() -> None:
    """Rounding costs digits, but does not introduce a factor."""
    conditions, errors, signs = [], [], []
    for angle in (0.1, 0.03, 0.01, 0.003, 0.001):
        rng = torch.Generator().manual_seed(1)
        net = ShallowNetwork.gaussian(erf, 10, 2, 1.0, 1.0, generator=rng)
        net.weights[:, 1] = 0.3 * net.weights[:, 0] + angle * net.weights[:, 1]
        one = compare(net, torch.rand(8, 2, generator=rng, **DOUBLE))
        conditions.append(one.condition.median().item())
        errors.append(one.error("nested").abs().median().item())
        signs.append(one.error("nested") > 0)
        assert one.error("closed").abs().max() < 1e-13
        assert one.error("gauss").abs().max() < 1e-11
    assert abs(power_law(conditions, errors).value - 4) < 1
    assert 0.2 < torch.cat(signs).double().mean() < 0.8


def test_forward_mode_gives_the_same() -> None:
    rng = torch.Generator().manual_seed(0)
    net = ShallowNetwork.gaussian(erf, 7, 3, 1.0, 1.0, generator=rng)
    x = torch.randn(3, 3, generator=rng, **DOUBLE)
    forward, reverse = (
        ricci_by_nesting(net, x, batch_size=2, **way) for way in ({"derive": jacfwd}, {})
    )
    torch.testing.assert_close(forward, reverse, rtol=1e-9, atol=1e-11)
    with pytest.raises(InputError, match="2 inputs"):
        printed(net, x)

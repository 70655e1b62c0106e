"""Weighted fits recover the law of a bias, and their errors are what they claim."""

import numpy as np
import pytest
import torch

from analytic.expressions.arguments import InputError
from numeric.estimate import Estimate
from numeric.experiments.deep_width import Bias

WIDTHS = (10, 20, 40, 80)


def measured(p: float, noise: float, seed: int) -> Bias:
    errors = [noise * n**-0.5 for n in WIDTHS]
    draws = np.random.default_rng(seed).standard_normal(len(WIDTHS))
    values = [3 * n**p + e * t for n, e, t in zip(WIDTHS, errors, draws, strict=True)]
    return Bias(WIDTHS, tuple(values), tuple(errors))


@pytest.mark.parametrize("p", [-2.0, -1.0, -0.5])
def test_fits_recover_a_law_and_their_errors_are_calibrated(p: float) -> None:
    exact = Bias(WIDTHS, tuple(3 * n**p for n in WIDTHS), (1.0,) * 4)
    assert exact.slope().value == pytest.approx(p, abs=1e-5)  # the step of the search
    assert exact.misfit(p) < 1e-20
    noise = 0.03 * 10 ** (p + 1)
    repeats = [measured(p, noise, seed) for seed in range(200)]
    slopes = [one.slope() for one in repeats]
    pulls = torch.tensor([(s.value - p) / s.stderr for s in slopes])
    assert 0.85 < pulls.square().mean().sqrt() < 1.15  # 200 normal draws: within 3/20 of 1
    misfits = Estimate.of(torch.tensor([one.misfit(p) for one in repeats]))
    assert misfits.sigmas_from(torch.tensor(3.0)) < 4


def test_an_expansion_recovers_its_coefficients_with_calibrated_errors() -> None:
    values = tuple(0.5 - 2 / n + 7 / n**2 for n in WIDTHS)
    fitted = [c.value for c in Bias(WIDTHS, values, (0.1, 0.2, 0.3, 0.4)).expansion()]
    assert fitted == pytest.approx([0.5, -2, 7], abs=1e-9)
    pulls = torch.tensor([
        (c.value - exact) / c.stderr
        for seed in range(200)
        for c, exact in zip(measured(-1.0, 0.1, seed).expansion(), (0, 3, 0), strict=True)
    ])  # fmt: skip
    assert 0.85 < pulls.square().mean().sqrt() < 1.15


def test_no_bias_has_no_slope() -> None:
    """Its error says so, be it infinite or as large as the slope."""
    slopes = [Bias(WIDTHS, measured(-1.0, 50.0, k).values, (50.0,) * 4).slope() for k in range(20)]
    assert all(abs(s.value + 1) < 4 * s.stderr for s in slopes)
    assert sum(s.stderr > 0.5 for s in slopes) >= 18


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Bias((8, 16), (0.1, 0.05), (0.01, 0.01)).slope(), "at least 3 widths"),
        (lambda: Bias((8, 16), (0.1, 0.05), (0.01, 0.01)).expansion(), "at least 3 widths"),
        (lambda: Bias((8, 16, 32), (0.1, 0.05), (0.01, 0.01)), "3 widths, 2 values"),
        (lambda: Bias((8, 16), (0.0, 0.0), (0.0, 0.0)), "above 0"),
        (lambda: Bias((8, 16), (0.0, float("nan")), (0.1, 0.1)), "finite"),
    ],
)
def test_bad_input_is_refused_with_a_reason(make: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()

"""The Ricci scalar estimated from random directions, in standard errors."""

import pytest
import torch
from torch import nn

from analytic.expressions.arguments import InputError
from numeric import geometry
from numeric.estimate import power_law

DOUBLE = {"dtype": torch.float64}


def network(d: int, *widths: int) -> nn.Sequential:
    torch.manual_seed(d)
    sizes = (d, *widths)
    parts = [(nn.Linear(a, b), nn.Tanh()) for a, b in zip(sizes, widths, strict=False)]
    return nn.Sequential(*(part for pair in parts for part in pair)).double()


def points(n: int, d: int) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(1), **DOUBLE)


@pytest.mark.parametrize(("d", "widths"), [(3, (12, 10)), (20, (60,))])
def test_the_estimate_is_unbiased(d: int, widths: tuple[int, ...]) -> None:
    net, x = network(d, *widths), points(4, d)
    exact = geometry.ricci_scalar(net, x)
    result = geometry.ricci_estimate(net, x, probes=3000, progress=False)
    assert ((result.value - exact.value) / result.stderr).abs().max() < 5
    assert (result.stderr / exact.value.abs()).min() < 0.2  # the estimate is informative
    torch.testing.assert_close(result.condition, exact.condition, rtol=1e-9, atol=0)
    assert torch.equal(result.rank, exact.rank)


def test_rounding_does_not_exceed_the_standard_error() -> None:
    """Saturated units give a condition number of 1e10, at which projection by QR is too inaccurate."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 8), nn.Tanh()).double()
    net[0].weight.data *= 25
    x = 4 * torch.randn(3, 3, **DOUBLE)
    for layer in ("1", None):
        exact = geometry.ricci_scalar(net, x, layer=layer)
        result = geometry.ricci_estimate(net, x, layer=layer, probes=2000, progress=False)
        assert exact.condition.max() > 1e10
        assert ((result.value - exact.value) / result.stderr).abs().max() < 5
        torch.testing.assert_close(result.condition, exact.condition, rtol=1e-4, atol=0)


def test_standard_errors_are_what_the_spread_over_seeds_is() -> None:
    net, x = network(4, 12), points(1, 4)
    exact = geometry.ricci_scalar(net, x).value
    runs = [geometry.ricci_estimate(net, x, probes=60, seed=s, progress=False) for s in range(60)]
    scores = torch.cat([(run.value - exact) / run.stderr for run in runs])
    assert abs(scores.mean().item()) < 5 / 60**0.5
    assert 0.6 < scores.std().item() < 1.6


def test_errors_fall_like_the_root_of_the_number_of_probes() -> None:
    net, x = network(3, 8), points(64, 3)
    counts = (50, 200, 800, 3200)
    errors = [
        geometry.ricci_estimate(net, x, probes=n, progress=False).stderr.median().item()
        for n in counts
    ]
    slope = power_law(counts, errors)
    assert abs(slope.value + 0.5) < max(5 * slope.stderr, 0.1)


def test_a_seed_is_a_result_and_dtype_follows() -> None:
    net, x = network(3, 8), points(2, 3)
    first, again, other = (
        geometry.ricci_estimate(net, x, probes=10, seed=s, progress=False).value for s in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    single = geometry.ricci_estimate(net.float(), x.float(), probes=10, seed=1, progress=False)
    assert single.value.dtype == single.stderr.dtype == torch.float32
    torch.testing.assert_close(single.value.double(), first, rtol=1e-3, atol=1e-3)


def test_layers_and_models_are_treated_as_elsewhere() -> None:
    net, x = network(2, 9, 8).train(), points(3, 2)
    estimate = geometry.ricci_estimate(net, x, layer="1", probes=10, progress=False)
    same = geometry.ricci_estimate(net[:2], x, probes=10, progress=False)
    torch.testing.assert_close(estimate.value, same.value)
    assert net.training
    assert not estimate.value.requires_grad


@pytest.mark.parametrize(
    ("features", "probes", "words"),
    [
        (network(3, 8), 1, "at least 2"),
        (network(3, 8), 2.5, "whole number"),
        (network(3, 2), 10, "3 inputs and 2 features"),
        (lambda x: x.sum(1, keepdim=True) ** torch.arange(1, 5), 10, "rank 1 of 3"),
        (nn.Sequential(nn.Linear(3, 9), nn.ReLU()).double(), 10, "kinks"),
    ],
)
def test_bad_input_is_refused_with_a_reason(features: object, probes: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        geometry.ricci_estimate(features, points(2, 3), probes=probes, progress=False)

"""Log volumes from random directions: in standard errors of the exact ones, with bounds of the bias."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from analytic import InputError
from density import sweep
from numeric import geometry
from numeric.estimate import power_law
from numeric.models import cifar_resnet
from numeric.models.memory import Meter
from refusals import require_refusals

DOUBLE = {"dtype": torch.float64}
SEEDS = 40


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network(*widths: int) -> nn.Sequential:
    torch.manual_seed(0)
    pairs = pairwise(widths)
    return nn.Sequential(*(p for a, b in pairs for p in (nn.Linear(a, b), nn.Tanh()))).double()


def points(n: int, *shape: int) -> Tensor:
    return torch.randn(n, *shape, generator=seeded(1), **DOUBLE)


def linear(*singular: float) -> Callable[[Tensor], Tensor]:
    """x -> J x with these singular values."""
    generator, k = seeded(2), len(singular)
    left, right = (
        torch.linalg.qr(torch.randn(k, k, generator=generator, **DOUBLE))[0] for _ in "lr"
    )
    J = left * torch.tensor(singular, **DOUBLE) @ right
    return lambda x: x @ J.T


SPECTRA = {
    "powers": [1 / k for k in range(1, 61)],
    "down to 0": [k / 60 for k in range(1, 61)],
    "over five decades": torch.logspace(0, -5, 60, **DOUBLE).tolist(),
    "narrow": torch.linspace(1, 3, 60, **DOUBLE).tolist(),
    "two": [1.0] * 59 + [1e-3],
}


@pytest.mark.parametrize("widths", [(14, 12, 9), (6, 20, 15)], ids=["fewer", "more features"])
def test_it_is_unbiased_and_its_standard_error_is_the_spread_over_seeds(widths: tuple) -> None:
    """A wrong weight of the rule, of the directions or of the side that is taken would shift the mean."""
    net, x = network(*widths), points(1, widths[0])
    exact = geometry.log_volume(net, x, progress=False).value
    runs = [geometry.log_volume_estimate(net, x, seed=s, progress=False) for s in range(SEEDS)]
    values, errors = torch.cat([r.value for r in runs]), torch.cat([r.stderr for r in runs])
    assert abs(values.mean() - exact) < 5 * values.std() / SEEDS**0.5
    # The deviation of SEEDS values is itself known to 1 / sqrt(2 SEEDS), 11 %; five times that.
    assert abs(values.std() / errors.square().mean().sqrt() - 1) < 5 / (2 * SEEDS) ** 0.5
    assert max(r.bias.item() for r in runs) < 0.2 * errors.min()


def test_errors_fall_like_the_root_of_the_number_of_probes() -> None:
    net, x = network(14, 12, 9), points(1, 14)
    counts = (20, 80, 320, 1280)
    runs = [geometry.log_volume_estimate(net, x, probes=n, progress=False) for n in counts]
    assert abs(power_law(counts, [run.stderr.item() for run in runs]).value + 0.5) < 0.1
    exact = geometry.log_volume(net, x, progress=False).value
    assert ((runs[-1].value - exact) / runs[-1].stderr).abs() < 5


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in ("powers", "two") else sweep) for n in SPECTRA]
)
def test_few_steps_are_too_large_by_no_more_than_the_bound(name: str, monkeypatch) -> None:
    """Against as many steps as features, after which nothing is left; the estimate is right to a third."""
    model, x = linear(*SPECTRA[name]), points(1, 60)
    monkeypatch.setattr("numeric.geometry.volume_estimate.SHARE", 0.0)  # take all steps
    whole = geometry.log_volume_estimate(model, x, progress=False)
    rounding = 1e-9 * whole.value.abs() + 1e-9
    assert whole.bound < rounding
    assert whole.full
    for steps in (1, 2, 3, 5, 8, 13, 21, 34, 55):
        few = geometry.log_volume_estimate(model, x, steps=steps, progress=False)
        excess = few.value - whole.value
        assert few.steps == min(steps, whole.steps)
        assert -rounding < excess < few.bound + rounding, steps
        assert excess < 4 / 3 * few.bias + rounding, steps
        assert few.bias <= few.bound


def test_steps_end_when_the_bias_no_longer_matters() -> None:
    model, x = linear(*SPECTRA["powers"]), points(1, 60)
    found = geometry.log_volume_estimate(model, x, progress=False)
    assert found.bias < 0.1 * found.stderr
    assert found.steps < 30
    fewer = geometry.log_volume_estimate(model, x, steps=6, progress=False)
    assert fewer.bias > 0.1 * fewer.stderr


def test_a_missing_rank_is_found_and_said() -> None:
    """Without a test of rank the log of a rounding error would be added."""
    net, x = network(14, 12, 9), points(4, 14)

    def twice(y: Tensor) -> Tensor:
        return torch.cat([net(y), net(y)[:, :1]], 1)

    def sometimes(y: Tensor) -> Tensor:
        return torch.cat([net(y), net(y)[:, :1] + y[:, :1].relu()], 1)

    with pytest.raises(InputError, match=r"lacks rank to rounding at all 4 points.*log_volume"):
        geometry.log_volume_estimate(twice, x, progress=False)
    found = geometry.log_volume_estimate(sometimes, x, progress=False)
    assert 0 < (x[:, 0] < 0).sum() < 4
    assert torch.equal(found.deficient, x[:, 0] < 0)
    assert torch.equal(found.full, x[:, 0] > 0)
    assert torch.equal(found.rank, torch.full((4,), 10))
    for part in (found.value, found.stderr, found.bias, found.bound):
        assert torch.equal(part.isnan(), found.deficient)
    (note,) = found.notes
    assert note.startswith(f"At {int(found.deficient.sum())} of 4 points the Jacobian lacks rank")
    few = geometry.log_volume_estimate(sometimes, x, steps=3, progress=False)
    assert not few.full.any()
    assert "4 of 4 points 3 Lanczos steps do not exclude" in few.notes[-1]


def test_one_point_and_many_and_any_budget_give_the_same() -> None:
    net, x = network(14, 12, 9), points(3, 14)
    many = geometry.log_volume_estimate(net, x, progress=False)
    for k in range(3):
        one = geometry.log_volume_estimate(
            net, x[k : k + 1], steps=int(many.steps[k]), progress=False
        )
        assert abs(one.value - many.value[k]) < 1e-10
    small = geometry.log_volume_estimate(net, x, memory=20_000, progress=False)  # a few directions
    assert (small.value - many.value).abs().max() < 1e-8


def test_the_budget_holds_where_a_jacobian_would_not_fit() -> None:
    """10 000 features of as many inputs: a Jacobian takes 800 MB."""
    d, budget = 10_000, 30_000_000
    slope = torch.linspace(0.5, 2, d, **DOUBLE)
    x = points(1, d)

    def map_(y: Tensor) -> Tensor:
        return slope * (y + y.sin() / 2)

    exact = (slope * (1 + x.cos() / 2)).log().sum()
    with Meter() as meter:
        found = geometry.log_volume_estimate(map_, x, memory=budget, steps=30, progress=False)
    assert meter.peak < 1.1 * budget  # beside the budget stand the point and the directions drawn
    assert abs(found.value - exact) < 5 * found.stderr
    assert found.stderr < 0.02 * d
    assert found.bias < 0.1 * found.stderr


def test_features_of_rectifiers_that_are_off_are_left_out() -> None:
    """In single precision, in training mode; a row of zeros has no logarithm."""
    net = cifar_resnet(8).train()
    x = torch.rand(2, 3, 16, 16, generator=seeded(1))
    exact = geometry.log_volume(net, x, layer="pool", progress=False)
    assert (exact.rank < 64).all()
    found = geometry.log_volume_estimate(net, x, layer="pool", steps=30, progress=False)
    assert net.training
    assert found.value.dtype == found.stderr.dtype == found.bound.dtype == torch.float32
    assert torch.equal(found.rank, exact.rank)
    assert ((found.value - exact.value).abs() < 5 * found.stderr + found.bias).all()


def test_a_seed_is_a_result() -> None:
    net, x = network(14, 12, 9), points(1, 14)
    first, again, other = (
        geometry.log_volume_estimate(net, x, seed=s, progress=False).value for s in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_wrong_calls() -> None:
    net, x = network(14, 12, 9), points(1, 14)

    def call(model: object = net, x: object = x, **options: object) -> Callable[[], object]:
        return lambda: geometry.log_volume_estimate(model, x, progress=False, **options)

    require_refusals({
        "one probe": call(probes=1),
        "probes of text": call(probes="many"),
        "no steps": call(steps=0),
        "a seed below 0": call(seed=-1),
        "no memory": call(memory=0),
        "too little memory": call(memory=500),
        "no layer": call(layer="9"),
        "points of NaN": call(x=torch.nan * x),
        "points of other size": call(x=points(1, 3)),
        "no model": call(model=3),
        "a map of steps": call(model=torch.floor),
        "a detached map": call(model=lambda y: y.detach() * 2),
        "a constant map": call(model=lambda y: 0 * y),
        "a slope of NaN at a later point": call(
            x=torch.cat([x, 0 * x]), model=lambda y: y.abs().sqrt()
        ),
        "a map to infinity": call(model=lambda y: 1 / (0 * y)),
    }.items())  # fmt: skip

"""The contrast sees what is near a curve and nothing else, and evidence is weighed by the rule."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from analytic.expressions.arguments import InputError
from numeric.experiments.decision_boundaries import (
    Comparison,
    Curve,
    Disc,
    Evidence,
    Lattice,
    Zones,
    distance,
    xor,
)
from numeric.experiments.decision_boundaries.contrast import level_each

DISC = Disc(1.5)
AXES = DISC.x.abs().amin(1)
RADIUS = DISC.x.norm(dim=1)


def contrast(values: Tensor, away: Tensor = AXES, zones: Zones | None = None) -> float:
    near, far = (zones or Zones()).weights(DISC, away) @ values
    return (near - far).item()


def test_the_contrast_is_the_coefficient_of_least_squares() -> None:
    values = torch.sin(3 * DISC.x[:, 0]) + DISC.x[:, 1] ** 3
    near, far = AXES < 0.15, AXES > 0.375
    used = near | far
    dummies = np.eye(DISC.circles)[DISC.circle[used]]
    design = np.column_stack([near[used], dummies])
    fitted = np.linalg.lstsq(design, values[used].numpy(), rcond=None)[0]
    assert contrast(values) == pytest.approx(fitted[0], rel=1e-10)


def test_the_contrast_is_blind_to_radius_and_scale_and_sees_a_ridge() -> None:
    for radial in (RADIUS, -(RADIUS**2), torch.cos(9 * RADIUS), torch.full_like(RADIUS, 5.0)):
        rounding = len(radial) * torch.finfo(torch.float64).eps * radial.abs().max()
        assert abs(contrast(radial)) < rounding
    ridge = 0.7 * (AXES < 0.2).double()  # wider than near, narrower than far
    assert contrast(ridge - 3 * RADIUS) == pytest.approx(0.7, rel=1e-12)
    assert contrast(-ridge) == pytest.approx(-0.7, rel=1e-12)
    # Without circles, a volume that falls with the radius would look like a ridge.
    falls = -(RADIUS**2)
    assert falls[AXES < 0.15].mean() - falls[AXES > 0.375].mean() > 0.3


def test_a_curve_and_its_decoy_are_alike_to_the_contrast() -> None:
    turn = DISC.x.new_tensor(xor().decoy)
    curve = Lattice(2.0, 161).curve(xor().side)
    there = distance(DISC.x, curve @ turn.T)
    values = torch.randn(
        len(DISC.x), dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    back = torch.cdist(DISC.x @ turn.T, DISC.x).argmin(1)
    assert contrast(values, there) == pytest.approx(
        contrast(values[back], distance(DISC.x, curve)), abs=1e-2
    )


def test_zones_without_pairs_tell_nothing() -> None:
    assert math.isnan(contrast(RADIUS, torch.full_like(AXES, math.inf)))
    assert math.isnan(contrast(RADIUS, torch.zeros_like(AXES)))
    for near, far, message in (
        (0.0, 0.2, "near = 0.0"),
        (0.3, 0.2, "0 < near <= far < 1"),
        (0.1, 1.0, "far = 1.0"),
        (math.nan, 0.2, "near = nan"),
    ):
        with pytest.raises(InputError, match=message):
            Zones(near, far)


def test_intervals_hold_as_often_as_they_say() -> None:
    """Of 2000 samples of 6 normal numbers; Student's quantile matters at so few."""
    generator = torch.Generator().manual_seed(1)
    draws = 0.4 + 2 * torch.randn(6, 2_000, dtype=torch.float64, generator=generator)
    low, high = Comparison.of(draws, 0.9).interval
    held = ((low < 0.4) & (high > 0.4)).double().mean()
    assert abs(held - 0.9) < 5 * math.sqrt(0.9 * 0.1 / 2_000)


def test_a_comparison_tells_mean_interval_and_size() -> None:
    one = Comparison.of(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), 0.95)
    assert one.mean == 2
    assert one.size == 2
    low, high = (v.item() for v in one.interval)
    assert (high - 2) == pytest.approx(4.30265 / 3**0.5, rel=1e-5)  # Student's t with 2 degrees
    assert low == pytest.approx(4 - high)
    assert not one.above
    assert Comparison.of(torch.tensor([1.0, 1.1, 0.9]), 0.95).above
    noise = 1e-17 * torch.tensor([1.0, 1.1, 0.9], dtype=torch.float64)
    assert not Comparison.of(noise, 0.95, rounding=1e-15).above
    assert str(one) == "+2.000 [-0.484, +4.484], d = 2.0"
    assert level_each(0.95, 5) == pytest.approx(0.99)
    with pytest.raises(InputError, match="level = 95"):
        level_each(95, 2)


# Evidence made by hand: log volumes with a known ridge.


def evidence(ridge: float, shuffled: float, decoy: float, noise: float = 0.01) -> Evidence:
    """Eight networks; ridges at the axes after training, with either labels, and at the diagonals."""
    generator = torch.Generator().manual_seed(4)
    diagonals = distance(DISC.x, Lattice(2.0, 161).curve(lambda x: x[:, 0] ** 2 - x[:, 1] ** 2))
    near, there = (AXES < 0.2).double(), (diagonals < 0.2).double()
    after = torch.stack([ridge * near + decoy * there, shuffled * near])[:, None]
    before = -RADIUS.expand(2, 1, -1)
    volumes = torch.stack([before, before + after], 2)[:, :, :, None]  # (2, 1, 2, 1, m)
    spread = noise * torch.randn(2, 8, 2, 1, 1, dtype=torch.float64, generator=generator)
    away = {Curve.TASK: AXES.expand(8, -1), Curve.DECOY: diagonals.expand(8, -1)}
    volumes = volumes + spread * near
    return Evidence((3,), (0, 10), DISC, Zones(), 0.95, volumes, away, torch.ones(2, 8), "by hand")


def test_evidence_finds_what_was_put_in() -> None:
    comparisons = evidence(0.5, 0.1, 0.0).comparisons()
    assert list(comparisons) == ["untrained", "shuffled labels", "decoy"]
    for name, expected in (("untrained", 0.5), ("shuffled labels", 0.4)):
        assert comparisons[name].estimate.sigmas_from(torch.tensor(expected)) < 5
    # The ridge is far from the decoy, where it counts against it.
    assert comparisons["decoy"].mean > 0.5
    grown = evidence(0.5, 0.1, 0.0).growth()
    assert grown["near"].estimate.sigmas_from(torch.tensor(0.5)) < 5
    assert abs(grown["far"].mean) <= evidence(0.5, 0.1, 0.0).rounding  # equal sums, in other places
    assert evidence(0.5, 0.1, 0.0).rounding < 1e-11


@pytest.mark.parametrize(
    ("ridges", "stands"),
    [
        ((0.5, 0.1, 0.0), True),
        ((0.0, 0.0, 0.0), False),  # nothing learned
        ((-0.5, 0.0, 0.0), False),  # the opposite
        ((0.5, 0.5, 0.0), False),  # any labels do it
        ((0.5, 0.1, 0.6), False),  # the decoy has more
    ],
)
def test_the_hypothesis_stands_only_against_every_control(ridges: tuple, stands: bool) -> None:
    assert evidence(*ridges).magnifies is stands


def test_one_network_in_many_may_lack_a_boundary() -> None:
    some = evidence(0.5, 0.1, 0.0)
    gone = some.away[Curve.TASK].clone()
    gone[2] = math.inf
    computed = replace(some, away={**some.away, Curve.TASK: gone}).comparisons()
    assert computed["untrained"].estimate.count == 7
    assert str(computed["untrained"]).endswith(", 1 pairs left out")
    gone[1:] = math.inf
    with pytest.raises(InputError, match="Only 1 of 8 networks"):
        replace(some, away={**some.away, Curve.TASK: gone}).comparisons()
    with pytest.raises(InputError, match="not known here"):
        some.contrast(Curve.OWN)

"""The contrast sees what is near a curve and nothing else; the experiment finds an effect and no effect."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from analytic.activations import sigmoid
from analytic.domain import InputError
from numeric import geometry
from numeric.boundary import (
    Comparison,
    Curve,
    Disc,
    Evidence,
    Hypothesis,
    Lattice,
    Task,
    Zones,
    distance,
    field,
    fields,
    perceptron,
    sinusoid,
    xor,
)
from numeric.boundary.contrast import level_each
from numeric.boundary.evidence import SHUFFLED, TRUE
from numeric.boundary.fields import log_volume
from numeric.boundary.twins import Twins
from numeric.shallow import ShallowNetwork
from numeric.training import train

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
    for near, far in ((0.0, 0.2), (0.3, 0.2), (0.1, 1.0), (math.nan, 0.2)):
        with pytest.raises(InputError, match="0 < near <= far < 1"):
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
    found = evidence(0.5, 0.1, 0.0).comparisons()
    assert list(found) == ["untrained", "shuffled labels", "decoy"]
    for name, expected in (("untrained", 0.5), ("shuffled labels", 0.4)):
        assert found[name].estimate.sigmas_from(torch.tensor(expected)) < 5
    assert found["decoy"].mean > 0.5  # the ridge is far from the decoy, where it counts against it
    grown = evidence(0.5, 0.1, 0.0).growth()
    assert grown["near"].estimate.sigmas_from(torch.tensor(0.5)) < 5
    assert grown["far"].mean == 0


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
    told = replace(some, away={**some.away, Curve.TASK: gone}).comparisons()
    assert told["untrained"].estimate.count == 7
    gone[1:] = math.inf
    with pytest.raises(InputError, match="Only 1 of 8 networks"):
        replace(some, away={**some.away, Curve.TASK: gone}).comparisons()
    with pytest.raises(InputError, match="not known here"):
        some.contrast(Curve.OWN)


# The experiment itself.

FAST = xor().recipe.hastened(10)
KIND = {"networks": 6, "recipe": FAST, "circles": 10, "device": "cpu"}


@pytest.fixture(scope="module")
def learned() -> Evidence:
    """XOR at width 10, the paper's training time in ten times larger steps."""
    return Hypothesis(xor(), (10,), **KIND).run(progress=False)[(10,)]


def test_xor_is_magnified_at_its_boundary(learned: Evidence) -> None:
    assert learned.accuracy.eq(1).all()
    assert learned.curve is Curve.TASK
    assert learned.magnifies
    assert all(one.size > 1 for one in learned.comparisons().values())
    assert learned.log_volume.shape == (2, 6, 8, 1, len(learned.disc.x))
    assert learned.steps == (0, 2, 6, 20, 40, 70, 120, 200)
    assert all(one.above for one in learned.comparisons(Curve.OWN).values())
    for part in (
        "cross_entropies on 4 examples all at once, nothing added",
        "lr=0.2",
        "momentum=0.9",
    ):
        assert part in learned.statement


def test_untrained_networks_have_no_effect_beyond_chance() -> None:
    """Labels that are learned from nothing: with no step taken, the verdict is no."""
    idle = KIND | {"recipe": replace(FAST, epochs=0)}
    found = Hypothesis(xor(), (10,), **idle).run(progress=False)[(10,)]
    assert found.steps == (0,)
    trained = found.comparisons()
    assert trained["untrained"].mean == trained["shuffled labels"].mean == 0
    assert abs(trained["decoy"].mean) < 5 * trained["decoy"].estimate.stderr
    assert not found.magnifies


def test_twins_share_start_and_data_but_not_labels(learned: Evidence) -> None:
    twins = Twins(sinusoid(40), (3,), range(4), sinusoid().recipe, None, torch.float64)
    x, y = twins.data
    assert x.shape == (40, 8, 2)
    assert torch.equal(x[:, :4], x[:, 4:])
    assert not torch.equal(y[:, :4], y[:, 4:])
    assert torch.equal(y[:, :4].sum(0), y[:, 4:].sum(0))
    start = learned.log_volume[:, :, 0]
    assert torch.equal(start[TRUE], start[SHUFFLED])
    assert not torch.equal(learned.log_volume[TRUE, :, -1], learned.log_volume[SHUFFLED, :, -1])


def test_a_second_run_finds_what_the_first_has_kept(tmp_path: Path, learned: Evidence) -> None:
    kind = KIND | {"keep": tmp_path}
    first = Hypothesis(xor(), (10,), **kind).run(progress=False)[(10,)]
    assert torch.equal(first.log_volume, learned.log_volume)
    written = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert set(written) == {"xor-10-run.pt", "xor-10-volumes.pt"}
    again = Hypothesis(xor(), (10,), **kind).run(progress=False)[(10,)]
    assert torch.equal(first.log_volume, again.log_volume)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written
    with pytest.raises(InputError, match="another model, loss"):
        Hypothesis(xor(), (10,), **kind | {"seed": 1}).run(progress=False)


def test_points_of_one_s_own_are_tested_at_the_networks_own_boundaries() -> None:
    task = Task.of(*xor().data(0))
    found = Hypothesis(task, (10,), **KIND | {"networks": 3}).run(progress=False)[(10,)]
    assert found.curve is Curve.OWN
    assert set(found.away) == {Curve.OWN, Curve.OWN_DECOY}
    assert list(found.comparisons()) == ["untrained", "shuffled labels", "decoy"]


def test_seeds_and_shapes_do_not_depend_on_what_else_is_run() -> None:
    kind = KIND | {"networks": 2, "recipe": replace(FAST, epochs=20), "circles": 4}
    both = Hypothesis(xor(), (3, (4, 2)), **kind).run(progress=False)
    alone = Hypothesis(xor(), ((4, 2),), **kind).run(progress=False)
    assert torch.equal(both[(4, 2)].log_volume, alone[(4, 2)].log_volume)
    assert both[(4, 2)].log_volume.shape[3] == 2
    assert both[(4, 2)].level == pytest.approx(0.975)
    other = Hypothesis(xor(), (3,), seed=1, **kind).run(progress=False)
    assert not torch.equal(other[(3,)].log_volume, both[(3,)].log_volume)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"task": "xor"}, "must be a Task"),
        ({"shapes": ()}, "one at least"),
        ({"shapes": (3, (3,))}, "differ"),
        ({"shapes": (0,)}, "width = 0"),
        ({"networks": 1}, "networks = 1"),
        ({"seed": -1}, "seed = -1"),
        ({"level": 1.0}, "level = 1.0"),
        ({"circles": 0}, "circles = 0"),
    ],
)
def test_bad_experiments_are_told(change: dict, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Hypothesis(**{"task": xor(), "shapes": (3,)} | change)


# Fields.


def test_fields_are_those_of_the_paper_s_features() -> None:
    """n^(-1/2) phi: the volume against autograd; R against moments of units, and of the map itself."""
    net, lattice = perceptron((5, 4), seed=3), Lattice(1.5, 4)
    found = field(net, lattice)
    assert found.log_volume.shape == found.ricci.shape == found.condition.shape == (2, 4, 4)
    for k, features in enumerate((net[:3], net[:6])):
        J = torch.stack([torch.autograd.functional.jacobian(features, p) for p in lattice.x])
        exact = torch.linalg.det(J.mT @ J).log() / 2
        torch.testing.assert_close(found.log_volume[k].flatten(), exact, rtol=0, atol=1e-9)
        R = geometry.ricci_scalar(features, lattice.x).value
        torch.testing.assert_close(found.ricci[k].flatten(), R, rtol=1e-7, atol=1e-7)
    first = ShallowNetwork(sigmoid, net.linear1.weight.detach(), net.linear1.bias.detach())
    torch.testing.assert_close(
        found.ricci[0].flatten(), first.ricci_scalar(lattice.x), rtol=1e-7, atol=1e-7
    )
    lead = net(lattice.x)[:, 1] - net(lattice.x)[:, 0]
    torch.testing.assert_close(found.margin.flatten(), lead.detach())


def test_two_units_are_flat_and_fields_follow_a_run() -> None:
    net, lattice = perceptron(2, seed=1), Lattice(1.0, 6)
    run = train(net, nn.CrossEntropyLoss(), xor().data(0), FAST.optimizer, steps=30, at=(10,),
                device="cpu", progress=False)  # fmt: skip
    seen = fields(run, lattice, progress=False)
    assert list(seen) == [0, 10, 30]
    torch.testing.assert_close(seen[0].log_volume, log_volume(net, lattice.x).unflatten(1, (6, 6)))
    assert not torch.equal(seen[10].log_volume, seen[30].log_volume)
    for one in seen.values():
        assert one.ricci.abs().max() < 1e-9 * one.condition.max() ** 2
        assert one.boundary.shape[1] == 2

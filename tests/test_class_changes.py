"""Contrasts at class changes: by a walk along each line, on known volumes, and refused ones."""

import math

import pytest
import torch
from torch import Tensor

from numeric.experiments.class_changes import (
    BESIDE,
    ENDS,
    PLACES,
    SIDES,
    Evidence,
    Lines,
    lines_between,
    lines_within,
)
from refusals import require_refusals

POINTS = 21
T = torch.linspace(0, 1, POINTS, dtype=torch.float64)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def changing_at(*places: int) -> list[int]:
    """Classes of a line that change after these points."""
    return [sum(k > place for place in places) for k in range(POINTS)]


PREDICTION = torch.tensor([
    changing_at(9), changing_at(4, 12), changing_at(1), changing_at(), changing_at(2, 10),
])  # fmt: skip


def walked(classes: list[int], volumes: list[float], against: str) -> float:
    """A contrast as the module's first lines say it, point by point."""
    gap, found = round(BESIDE * (POINTS - 1)), []
    for k in range(POINTS - 1):
        if classes[k] == classes[k + 1]:
            continue

        def between(j: int) -> float:
            return (volumes[j] + volumes[j + 1]) / 2

        if against == ENDS:
            found.append(between(k) - (volumes[0] + volumes[-1]) / 2)
        elif k - gap >= 0 and k + 1 + gap <= POINTS - 1:
            found.append(between(k) - (between(k - gap) + between(k + gap)) / 2)
    return math.fsum(found) / len(found) if found else math.nan


@pytest.mark.parametrize("against", [ENDS, SIDES])
def test_contrasts_are_those_of_a_walk_along_each_line(against: str) -> None:
    volumes = drawn(len(PREDICTION), POINTS) * 10
    evidence = Evidence(PREDICTION, volumes, {"none": torch.zeros_like(volumes)})
    expected = [
        walked(classes, row, against)
        for classes, row in zip(PREDICTION.tolist(), volumes.tolist(), strict=True)
    ]
    torch.testing.assert_close(
        evidence.contrast(against), torch.tensor(expected).double(), equal_nan=True
    )
    lost = sum(map(math.isnan, expected))
    one = evidence.comparisons(against)["none"]
    assert (one.lost, one.estimate.count) == (lost, len(expected) - lost)
    torch.testing.assert_close(one.mean, evidence.plain(against).mean)
    there = [k for k, value in enumerate(expected) if not math.isnan(value)]
    swapped = [  # the same lines at the places of the one before
        expected[k] - walked(PREDICTION[other].tolist(), volumes[k].tolist(), against)
        for k, other in zip(there, there[-1:] + there[:-1], strict=True)
    ]
    decoy = evidence.comparisons(against)[PLACES]
    assert decoy.mean.item() == pytest.approx(math.fsum(swapped) / len(there), rel=1e-12)


def test_a_slope_has_no_contrast_beside_and_a_constant_none_at_all() -> None:
    slopes = drawn(len(PREDICTION), 1) * T + 5
    one = Evidence(PREDICTION, slopes, {})
    assert one.contrast(SIDES).nan_to_num().abs().max() < 1e-13
    raised = Evidence(PREDICTION, slopes + drawn(len(PREDICTION), 1, seed=1), {})
    for against in (ENDS, SIDES):
        torch.testing.assert_close(raised.contrast(against), one.contrast(against), equal_nan=True)


def test_the_rule_wants_more_than_every_control_has() -> None:
    prediction = torch.tensor([changing_at(k) for k in (5, 9, 6, 13)])
    places = torch.tensor([5.5, 9.5, 6.5, 13.5])[:, None] / (POINTS - 1)
    noise = drawn(4, POINTS, seed=2) / 100
    ridge = torch.exp(-((T - places) ** 2) * 100) + noise
    arch = 4 * T * (1 - T) + drawn(4, POINTS, seed=3) / 100  # highest in the middle for no reason
    flat = drawn(4, POINTS, seed=4) / 100
    assert Evidence(prediction, ridge, {"flat": flat}).magnifies
    assert Evidence(prediction, ridge + arch, {"flat": flat, "arch": arch}).magnifies
    pictured = Evidence(prediction, arch, {"flat": flat})
    assert pictured.plain(ENDS).above
    assert pictured.plain(SIDES).above
    assert pictured.magnifies_as_first_stated
    assert not pictured.magnifies  # at another line's places it is as large
    for volumes, controls in (
        (ridge, {"flat": flat, "ridge": ridge + noise}),
        (-ridge, {"flat": flat}),
    ):
        refused = Evidence(prediction, volumes, controls)
        assert not refused.magnifies
        assert not refused.magnifies_as_first_stated


def test_intervals_of_a_network_hold_together() -> None:
    """Bonferroni over two contrasts and the controls: one of them is that of places."""
    volumes, flat = drawn(3, POINTS), torch.zeros(3, POINTS).double()
    prediction = torch.tensor([changing_at(9)] * 3)
    one = Evidence(prediction, volumes, {"a": flat}).comparisons(ENDS)["a"]
    five = Evidence(prediction, volumes, dict.fromkeys("abcde", flat)).comparisons(ENDS)["a"]
    assert one.level == pytest.approx(1 - 0.05 / 4)
    assert five.level == pytest.approx(1 - 0.05 / 12)
    first = Evidence(prediction, volumes, {"a": flat}).comparisons(ENDS, places=False)
    assert list(first) == ["a"]
    assert first["a"].level == pytest.approx(1 - 0.05 / 2)


def test_lines_join_images_that_are_classified_right_and_use_each_once() -> None:
    x, y = drawn(60, 3), torch.arange(60) % 4

    def classify(images: Tensor) -> Tensor:
        rows = torch.cdist(images, x).argmin(1)
        return torch.where(rows < 10, 9, y[rows])  # the first ten are wrong

    between = lines_between(classify, x, y, 20, seed=1)
    rows = torch.cdist(torch.cat([between.start, between.end]), x).argmin(1)
    assert len(set(rows.tolist())) == 40
    assert rows.min() >= 10
    assert (y[rows[:20]] != y[rows[20:]]).all()
    assert (between.on(classify)[:, 0] != between.on(classify)[:, -1]).all()
    other = lines_between(classify, x, y, 20, seed=2)
    assert not torch.equal(other.start, between.start)
    within = lines_within(classify, x, y, 1, seed=1, points=5)
    assert (within.on(classify) == within.on(classify)[:, :1]).all()
    assert within.x.shape == (5, 3)
    torch.testing.assert_close(within.x[2], (within.start[0] + within.end[0]) / 2)


def test_wrong_calls_are_refused() -> None:
    x, y = drawn(6, 2), torch.arange(6) % 2
    flat = torch.zeros(5, POINTS).double()
    steady = torch.zeros_like(PREDICTION)
    require_refusals([
        ("too many lines", lambda: lines_between(lambda x: y, x, y, 4)),
        ("nothing right", lambda: lines_between(lambda x: 1 - y, x, y, 1)),
        ("no lines", lambda: lines_between(lambda x: y, x, y, 0)),
        ("two points", lambda: Lines(x, x, points=2)),
        ("other ends", lambda: Lines(x, x[:3])),
        ("no starts", lambda: Lines("x", x)),
        ("a name for a function", lambda: lines_between("predicted", x, y, 1)),
        ("a function of nothing", lambda: lines_within(lambda x: None, x, y, 1)),
        ("logits for classes", lambda: lines_between(lambda x: x, x, y, 1)),
        ("no images", lambda: lines_between(lambda x: y, None, y, 1)),
        ("lists of labels", lambda: lines_within(lambda x: y, x, y.tolist(), 1)),
        ("fewer labels", lambda: lines_between(lambda x: y, x, y[:3], 1)),
        ("other shapes", lambda: Evidence(PREDICTION, flat[:3], {})),
        ("a control of another shape", lambda: Evidence(PREDICTION, flat, {"a": flat[:, :3]})),
        ("infinite volumes", lambda: Evidence(PREDICTION, flat - math.inf, {})),
        ("no change", lambda: Evidence(steady, flat, {"a": flat}).comparisons(ENDS)),
        ("no control", lambda: Evidence(PREDICTION, drawn(5, POINTS), {}).magnifies_as_first_stated),
        ("another contrast", lambda: Evidence(PREDICTION, flat, {}).contrast("middle")),
        ("level", lambda: Evidence(PREDICTION, flat, {}, level=1.0)),
    ])  # fmt: skip

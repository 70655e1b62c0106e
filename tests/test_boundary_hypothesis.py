"""The experiment finds an effect, no effect, and what an earlier run has kept."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from analytic.expressions.arguments import InputError
from numeric.experiments.decision_boundaries import (
    Curve,
    Evidence,
    Hypothesis,
    Task,
    sinusoid,
    xor,
)
from numeric.experiments.decision_boundaries.evidence import SHUFFLED, TRUE
from numeric.experiments.decision_boundaries.hypothesis import Twins
from numeric.runs.training import TrainingState

FAST = xor().recipe.with_larger_steps(10)
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
    """Labels that are learned from nothing: with no step taken, the verdict is no.

    What is 0 by symmetry is 0 to rounding. The decoy's mean is of 6 random networks: Student's t with 5
    degrees of freedom is beyond 5 with probability 0.004, and for these networks it is 1.0.
    """
    idle = KIND | {"recipe": replace(FAST, epochs=0)}
    evidence = Hypothesis(xor(), (10,), **idle).run(progress=False)[(10,)]
    assert evidence.steps == (0,)
    trained = evidence.comparisons()
    for control in ("untrained", "shuffled labels"):
        assert abs(trained[control].mean) <= evidence.rounding < 1e-10
        assert not trained[control].above
    assert abs(trained["decoy"].mean) < 5 * trained["decoy"].estimate.stderr
    assert not evidence.magnifies


def test_twins_share_start_and_data_but_not_labels(learned: Evidence) -> None:
    twins = Twins(sinusoid(40), (3,), range(4), sinusoid().recipe, None, torch.float64)
    x, y = twins.data
    assert x.shape == (40, 8, 2)
    assert torch.equal(x[:, :4], x[:, 4:])
    assert not torch.equal(y[:, :4], y[:, 4:])
    assert torch.equal(y[:, :4].sum(0), y[:, 4:].sum(0))
    start = learned.log_volume[:, :, 0]
    assert (start[TRUE] - start[SHUFFLED]).abs().max() <= learned.rounding
    assert not torch.equal(learned.log_volume[TRUE, :, -1], learned.log_volume[SHUFFLED, :, -1])


def test_a_second_run_finds_what_the_first_has_kept(tmp_path: Path, learned: Evidence) -> None:
    kind = KIND | {"store": tmp_path}
    first = Hypothesis(xor(), (10,), **kind).run(progress=False)[(10,)]
    assert torch.equal(first.log_volume, learned.log_volume)
    written = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert set(written) == {"xor-10-run.pt", "xor-10-run.pt.snapshots", "xor-10-volumes.pt"}
    again = Hypothesis(xor(), (10,), **kind).run(progress=False)[(10,)]
    assert torch.equal(first.log_volume, again.log_volume)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written
    with pytest.raises(InputError, match="another model, optimiser"):
        Hypothesis(xor(), (10,), **kind | {"seed": 1}).run(progress=False)


def test_an_interrupted_experiment_goes_on_and_ends_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints come every thousand updates, so that the interrupt is in the middle of a shape."""
    long = KIND | {"networks": 2, "circles": 4, "recipe": replace(FAST, epochs=1_100)}
    whole = Hypothesis(xor(), (3,), **long).run(progress=False)[(3,)]
    update = TrainingState.update

    def stopped(state: TrainingState) -> None:
        if state.step == 1_050:
            raise KeyboardInterrupt
        update(state)

    monkeypatch.setattr(TrainingState, "update", stopped)
    with pytest.raises(KeyboardInterrupt):
        Hypothesis(xor(), (3,), store=tmp_path, **long).run(progress=False)
    assert {path.name for path in tmp_path.iterdir()} == {"xor-3-run.pt", "xor-3-run.pt.snapshots"}
    calls: list[int] = []
    monkeypatch.setattr(
        TrainingState, "update", lambda state: (calls.append(state.step), update(state))
    )
    again = Hypothesis(xor(), (3,), store=tmp_path, **long).run(progress=False)[(3,)]
    assert calls == list(range(1_000, 1_100))
    assert torch.equal(again.log_volume, whole.log_volume)
    assert torch.equal(again.away[Curve.OWN], whole.away[Curve.OWN])


def test_points_of_one_s_own_are_tested_at_the_networks_own_boundaries() -> None:
    task = Task.of(*xor().data(0))
    evidence = Hypothesis(task, (10,), **KIND | {"networks": 3}).run(progress=False)[(10,)]
    assert evidence.curve is Curve.OWN
    assert set(evidence.away) == {Curve.OWN, Curve.OWN_DECOY}
    assert list(evidence.comparisons()) == ["untrained", "shuffled labels", "decoy"]


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
    ("change", "message"),
    [
        ({"task": "xor"}, "must be of class Task"),
        ({"shapes": ()}, "one at least"),
        ({"shapes": (3, (3,))}, "differ"),
        ({"shapes": (0,)}, "width = 0"),
        ({"networks": 1}, "networks = 1"),
        ({"seed": -1}, "seed = -1"),
        ({"level": 1.0}, "level = 1.0"),
        ({"circles": 0}, "circles = 0"),
    ],
)
def test_bad_experiments_are_told(change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Hypothesis(**{"task": xor(), "shapes": (3,)} | change)

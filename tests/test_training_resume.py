"""A stopped training run ends as if it never was, to the last bit, and no other takes its file."""

import errno
import math
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from analytic.expressions.arguments import InputError
from numeric.runs import Run, train
from numeric.runs.result import Loss
from numeric.runs.training_state import TrainingState
from short_runs import SGD, data, model, same, trained

OPTIMIZERS = {
    "SGD": SGD,
    "Adam": partial(torch.optim.AdamW, lr=0.01, amsgrad=True),
    "NAdam": partial(torch.optim.NAdam, lr=0.01),  # it has numbers in float32 whatever the model
    "RMSprop": partial(torch.optim.RMSprop, lr=0.01, momentum=0.5),
    "LBFGS": partial(torch.optim.LBFGS, lr=0.1, max_iter=3, history_size=4),
}


class Interrupted(Exception):
    """What stops a run in these tests, where a person would press a key."""


class Clock:
    """Counts updates down; the run stops in the middle of the last one."""

    def __init__(self) -> None:
        self.left = math.inf

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        if self.left == 0:
            self.left = math.inf
            raise Interrupted
        return F.cross_entropy(out, y)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one, update = Clock(), TrainingState.update

    def counted(state: TrainingState) -> None:
        one.left -= 1
        update(state)

    monkeypatch.setattr(TrainingState, "update", counted)
    return one


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("stop", [2, 8, 29])
def test_an_interrupted_run_ends_as_if_it_never_was(
    tmp_path: Path, optimizer: str, stop: int, clock: Clock
) -> None:
    """Minibatches, dropout and the optimiser's memory all go on where they were."""
    kind = {
        "optimizer": OPTIMIZERS[optimizer], "batch": 5, "seed": 4, "at": (0, 3, 11, 30),
        "device": "cpu", "progress": False, "steps": 40,
    }  # fmt: skip
    whole = train(model(0.3), clock.loss, data(), **kind)
    keep = tmp_path / "run.pt"
    clock.left = stop
    with pytest.raises(Interrupted):
        train(model(0.3), clock.loss, data(), keep=keep, every=7, **kind)
    assert keep.exists() == (stop > 7)
    again = train(model(0.3), clock.loss, data(), keep=keep, every=7, **kind)
    assert same(whole, again)
    clock.left = 1
    done = train(model(0.3), clock.loss, data(), keep=keep, every=7, **kind)  # no step is left
    clock.left = math.inf
    assert same(whole, done)
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]


def test_a_write_that_fails_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = tmp_path / "run.pt"
    kind = {"batch": 5, "keep": keep, "every": 10}
    whole = trained(30, batch=5)
    trained(10, **kind)

    def full(descriptor: int) -> None:
        os.truncate(descriptor, 100)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"run\.pt could not be written .*No space left.* is whole"):
        trained(30, **kind)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]
    assert same(whole, trained(30, **kind))


def test_a_place_that_takes_no_file_is_told_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    steps: list[int] = []

    def counted(out: Tensor, y: Tensor) -> Tensor:
        steps.append(1)
        return F.cross_entropy(out, y)

    for keep, message in (
        (tmp_path, "is a folder"),
        (tmp_path / "file" / "run.pt", "cannot be written"),
    ):
        with pytest.raises(InputError, match=message):
            train(model(), counted, data(), SGD, steps=3, keep=keep, device="cpu", progress=False)
    assert not steps


def test_a_scheduler_is_not_lost_without_a_word(tmp_path: Path) -> None:
    def falling(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        optimizer = SGD(parameters)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        optimizer.register_step_post_hook(lambda *_: schedule.step())
        return optimizer

    assert not same(trained(5, optimizer=falling), trained(5))
    with pytest.raises(InputError, match="has a scheduler, whose state no checkpoint holds"):
        trained(5, optimizer=falling, keep=tmp_path / "run.pt")


def test_a_finished_run_can_be_prolonged(tmp_path: Path) -> None:
    keep = tmp_path / "deep" / "run.pt"
    trained(20, batch=5, keep=keep)
    assert same(trained(40, batch=5, keep=keep), trained(40, batch=5))


def test_statistics_of_batch_norm_belong_to_snapshots(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()
    keep = tmp_path / "run.pt"
    half = trained(9, net=net, batch=5, keep=keep, every=4)
    run = trained(18, net=net, batch=5, keep=keep, every=4)
    assert same(run, trained(18, net=net, batch=5))
    assert run.model[1].num_batches_tracked == 18
    assert half.model[1].num_batches_tracked == 9


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    keep = tmp_path / "run.pt"
    trained(10, keep=keep)
    x, y = data()
    frozen = model()
    frozen[0].requires_grad_(False)
    changes: dict[str, Callable[[], object]] = {
        "seed": lambda: trained(10, keep=keep, seed=1),
        "batch": lambda: trained(10, keep=keep, batch=4),
        "rate": lambda: trained(10, keep=keep, optimizer=partial(SGD, lr=0.06)),
        "uphill": lambda: trained(10, keep=keep, optimizer=partial(SGD, maximize=True)),
        "frozen": lambda: trained(10, keep=keep, net=frozen),
        "fewer": lambda: trained(10, keep=keep, optimizer=lambda some: SGD(list(some)[:2])),
        "model": lambda: trained(10, keep=keep, net=model().requires_grad_().apply(_nudge)),
        "module": lambda: trained(10, keep=keep, net=nn.Sequential(*model(), nn.Identity())),
        "key": lambda: trained(10, keep=keep, key="another"),
        "data": lambda: train(model(), F.cross_entropy, (x, 1 - y), SGD, steps=10, keep=keep,
                              device="cpu", progress=False),
    }  # fmt: skip
    for changed in changes.values():
        with pytest.raises(InputError, match="written by a run of another model, optimiser"):
            changed()
    with pytest.raises(InputError, match=r"no snapshots of steps \[3\]"):
        trained(10, keep=keep, at=(3,))


OTHER_VALUES = "model or loss computes other values than in the run that wrote"
WEIGHT = 1.0


def globally_weighed(out: Tensor, y: Tensor) -> Tensor:
    return WEIGHT * F.cross_entropy(out, y)


class Sloped(nn.Sequential):
    """A model with a plain attribute, which no state dict holds."""

    slope = 1.0

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.slope * x)


def test_a_checkpoint_of_another_loss_or_attribute_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code is not compared, numbers are: the same function under another name may go on."""
    keep, kind = tmp_path / "run.pt", {"device": "cpu", "progress": False}

    def run(loss: Loss = globally_weighed, dropout: float = 0.0, slope: float = 1.0) -> Run:
        net = Sloped(*model(dropout))
        net.slope = slope
        return train(net, loss, data(), SGD, steps=2, keep=keep, **kind)

    first = run()
    assert same(run(lambda out, y: F.cross_entropy(out, y)), first)
    for changed in (
        lambda: run(F.multi_margin_loss),
        lambda: run(lambda out, y: 1.001 * F.cross_entropy(out, y)),
        lambda: run(slope=1.001),
        lambda: run(dropout=0.5),
    ):
        with pytest.raises(InputError, match=OTHER_VALUES):
            changed()
    monkeypatch.setitem(globals(), "WEIGHT", 2.0)
    with pytest.raises(InputError, match=OTHER_VALUES):
        run()


def test_a_term_that_is_0_at_the_start_is_noticed_at_the_checkpoint(tmp_path: Path) -> None:
    keep, kind = tmp_path / "run.pt", {"device": "cpu", "progress": False}
    start = model()(data()[0]).detach()

    def drawn_back(strength: float) -> Loss:
        return lambda out, y: F.cross_entropy(out, y) + strength * (out - start).square().sum()

    train(model(), drawn_back(0.1), data(), SGD, steps=5, keep=keep, **kind)
    with pytest.raises(InputError, match="weights of its last step"):
        train(model(), drawn_back(0.2), data(), SGD, steps=9, keep=keep, **kind)


def test_rounding_of_another_processor_is_no_other_run(tmp_path: Path) -> None:
    def rounded(off: float) -> Loss:
        return lambda out, y: (1 + off) * F.cross_entropy(out, y)

    kind = {"steps": 2, "keep": tmp_path / "run.pt", "device": "cpu", "progress": False}
    train(model(), rounded(0.0), data(), SGD, **kind)
    train(model(), rounded(1e-12), data(), SGD, **kind)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    """Cut short, or with one bit of a parameter turned."""
    keep = tmp_path / "run.pt"
    weight = trained(10, keep=keep).model[0].weight.detach().numpy().tobytes()
    good = keep.read_bytes()
    turned = bytearray(good)
    turned[good.index(weight) + 5] ^= 1
    for bad in (good[:0], good[:200], good[:-1], bytes(turned)):
        keep.write_bytes(bad)
        with pytest.raises(InputError, match=r"holds no run, but .*: delete it"):
            trained(20, keep=keep)
    keep.write_bytes(good)
    assert same(trained(20, keep=keep), trained(20))


def _nudge(part: nn.Module) -> None:
    if isinstance(part, nn.Linear):
        part.bias.data += 1e-12

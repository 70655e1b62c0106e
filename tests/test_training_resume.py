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
import torch.optim.lr_scheduler as schedulers
from torch import Tensor, nn

from analytic.expressions.arguments import InputError
from numeric.runs import Batch, Run, train
from numeric.runs.result import Loss
from numeric.runs.training import TrainingState
from short_runs import SGD, data, model, same, trained

OPTIMIZERS = {
    "SGD": SGD,
    "Adam": partial(torch.optim.AdamW, lr=0.01, amsgrad=True),
    "NAdam": partial(torch.optim.NAdam, lr=0.01),  # it has numbers in float32 whatever the model
    "RMSprop": partial(torch.optim.RMSprop, lr=0.01, momentum=0.5),
    "LBFGS": partial(torch.optim.LBFGS, lr=0.1, max_iter=3, history_size=4),
}


FILES = ["run.pt", "run.pt.snapshots"]


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
        "optimizer": OPTIMIZERS[optimizer], "batch_size": 5, "seed": 4, "at": (0, 3, 11, 30),
        "device": "cpu", "progress": False, "steps": 40,
    }  # fmt: skip
    whole = train(model(0.3), clock.loss, data(), **kind)
    store = tmp_path / "run.pt"
    clock.left = stop
    with pytest.raises(Interrupted):
        train(model(0.3), clock.loss, data(), store=store, every=7, **kind)
    assert store.exists() == (stop > 7)
    again = train(model(0.3), clock.loss, data(), store=store, every=7, **kind)
    assert same(whole, again)
    clock.left = 1
    done = train(model(0.3), clock.loss, data(), store=store, every=7, **kind)  # no step is left
    clock.left = math.inf
    assert same(whole, done)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


def test_a_write_that_fails_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "run.pt"
    kind = {"batch_size": 5, "store": store, "every": 10}
    whole = trained(30, batch_size=5)
    trained(10, **kind)

    def full(descriptor: int) -> None:
        if not os.path.samestat(os.fstat(descriptor), (tmp_path / FILES[1]).stat()):
            os.truncate(descriptor, 100)
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"run\.pt could not be written .*No space left.* is whole"):
        trained(30, **kind)
    monkeypatch.undo()
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    assert same(whole, trained(30, **kind))


def test_a_place_that_takes_no_file_is_told_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    steps: list[int] = []

    def counted(out: Tensor, y: Tensor) -> Tensor:
        steps.append(1)
        return F.cross_entropy(out, y)

    for store, message in (
        (tmp_path, "is a folder"),
        (tmp_path / "file" / "run.pt", "cannot be written"),
    ):
        with pytest.raises(InputError, match=message):
            train(model(), counted, data(), SGD, steps=3, store=store, device="cpu", progress=False)
    assert not steps


def test_a_scheduler_is_not_lost_without_a_word(tmp_path: Path) -> None:
    def falling(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        optimizer = SGD(parameters)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        optimizer.register_step_post_hook(lambda *_: schedule.step())
        return optimizer

    assert not same(trained(5, optimizer=falling), trained(5))
    with pytest.raises(InputError, match="has a scheduler, whose state no checkpoint holds"):
        trained(5, optimizer=falling, store=tmp_path / "run.pt")


SCHEDULERS = {
    "step": partial(schedulers.StepLR, step_size=5, gamma=0.5),
    "milestones": partial(schedulers.MultiStepLR, milestones=[3, 9, 20]),
    "one cycle": partial(schedulers.OneCycleLR, max_lr=0.1, total_steps=40),  # momentum moves too
    "restarts": partial(schedulers.CosineAnnealingWarmRestarts, T_0=6, T_mult=2),
    "function": partial(schedulers.LambdaLR, lr_lambda=lambda step: 1 / (1 + step)),
    "plateau": partial(schedulers.ReduceLROnPlateau, patience=0, factor=0.7),
    "warm-up, then down": lambda optimizer: schedulers.SequentialLR(
        optimizer,
        [
            schedulers.LinearLR(optimizer, 0.1, total_iters=4),
            schedulers.ExponentialLR(optimizer, 0.9),
        ],
        milestones=[4],
    ),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduled_run_resumes_to_the_same_bits(tmp_path: Path, name: str, clock: Clock) -> None:
    kind = {
        "optimizer": SGD, "scheduler": SCHEDULERS[name], "batch_size": 5, "device": "cpu",
        "progress": False, "steps": 40,
    }  # fmt: skip
    whole = train(model(), clock.loss, data(), **kind)
    assert not same(whole, trained(40, batch_size=5))
    clock.left = 18
    with pytest.raises(Interrupted):
        train(model(), clock.loss, data(), store=tmp_path / "run.pt", every=7, **kind)
    assert same(whole, train(model(), clock.loss, data(), store=tmp_path / "run.pt", **kind))
    with pytest.raises(InputError, match="another model, optimiser, scheduler"):
        train(
            model(),
            F.cross_entropy,
            data(),
            store=tmp_path / "run.pt",
            **kind | {"scheduler": None},
        )


def test_a_scheduler_does_what_one_writes_by_hand() -> None:
    net, (x, y), losses = model(), data(), []
    optimizer = SGD(net.parameters())
    scheduler = SCHEDULERS["step"](optimizer)
    for _ in range(12):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    run = trained(12, scheduler=SCHEDULERS["step"])
    assert run.losses.tolist() == losses
    assert "learning rates of StepLR" in run.statement


class TwoViews:
    """A self-supervised step that draws its views from torch's global generator, and can be stopped."""

    def __init__(self) -> None:
        self.left, self.seen = math.inf, []

    def __repr__(self) -> str:
        return "TwoViews"

    def __call__(self, net: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> Tensor:
        self.left -= 1
        if self.left == 0:
            raise Interrupted
        self.seen.append(batch.index)
        one, two = (net(batch.x + 0.1 * torch.randn_like(batch.x)) for _ in range(2))
        loss = (one - two).square().mean() + (one.std(0) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss


@pytest.mark.parametrize("size", [None, 5])
def test_a_self_supervised_step_resumes_to_the_same_bits(tmp_path: Path, size: int | None) -> None:
    x, store = data()[0], tmp_path / "run.pt"
    kind = {"steps": 30, "batch_size": size, "at": (9, 17), "device": "cpu", "progress": False}
    whole_step, stopped, again = TwoViews(), TwoViews(), TwoViews()
    whole = train(model(), None, (x, None), SGD, step=whole_step, **kind)
    assert whole.losses[-5:].mean() < whole.losses[:5].mean()
    assert whole.loss is None
    assert whole.data[1] is None
    assert whole.statement.startswith("steps of TwoViews on 23 examples")
    stopped.left = 20
    with pytest.raises(Interrupted):
        train(model(), None, (x, None), SGD, step=stopped, store=store, every=8, **kind)
    resumed = train(model(), None, (x, None), SGD, step=again, store=store, **kind)
    assert same(whole, resumed)
    assert (
        len(again.seen) == 30 - 16
    )  # what was stored is not computed again, nor is any update tried
    for one, two in zip(whole_step.seen[16:], again.seen, strict=True):
        assert torch.equal(one, two)
    assert sorted(torch.cat(whole_step.seen[:5]).tolist())[:23] == (
        list(range(23)) if size else [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5 + [4] * 3
    )


def test_a_plain_step_written_out_is_the_loop_itself() -> None:
    def plain(net: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(batch.x), batch.y)
        loss.backward()
        optimizer.step()
        return loss

    kind = {"batch_size": 5, "net": model(0.3)}
    assert same(trained(20, step=plain, **kind), trained(20, **kind))


def test_snapshots_after_the_checkpoint_are_dropped_and_made_again(
    tmp_path: Path, clock: Clock
) -> None:
    store, kind = tmp_path / "run.pt", {"at": range(0, 31, 3), "batch_size": 5, "steps": 30}
    kind |= {"optimizer": SGD, "every": 10, "device": "cpu", "progress": False}
    whole = train(model(), clock.loss, data(), **kind)
    clock.left = 19  # with snapshots of steps 12, 15 and 18 after the checkpoint of step 10
    with pytest.raises(Interrupted):
        train(model(), clock.loss, data(), store=store, **kind)
    grown = (tmp_path / "run.pt.snapshots").stat().st_size
    again = train(model(), clock.loss, data(), store=store, **kind)
    assert same(whole, again)
    assert again.steps == whole.steps == tuple(range(0, 31, 3))
    rows = (tmp_path / "run.pt.snapshots").stat().st_size / grown
    assert 11 / 8 < rows + 0.01 < 11 / 6  # appended to, each snapshot once


def test_snapshots_of_every_dtype_come_back_as_they_were(tmp_path: Path) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, dtype=torch.float64))
            self.register_buffer("narrow", torch.tensor([1.5, -2.0], dtype=torch.bfloat16))
            self.register_buffer("mask", torch.tensor([[True, False]]))
            self.register_buffer("empty", torch.empty(0, 3))
            self.register_buffer("count", torch.tensor(7))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight

    kind = {"net": Mixed(), "store": tmp_path / "run.pt"}
    run = trained(3, **kind)
    for state in (run.snapshots[0], trained(3, **kind).snapshots[3]):
        assert list(state) == ["weight", "narrow", "mask", "empty", "count"]
        for name, value in Mixed().state_dict().items():
            assert (state[name].dtype, state[name].shape) == (value.dtype, value.shape)
            assert name == "weight" or torch.equal(state[name], value)


def test_damaged_or_missing_snapshots_are_told(tmp_path: Path) -> None:
    store, beside = tmp_path / "run.pt", tmp_path / "run.pt.snapshots"
    run = trained(10, store=store)
    good = beside.read_bytes()
    beside.write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:])
    with pytest.raises(InputError, match=r"snapshot of step 10 in .* is damaged: delete"):
        _ = run.model
    beside.write_bytes(good[:-9])
    with pytest.raises(InputError, match="has 1 rows, not 2: it was cut short"):
        trained(20, store=store)
    beside.unlink()
    with pytest.raises(InputError, match="can no longer be read"):
        run.model_at(0)
    beside.write_bytes(good)
    store.unlink()  # as one is told to do with the file of another run: its snapshots go too
    assert same(trained(10, store=store, seed=1, batch_size=5), trained(10, seed=1, batch_size=5))
    with pytest.raises(InputError, match="rows of another run"):
        run.model_at(0)


def test_a_finished_run_can_be_prolonged(tmp_path: Path) -> None:
    store = tmp_path / "deep" / "run.pt"
    trained(20, batch_size=5, store=store)
    assert same(trained(40, batch_size=5, store=store), trained(40, batch_size=5))


def test_statistics_of_batch_norm_belong_to_snapshots(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()
    store = tmp_path / "run.pt"
    half = trained(9, net=net, batch_size=5, store=store, every=4)
    run = trained(18, net=net, batch_size=5, store=store, every=4)
    assert same(run, trained(18, net=net, batch_size=5))
    assert run.model[1].num_batches_tracked == 18
    assert half.model[1].num_batches_tracked == 9


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "run.pt"
    trained(10, store=store)
    x, y = data()
    frozen = model()
    frozen[0].requires_grad_(False)
    changes: dict[str, Callable[[], object]] = {
        "seed": lambda: trained(10, store=store, seed=1),
        "batch_size": lambda: trained(10, store=store, batch_size=4),
        "rate": lambda: trained(10, store=store, optimizer=partial(SGD, lr=0.06)),
        "uphill": lambda: trained(10, store=store, optimizer=partial(SGD, maximize=True)),
        "frozen": lambda: trained(10, store=store, net=frozen),
        "fewer": lambda: trained(10, store=store, optimizer=lambda some: SGD(list(some)[:2])),
        "model": lambda: trained(10, store=store, net=model().requires_grad_().apply(_nudge)),
        "module": lambda: trained(10, store=store, net=nn.Sequential(*model(), nn.Identity())),
        "key": lambda: trained(10, store=store, key="another"),
        "data": lambda: train(model(), F.cross_entropy, (x, 1 - y), SGD, steps=10, store=store,
                              device="cpu", progress=False),
    }  # fmt: skip
    for changed in changes.values():
        with pytest.raises(InputError, match="written by a run of another model, optimiser"):
            changed()
    with pytest.raises(InputError, match=r"no snapshots of steps \[3\]"):
        trained(10, store=store, at=(3,))


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
    store, kind = tmp_path / "run.pt", {"device": "cpu", "progress": False}

    def run(loss: Loss = globally_weighed, dropout: float = 0.0, slope: float = 1.0) -> Run:
        net = Sloped(*model(dropout))
        net.slope = slope
        return train(net, loss, data(), SGD, steps=2, store=store, **kind)

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
    store, kind = tmp_path / "run.pt", {"device": "cpu", "progress": False}
    start = model()(data()[0]).detach()

    def drawn_back(strength: float) -> Loss:
        return lambda out, y: F.cross_entropy(out, y) + strength * (out - start).square().sum()

    train(model(), drawn_back(0.1), data(), SGD, steps=5, store=store, **kind)
    with pytest.raises(InputError, match="weights of its last step"):
        train(model(), drawn_back(0.2), data(), SGD, steps=9, store=store, **kind)


def test_rounding_of_another_processor_is_no_other_run(tmp_path: Path) -> None:
    def rounded(off: float) -> Loss:
        return lambda out, y: (1 + off) * F.cross_entropy(out, y)

    kind = {"steps": 2, "store": tmp_path / "run.pt", "device": "cpu", "progress": False}
    train(model(), rounded(0.0), data(), SGD, **kind)
    train(model(), rounded(1e-12), data(), SGD, **kind)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    """Cut short, or with one bit of a parameter turned."""
    store = tmp_path / "run.pt"
    weight = trained(10, store=store).model[0].weight.detach().numpy().tobytes()
    good = store.read_bytes()
    turned = bytearray(good)
    turned[good.index(weight) + 5] ^= 1
    for bad in (good[:0], good[:200], good[:-1], bytes(turned)):
        store.write_bytes(bad)
        with pytest.raises(InputError, match=r"holds no run, but .*: delete it"):
            trained(20, store=store)
    store.write_bytes(good)
    assert same(trained(20, store=store), trained(20))


def _nudge(part: nn.Module) -> None:
    if isinstance(part, nn.Linear):
        part.bias.data += 1e-12

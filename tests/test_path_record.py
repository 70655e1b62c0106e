"""A record holds every step of a run, goes on to the same bits, and is read with nothing but its own run."""

import copy
import errno
import gc
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from numeric.inputs import InputError
from numeric.models import Model
from numeric.path_kernel import ExactPathKernel, Record, Recorder, load, record, record_size
from numeric.runs import train
from numeric.runs.store import GrowingArray
from recorded_runs import OPTIMIZERS, QUIET, gradient, recorded
from refusals import require_refusals
from short_runs import data, model


class Interrupted(Exception):
    """What stops a run in these tests, where a person would press a key."""


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Stop the next run in the middle of a step, after the weights have moved, before they are written."""
    write = Recorder._write

    def stop(at: int) -> None:
        def interrupted(self: Recorder, *args: Any) -> None:
            if self.done == at:
                monkeypatch.undo()
                raise Interrupted
            write(self, *args)

        monkeypatch.setattr(Recorder, "_write", interrupted)

    return stop


def same(one: Record, other: Record) -> bool:
    """Weights, second moments, batches and losses are equal to the bit."""
    moments = [[run.rule.second_moments(s) for s in range(run.steps)] for run in (one, other)]
    weights = [[run.parameters(s) for s in range(run.steps + 1)] for run in (one, other)]
    batches = [[run.batch(s) for s in range(run.steps)] for run in (one, other)]
    return (
        one.steps == other.steps
        and torch.equal(one.losses, other.losses)
        and all(torch.equal(a, b) for a, b in zip(*batches, strict=True))
        and all(
            torch.equal(a[name], b[name])
            for parts in (moments, weights)
            for a, b in zip(*parts, strict=True)
            for name in a
        )
    )


@pytest.mark.parametrize("name", ["Nesterov", "amsgrad", "leapfrog"])
@pytest.mark.parametrize("stop", [0, 3, 8])
def test_an_interrupted_record_ends_as_if_it_never_was(
    tmp_path: Path, name: str, stop: int, stop_at: Callable[[int], None]
) -> None:
    """Stopped in the first step, before the first checkpoint, and after it."""
    whole, store = recorded(name), tmp_path / "run"
    stop_at(stop)
    with pytest.raises(Interrupted):
        recorded(name, store=store, every=5)
    with pytest.raises(InputError, match="missing: record again"):
        load(store, model(), F.cross_entropy, data())
    again = recorded(name, store=store, every=5)
    assert same(whole, again)
    assert same(whole, load(store, model(), F.cross_entropy, data()))
    assert same(whole, recorded(name, store=store, every=5))  # nothing is left to do
    assert recorded(name, store=store, every=5, steps=14).steps == 14  # more may be asked for


def test_recording_changes_nothing() -> None:
    """The weights are those of the training loop alone, at every step, to the bit."""
    optimizer, scheduler = OPTIMIZERS["Nesterov"]
    kind = {"steps": 12, "batch_size": 10, "scheduler": scheduler, "at": range(13)} | QUIET
    plain = train(model(), F.cross_entropy, data(), optimizer, **kind)
    run = recorded("Nesterov")
    assert torch.equal(plain.losses, run.losses)
    for step in range(13):
        now = run.parameters(step)
        assert all(torch.equal(now[name], plain.snapshots[step][name]) for name in now)
        assert torch.equal(run.model_at(step)(run.x), plain.model_at(step)(run.x))


def looped(store: Path | None, batches: list[Tensor], state: Any = None, **more: Any) -> Recorder:
    """A loop of one's own, from the start or from a state (model, optimiser) of it."""
    net, (x, y) = model(), data()
    optimizer = OPTIMIZERS["AdamW"][0](net.parameters())
    if state is not None:
        net.load_state_dict(state[0])
        optimizer.load_state_dict(state[1])
    recorder = Recorder(net, F.cross_entropy, optimizer, store, **more)
    for rows in batches:
        recorder.step(x[rows], y[rows], rows)
    return recorder


def test_a_loop_of_ones_own_is_recorded_and_resumed(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(2)
    batches = [torch.randperm(23, generator=draw)[: 4 + k] for k in range(8)]
    whole = looped(tmp_path / "whole", batches).record(data())
    recorder = looped(tmp_path / "parts", batches[:5])
    state = copy.deepcopy([part.state_dict() for part in (recorder.model, recorder.optimizer)])
    x, y = data()
    recorder.step(x[batches[0]], y[batches[0]], batches[0])  # after the state was saved
    recorder.record(data())
    again = looped(tmp_path / "parts", batches[5:], state, resume=5).record(data())
    assert same(whole, again)
    for step, rows in enumerate(batches):
        assert torch.equal(whole.batch(step), rows)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_weights_are_the_shares_of_examples_in_the_loss(reduction: str) -> None:
    """The gradient of the step's loss is the sum of weights times gradients of single losses."""
    run = recorded(steps=3, loss=partial(F.cross_entropy, reduction=reduction))
    assert [len(run.batch(step)) for step in range(3)] == [10, 10, 3]
    for step in (0, 2):
        at = {name: w.requires_grad_() for name, w in run.parameters(step).items()}
        rows, total = run.batch(step), 0
        for i, weight in zip(rows, run.weights(step), strict=True):
            out = Model.of(run.model).functional_call(at, run.x[i : i + 1])
            total = total + weight * F.cross_entropy(out, run.y[i : i + 1])
        summed = torch.autograd.grad(total, list(at.values()))
        for one, other in zip(summed, gradient(run, step).values(), strict=True):
            assert torch.allclose(one, other, rtol=1e-12, atol=1e-15)


def test_arrays_are_data_as_tensors_are(tmp_path: Path) -> None:
    """And keep their dtype: classes are whole numbers, and float32 is that of the model."""
    net, x, y = model().float(), data()[0].float(), data()[1]
    pair, kind = (x.numpy(), y.numpy()), {"steps": 2, "batch_size": 10} | QUIET
    make = OPTIMIZERS["steps"][0]
    run = record(net, F.cross_entropy, make, pair, store=tmp_path / "run", **kind)
    assert same(run, record(net, F.cross_entropy, make, (x, y), **kind))
    assert same(run, load(tmp_path / "run", net, F.cross_entropy, pair))
    recorder = Recorder(net, F.cross_entropy, make(net.parameters()))
    for step in range(2):
        rows = run.batch(step)
        recorder.step(pair[0][rows.numpy()], pair[1][rows.numpy()], rows)
    assert torch.equal(recorder.record(pair).parameters(2)["3.bias"], run.parameters(2)["3.bias"])


def test_one_example_at_a_time_has_weight_one() -> None:
    x, y = data()
    run = record(
        model(), partial(F.cross_entropy, reduction="sum"), OPTIMIZERS["steps"][0], (x[:1], y[:1]),
        steps=2, **QUIET,
    )  # fmt: skip
    assert run.weights(0).tolist() == [1.0]
    net = model()
    recorder = Recorder(net, F.mse_loss, torch.optim.SGD(net.parameters(), lr=0.1))
    for rows in (torch.tensor([0]), torch.arange(4)):
        recorder.step(x[rows], x[rows, :2], rows)
    assert recorder.record((x, x[:, :2])).weights(1).tolist() == [0.25] * 4


def test_frozen_and_unused_parameters_stay_out(tmp_path: Path) -> None:
    """They are no part of the record, but must be the same when it is read."""
    net = model()
    net[0].bias.requires_grad_(False)
    net.register_parameter("unused", nn.Parameter(torch.ones(3, dtype=torch.float64)))
    run = recorded("AdamW", net=net, store=tmp_path / "run")
    assert list(run.parameters(0)) == ["0.weight", "3.weight", "3.bias"]
    with torch.no_grad():
        net[0].bias.add_(1)
    with pytest.raises(InputError, match="parameters that were not trained"):
        load(tmp_path / "run", net, F.cross_entropy, data())


def test_files_hold_what_they_must_and_no_more(tmp_path: Path) -> None:
    """13 rows of weights in float32, 12 of moments, and a full batch once."""
    net, (x, y) = model().float(), data()
    make = OPTIMIZERS["AdamW"][0]
    kind = {"steps": 12, "store": tmp_path / "run"} | QUIET
    run = record(net, F.cross_entropy, make, (x.float(), y), **kind)
    size = sum(p.numel() for p in net.parameters())
    bytes_of = {path.name: path.stat().st_size for path in (tmp_path / "run").iterdir()}
    told = record_size(net, make, steps=12)
    assert told == 4 * size * (13 + 12)
    assert 0 <= bytes_of["weights"] + bytes_of["moments"] - told < 600
    assert 0 <= bytes_of["weights"] - 13 * 4 * size < 300  # and a line before the rows
    assert 0 <= bytes_of["moments"] - 12 * 4 * size < 300
    assert 0 <= bytes_of["batches"] - 8 * 23 < 300
    assert run.parameters(12)["0.weight"].dtype == torch.float32
    assert torch.equal(run.batch(11), torch.arange(23))


def test_without_a_store_nothing_stays() -> None:
    run = recorded()
    folder = run.files.folder.path
    assert folder.is_dir()
    del run
    gc.collect()
    assert not folder.exists()


def test_what_a_full_disk_could_not_take_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extend, store = GrowingArray.extend, tmp_path / "run"

    def full(self: GrowingArray, rows: Any) -> None:
        if self.path.name == "weights" and len(self) == 9:
            with self.path.open("ab") as file:
                file.write(b"a part of a row")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        extend(self, rows)

    monkeypatch.setattr(GrowingArray, "extend", full)
    with pytest.raises(OSError, match="No space left"):
        recorded("AdamW", store=store, every=5)
    monkeypatch.undo()
    assert same(recorded("AdamW"), recorded("AdamW", store=store, every=5))


def test_a_disk_that_is_too_small_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=(13 + 12) * 8 * 50 - 1)  # 50 parameters, Adam
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(InputError, match=r"12 steps need .* GB at .*make room"):
        recorded("AdamW", store=tmp_path / "run")
    monkeypatch.undo()
    assert recorded("AdamW", store=tmp_path / "run").steps == 12


# What is refused.


class Mixing(nn.Module):
    """It centres its inputs by the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x - x.mean(0))


class Counting(nn.Module):
    """It counts its calls in a buffer, and becomes larger by that."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2).double()
        self.register_buffer("calls", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
        return self.layer(x)


def with_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).double()


def rms(out: Tensor, y: Tensor) -> Tensor:
    return squared(out, y).sqrt()


def squared(out: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(out, F.one_hot(y, 2).to(out))


def unlike(out: Tensor, y: Tensor) -> Tensor:
    """As `mse_loss`, which warns of shapes that differ."""
    return ((out - y) ** 2).mean()


def weighted(out: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(out, y, weight=torch.tensor([1.0, 3.0], dtype=torch.float64))


def attempt(
    net: nn.Module | None = None,
    loss: Callable[..., Any] = F.cross_entropy,
    make: Callable[..., Any] = OPTIMIZERS["steps"][0],
    pair: Any = None,
    **more: Any,
) -> Record:
    kind = {"steps": 2, "batch_size": 10} | QUIET | more
    return record(net or model(), loss, make, pair or data(), **kind)


WRONG = {
    "batch normalisation": (lambda: attempt(with_norm()), "normalises by the batch"),
    "dropout": (lambda: attempt(model(0.5)), "drops units at random"),
    "mixing model": (lambda: attempt(Mixing()), "other features for a point in a batch"),
    "changing buffer": (lambda: attempt(Counting()), "'calls' was changed by something else"),
    "root of a mean": (lambda: attempt(loss=rms), "rms of several examples is neither"),
    "class weights": (lambda: attempt(loss=weighted), "weighted of several examples is neither"),
    "no number": (lambda: attempt(loss=lambda out, y: out), "one number that depends"),
    "no rule for a size": (
        lambda: record_size(model(), partial(torch.optim.RMSprop, lr=0.1), steps=3),
        "RMSprop has no rule",
    ),
    "no steps of a size": (lambda: record_size(model(), OPTIMIZERS["Adam"][0], steps=0), "steps"),
    "no rule": (lambda: attempt(make=partial(torch.optim.RMSprop, lr=0.1)), "RMSprop has no rule"),
    "half precision": (
        lambda: attempt(model().bfloat16(), pair=(data()[0].bfloat16(), data()[1])),
        "torch.bfloat16, but a record holds",
    ),
    "no model": (lambda: attempt(net="network"), "A torch.nn.Module with parameters"),
    "no loss": (lambda: attempt(loss=3), "loss = 3 was given"),
    "no optimiser": (lambda: attempt(make=None), "optimizer = None was given"),
    "no data": (lambda: attempt(pair=(data()[0], None)), "targets must be an array of numbers"),
    "no pair": (lambda: attempt(pair=data()[:1]), "pair of tensors"),
    "classes beyond the outputs": (
        lambda: attempt(pair=(data()[0], data()[1] + 6)),
        r"targets of shape \(23,\) and torch\.int64 from 6 to 7 .*out of bounds.* class numbers from 0",
    ),
    "targets of another shape": (
        lambda: attempt(loss=F.mse_loss, pair=(data()[0], data()[0][:, 0])),
        r"fails on outputs of shape \(23, 2\) and targets of shape \(23,\)",
    ),
    "targets that mix": (
        lambda: attempt(nn.Linear(3, 1).double(), unlike, pair=(data()[0], data()[0][:, 0])),
        r"Outputs of shape \(23, 1\) and targets of shape \(23,\) mix in the loss.*view\(-1, 1\)",
    ),
    "a seed of 70 bits": (lambda: attempt(seed=2**70), r"seed must be below 2\^64"),
    "progress of text": (lambda: attempt(progress="no"), "progress must be of class bool"),
    "no steps": (lambda: attempt(steps=0), "steps"),
    "a store that cannot be": (lambda: attempt(store="/proc/none/record"), "cannot be written"),
    "divergence": (
        lambda: attempt(loss=squared, make=partial(torch.optim.SGD, lr=1e200), steps=9),
        "diverged",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_has_no_exact_path_kernel_is_refused(name: str) -> None:
    call, reason = WRONG[name]
    with pytest.raises(InputError, match=reason):
        call()
    require_refusals([(name, call)])


def clipped(gradient: Tensor) -> Tensor:
    return gradient.clamp(-0.1, 0.1)


def clip(p: Tensor) -> None:
    p.grad.clamp_(-0.1, 0.1)


HOOKS: dict[str, Callable[[nn.Module, torch.optim.Optimizer], Any]] = {
    "a gradient's": lambda net, made: net[0].weight.register_hook(clipped),
    "a gradient's, when it is there": lambda net, made: net[
        0
    ].weight.register_post_accumulate_grad_hook(clip),
    "a module's": lambda net, made: net[1].register_full_backward_hook(lambda *_: None),
    "a module's, before": lambda net, made: net[1].register_full_backward_pre_hook(lambda *_: None),
    "the optimiser's": lambda net, made: made.register_step_post_hook(lambda *_: None),
    "the optimiser's, before": lambda net, made: made.register_step_pre_hook(lambda *_: None),
}


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_that_change_steps_are_refused_before_the_step_and_go_on_without(name: str) -> None:
    """Clipped gradients put the sums .18 off the outputs, and nothing said so."""
    net, (x, y) = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
    recorder = Recorder(net, F.cross_entropy, optimizer)
    rows = torch.arange(8)
    recorder.step(x[rows], y[rows], rows)
    hook = HOOKS[name](net, optimizer)
    before = net[0].weight.detach().clone()
    with pytest.raises(InputError, match=r"has a hook .* add up to the outputs: remove it"):
        recorder.step(x[rows], y[rows], rows)
    assert torch.equal(net[0].weight, before)
    hook.remove()
    recorder.step(x[rows], y[rows], rows)
    run = recorder.record((x, y))
    assert run.steps == 2
    assert ExactPathKernel(run, progress=False).residual(x).abs().max() <= 1e-13


def test_hooks_of_a_copied_model_are_refused_too() -> None:
    net = model()
    net[3].bias.register_hook(clipped)
    with pytest.raises(InputError, match=r"The parameter '3\.bias' has a hook"):
        attempt(net)


def test_models_in_evaluation_mode_are_recorded_in_it() -> None:
    """Which is the remedy for batch normalisation and dropout: they stay off in every step."""
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout(0.5)).double().eval()
    run = attempt(net)
    assert not run.model.training
    assert not any(part.training for part in run.model.modules())
    assert int(run.model[1].num_batches_tracked) == 0


def test_records_are_read_with_their_own_run_only(tmp_path: Path) -> None:
    store, (x, y) = tmp_path / "run", data()
    recorded("AdamW", store=store)
    other = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 2)).double()
    wide = nn.Sequential(nn.Linear(3, 9), nn.Tanh(), nn.Dropout(0.0), nn.Linear(9, 2)).double()
    changed = x.clone()
    changed[7, 0] += 1e-12
    wrong = {
        "other modules": (other, F.cross_entropy, (x, y)),
        "other names, shapes or dtypes": (wide, F.cross_entropy, (x, y)),
        "another mode": (model().eval(), F.cross_entropy, (x, y)),
        "The example 7 has other content": (model(), F.cross_entropy, (changed, y)),
        "The example 0 has other content": (model(), F.cross_entropy, (x, 1 - y)),
        "but only 20 were given": (model(), F.cross_entropy, (x[:20], y[:20])),
        "computes other values than recorded": (model(), F.multi_margin_loss, (x, y)),
    }
    for reason, (net, loss, pair) in wrong.items():
        with pytest.raises(InputError, match=reason):
            load(store, net, loss, pair)
    with pytest.raises(InputError, match=r"a torch\.nn\.Module is needed"):
        load(store, None, F.cross_entropy, (x, y))
    with pytest.raises(InputError, match="pair of tensors"):
        load(store, model(), F.cross_entropy, x)
    with pytest.raises(InputError, match="holds no record"):
        load(tmp_path / "elsewhere", model(), F.cross_entropy, (x, y))
    with pytest.raises(InputError, match="is a file"):
        load(store / "weights", model(), F.cross_entropy, (x, y))
    with pytest.raises(InputError, match="was written by a run of another"):
        recorded("Nesterov", store=store)
    with pytest.raises(InputError, match="computes other values"):
        recorded("AdamW", store=store, loss=F.multi_margin_loss, steps=14)
    assert recorded("AdamW", store=store).steps == 12  # nothing was lost


@pytest.mark.parametrize("name", ["weights", "moments", "steps", "batches"])
def test_records_with_missing_steps_are_refused(tmp_path: Path, name: str) -> None:
    store = tmp_path / "run"
    recorded("AdamW", store=store)
    path = store / name
    os.truncate(path, path.stat().st_size - 8)
    with pytest.raises(InputError, match=r"missing|lost"):
        load(store, model(), F.cross_entropy, data())
    path.unlink()
    with pytest.raises(InputError, match=f"lost its file '{name}'"):
        load(store, model(), F.cross_entropy, data())


def test_wrong_steps_of_a_loop_of_ones_own_are_refused(tmp_path: Path) -> None:
    (x, y), rows = data(), torch.arange(23)
    recorder = looped(tmp_path / "run", [rows])
    with pytest.raises(InputError, match="The example 3 has other content"):
        recorder.step(x + F.one_hot(torch.tensor(3), 23)[:, None], y, rows)
    with pytest.raises(InputError, match="give as many"):
        recorder.step(x, y[:5], rows)
    with pytest.raises(InputError, match="whole numbers"):
        recorder.step(x, y, rows.tolist())
    with pytest.raises(InputError, match="holds a record of 1 steps already"):
        looped(tmp_path / "run", [rows])
    with pytest.raises(InputError, match="weights are not those of step 1"):
        looped(tmp_path / "run", [rows], resume=1)
    with pytest.raises(InputError, match="has 1 steps, so that step 4"):
        looped(tmp_path / "run", [rows], resume=4)
    with pytest.raises(InputError, match="Nothing is recorded yet"):
        looped(None, []).record((x, y))
    net = recorder.model
    with pytest.raises(InputError, match="has made steps already"):
        Recorder(net, F.cross_entropy, recorder.optimizer)
    net[0].weight.data[0, 0] += 1
    with pytest.raises(InputError, match=r"'0\.weight' was changed by something else"):
        recorder.step(x, y, rows)
    net[0].weight.data[0, 0] -= 1
    recorder.optimizer.param_groups[0]["amsgrad"] = True
    with pytest.raises(InputError, match="groups or their flags have changed"):
        recorder.step(x, y, rows)
    assert recorder.record((x, y)).steps == 1  # what was recorded before is whole


def test_steps_outside_the_record_are_refused() -> None:
    run = recorded(steps=2)
    for call in (run.parameters, run.batch):
        with pytest.raises(InputError, match="Step 3 was asked for"):
            call(3)

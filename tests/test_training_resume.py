"""A stopped training run ends as if it never was, to the last bit, and no other takes its file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from analytic.domain import InputError
from numeric.training import train
from short_runs import SGD, data, model, same, trained

OPTIMIZERS = {
    "SGD": SGD,
    "Adam": partial(torch.optim.AdamW, lr=0.01, amsgrad=True),
    "RMSprop": partial(torch.optim.RMSprop, lr=0.01, momentum=0.5),
    "LBFGS": partial(torch.optim.LBFGS, lr=0.1, max_iter=3, history_size=4),
}


class Interrupted(Exception):
    """What stops a run in these tests, where a person would press a key."""


class Stops:
    """Cross entropy that is interrupted in the middle of some batch's update; it has the same name."""

    __name__ = "cross_entropy"

    def __init__(self, batches: int) -> None:
        self.left, self.last = batches, None

    def __call__(self, out: Tensor, y: Tensor) -> Tensor:
        if y is not self.last:  # L-BFGS asks for the same batch again
            self.left, self.last = self.left - 1, y
        if self.left == 0:
            raise Interrupted
        return F.cross_entropy(out, y)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("stop", [2, 8, 29])
def test_an_interrupted_run_ends_as_if_it_never_was(
    tmp_path: Path, optimizer: str, stop: int
) -> None:
    """Minibatches, dropout and the optimiser's memory all go on where they were."""
    kind = {
        "optimizer": OPTIMIZERS[optimizer], "batch": 5, "seed": 4, "at": (0, 3, 11, 30),
        "device": "cpu", "progress": False, "steps": 40,
    }  # fmt: skip
    whole = train(model(0.3), F.cross_entropy, data(), **kind)
    keep = tmp_path / "run.pt"
    with pytest.raises(Interrupted):
        train(model(0.3), Stops(stop), data(), keep=keep, every=7, **kind)
    assert keep.exists() == (stop > 7)
    again = train(model(0.3), F.cross_entropy, data(), keep=keep, every=7, **kind)
    assert same(whole, again)
    done = train(model(0.3), Stops(1), data(), keep=keep, every=7, **kind)  # no step is left
    assert same(whole, done)
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]


def test_a_write_that_fails_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = tmp_path / "run.pt"
    kind = {"batch": 5, "keep": keep, "every": 10}
    whole = trained(30, batch=5)
    trained(10, **kind)
    save = torch.save

    def half(state: object, file: BinaryIO) -> None:
        save(state, file)
        file.truncate(file.tell() // 2)
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(OSError, match="disk full"):
        trained(30, **kind)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]
    assert same(whole, trained(30, **kind))


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
    changes: dict[str, Callable[[], object]] = {
        "seed": lambda: trained(10, keep=keep, seed=1),
        "batch": lambda: trained(10, keep=keep, batch=4),
        "rate": lambda: trained(10, keep=keep, optimizer=partial(SGD, lr=0.06)),
        "model": lambda: trained(10, keep=keep, net=model().requires_grad_().apply(_nudge)),
        "shape": lambda: trained(10, keep=keep, net=model(0.5)),
        "data": lambda: train(model(), F.cross_entropy, (x, 1 - y), SGD, steps=10, keep=keep,
                              device="cpu", progress=False),
        "loss": lambda: train(model(), F.multi_margin_loss, (x, y), SGD, steps=10, keep=keep,
                              device="cpu", progress=False),
    }  # fmt: skip
    for changed in changes.values():
        with pytest.raises(InputError, match="written by a run of another model, loss"):
            changed()
    with pytest.raises(InputError, match=r"no snapshots of steps \[3\]"):
        trained(10, keep=keep, at=(3,))
    keep.write_bytes(keep.read_bytes()[:200])
    with pytest.raises(InputError, match="holds no checkpoint"):
        trained(10, keep=keep)


def _nudge(part: nn.Module) -> None:
    if isinstance(part, nn.Linear):
        part.bias.data += 1e-12

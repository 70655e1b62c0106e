"""Are checkpoints read without executing anything, and are those that do not fit refused by name?"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from analytic import InputError
from numeric import data, models
from numeric.data import Normalisation
from numeric.models import Weights
from refusals import require_refusals

REAL = Path(__file__).parents[2] / "shared" / "data"
CIFAR = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2))


def same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def saved(path: Path, content: Any) -> Path:
    torch.save(content, path)
    return path


def test_weights_and_normalisation_travel_together(tmp_path: Path) -> None:
    net, path = network(), tmp_path / "new" / "w.safetensors"
    Weights.of(net, CIFAR).write(path)
    read = Weights.read(path)
    assert read.normalisation == CIFAR
    assert read.notes == ()
    other = network(1)
    assert not same(net, other)
    assert read.into(other) is other
    assert same(net, other)
    assert [p.name for p in path.parent.iterdir()] == ["w.safetensors"]
    path.rename(tmp_path / "renamed.bin")  # seen by its content
    assert Weights.read(tmp_path / "renamed.bin").normalisation == CIFAR


def test_what_is_taken_off_is_said(tmp_path: Path) -> None:
    state = network().state_dict()
    parallel = {f"module.{name}": value for name, value in state.items()}
    content = {"state_dict": parallel, "epoch": 3, "normalisation": {"mean": [0.5], "std": [1.0]}}
    weights = Weights.read(saved(tmp_path / "w.th", content))
    assert weights.notes == (
        'the weights were taken from under "state_dict", epoch left aside',
        '"module." was taken off the names',
    )
    assert weights.normalisation == Normalisation((0.5,), (1.0,))
    assert same(weights.into(network(1)), network())
    plain = Weights.read(saved(tmp_path / "plain.pt", state))
    assert plain.notes == ()
    assert plain.normalisation is None


def test_old_checkpoints_without_counters_of_batches_fit(tmp_path: Path) -> None:
    state = {k: v for k, v in network().state_dict().items() if "num_batches" not in k}
    Weights.read(saved(tmp_path / "w.pt", state)).into(network(1))


def test_the_first_three_mismatches_are_named_and_nothing_is_changed() -> None:
    net, before = network(), network()
    tensors = {k: v for k, v in Weights.of(network(1)).tensors.items() if not k.startswith("1.")}
    wrong = Weights({**tensors, "0.weight": torch.zeros(4, 1, 3, 3), "extra": torch.zeros(2)})
    with pytest.raises(InputError) as refused:
        wrong.into(net)
    text = str(refused.value)
    assert "0.weight has shape (4, 1, 3, 3) in it and (4, 3, 3, 3) in the model" in text
    assert "1.weight (4,) is missing in it; 1.bias (4,) is missing in it; and 3 more" in text
    assert same(net, before)
    with pytest.raises(InputError, match=r"extra \(2,\) is in it and not in the model"):
        Weights({**Weights.of(net).tensors, "extra": torch.zeros(2)}).into(net)


class _Harmful:
    def __reduce__(self) -> tuple[Callable, tuple[str]]:
        return os.mkdir, ("executed",)


def test_other_files_are_refused_with_the_reason(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    good = tmp_path / "good.safetensors"
    Weights.of(network(), CIFAR).write(good)
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(good.read_bytes()[:-3])
    zipped = saved(tmp_path / "zip.pt", network().state_dict())
    (tmp_path / "cut.pt").write_bytes(zipped.read_bytes()[:-300])
    text = tmp_path / "text.pt"
    text.write_text("weights")
    harmful = saved(tmp_path / "harmful.pt", {"state_dict": {"w": _Harmful()}})
    whole = saved(tmp_path / "whole.pt", network())
    with pytest.raises(InputError, match=r"mkdir.*state_dict\(\)"):
        Weights.read(harmful)
    with pytest.raises(InputError, match=r"holds more than tensors .*Sequential"):
        Weights.read(whole)
    assert not (tmp_path / "executed").exists()
    pickled = tmp_path / "pickled.pkl"
    pickled.write_bytes(pickle.dumps({"w": _Harmful()}, 4))  # of whose protocol torch warns
    with pytest.raises(InputError, match="holds more than tensors"):
        Weights.read(pickled)
    nan = {"weight": torch.full((1, 2), torch.nan), "bias": torch.zeros(1)}
    require_refusals({
        "nothing": lambda: Weights.read(tmp_path / "nothing"),
        "a folder": lambda: Weights.read(tmp_path),
        "a number": lambda: Weights.read(3),
        "cut safetensors": lambda: Weights.read(cut),
        "cut zip": lambda: Weights.read(tmp_path / "cut.pt"),
        "text": lambda: Weights.read(text),
        "a list": lambda: Weights.read(saved(tmp_path / "list.pt", [torch.zeros(2)])),
        "a tensor": lambda: Weights.read(saved(tmp_path / "tensor.pt", torch.zeros(2))),
        "no tensors": lambda: Weights.read(saved(tmp_path / "empty.pt", {})),
        "numbers": lambda: Weights.read(saved(tmp_path / "n.pt", {"epoch": 3})),
        "a normalisation of text": lambda: Weights.read(
            saved(tmp_path / "m.pt", {"state_dict": {"w": torch.zeros(1)}, "normalisation": "x"})
        ),
        "weights of NaN": lambda: Weights(nan).into(nn.Linear(2, 1)),
        "into a function": lambda: Weights(nan).into(torch.sin),
        "of a function": lambda: Weights.of(torch.sin),
        "of another normalisation": lambda: Weights.of(nn.Linear(2, 1), (0.5,)),
        "to a folder": lambda: Weights.of(nn.Linear(2, 1)).write(tmp_path),
    }.items())  # fmt: skip


@pytest.mark.sweep
@pytest.mark.skipif(not REAL.is_dir(), reason="no real images and weights beside the project")
def test_a_network_trained_elsewhere_recognises_real_images() -> None:
    weights = Weights.read(REAL / "weights" / "resnet20-12fca82f.th")
    assert len(weights.notes) == 2
    net = weights.into(models.resnet20())
    test = data.cifar10(REAL, CIFAR).test
    outputs: Tensor = models.Model.of(net).evaluate(test.inputs(), progress=False)
    accuracy = (outputs.argmax(1) == test.labels).double().mean().item()
    assert abs(accuracy - 0.92) < 0.01

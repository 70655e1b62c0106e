"""What cannot be written is refused before anything is computed that would be lost."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from analytic.activations import relu
from analytic.expressions.arguments import InputError
from numeric.experiments.decision_boundaries import Hypothesis, xor
from numeric.experiments.deep_width import KernelSweep
from numeric.infinite.network import FullyConnected
from numeric.inputs import require_writable
from numeric.relu_dynamics import Descent, Flow, MeanField, Neurons
from short_runs import trained

X = torch.tensor([0.5, -0.9, 0.1], dtype=torch.float64)
Y = torch.tensor([-1.0, 1.0, 0.5], dtype=torch.float64)
NEURONS = Neurons.drawn(5, 0, device="cpu")
MEASURE = Neurons.canonical(X, Y, -1.0)
NET, POINTS = FullyConnected(relu, 1, 1.0, 0.0), torch.eye(2, dtype=torch.float64)
# each with what it computes by
STORES: dict[str, tuple[Callable[[Path], object], str]] = {
    "flow": (
        lambda path: Flow(X, Y, NEURONS, 2.0).run(progress=False, store=path / "run.pt"),
        "numeric.relu_dynamics.record.steps",
    ),
    "hidden": (
        lambda path: Flow(X, Y, NEURONS, math.inf).run(progress=False, store=path / "run.pt"),
        "numeric.relu_dynamics.sliding.integrator.step",
    ),
    "mean field": (
        lambda path: MeanField(X, Y, 0.1).flow(MEASURE, 0.5, progress=False, store=path / "run.pt"),
        "numeric.relu_dynamics.record.steps",
    ),
    "descent": (
        lambda path: Descent(X, Y, NEURONS, 0.1, 5).run(progress=False, store=path / "run.pt"),
        "numeric.relu_dynamics.descent.DescentProblem.loss",
    ),
    "training": (
        lambda path: trained(3, store=path / "run.pt"),
        "numeric.runs.training.TrainingState.update",
    ),
    "hypothesis": (
        lambda path: Hypothesis(xor(), (3,), networks=2, store=path, device="cpu").run(False),
        "numeric.runs.training.TrainingState.update",
    ),
    "sweep": (
        lambda path: KernelSweep(NET, POINTS, (4,), 5, device="cpu", store=path).run(False),
        "numeric.experiments.deep_width.sweep.FiniteNetwork",
    ),
}


@pytest.mark.parametrize(("run", "work"), STORES.values(), ids=STORES)
def test_a_folder_that_is_a_file_is_refused_before_any_work(
    run: Callable[[Path], object], work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object, **__: object) -> None:
        raise AssertionError("computed what cannot be written")

    monkeypatch.setattr(work, lost)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot be written \(.*: choose a folder"):
        run(tmp_path / "file")


def test_a_folder_is_no_file_and_a_good_place_is_left_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder: name a file in it"):
        require_writable(tmp_path)
    assert require_writable(str(tmp_path / "new" / "run.pt")) == tmp_path / "new" / "run.pt"
    assert not list((tmp_path / "new").iterdir())

"""Influence is the slope of real retrainings by the weights of training points."""

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.optim import SGD, Adam

from numeric.inputs import InputError
from numeric.models.memory import Meter
from numeric.path_kernel import BackwardEuler, Record, influence, record, retrain
from recorded_runs import OPTIMIZERS, QUIET, recorded
from short_runs import data, model

NEW = torch.randn(3, 3, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def retrained(run: Record, name: str, factors: Tensor) -> Tensor:
    """Outputs after training by torch alone: the batches of the run, and the schedule of its optimiser."""
    net, (x, y) = model(), data()
    make, scheduler = OPTIMIZERS[name]
    optimizer: Any = make(net.parameters())
    schedule = None if scheduler is None else scheduler(optimizer)
    for step in range(run.steps):
        rows = run.batch(step)

        def closure(rows: Tensor = rows) -> Tensor:
            optimizer.zero_grad()
            losses = F.cross_entropy(net(x[rows]), y[rows], reduction="none")
            loss = (factors[rows] * losses).sum() / len(rows)
            loss.backward()
            return loss

        optimizer.step(closure)
        if schedule is not None:
            schedule.step()
    with torch.no_grad():
        return net(NEW)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_influence_is_the_slope_of_retrainings(name: str) -> None:
    """Central differences of step h = 1e-4 err by h^2 times a third derivative, here at most 100 slopes."""
    run = recorded(name)
    direction = torch.randn(23, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    h, ones = 1e-4, torch.ones(23, dtype=torch.float64)
    above, below = (retrained(run, name, ones + s * h * direction) for s in (1, -1))
    slope, exact = (above - below) / (2 * h), influence(run, NEW, progress=False)
    assert exact.shape == (3, 2, 23)
    assert (exact @ direction - slope).abs().amax() <= 1e-6 * slope.abs().amax()


@pytest.mark.parametrize("name", ["steps", "amsgrad"])
def test_retrain_repeats_the_run_with_other_weights(name: str) -> None:
    """To rounding, which 12 steps make larger."""
    run = recorded(name)
    factors = torch.linspace(0, 2, 23, dtype=torch.float64)
    for weights in (torch.ones(23, dtype=torch.float64), factors):
        expected = retrained(run, name, weights)
        assert torch.allclose(retrain(run, weights, progress=False)(NEW), expected, atol=1e-12)


def test_a_sum_of_losses_has_influence_as_a_mean_has_with_a_smaller_rate() -> None:
    def summed(out: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(out, y, reduction="sum")

    kind = {"batch_size": None, "steps": 5} | QUIET
    mean = record(model(), F.cross_entropy, lambda p: SGD(p, lr=0.23), data(), **kind)
    total = record(model(), summed, lambda p: SGD(p, lr=0.01), data(), **kind)
    one, other = (influence(run, NEW, progress=False) for run in (mean, total))
    assert torch.allclose(one, other, rtol=1e-9, atol=1e-14)
    assert total.weights(0).tolist() == [1.0] * 23


def test_adam_does_not_see_the_scale_of_the_loss() -> None:
    """More weight for all points alike changes nothing, if Adam's eps is 0."""
    run = record(model(), F.cross_entropy, lambda p: Adam(p, eps=0.0), data(), steps=6, **QUIET)
    exact = influence(run, NEW, progress=False)
    assert (
        exact.sum(2).abs() <= 1e-10 * exact.abs().sum(2)
    ).all()  # half the digits of Adam's roots


def test_points_that_no_step_has_seen_have_none() -> None:
    run = recorded(steps=1)
    seen = torch.zeros(23, dtype=torch.bool)
    seen[run.batch(0)] = True
    exact = influence(run, NEW, progress=False)
    assert exact[:, :, seen].all()
    assert not exact[:, :, ~seen].any()


def test_memory_bounds_how_many_outputs_are_followed_at_once() -> None:
    run, x = recorded("AdamW", steps=2), NEW.repeat(20, 1)
    budget = 200_000
    with Meter() as meter:
        few = influence(run, x, memory=budget, progress=False)
    with Meter() as unbounded:
        all_at_once = influence(run, x, progress=False)
    result = few.nbytes + 3 * x.nbytes  # and the outputs
    assert meter.peak <= budget + 4 * result < unbounded.peak
    assert torch.allclose(few, all_at_once, rtol=1e-9, atol=1e-13)
    with pytest.raises(InputError, match="one output needs"):
        influence(run, x, memory=1000, progress=False)


def test_influence_foretells_leave_one_out_on_digits() -> None:
    """Correlation with real removals, over training points; the rest is of second order in the removal."""
    digits = load_digits()
    images, labels = torch.tensor(digits.data / 16), torch.tensor(digits.target)
    x, y, new = images[:200], labels[:200], images[1000:1004]
    shown = F.one_hot(labels[1000:1004], 10)[:, None]  # each new image's output at its own digit
    net = nn.Sequential(nn.Linear(64, 10), nn.Tanh(), nn.Linear(10, 10)).double()
    generator = torch.Generator().manual_seed(0)
    for p in net.parameters():
        p.data.normal_(0, 0.5 * p.shape[-1] ** -0.5, generator=generator)
    sgd = partial(SGD, lr=0.1, momentum=0.9)
    run = record(net, F.cross_entropy, sgd, (x, y), steps=40, batch_size=50, **QUIET)
    removed = list(range(0, 200, 16))
    foretold = -influence(run, new, shown, progress=False)[:, 0, removed]
    outputs = [run.model_at(40)(new)]
    for i in removed:
        factors = torch.ones(200).index_fill(0, torch.tensor(i), 0)
        outputs.append(retrain(run, factors, progress=False)(new))
    at_digit = (torch.stack(outputs, 1) * shown).sum(2).detach()
    real = at_digit[:, 1:] - at_digit[:, :1]
    for one, other in zip(real, foretold, strict=True):
        assert torch.corrcoef(torch.stack([one, other]))[0, 1] > 0.98


def test_wrong_calls_are_refused() -> None:
    run = recorded(steps=1)
    with pytest.raises(InputError, match="record must be of class Record"):
        influence(model(), NEW)
    with pytest.raises(InputError, match=r"points are of shape \(n, 3\)"):
        influence(run, NEW[0])
    with pytest.raises(InputError, match=r"x of shape \(3, 2\) was given"):
        influence(run, NEW[:, :2])
    with pytest.raises(InputError, match="22 weights were given"):
        retrain(run, torch.ones(22))


def test_a_step_without_a_derivative_is_refused() -> None:
    """Backward Euler on a bump of curvature -1 at a step of 1: 1 + lr H is singular."""

    class Bump(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.zeros(1, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.w

    def concave(out: Tensor, y: Tensor) -> Tensor:
        return -(out**2).sum() / 2 + 0 * y.sum()

    x = torch.ones(1, 1, dtype=torch.float64)
    run = record(Bump(), concave, lambda p: BackwardEuler(p, lr=1.0), (x, x), steps=1, **QUIET)
    with pytest.raises(InputError, match="not positive definite"):
        influence(run, x, progress=False)

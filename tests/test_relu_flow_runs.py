"""Runs of the flow: the readout alone in closed form, restarts to the same bits, and bad input."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from analytic.expressions.arguments import InputError
from numeric.relu_dynamics import EventKind, Flow, Neurons, Trajectory
from numeric.runs import store
from numeric.runs.store import Checkpoint

X = torch.tensor([0.5, -0.9, 0.1, 0.9, -0.4], dtype=torch.float64)
Y = torch.tensor([-1.0, 1.0, 0.5, 1.0, -1.0], dtype=torch.float64)
NEURONS = Neurons.drawn(30, 0, device="cpu")


def features(neurons: Neurons) -> torch.Tensor:
    return torch.relu(X[:, None] * neurons.a - neurons.b) / neurons.alpha


def test_readout_is_the_matrix_exponential_and_what_runge_kutta_finds() -> None:
    phi = features(NEURONS)
    run = Flow(X, Y, NEURONS, -math.inf, 40.0).run()
    for k in (0, 50, 120, -1):
        decayed = torch.from_numpy(expm(-(phi @ phi.T).numpy() * run.times[k].item()))
        assert (run.residuals[k] - decayed @ run.residuals[0]).abs().max() < 1e-13
    kernel = (phi.T @ phi).numpy()
    pull = (phi.T @ Y).numpy()
    solution = solve_ivp(
        lambda _, c: pull - kernel @ c, (0, 40), NEURONS.c, "DOP853", rtol=1e-12, atol=1e-13
    )
    assert np.abs(run.final.c.numpy() - solution.y[:, -1]).max() < 1e-9
    assert (run.final.a == NEURONS.a).all()
    assert (run.losses.diff() <= 0).all()
    assert (
        run.at(7.0).predict(X) - Y - run.state.residuals(torch.tensor([7.0]))
    ).abs().max() < 1e-14


def test_readout_ends_at_the_nearest_interpolant_or_where_features_reach() -> None:
    end = Flow(X, Y, NEURONS, -math.inf, math.inf).run()
    nearest = torch.linalg.lstsq(
        features(NEURONS), Y - features(NEURONS) @ NEURONS.c, driver="gelsd"
    )
    assert (end.final.c - NEURONS.c - nearest.solution).abs().max() < 1e-11
    assert end.losses[-1] < 1e-28
    few = Neurons.drawn(3, 1, device="cpu")  # a kernel of rank 3 at most, on 5 samples
    end = Flow(X, Y, few, -math.inf, math.inf).run()
    best = torch.linalg.lstsq(features(few), Y, driver="gelsd").solution
    assert (end.residuals[-1] - (features(few) @ best - Y)).abs().max() < 1e-13
    dead = Neurons(torch.zeros(2).double(), torch.ones(2).double(), torch.ones(2).double(), 1.0)
    still = Flow(X, Y, dead, -math.inf, math.inf).run()
    assert (still.residuals == -Y).all()


def test_events_are_where_knots_meet_samples() -> None:
    run = Flow(X, Y, NEURONS.rescaled(2.0), None, 10.0, 1e-3).run(progress=False)
    kinds = {event.kind for event in run.events}
    assert {EventKind.CROSSING, EventKind.SLIDING, EventKind.DYING} <= kinds
    assert [e.time for e in run.events] == sorted(e.time for e in run.events)
    for event in run.events:
        at = run.at(event.time)
        slope, level = at.a[event.neuron], at.b[event.neuron]
        assert abs(slope * X[event.sample] - level) < 1e-12
    held: dict[int, int] = {}
    for event in run.events:
        if event.kind is EventKind.SLIDING:
            held[event.neuron] = event.sample
        else:
            held.pop(event.neuron, None)
    assert held
    for neuron, sample in held.items():
        assert abs(run.final.knots[neuron] - X[sample]) < 1e-14


def test_one_sample_and_neurons_in_every_place() -> None:
    """The loss of one sample falls to 0 where someone is active; on the kink a neuron is inactive."""
    a = torch.tensor([1.0, -1.0, 0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    b = torch.tensor([-1.0, -1.0, -1.0, 1.0, 0.0, 0.3], dtype=torch.float64)
    neurons = Neurons(a, b, torch.ones(6, dtype=torch.float64), 2.0)
    run = Flow([0.3], [0.5], neurons, None, 60.0, 1e-3).run(progress=False)
    assert run.losses[-1] < 1e-18
    still = torch.tensor([3, 4, 5])
    assert (run.final.a[still] == a[still]).all()


class Stop(Exception):
    pass


def interrupted(run: Flow, path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Kept after every step, and stopped in the middle of one."""
    write, left = Checkpoint.write, [after]

    def counting(*args: object) -> None:
        write(*args)
        left[0] -= 1
        if left[0] == 0:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(store, "PAUSE", -1.0)
        patch.setattr(Checkpoint, "write", counting)
        with pytest.raises(Stop):
            run.run(progress=False, store=path)


def same(one: Trajectory, two: Trajectory) -> bool:
    parts = zip((one.at(0.7), one.final), (two.at(0.7), two.final), strict=True)
    return (
        torch.equal(one.times, two.times)
        and torch.equal(one.residuals, two.residuals)
        and one.events == two.events
        and all(torch.equal(getattr(p, n), getattr(q, n)) for p, q in parts for n in "abc")
    )


@pytest.mark.parametrize("marks", [256, 4])
def test_a_stopped_run_goes_on_to_the_same_bits(
    marks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numeric.relu_dynamics.record.MARKS", marks)
    run, path = Flow(X, Y, NEURONS, 2.0, 1.5, 1e-4), tmp_path / "runs" / "run.pt"
    whole = run.run(progress=False)
    assert len(whole.times) > 20
    interrupted(run, path, monkeypatch, 13)
    assert same(run.run(progress=False, store=path), whole)
    assert same(run.run(progress=False, store=path), whole)  # now all of it comes from the file
    assert [p.name for p in path.parent.iterdir()] == ["run.pt"]


def test_a_file_belongs_to_one_run(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    Flow(X, Y, NEURONS, 2.0, 0.1).run(progress=False, store=path)
    with pytest.raises(InputError, match="other settings"):
        Flow(X, Y, NEURONS, 2.0, 0.2).run(progress=False, store=path)
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="delete it"):
        Flow(X, Y, NEURONS, 2.0, 0.1).run(progress=False, store=path)
    assert Checkpoint(tmp_path / "none.pt", "any").read() is None


ZERO = Neurons(NEURONS.a, NEURONS.b, 0 * NEURONS.c, 1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Flow([0.1, 0.1], [1.0, 2.0], NEURONS), "x = 0.1 is given more than once"),
        (lambda: Flow([0.1, 0.2], [1.0], NEURONS), "2 points x and 1 targets"),
        (lambda: Flow([0.1, math.nan], [1.0, 2.0], NEURONS), "x has entries"),
        (lambda: Flow([0.1, 0.2], [1.0, math.inf], NEURONS), "y has entries"),
        (lambda: Flow([], [], NEURONS), "n at least 1"),
        (lambda: Flow(X, Y, NEURONS, math.nan), "delta = nan was given"),
        (lambda: Flow(X, Y, ZERO, 1.0), "no factor"),
        (lambda: Flow(X, Y, NEURONS, 1.0, 0.0), "time = 0.0"),
        (lambda: Flow(X, Y, NEURONS, 1.0, math.inf), "time = inf"),
        (lambda: Flow(X, Y, NEURONS, math.inf, math.inf), "time = inf"),
        (lambda: Flow(X, Y, NEURONS, 1.0, tolerance=0.0), "tolerance = 0.0"),
        (lambda: Flow(X, Y, NEURONS, 1.0, largest=-1.0), "largest = -1.0"),
        (lambda: Flow(X, Y, NEURONS, -math.inf, 1.0).run().at(1.1), "number from 0 to 1.0"),
    ],
)  # fmt: skip
def test_bad_input_is_told(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_tiny_neurons_get_as_long_a_run_as_is_asked_for() -> None:
    """The first step tried would have rapidities that no float holds."""
    tiny = Neurons.drawn(20, 0, a=1e-2, b=1e-2, c=1e-2, antisymmetric=True, device="cpu")
    run = Flow(X, Y, tiny, 0.0, 1e5, tolerance=1e-2).run(progress=False)
    assert run.losses[-1] < 0.5 * run.losses[0]
    assert (run.losses.diff() <= 1e-12 * run.losses[0]).all()

"""Flow of ReLU networks on a line: invariants kept, order 2, energy, and the limits of delta."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from numeric.estimate import power_law
from numeric.relu_dynamics import Event, EventKind, Flow, Neurons
from numeric.relu_dynamics.boosts import NeuronState, advance, outputs, start
from numeric.relu_dynamics.gradient import Samples, gradient
from numeric.relu_dynamics.kernel import kernel
from numeric.relu_dynamics.midpoint import Boosts
from numeric.relu_dynamics.rays import Rays
from numeric.relu_dynamics.trajectory import in_order

X = torch.tensor([0.5, -0.9, 0.1, 0.9, -0.4], dtype=torch.float64)
Y = torch.tensor([-1.0, 1.0, 0.5, 1.0, -1.0], dtype=torch.float64)


def draw(m: int = 40, seed: int = 0, delta: float | None = None) -> Neurons:
    neurons = Neurons.drawn(m, seed, device="cpu")
    return neurons if delta is None else neurons.rescaled(delta)


def distance(one: Neurons, two: Neurons) -> float:
    pairs = ((one.a, two.a), (one.b, two.b), (one.c, two.c))
    return max((p - q).abs().max().item() for p, q in pairs)


def posed(neurons: Neurons) -> tuple[Boosts, NeuronState]:
    samples, order = Samples.of(X)
    problem = Boosts(Rays(samples, neurons.alpha), Y[order], neurons.delta)
    return problem, start(problem.rays, neurons.a, neurons.b, neurons.c)


def fixed(neurons: Neurons, time: float, steps: int) -> Neurons:
    """By steps of one size, whatever they neglect."""
    problem, state = posed(neurons)
    span = time / steps
    for _ in range(steps):
        held = problem.planner(state, problem.residuals(state), 1.0)(span).held
        state, _ = problem.moved(state, held, span)
    return Neurons(state.a, -state.d, state.c, neurons.alpha)


def runge_kutta(neurons: Neurons, time: float) -> Neurons:
    """DOP853 on the gradient by torch's own differentiation."""

    def velocity(_: float, z: np.ndarray) -> np.ndarray:
        a, b, c = torch.from_numpy(z).reshape(3, -1).requires_grad_()
        f = torch.relu(X[:, None] * a - b) @ c / neurons.alpha
        parts = torch.autograd.grad(((f - Y) ** 2).sum() / 2, (a, b, c))
        return -torch.cat(parts).numpy()

    z = torch.cat([neurons.a, neurons.b, neurons.c]).numpy()
    solution = solve_ivp(velocity, (0, time), z, "DOP853", rtol=1e-12, atol=1e-13)
    return Neurons(*torch.from_numpy(solution.y[:, -1]).reshape(3, -1), neurons.alpha)


def drift(now: Neurons, then: Neurons) -> tuple[float, float]:
    """Of delta in exact arithmetic, over c^2 + a^2 + b^2 and over |delta| itself."""
    to_size, to_delta = [], []
    for i in range(now.m):
        (a, b, c), (a0, b0, c0) = (
            [Fraction(part[i].item()) ** 2 for part in (n.a, n.b, n.c)] for n in (now, then)
        )
        delta = c0 - a0 - b0
        off = abs(c - a - b - delta)
        to_size.append(off / (a + b + c))
        to_delta.append(off / abs(delta))
    return float(max(to_size)), float(max(to_delta))


@pytest.mark.sweep
def test_delta_is_kept_over_ten_thousand_steps_of_any_size() -> None:
    """Residuals of the network itself, held for 1e-4 to 10, which is far beyond what descent can bear."""
    deltas = torch.tensor([-100.0, -1.0, -0.01, 0.01, 1.0, 100.0], dtype=torch.float64).repeat(5)
    first = draw(30, 3, deltas)
    problem, state = posed(first)
    spans = torch.logspace(-4, 1, 40, dtype=torch.float64).tolist()
    met, largest = 0, 0.0
    for k in range(10_000):
        residuals = problem.residuals(state)
        residuals = residuals / max(1.0, residuals.norm().item())
        state, hits = advance(
            problem.rays, problem.delta, state, residuals, spans[17 * k % len(spans)]
        )
        met += sum(len(hit.time) for hit in hits)
        largest = max(largest, state.c.abs().max().item())
    to_size, to_delta = drift(Neurons(state.a, -state.d, state.c, 1.0), first)
    assert met > 100  # rays were crossed
    assert largest > 100  # and rapidities were large
    assert to_size < 1e-15  # what the last rounding of a, b and c alone may do
    assert to_delta < 1e-12


@pytest.mark.parametrize(("delta", "seed", "met"), [(-2, 0, 0), (0, 7, 0), (0, 3, 1), (3, 7, 2)])
def test_steps_are_of_order_two(delta: float, seed: int, met: int) -> None:
    neurons = draw(12, seed, float(delta))
    run = Flow(X, Y, neurons, time=0.4, tolerance=1e-6).run(progress=False)
    assert [event.kind for event in run.events] == met * [EventKind.CROSSING]
    exact, counts = runge_kutta(neurons, 0.4), [8, 16, 32, 64, 128]
    assert distance(run.final, exact) < 2e-6
    slope = power_law(counts, [distance(fixed(neurons, 0.4, n), exact) for n in counts])
    assert abs(slope.value + 2) < (0.02 if met == 0 else 0.4)


def test_tolerance_is_about_the_error_and_steps_are_as_many_as_order_two_needs() -> None:
    neurons = draw(12, 0, -2.0)
    exact, tolerances = runge_kutta(neurons, 0.4), [1e-2, 1e-3, 1e-4, 1e-5]
    runs = [Flow(X, Y, neurons, None, 0.4, t).run(progress=False) for t in tolerances]
    errors, counts = [distance(r.final, exact) for r in runs], [len(r.times) for r in runs]
    assert all(e < 3 * t for e, t in zip(errors, tolerances, strict=True))
    assert abs(power_law(tolerances, errors).value - 1) < 0.15
    assert abs(power_law(tolerances, counts).value + 0.5) < 0.1


@pytest.mark.parametrize("delta", [-20.0, -0.5, 0.0, 2.0, 30.0])
def test_loss_falls_delta_stays_and_dense_output_is_the_run(delta: float) -> None:
    neurons = draw(40, 1, delta)
    run = Flow(X, Y, neurons, None, 30.0, 1e-3).run(progress=False)
    assert (run.losses.diff() <= 0).all()
    assert run.losses[-1] < 0.5 * run.losses[0]
    assert distance(run.at(0.0), neurons) == 0
    times = torch.linspace(0, 30, 80, dtype=torch.float64)
    between = [run.at(t.item()) for t in times]
    assert max(drift(at, neurons)[0] for at in between) < 1e-15
    losses = torch.stack([((at.predict(X) - Y) ** 2).sum() / 2 for at in between])
    assert (losses.diff() <= 1e-14).all()
    for k in (1, len(run.times) // 2, -1):
        residuals = run.at(run.times[k].item()).predict(X) - Y
        assert (residuals - run.residuals[k]).abs().max() < 1e-14


def test_boosts_tend_to_the_exact_flow_of_a_and_b_with_rays_crossed_and_slid_along() -> None:
    """Two methods that share no step: at delta = 1e10 the limit is closer than what steps neglect."""
    neurons, tolerances, times = draw(40, 6, 1e10), [1e-3, 1e-4, 1e-5], (5e-10, 1e-9, 2e-9)
    exact = Flow(X, Y, neurons, math.inf, 2e-9).run(progress=False)
    assert {event.kind for event in exact.events} == set(EventKind)
    runs = [Flow(X, Y, neurons, None, 2e-9, t).run(progress=False) for t in tolerances]
    for run, tolerance in zip(runs, tolerances, strict=True):
        pairs = [(run.at(t), exact.at(t)) for t in times]
        off = [(p.u - q.u).abs().max() + (p.v - q.v).abs().max() for p, q in pairs]
        assert max(off) < 50 * tolerance  # of (u, v), which are up to 10 here
    what = [(event.neuron, event.sample, event.kind) for event in exact.events]
    assert [(event.neuron, event.sample, event.kind) for event in runs[-1].events] == what
    moments = [[event.time for event in run.events] for run in (runs[-1], exact)]
    assert np.allclose(*moments, rtol=1e-3)


def test_boosts_tend_to_the_readout_alone_as_delta_falls() -> None:
    """(a, b) moves by r / delta, and what c feels differs by r^2 / delta^2."""
    deltas, off = [-1e2, -1e3, -1e4], []
    for delta in deltas:
        neurons = draw(20, 2, delta)
        exact = Flow(X, Y, neurons, -math.inf, 5 / -delta).run()
        run = Flow(X, Y, neurons, None, 5 / -delta, 1e-4).run(progress=False)
        off.append((run.residuals[-1] - exact.residuals[-1]).abs().max().item())
    assert abs(power_law([-d for d in deltas], off).value + 2) < 0.01


@pytest.mark.parametrize("delta", [-1.0, 2.0])
def test_kernel_is_what_the_residuals_follow(delta: float) -> None:
    """Sliding neurons included: the slope of the residuals by differences of the dense output."""
    run = Flow(X, Y, draw(30, 1, delta), None, 10.0, 1e-4).run(progress=False)
    problem = run.state.problem
    sliding_counts = []
    for k in range(5, len(run.times) - 1, len(run.times) // 6):
        state = run.state.record.state(problem, run.times[k].item())
        residuals = problem.residuals(state)
        span = 1e-6
        after, hits = advance(problem.rays, problem.delta, state, residuals, span)
        slope = (outputs(problem.rays, after) - outputs(problem.rays, state)) / span
        predicted = -kernel(problem.rays, state) @ residuals
        if not hits:
            assert (slope - predicted).abs().max() < 1e-5 * predicted.abs().max()
            sliding_counts.append(int((state.mode >= problem.rays.count).sum()))
    assert max(sliding_counts) > 0  # some slide


def test_energy_identity() -> None:
    """dL/dt = -|gradient|^2, with the gradient by prefix sums, while no neuron slides."""
    neurons = draw(30, 4, -1.0)
    samples, order = Samples.of(X)
    start_gradient = gradient(samples, Y[order], neurons.a, neurons.b, neurons.c, neurons.alpha)
    square = sum(
        (part**2).sum() for part in (start_gradient.a, start_gradient.b, start_gradient.c)
    ).item()
    run = Flow(X, Y, neurons, None, 1e-5, 1e-6).run(progress=False)
    assert (run.losses[0] - run.losses[-1]).item() / 1e-5 == pytest.approx(square, rel=1e-4)


def test_events_of_one_moment_come_by_neuron_and_those_of_one_neuron_as_they_came() -> None:
    """Two processors round the times of neurons that move alike differently, and list them alike."""

    def event(time: float, neuron: int, kind: EventKind = EventKind.CROSSING) -> Event:
        return Event(time, neuron, 0, kind)

    bits = 3e-16
    early, late = event(0.1, 9), event(0.1 + 1e-9, 0)
    for a, b in ((0.0, bits), (bits, 0.0)):
        moment = [
            event(0.5 + a, 7),
            event(0.5 + b, 2, EventKind.SLIDING),
            event(0.5 + b, 2, EventKind.LEAVING),
        ]
        seen = in_order([late, *moment, early])
        assert [e.neuron for e in seen] == [9, 0, 2, 2, 7]
        assert [e.kind for e in seen[2:4]] == [EventKind.SLIDING, EventKind.LEAVING]
    assert in_order([]) == ()

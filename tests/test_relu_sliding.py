"""The exact flow of a and b: closed forms, laws, awkward starts and rough networks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from numeric.relu_dynamics import sliding
from numeric.relu_dynamics.neurons import Neurons
from numeric.relu_dynamics.trajectory import EventKind


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def flow(a: Any, b: Any, c: Any, x: Any, y: Any, end: float, **more: Any) -> sliding.Solution:
    parts = (torch.as_tensor(part, dtype=torch.float64) for part in (a, b, c))
    return sliding.integrate(*parts, more.pop("alpha", 1.0), x, y, end, progress=False, **more)


def net(seed: int, m: int = 12, s: int = 5, width: float = 1.0) -> tuple[Tensor, ...]:
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(-1, 1, (3, m))
    x, y = np.sort(rng.uniform(-width, width, s)), rng.normal(size=s)
    return tuple(map(torch.from_numpy, (a, b, c, x, y)))


def kinds(solution: sliding.Solution) -> list[EventKind]:
    return [e.kind for e in solution.events]


def test_one_neuron_and_one_sample() -> None:
    solution = flow([1.0], [-0.5], [2.0], [0.7], [0.3], 2.0, alpha=4.0)
    rate = (2 / 4) ** 2 * (1 + 0.7**2)
    start = 2 / 4 * 1.2 - 0.3
    for t in (0.0, 0.1, 0.9, 2.0):
        rest = start * math.exp(-rate * t)
        pushed = (start - rest) / rate * 2 / 4
        a, b = solution.at(t)
        assert solution.residuals(t).item() == pytest.approx(rest, rel=1e-14)
        assert solution.loss(t) == pytest.approx(rest**2 / 2, rel=1e-14)
        assert (a.item(), b.item()) == pytest.approx((1 - 0.7 * pushed, -0.5 + pushed), rel=1e-14)
    assert not solution.events


def test_a_knot_held_at_a_sample_in_closed_form() -> None:
    x, y = (0.4, 1.5), (-9.0, 2.0)
    solution = flow([1.0], [0.4], [1.0], x, y, 30.0)
    gap = 1.5 - 0.4
    for t in (0.0, 0.5, 3.0, 30.0):
        a, b = (part.item() for part in solution.at(t))
        rest = (gap - 2) * math.exp(-(gap**2) / (1 + 0.4**2) * t)
        assert solution.residuals(t).tolist() == pytest.approx([9.0, rest], rel=1e-13)
        assert b / a == pytest.approx(0.4, rel=1e-15)
        assert a * gap == pytest.approx(2 + rest, rel=1e-14)
        assert solution.sliding(t).tolist() == [0]


def test_a_neuron_that_slides_into_the_origin_stays_there() -> None:
    size = 0.5
    solution = flow([size], [-2 * size], [1.0], (-2.0, 2.0), (-9.0, -1.0), 3.0)
    (event,) = solution.events
    assert (event.neuron, event.sample, event.kind) == (0, 0, EventKind.DYING)
    assert event.time == pytest.approx(5 / 16 * math.log(4 * size + 1), rel=1e-14)
    assert [part.item() for part in solution.at(3.0)] == [0.0, 0.0]
    assert solution.residuals(3.0).tolist() == pytest.approx([9.0, 1.0], rel=1e-14)


STAY = {
    "at the origin": ([0.0], [0.0], [1.0]),
    "without an outer weight": ([1.0], [0.2], [0.0]),
    "on a sample without an outer weight": ([1.0], [0.5], [0.0]),
    "that sees no sample": ([1.0], [3.0], [-1.0]),
    "at the last sample, which would pull it in": ([2.0], [3.0], [1.0]),
}


@pytest.mark.parametrize("start", STAY.values(), ids=STAY)
def test_neurons_that_never_move(start: tuple[list[float], ...]) -> None:
    solution = flow(*start, (-0.5, 0.5, 1.5), (1.0, 2.0, 3.0), 5.0)
    assert not solution.events
    assert [part.tolist() for part in solution.at(5.0)] == [list(start[0]), list(start[1])]


def test_between_two_ways_out_a_neuron_takes_the_inactive_one() -> None:
    """On a repulsor the active side leads away too: a start just beside it shows that."""
    x, y, starts = (0.0, 1.0), (1.0, 0.5), {}
    for b in (-1e-9, 0.0, 1e-9):
        solution = flow([1.0], [b], [1.0], x, y, 0.2)
        a, b_end = (part.item() for part in solution.at(0.2))
        starts[b] = b_end / a
        assert not solution.events
    assert starts[-1e-9] < -0.01 < 0.01 < starts[1e-9]
    assert starts[0.0] == pytest.approx(starts[1e-9], abs=1e-8)


@pytest.mark.parametrize("x", [0.7, 0.9, 1.3, 2.3, 3.0, 7.0, 10.0])
def test_a_field_along_a_ray_holds_nobody_there(x: float) -> None:
    """With 1 + x x' = 0 the inactive side never leads back, whatever the rounding: no share keeps a knot."""
    solution = flow([-1.0], [-1.05 * x], [1.0], (-1 / x, x), (30.0, -1.0), 50.0)
    assert kinds(solution) == [EventKind.CROSSING]
    a, b = solution.at(50.0)
    assert -a.item() > 1.1
    assert (b / a).item() == pytest.approx(x, rel=1e-14)


def test_copies_act_as_one_neuron_and_leave_a_sample_together() -> None:
    a, b, c, x, y = net(5)
    one = flow(a, b, c, x, y, 20.0)
    many = flow(*(part.repeat(3) / math.sqrt(3) for part in (a, b, c)), x, y, 20.0)
    assert EventKind.LEAVING in kinds(one)
    for t in (1.0, 7.0, 20.0):
        for part, copies in zip(one.at(t), many.at(t), strict=True):
            torch.testing.assert_close(copies.view(3, -1) * math.sqrt(3), part.expand(3, -1))
    seen = {(e.neuron % len(a), e.sample, e.kind) for e in many.events}
    assert seen == {(e.neuron, e.sample, e.kind) for e in one.events}
    assert len(many.events) == 3 * len(one.events)


@pytest.mark.parametrize("seed", range(6))
def test_reflected_data_and_samples_in_any_order_give_the_same_run(seed: int) -> None:
    a, b, c, x, y = net(seed, width=2.0)
    solution = flow(a, b, c, x, y, 10.0)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    other = flow(-a, b, c, -x[order], y[order], 10.0)
    assert solution.events
    assert [(e.neuron, e.sample, e.kind) for e in solution.events] == [
        (e.neuron, int(order[e.sample]), e.kind) for e in other.events
    ]
    for t in (0.3, 4.0, 10.0):
        (a1, b1), (a2, b2) = solution.at(t), other.at(t)
        torch.testing.assert_close(a1, -a2, rtol=0, atol=1e-11)
        torch.testing.assert_close(b1, b2, rtol=0, atol=1e-11)
        torch.testing.assert_close(solution.residuals(t)[order], other.residuals(t))


@pytest.mark.parametrize("seed", range(20))
def test_the_loss_never_increases_and_falls_by_the_way_made(seed: int) -> None:
    a, b, c, x, y = net(seed, m=20, width=1.5)
    end = 50.0
    solution = flow(a, b, c, x, y, end)
    times = (
        torch.cat([solution.times, torch.linspace(0, end, 400, dtype=torch.float64)]).sort().values
    )
    losses = numbers(*(solution.loss(t) for t in times.tolist()))
    assert ((losses[1:] - losses[:-1]) <= 1e-15 * losses[0]).all()
    at = [torch.stack(solution.at(t)) for t in times.tolist()]
    chords = numbers(*((v - w).square().sum() for v, w in zip(at[1:], at[:-1], strict=True)))
    spans = times[1:] - times[:-1]
    bound = (losses[:-1] - losses[1:]) * spans  # Cauchy and Schwarz, equal where nothing bends
    assert (chords <= bound * (1 + 1e-9) + 1e-14 * losses[0]).all()
    assert chords[:50].sum() > 0.5 * bound[:50].sum()
    for t, w in zip(times.tolist()[::20], at[::20], strict=True):
        outputs = Neurons(w[0], w[1], c, 1.0).predict(x)
        torch.testing.assert_close(outputs - y, solution.residuals(t), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_rough_networks(seed: int) -> None:
    """Any scale, samples almost twice, whole numbers with ties, knots on samples, pairs that cancel."""
    rng = np.random.default_rng(seed)
    s, m, scale = rng.integers(1, 9), rng.integers(1, 40), 10 ** rng.uniform(-2, 2)
    x, (a, b, c) = np.sort(rng.normal(size=s)), rng.normal(size=(3, m))
    if seed % 3 == 0 and s > 1:
        x[1] = x[0] + 10 ** rng.uniform(-12, -3)
    if seed % 5 == 0:
        a, b, c = np.round(a), np.round(b), np.round(c)
    if seed % 7 == 0:
        c = c * 10 ** rng.uniform(-6, 2, m)
    if seed % 2 == 0:
        b[::3] = a[::3] * rng.choice(x, len(b[::3]))
    if seed % 4 == 1:
        a, b, c = np.tile(a, 2), np.tile(b, 2), np.append(c, -c)
    x, b, end = scale * np.unique(x), scale * b, 10 ** rng.uniform(-2, 6)
    y = rng.normal(size=len(x)) * 10 ** rng.uniform(-2, 2)
    solution = flow(a, b, c, x, y, end)
    losses = (solution.path**2).sum(1)
    assert (losses[1:] - losses[:-1] <= 4e-15 * losses[0]).all()
    sizes = []
    for t in solution.times.tolist():
        a, b = (part.numpy() for part in solution.at(t))
        terms = c[:, None] * np.maximum(a[:, None] * x - b[:, None], 0)
        sizes.append(np.abs(c) @ (np.abs(a) * np.abs(x).max() + np.abs(b)) + np.abs(y).max())
        off = np.abs(terms.sum(0) - y - solution.residuals(t).numpy()).max()
        assert off < 1e-13 * len(sizes) * max(sizes)
    held = solution.sliding(end)
    on = (a * x[held] - b)[held >= 0]
    assert (np.abs(on) <= 1e-13 * (np.abs(a * x[held]) + np.abs(b))[held >= 0]).all()


def test_the_path_is_continuous_and_listed_as_evaluated() -> None:
    a, b, c, x, y = net(3, m=40, s=8)
    solution = flow(a, b, c, x, y, 10.0)
    times = solution.times.tolist()
    assert (times[0], times[-1]) == (0.0, 10.0)
    assert len(times) > 20
    torch.testing.assert_close(solution.path, torch.stack([solution.residuals(t) for t in times]))
    for t in times[1:-1]:
        for before, after in zip(solution.at(math.nextafter(t, 0)), solution.at(t), strict=True):
            torch.testing.assert_close(before, after, rtol=0, atol=1e-13)


def test_knots_gather_at_samples_and_a_long_run_keeps_its_digits() -> None:
    start = Neurons.drawn(1000, 0)
    x = torch.linspace(-0.9, 0.9, 10, dtype=torch.float64)
    y = torch.sign(torch.sin(2 * math.pi * x + 1e-9))
    end = 1e8
    parts = (start.a, start.b, start.c)
    solution = flow(*parts, x, y, end, alpha=start.alpha)
    after = Neurons(*solution.at(1e4), start.c, start.alpha)

    def share(neurons: Neurons) -> float:
        near = (neurons.knots[:, None] - x).abs().min(1).values < 1e-9
        return near.double().mean().item()

    assert share(start) == 0
    assert share(after) > 0.2
    assert solution.loss(1e4) > 0.1
    assert solution.loss(end) < 1e-12
    outputs = Neurons(*solution.at(end), start.c, start.alpha).predict(x)
    torch.testing.assert_close(outputs - y, solution.residuals(end), rtol=0, atol=2e-12)


@pytest.mark.parametrize(("s", "m", "rest"), [(6, 60, 0.05), (10, 200, 0.0)])
def test_nobody_changes_once_only_rounding_moves(s: int, m: int, rest: float) -> None:
    """Whether a loss remains or not."""
    start, end = Neurons.drawn(m, 2), 1e8
    x = torch.linspace(-0.9, 0.9, s, dtype=torch.float64)
    solution = flow(
        start.a, start.b, start.c, x, torch.sin(2 * math.pi * x), end, alpha=start.alpha
    )
    assert solution.loss(end) == pytest.approx(rest, rel=0.2, abs=1e-25)
    last = solution.events[-1]
    assert solution.loss(last.time) - solution.loss(end) > 1e-6

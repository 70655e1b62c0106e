"""The exact flow of a and b against two routes that share nothing with it, and plain Runge-Kutta."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.integrate import DOP853, DenseOutput, solve_ivp
from scipy.optimize import brentq

from numeric.estimate import power_law
from numeric.relu_dynamics import sliding
from numeric.relu_dynamics.trajectory import EventKind

Array = NDArray[np.float64]
ARMED = 1e-9  # above it a margin has really left 0


@dataclass
class Located:
    """Gradient of the definition over an m x s table of activations, by DOP853 between located changes.

    Where a knot is held at a sample, the activation there is the share in (0, 1) that keeps it there.
    """

    a: Array
    b: Array
    c: Array
    x: Array
    y: Array
    held: dict[int, int] = field(default_factory=dict)
    events: list[tuple[float, int, int, EventKind]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tilde = np.stack([self.x, np.ones_like(self.x)], 1)
        self.w = np.stack([self.a, -self.b], 1)
        self.on = (self.w @ self.tilde.T > 0).astype(float)

    def shares(self, w: Array) -> tuple[Array, Array]:
        """Activations with those of held neurons solved for, and the residuals, which do not feel them."""
        residuals = self.c @ (self.on * (w @ self.tilde.T)) - self.y
        on = self.on.copy()
        for i, j in self.held.items():
            others = (on[i] * residuals) @ (self.tilde @ self.tilde[j])
            on[i, j] = -others / (residuals[j] * (self.tilde[j] @ self.tilde[j]))
        return on, residuals

    def velocity(self, _: float, z: Array) -> Array:
        on, residuals = self.shares(z.reshape(-1, 2))
        return (-self.c[:, None] * ((on * residuals) @ self.tilde)).ravel()

    def margins(self, z: Array) -> Array:
        """(m, s + 2): all above 0 as long as nothing changes; the last two are shares above 0 and below 1."""
        w = z.reshape(-1, 2)
        margins = np.full((len(w), len(self.x) + 2), np.inf)
        margins[:, :-2] = (2 * self.on - 1) * (w @ self.tilde.T)
        on = self.shares(w)[0]
        for i, j in self.held.items():
            margins[i, [j, -2, -1]] = np.inf, on[i, j], 1 - on[i, j]
        return margins

    def run(self, end: float, times: Array) -> Array:
        """w at the times, (k, m, 2)."""
        weights, start = np.full((len(times), len(self.a), 2), np.nan), 0.0
        while start < end:
            solver = self._solver(start, end)
            armed, hit = self.margins(self.w.ravel()) > ARMED, None
            while solver.status == "running" and hit is None:
                solver.step()
                dense = solver.dense_output()
                hit = self._located(dense, solver.t_old, solver.t, armed)
                last = solver.t if hit is None else hit[0]
                for k in np.flatnonzero((solver.t_old <= times) & (times <= last)):
                    weights[k] = dense(times[k]).reshape(-1, 2)
            if hit is None:
                break
            start = self._reach(start, hit)
        return weights

    def _solver(self, start: float, end: float) -> DOP853:
        return DOP853(
            self.velocity, start, self.w.ravel(), end, rtol=1e-13, atol=1e-15, max_step=0.1
        )

    def _located(self, dense: DenseOutput, start: float, end: float, armed: Array) -> tuple | None:
        before = start
        for now in np.linspace(start, end, 9)[1:]:
            margins = self.margins(dense(now))
            hits = []
            for i, k in np.argwhere(armed & (margins < 0)):
                root = brentq(lambda t, i=i, k=k: self.margins(dense(t))[i, k], before, now)
                hits.append((root, int(i), int(k)))
            if hits:
                return min(hits)
            armed |= margins > ARMED
            before = now
        return None

    def _reach(self, start: float, hit: tuple[float, int, int]) -> float:
        time, i, k = hit
        solver = self._solver(start, time)
        while solver.status == "running":
            solver.step()
        self.w = solver.y.reshape(-1, 2).copy()
        if k >= len(self.x):
            self._leave(time, i, k - len(self.x))
        elif i in self.held:
            self.events.append((time, i, self.held.pop(i), EventKind.DYING))
            self.w[i], self.on[i] = 0, 0
        else:
            self._meet(time, i, k)
        return time

    def _leave(self, time: float, i: int, side: int) -> None:
        """With all whose share comes to its end too."""
        j = self.held[i]
        on = self.shares(self.w)[0]
        for k in [k for k, sample in self.held.items() if sample == j]:
            if abs(on[k, j] - side) < 1e-6:
                del self.held[k]
                self.on[k, j] = side
                self.events.append((time, k, j, EventKind.LEAVING))

    def _meet(self, time: float, i: int, j: int) -> None:
        speeds = []
        for activation in (0, 1):
            self.on[i, j], was = activation, self.on[i, j]
            speeds.append(self.velocity(0, self.w.ravel()).reshape(-1, 2)[i] @ self.tilde[j])
            self.on[i, j] = was
        if speeds[0] > 1e-13 and speeds[1] < 0:
            self.held[i], self.on[i, j], kind = j, 0, EventKind.SLIDING
        else:
            self.on[i, j] = 1 - self.on[i, j]
            kind = EventKind.CROSSING if self.on[i].any() else EventKind.DYING
        self.events.append((time, i, j, kind))


def drawn(seed: int, width: float = 2.0) -> tuple[Array, ...]:
    rng = np.random.default_rng(seed)
    m, s = int(rng.integers(4, 11)), int(rng.integers(3, 7))
    a, b, c = rng.uniform(-1, 1, (3, m))
    return a, b, c, np.sort(rng.uniform(-width, width, s)), rng.normal(size=s)


def exact(net: tuple[Array, ...], end: float) -> sliding.Solution:
    a, b, c, x, y = map(torch.from_numpy, net)
    return sliding.integrate(a, b, c, 1.0, x, y, end, progress=False)


SEEDS = range(24)
END = 12.0


@pytest.mark.parametrize("seed", SEEDS)
def test_located_runge_kutta_finds_the_same_changes_and_neurons(seed: int) -> None:
    net, times = drawn(seed), np.linspace(0, END, 25)
    located, solution = Located(*net), exact(net, END)
    neurons = located.run(END, times)
    theirs = sorted(located.events, key=lambda event: event[1])  # those at once come in any order
    ours = sorted(solution.events, key=lambda event: event.neuron)
    assert [(e.neuron, e.sample, e.kind) for e in ours] == [event[1:] for event in theirs]
    when = [e.time for e in ours], [event[0] for event in theirs]
    np.testing.assert_allclose(*when, rtol=0, atol=1e-9)
    for time, w in zip(times, neurons, strict=True):
        a, b = solution.at(time)
        np.testing.assert_allclose(np.stack([a, -b], 1), w, rtol=0, atol=1e-11)


def test_those_runs_show_every_kind_of_change() -> None:
    kinds, origins = Counter(), 0
    for seed in SEEDS:
        solution = exact(drawn(seed), END)
        kinds.update(e.kind for e in solution.events)
        a, b = solution.at(END)
        origins += int(((a == 0) & (b == 0)).sum())
    assert all(kinds[kind] >= 10 for kind in EventKind), kinds
    assert origins >= 3


def test_gradient_descent_of_small_steps_slides_as_filippov_says() -> None:
    """It zigzags around a ray within one step, so that it is off by the first power of its rate."""
    nets, end = [], 4.0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        a, b, c = rng.uniform(-1, 1, (3, 6))
        net = a, b, c, np.sort(rng.uniform(-1, 1, 4)), rng.normal(size=4)
        solution = exact(net, end)
        origin = [
            e
            for e in solution.events
            if sum(part[e.neuron].abs() for part in solution.at(e.time)) == 0
        ]
        if sum(e.kind is EventKind.SLIDING for e in solution.events) >= 2 and not origin:
            nets.append((net, np.stack(solution.at(end))))
    a, b, c, x, y = (np.stack(part) for part in zip(*(net for net, _ in nets), strict=True))
    ends = np.stack([state for _, state in nets])  # (nets, 2, m)
    assert len(nets) >= 8
    errors, steps = [], 2 ** np.arange(8, 13)
    for count in steps:
        errors.append(np.abs(descended(a, b, c, x, y, end / count, count) - ends).max((1, 2)))
    slope = power_law(
        steps.tolist(), np.median(errors, 1).tolist()
    )  # one net passes close to a fork
    assert abs(slope.value + 1) < 0.2
    assert np.max(errors[-1]) < 2 * end / steps[-1]


def descended(a: Array, b: Array, c: Array, x: Array, y: Array, rate: float, steps: int) -> Array:
    """Of many nets at once: (n, m) and (n, s) -> (n, 2, m)."""
    for _ in range(steps):
        heights = a[:, :, None] * x[:, None] - b[:, :, None]
        residuals = (c[:, :, None] * np.maximum(heights, 0)).sum(1) - y
        seen = (heights > 0) * residuals[:, None]
        a = a - rate * c * (seen * x[:, None]).sum(2)
        b = b + rate * c * seen.sum(2)
    return np.stack([a, b], 1)


class Stuck(Exception):
    pass


@pytest.mark.parametrize("seed", [4, 9, 12])
def test_plain_runge_kutta_stops_where_a_knot_is_held(seed: int) -> None:
    net, work = drawn(seed), []
    located = Located(*net)
    solution = exact(net, END)
    first = min(e.time for e in solution.events if e.kind is EventKind.SLIDING)

    def velocity(time: float, z: Array) -> Array:
        work.append(time)
        if len(work) > 10_000:
            raise Stuck
        w = z.reshape(-1, 2)
        located.on = (w @ located.tilde.T > 0).astype(float)
        return located.velocity(time, z)

    with pytest.raises(Stuck):
        solve_ivp(velocity, (0, END), located.w.ravel(), method="DOP853", rtol=1e-11, atol=1e-11)
    assert max(work[-1000:]) - min(work[-1000:]) < 1e-3 * END
    assert work[-1] > first - 1e-6
    assert solution.times[-1] == END
    assert len(solution.times) < 100

"""Neurons under residuals that stand still: boosts against their formula, and no ray overlooked."""

import pytest
import sympy as sp
import torch
from torch import Tensor

from analytic.relu_dynamics.boost import lorentz_boost as formula
from analytic.relu_dynamics.neuron import Neuron
from numeric.estimate import power_law
from numeric.relu_dynamics import EventKind, Neurons
from numeric.relu_dynamics.boosts import NeuronState, advance, boosted, start
from numeric.relu_dynamics.gradient import Samples
from numeric.relu_dynamics.rays import Rays
from numeric.relu_dynamics.trajectory import EVENT_KINDS


def posed(s: int, seed: int, delta: float | None) -> tuple[Rays, Tensor, Neurons, NeuronState]:
    """Samples and residuals at random, and 300 neurons in all directions."""
    generator = torch.Generator().manual_seed(seed)
    x = 4 * torch.rand(s, generator=generator, dtype=torch.float64) - 2
    residuals = torch.randn(s, generator=generator, dtype=torch.float64)
    neurons = Neurons.drawn(300, seed, alpha=1.0, device="cpu")
    neurons = neurons if delta is None else neurons.rescaled(delta)
    rays = Rays(Samples.of(x)[0], 1.0)
    return rays, residuals, neurons, start(rays, neurons.a, neurons.b, neurons.c)


@pytest.mark.parametrize("time", [1e-9, 0.3, 4.0])
def test_boost_is_its_formula_to_the_last_bits(time: float) -> None:
    rays, residuals, neurons, state = posed(4, 0, None)
    force = rays.forces(residuals)
    after = boosted(force, state, time)
    for i in range(0, 60, 7):
        parts = (neurons.a[i], neurons.b[i], neurons.c[i], *force[:, state.mode[i]])
        a, b, c, g, d = (sp.Rational(*part.item().as_integer_ratio()) for part in parts)
        exact = formula(Neuron(a, b, c), (g, d), 1, sp.Rational(*time.as_integer_ratio()))
        size = max(abs(float(sp.N(part, 30))) for part in (exact.a, exact.b, exact.c))
        for new, old in ((after.a, exact.a), (-after.d, exact.b), (after.c, exact.c)):
            assert (
                abs(sp.N(old - sp.Rational(*new[i].item().as_integer_ratio()), 30)) < 4e-15 * size
            )


@pytest.mark.parametrize("s", [1, 2, 5])
def test_one_long_way_is_many_short_ones(s: int) -> None:
    """Every event that a long step may miss is found by short ones, whatever delta and rapidity."""
    kinds, stopped, passed = set(), 0, 0
    for seed, delta in ((4, None), (1, -1.0), (13, -0.1), (2, 0.0), (3, 0.1), (5, 5.0)):
        rays, residuals, neurons, first = posed(s, seed, delta)
        long, hits = advance(rays, neurons.delta, first, residuals, 3.0)
        short = first
        for _ in range(30):
            short, _ = advance(rays, neurons.delta, short, residuals, 0.1)
        size = 1 + torch.stack([long.a, long.d, long.c]).abs().amax(0)
        for one, two in ((long.a, short.a), (long.d, short.d), (long.c, short.c)):
            assert ((one - two).abs() / size).max() < 1e-10
        assert torch.equal(long.mode, short.mode)
        kinds |= {EVENT_KINDS[k] for hit in hits for k in hit.kind.tolist()}
        stopped += int(((long.a == 0) & (long.d == 0)).sum())
        passed += int((long.c * first.c < 0).sum())
    assert passed  # c changes its sign where delta < 0
    assert EventKind.DYING in kinds
    if s == 5:
        assert kinds == set(
            EventKind
        )  # leaving where c changes its sign, for residuals do not change here
        assert stopped  # some slide into w = 0


def test_a_long_way_as_a_limit_of_descent() -> None:
    """Gradient steps on the linear loss of frozen residuals: off by their size, at sliding rays too."""
    rays, residuals, neurons, state = posed(5, 3, 1.0)
    x, off = rays.samples.x, []
    exact, _ = advance(rays, neurons.delta, state, residuals, 0.5)
    for steps in (250, 1000, 4000):
        a, b, c = neurons.a, neurons.b, neurons.c
        for _ in range(steps):
            rate = 0.5 / steps
            z = x[:, None] * a - b
            on = (z > 0) * residuals[:, None]
            slope, level = (on * x[:, None]).sum(0), on.sum(0)
            a, b, c = a - rate * c * slope, b + rate * c * level, c - rate * (on * z).sum(0)
        gap = torch.stack([(a - exact.a).abs(), (b + exact.d).abs(), (c - exact.c).abs()]).amax(0)
        off.append(gap[exact.a.abs() + exact.d.abs() > 0.02].max().item())
    assert abs(power_law([250, 1000, 4000], off).value + 1) < 0.1

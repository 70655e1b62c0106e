"""Particles on the cylinder: their potential, their velocities, and chaos that propagates."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

from analytic.expressions.arguments import InputError
from numeric.estimate import Estimate, power_law
from numeric.relu_dynamics import Neurons
from numeric.relu_dynamics.gradient import Samples
from numeric.relu_dynamics.mean_field import Cylinder, MeanField
from numeric.relu_dynamics.rays import Rays

X = torch.tensor([0.5, -0.9, 0.1, 0.9, -0.4], dtype=torch.float64)
Y = torch.tensor([-1.0, 1.0, 0.5, 1.0, -1.0], dtype=torch.float64)
PENALTIES = pytest.mark.parametrize("penalty", [0.0, 0.3])


def drawn(m: int, seed: int = 0) -> Neurons:
    """r in (-2, 2) and any angle, independently."""
    u = torch.rand(2, m, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Neurons.canonical(4 * u[0] - 2, 2 * math.pi * u[1], -1.0)


def objective(r: Tensor, theta: Tensor, penalty: float) -> Tensor:
    """As (9) and (16) say it."""
    features = torch.relu(X[:, None] * theta.cos() + theta.sin())
    return ((features @ r / len(r) - Y) ** 2).sum() / 2 + penalty * r.abs().mean()


@PENALTIES
def test_velocity_is_minus_m_times_the_gradient_of_the_objective(penalty: float) -> None:
    measure, field = drawn(40), MeanField(X, Y, penalty)
    r, theta = (part.clone().requires_grad_() for part in (measure.r, measure.theta))
    value = objective(r, theta, penalty)
    exact = torch.autograd.grad(value, (r, theta))
    velocity = field.velocity(measure, measure.r, measure.theta)
    assert field.objective(measure).item() == pytest.approx(value.item(), rel=1e-14)
    for new, old in zip(velocity, exact, strict=True):
        assert (new + 40 * old).abs().max() < 1e-13


@PENALTIES
def test_velocity_is_minus_the_slope_of_the_potential_anywhere(penalty: float) -> None:
    """The measure frozen, and the point not of it."""
    measure, field = drawn(40), MeanField(X, Y, penalty)
    r, theta = torch.linspace(-2, 2, 8).double(), torch.linspace(0.1, 6, 9).double()
    r, theta = torch.meshgrid(r, theta, indexing="ij")
    step = 1e-6
    for k, component in enumerate(field.velocity(measure, r, theta)):
        up, down = (
            field.potential(measure, r + s * (k == 0), theta + s * (k == 1)) for s in (step, -step)
        )
        assert (component + (up - down) / (2 * step)).abs().max() < 1e-8


def runge_kutta(measure: Neurons, penalty: float, time: float) -> tuple[Tensor, Tensor]:
    m = measure.m

    def velocity(_: float, z: np.ndarray) -> np.ndarray:
        r, theta = torch.from_numpy(z).reshape(2, -1).requires_grad_()
        parts = torch.autograd.grad(objective(r, theta, penalty), (r, theta))
        return -m * torch.cat(parts).numpy()

    z = torch.cat([measure.r, measure.theta]).numpy()
    end = solve_ivp(velocity, (0, time), z, "DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    r, theta = torch.from_numpy(end).reshape(2, -1)
    return r, theta


@pytest.mark.parametrize(("penalty", "m", "seed"), [(0.0, 12, 0), (0.3, 12, 0)])
def test_particles_follow_the_canonical_flow_to_order_two(
    penalty: float, m: int, seed: int
) -> None:
    measure, tolerances = drawn(m, seed), [1e-2, 1e-3, 1e-4, 1e-5]
    r, theta = runge_kutta(measure, penalty, 0.15)
    errors, counts = [], []
    for tolerance in tolerances:
        run = MeanField(X, Y, penalty).flow(measure, 0.15, tolerance, progress=False)
        turned = torch.remainder(run.final.theta - theta + math.pi, 2 * math.pi) - math.pi
        errors.append(max((run.final.r - r).abs().max().item(), turned.abs().max().item()))
        counts.append(len(run.times))
    assert run.events
    assert all(e < t for e, t in zip(errors, tolerances, strict=True))
    assert abs(power_law(tolerances, errors).value - 1) < 0.2
    assert abs(power_law(tolerances, counts).value + 0.5) < 0.1


@PENALTIES
def test_objective_falls_and_what_is_at_zero_stays_as_the_penalty_says(penalty: float) -> None:
    measure, field = drawn(40), MeanField(X, Y, penalty)
    run = field.flow(measure, 6.0, 1e-3, progress=False)
    values = torch.stack([field.objective(run.at(t)) for t in torch.linspace(0, 6, 60).tolist()])
    assert (values.diff() < 1e-14).all()
    still = run.final.r == 0
    assert still.any() == (penalty > 0)
    pull = MeanField(X, Y).velocity(run.final, run.final.r, run.final.theta)[0]
    assert (pull[still].abs() <= penalty).all()
    assert run.events


def test_sizes_move_evenly_and_stop_at_zero_where_the_penalty_is_stronger() -> None:
    """One long way is many short ones, from r on either side of 0, at 0, and through it."""
    penalty = 0.4
    problem, measure = Cylinder(Rays(Samples.of(X)[0], 1.0), Y, penalty), drawn(300, 2)
    r = torch.where(torch.arange(300) % 3 == 0, 0.0, measure.r / 10)
    forces = problem.rays.forces(Y)
    state = problem.start(r, measure.theta)
    long, short = problem._radial_step(forces, state, 0.5), state
    for _ in range(50):
        short = problem._radial_step(forces, short, 0.01)
    assert (long.c - short.c).abs().max() < 1e-14
    still, passed = (long.c == 0) & (r != 0), long.c * r < 0
    assert still.any()
    assert passed.any()
    g = forces[:, state.mode]
    pull = (g[0] * state.a + g[1] * state.d).abs()
    assert ((long.c == 0) <= (pull <= penalty)).all()
    assert (long.c[r == 0].abs() - 0.5 * (pull[r == 0] - penalty).clamp(min=0)).abs().max() < 1e-14


def test_mass_is_carried_as_the_continuity_equation_says() -> None:
    """In its weak form, for a test function of r and theta, by differences over a short time."""
    measure, field, step = drawn(300, 1), MeanField(X, Y, 0.1), 1e-6

    def mean(at: Neurons) -> Tensor:
        return ((at.r * at.theta.sin()).sin() + at.r**2 * at.theta.cos()).mean()

    r, theta = measure.r, measure.theta
    slope = (r * theta.sin()).cos()
    by_r = slope * theta.sin() + 2 * r * theta.cos()
    by_theta = slope * r * theta.cos() - r**2 * theta.sin()
    u, v = field.velocity(measure, r, theta)
    after = field.flow(measure, step, 1e-5, progress=False).final
    rate = (mean(after) - mean(measure)) / step
    assert rate.item() == pytest.approx((by_r * u + by_theta * v).mean().item(), rel=1e-5)


def test_particle_systems_tend_to_their_limit_as_the_root_of_their_number() -> None:
    """Residuals after a while: they spread as m^(-1/2), and their mean is that of a hundred times as many."""
    field, widths, seeds = MeanField(X, Y), [30, 120, 480], range(12)

    def end(m: int, seed: int) -> Tensor:
        return field.flow(drawn(m, seed), 1.0, 1e-2, progress=False).residuals[-1]

    estimates = {m: Estimate.of(torch.stack([end(m, 100 * m + k) for k in seeds])) for m in widths}
    spreads = [estimates[m].spread.norm().item() for m in widths]
    slope = power_law(widths, spreads)
    wide = Estimate.of(torch.stack([end(20_000, k) for k in range(2)])).mean
    assert abs(slope.value + 0.5) < 0.15
    assert estimates[480].sigmas_from(wide).max() < 4
    assert estimates[480].sigmas_from(wide + 0.5).min() > 4  # a shift of a half would be seen


def test_a_penalty_beyond_every_slope_leaves_nothing_and_one_below_leaves_something() -> None:
    """f = 0 is the least where lambda is at least the largest |sum of y <(x, 1), d>_+| over angles."""
    angle = torch.linspace(0, 2 * math.pi, 10_001, dtype=torch.float64)
    most = (Y @ torch.relu(X[:, None] * angle.cos() + angle.sin())).abs().max().item()
    for factor in (0.5, 1.05):
        end = MeanField(X, Y, factor * most).flow(drawn(60, 3), 20.0, 1e-2, progress=False).final
        assert (end.r == 0).all() == (factor > 1)


def test_a_kept_run_is_the_same(tmp_path: Path) -> None:
    field, measure, path = MeanField(X, Y, 0.1), drawn(20), tmp_path / "run.pt"
    one = field.flow(measure, 0.5, 1e-3, progress=False, store=path)
    two = field.flow(measure, 0.5, 1e-3, progress=False, store=path)
    assert torch.equal(one.residuals, two.residuals)
    assert torch.equal(one.at(0.3).r, two.at(0.3).r)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MeanField(X, Y, -0.1), "penalty = -0.1"),
        (lambda: MeanField(X, Y, math.nan), "penalty = nan"),
        (lambda: MeanField([0.1, 0.1], [1.0, 1.0]), "more than once"),
        (lambda: MeanField(X, Y).flow(drawn(3), math.inf), "time = inf"),
        (lambda: MeanField(X, Y).flow(drawn(3), 1.0, 0.0), "tolerance = 0.0"),
    ],
)
def test_bad_input_is_told(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()

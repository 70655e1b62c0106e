"""Flows of smooth models: straight lines, rank loss, kernels that move outputs, times, costs, resuming."""

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from scipy.integrate import RK45
from torch import Tensor, nn

from analytic import InputError
from numeric import flows
from numeric.flows import ranges
from numeric.flows.output_map import output_map
from numeric.flows.ranges import Factorisations

F64 = {"dtype": torch.float64}
QUIET = {"progress": False}


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), **F64)


def network(*widths: int, seed: int = 0, phi: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    """With weights of variance 1 / fan-in, and small biases."""
    parts: list[nn.Module] = []
    for k, (d, n) in enumerate(pairwise(widths)):
        layer = nn.Linear(d, n, **F64)
        layer.weight.data = normal(n, d, seed=seed + 2 * k) / d**0.5
        layer.bias.data = normal(n, seed=seed + 2 * k + 1) / 3
        parts += [layer, phi()]
    return nn.Sequential(*parts[:-1])


def small() -> tuple[nn.Module, Tensor, Tensor]:
    """QN = 8 outputs, K = 42 parameters."""
    return network(2, 8, 2), normal(4, 2, seed=7), normal(4, 2, seed=8)


def largest_deviation(run: flows.Flow, count: int = 6) -> float:
    times = [*(run.end * k / count for k in range(count + 1)), *run.times.tolist()]
    return max(run.deviation(t).norm().item() for t in times)


def test_outputs_of_full_rank_move_on_straight_lines() -> None:
    """Steps and dense output alike; an error of one step shrinks like 1 - t afterwards."""
    tolerance = 1e-10
    run = flows.integrate(*small(), until=0.3, tolerance=tolerance, **QUIET)
    assert largest_deviation(run) <= 10 * tolerance
    assert run.loss(0.3) == pytest.approx(0.49 * run.loss(0.0), abs=tolerance)
    assert not run.events


@pytest.mark.sweep
@pytest.mark.parametrize("tolerance", [1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("widths", [(10, 60, 60, 5), (3, 100, 5)])
def test_larger_models_too(widths: tuple[int, ...], tolerance: float) -> None:
    x, y = normal(20, widths[0], seed=7), normal(20, 5, seed=8)
    run = flows.integrate(network(*widths), x, y, tolerance=tolerance, **QUIET)
    assert largest_deviation(run, 100) <= 10 * tolerance


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_the_kernel_moves_outputs_on_and_off_the_training_set(alpha: float) -> None:
    """df/ds = -K_alpha(x, X) g, by central differences of a finer flow: its error is h^2."""
    net, x, y = small()
    run = flows.integrate(net, x, y, alpha, duration=0.2, tolerance=1e-9, **QUIET)
    s, h = 0.1, 1e-3
    gradient = (run.outputs(s) - y) / len(x)
    for points in (None, normal(3, 2, seed=9)):
        velocity = (run.outputs(s + h, points) - run.outputs(s - h, points)) / (2 * h)
        kernel = run.kernel(s, points)
        expected = -torch.einsum("nqmp,mp->nq", kernel, gradient)
        torch.testing.assert_close(velocity, expected, rtol=0, atol=1e-4)


def test_the_kernel_becomes_the_identity_at_full_rank() -> None:
    run = flows.integrate(*small(), until=0.1, tolerance=1e-4, **QUIET)
    kernel = run.kernel(0.1).reshape(8, 8)
    torch.testing.assert_close(kernel, torch.eye(8, **F64), rtol=0, atol=1e-12)
    plain = flows.integrate(*small(), 0.0, duration=0.1, tolerance=1e-4, **QUIET)
    kernel = plain.kernel(0.0).reshape(8, 8)
    with output_map(plain.model, plain.x, 2**30) as map:
        jacobian = map.jacobian(map.pack(map.run.leaves))
    torch.testing.assert_close(kernel, jacobian @ jacobian.T)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_the_kernel_between_any_points(alpha: float) -> None:
    """J (alpha (D^T D)^+ + 1 - alpha) J'^T by Jacobians, to rounding times the condition number."""
    net, x, y = small()
    run = flows.integrate(net, x, y, alpha, until=0.1, tolerance=1e-4, **QUIET)
    one, two = normal(3, 2, seed=9), normal(2, 2, seed=10)
    parameters = run.parameters(0.1)

    def jacobian(points: Tensor) -> Tensor:
        with output_map(net, points, 2**30, parameters) as map:
            return map.jacobian(map.pack(parameters))

    D = jacobian(x)
    inverse = torch.linalg.pinv(D)
    A = alpha * inverse @ inverse.T + (1 - alpha) * torch.eye(D.shape[1], **F64)
    slack = 1e-14 * run.condition(0.1)
    for a in (None, one):
        for b in (None, two):
            expected = jacobian(x if a is None else a) @ A @ jacobian(x if b is None else b).T
            kernel = run.kernel(0.1, a, b).flatten(2).flatten(0, 1)
            torch.testing.assert_close(kernel, expected, rtol=slack, atol=slack)


def test_both_times_give_one_flow() -> None:
    net, x, y = small()
    end = 0.5
    one = flows.integrate(net, x, y, 0.5, until=end, tolerance=1e-5, **QUIET)
    s = -len(x) * math.log1p(-end)
    other = flows.integrate(net, x, y, 0.5, duration=s, tolerance=1e-5, **QUIET)
    assert (one.outputs(end) - other.outputs(s)).norm() < 1e-4


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs, labels)


def test_other_costs_follow_their_euclidean_gradient_flow() -> None:
    net, x, _ = small()
    labels = torch.tensor([0, 1, 1, 0])
    run = flows.integrate(net, x, labels, cost=cross_entropy, duration=4.0, tolerance=1e-6, **QUIET)
    assert largest_deviation(run, 5) < 1e-5
    assert run.loss(4.0) < run.loss(0.0)
    with pytest.raises(InputError, match="predicted"):
        run.predicted_deviation(1.0)


class FewParameters(nn.Module):
    """5 parameters that move 12 outputs along curves, so that the range of D turns."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Linear(5, 1, bias=False, **F64)
        self.weights.weight.data = normal(1, 5, seed=1) / 2

    def forward(self, x: Tensor) -> Tensor:
        features = x @ normal(2, 5, seed=2)
        one, other = self.weights(features.cos()), self.weights((3 * features).sin())
        return torch.cat([one.sin() + 0.3 * other, other - 0.7 * one.sin()], 1)


def test_deviation_is_predicted_from_the_lost_directions() -> None:
    """(2.59) in contractive form, integrated from projections alone."""
    x, y = normal(6, 2, seed=3), normal(6, 2, seed=4)
    run = flows.integrate(FewParameters(), x, y, tolerance=1e-9, rank_deficient=True, **QUIET)
    for t in (0.2, 0.5, 0.9, 0.99):
        deviation = run.deviation(t)
        assert deviation.norm() > 0.5 * t
        assert (deviation - run.predicted_deviation(t)).norm() < 1e-8
    (event,) = run.events
    assert (event.time, event.before, event.after) == (0.0, 12, 5)
    lost = event.directions.flatten(1)
    torch.testing.assert_close(lost @ lost.T, torch.eye(7, **F64), rtol=0, atol=1e-12)
    with output_map(run.model, x, 2**30) as map:
        assert (lost @ map.jacobian(map.pack(map.run.leaves))).abs().max() < 1e-12
    # The projection turns: with the one of the start, the prediction t P^perp (x_0 - y) would be off.
    residual = (run.start - y).flatten()
    frozen = 0.9 * lost.T @ (lost @ residual)
    assert (frozen - run.deviation(0.9).flatten()).norm() > 1e-2


def nearly_equal(gap: float) -> tuple[nn.Module, Tensor, Tensor]:
    """Two points of a linear map whose rows of D differ by `gap`."""
    net = nn.Linear(2, 1, bias=False, **F64)
    net.weight.data = torch.tensor([[0.3, -0.2]], **F64)
    return net, torch.tensor([[1.0, 0.0], [1.0, gap]], **F64), torch.zeros(2, 1, **F64)


def test_near_rank_loss_is_reported_though_cholesky_succeeds() -> None:
    net, x, y = nearly_equal(4e-7)
    gram = x @ x.T
    assert not torch.linalg.cholesky_ex(gram).info
    run = flows.integrate(net, x, y, until=0.5, tolerance=1e-6, **QUIET)
    (event,) = run.events
    assert (event.before, event.after) == (2, 2)
    # singular values sqrt 2 and gap / sqrt 2 to first order
    assert event.ratio == pytest.approx(2e-7, rel=1e-6)
    assert run.condition(0.0) == pytest.approx(1 / 2e-7**2, rel=1e-6)
    assert "nearly lost" in str(event)
    assert largest_deviation(run) < 1e-5  # and the flow is right all the same


def test_lost_directions_are_named() -> None:
    run = flows.integrate(*nearly_equal(1e-9), until=0.5, tolerance=1e-6, **QUIET)
    (event,) = run.events
    assert (event.before, event.after) == (2, 1)
    expected = torch.tensor([1.0, -1.0], **F64) / math.sqrt(2)
    assert abs(event.directions.flatten() @ expected) == pytest.approx(1, abs=1e-8)


def fold(t0: float) -> tuple[nn.Module, Tensor, Tensor]:
    """One output sin(theta) that is asked for more than 1: D = cos(theta) vanishes on the way, at t0."""

    class Sine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.angle = nn.Linear(1, 1, bias=False, **F64)
            self.angle.weight.data.fill_(0.0)
            self.other = nn.Linear(1, 1, bias=False, **F64)
            self.other.weight.data.fill_(0.5)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([self.angle(x).sin(), self.other(x)], 1)

    return Sine(), torch.ones(1, 1, **F64), torch.tensor([[1 / t0, 1.0]], **F64)


def test_rank_loss_on_the_way_has_its_time_direction_and_deviation() -> None:
    """The straight line reaches the fold sin = 1 at t0; from there on the first output stays."""
    t0 = 0.4
    run = flows.integrate(*fold(t0), until=0.6, tolerance=1e-5, method=RK45, **QUIET)
    lost = next(event for event in run.events if event.after < event.before)
    assert lost.time == pytest.approx(t0, abs=1e-4)
    assert lost.directions.flatten().abs().tolist() == pytest.approx([1.0, 0.0], abs=1e-4)
    for t in (0.3, 0.5, 0.6):
        expected = torch.tensor([[-max(0.0, t - t0) / t0, 0.0]], **F64)
        torch.testing.assert_close(run.deviation(t), expected, rtol=0, atol=1e-4)
        torch.testing.assert_close(run.predicted_deviation(t), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("decades", [0, 4, 8])
def test_condition_numbers_are_bounded_from_above(decades: int) -> None:
    """The bound is Frobenius norms', at most QN times the condition number."""
    n = 12
    net = nn.Linear(n, 1, bias=False, **F64)
    frame = torch.linalg.qr(normal(n, n))[0]
    x = torch.logspace(0, -decades / 2, n, **F64)[:, None] * frame
    with output_map(net, x, 2**30) as map:
        theta = map.pack(map.run.leaves)
        found = Factorisations(map, 1e-7, 1e-8, dense=True).at(theta, map.graph(theta))
    true = 10.0**decades
    assert found.certified
    assert true * (1 - 1e-6) <= found.condition <= n * true * (1 + 1e-6)


def test_products_with_the_jacobian_agree_with_it() -> None:
    net, x, _ = small()
    with output_map(net, x, 2**30) as map:
        theta = map.pack(map.run.leaves)
        graph, jacobian = map.graph(theta), map.jacobian(theta)
        u, v = normal(map.parameters, seed=1), normal(4, 2, seed=2)
        torch.testing.assert_close(graph.push(u).flatten(), jacobian @ u)
        torch.testing.assert_close(graph.pull(v), jacobian.T @ v.flatten())
        torch.testing.assert_close(map.gram(theta), jacobian @ jacobian.T)


def convolutional() -> tuple[nn.Module, Tensor, Tensor]:
    """QN = 10 outputs, K = 50 parameters."""
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 2)).double()
    for seed, p in enumerate(net.parameters()):
        p.data = normal(*p.shape, seed=seed) / 2
    return net, normal(5, 1, 4, 4, seed=7), normal(5, 2, seed=8)


@pytest.mark.parametrize("problem", [small, convolutional])
def test_the_matrix_free_flow_is_the_same(
    problem: Callable[[], tuple[nn.Module, Tensor, Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    net, x, y = problem()
    monkeypatch.setattr(ranges, "BLOCK", 4)  # several blocks, of which the last may be smaller
    settings = {"until": 0.3, "tolerance": 1e-5, "method": RK45}
    run = flows.integrate(net, x, y, memory=2_000, **settings, **QUIET)
    assert not run.range(0.3).certified
    assert largest_deviation(run, 3) < 1e-4
    with output_map(net, x, 2**30) as map:
        theta = map.pack(map.run.leaves)
        both = [
            Factorisations(map, 1e-7, 1e-10, dense).at(theta, map.graph(theta))
            for dense in (False, True)
        ]
        v = normal(map.count, seed=3)
        free, dense = (one.lift(v) for one in both)
    torch.testing.assert_close(free, dense, rtol=1e-6, atol=1e-8)


class Stop(Exception):
    pass


def test_an_interrupted_flow_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    net, x, y = small()
    calls = {"left": 10**9}

    def cost(outputs: Tensor, labels: Tensor) -> Tensor:
        calls["left"] -= 1
        if not calls["left"]:
            raise Stop
        return (outputs - labels).square().sum()

    settings = {"cost": cost, "alpha": 0.5, "duration": 0.5, "tolerance": 1e-4, "method": RK45}
    whole = flows.integrate(net, x, y, **settings, **QUIET)
    store = tmp_path / "flow.pt"
    calls["left"] = 30
    with pytest.raises(Stop):
        flows.integrate(net, x, y, **settings, store=store, **QUIET)
    calls["left"] = 10**9
    resumed = flows.integrate(net, x, y, **settings, store=store, **QUIET)
    before = 10**9 - calls["left"]
    assert before < whole.evaluations + 10  # it did not begin anew
    assert all(
        (one == other).all()
        for one, other in zip(
            whole.curve.trajectory.rows, resumed.curve.trajectory.rows, strict=True
        )
    )
    again = flows.integrate(net, x, y, **settings, store=store, **QUIET)
    assert again.evaluations == resumed.evaluations
    with pytest.raises(InputError, match="another model"):
        flows.integrate(net, x, y, **(settings | {"tolerance": 1e-5}), store=store, **QUIET)


def test_too_many_steps_are_reported() -> None:
    run = flows.integrate(*small(), until=0.9, tolerance=1e-8, steps=3, **QUIET)
    assert run.stopped is not None
    assert 0 < run.end < 0.9


def test_the_model_is_left_as_it_is() -> None:
    net, x, y = small()
    before = [value.detach().clone() for value in net.parameters()]
    flows.integrate(net, x, y, until=0.1, tolerance=1e-3, **QUIET)
    assert all(torch.equal(one, other) for one, other in zip(before, net.parameters()))
    assert net.training
    assert ranges.NEAR <= 1e14  # what is reported as near rank loss includes 1e14

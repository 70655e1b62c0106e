"""Loss of rank is reported wherever it is: within steps, in products alone, on paths and on kinks."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from scipy.integrate import DOP853, RK45, OdeSolver
from torch import Tensor, nn

from analytic import InputError
from numeric import flows
from numeric.flows import ranges
from numeric.flows.output_map import output_map
from numeric.flows.ranges import Factorisations, conjugate_gradients
from numeric.flows.rank_events import minima_below
from test_flows import F64, QUIET, fold, largest_deviation, nearly_equal, normal, small


class Crossing(nn.Module):
    """Outputs a and (a - 1/2) b: at b = 0, D = diag(1, a - 1/2) has rank 1 exactly where a = 1/2."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (nn.Linear(1, 1, bias=False, **F64) for _ in range(2))
        self.a.weight.data.fill_(0.0)
        self.b.weight.data.fill_(0.0)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.a(x), self.b(x)
        return torch.cat([a, (a - 0.5) * b], 1)


ONE = torch.ones(1, 1, **F64)
GOAL = torch.tensor([[1.0, 0.0]], **F64)


def require_crossing(events: tuple[flows.RankEvent, ...], times: Tensor) -> None:
    """One event at 1/2, which is within a step, of the second output."""
    assert (times - 0.5).abs().min() > 1e-2
    (event,) = events
    assert (event.before, event.after) == (2, 2)
    assert event.time == pytest.approx(0.5, abs=1e-8)
    assert event.ratio < 1e-8
    assert event.directions.flatten().abs().tolist() == pytest.approx([0.0, 1.0], abs=1e-8)


@pytest.mark.parametrize("method", [RK45, DOP853])
@pytest.mark.parametrize("tolerance", [1e-4, 1e-10])
def test_rank_loss_within_a_step_is_found(method: type[OdeSolver], tolerance: float) -> None:
    """No step ends near it, and the velocity is smooth across, as the lost direction has nothing to learn."""
    run = flows.integrate(
        Crossing(), ONE, GOAL, until=0.9, tolerance=tolerance, method=method, **QUIET
    )
    require_crossing(run.events, run.times)
    assert run.condition(0.5) > 1e14  # with the lost direction
    assert 25 * (1 - 1e-9) <= run.condition(0.3) <= 2 * 25  # 1 / 0.2^2, bounded from above
    assert largest_deviation(run) < 10 * tolerance


class Bounded(nn.Module):
    """One output tanh(theta) of one parameter, from 0 on."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(1, **F64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.theta) * x


def test_full_rank_everywhere_does_not_reach_a_label_out_of_reach() -> None:
    """Corollary 3.2 as printed: D = sech^2 theta > 0, but on the line to 2 theta is infinite at t = 1/2.

    The loss of the only direction is one event, with its singular value beside that at the start, which is 1.
    """
    rough = {"until": 0.9, "tolerance": 1e-3, "method": RK45}
    run = flows.integrate(Bounded(), ONE, 2 * ONE, **rough, **QUIET)
    (event,) = run.events
    assert (event.before, event.after) == (1, 0)
    assert event.time == pytest.approx(0.5, abs=1e-4)
    theta = run.parameters(event.time)["theta"]
    assert event.ratio == pytest.approx(1 / math.cosh(float(theta)) ** 2, rel=1e-6)
    assert event.ratio < 1e-6
    assert "of the largest at the start" in str(event)
    assert run.loss(0.9) == pytest.approx(0.5, rel=1e-4)  # (2 - 1)^2 / 2
    line = flows.integrate(Bounded(), ONE, 0.5 * ONE, **rough, **QUIET)
    assert not line.events
    assert largest_deviation(line) < 10 * 1e-3


def test_no_direction_at_the_start_is_one_event() -> None:
    """theta^2 at 0: the singular value is 0, and no rank is left that could be lost later."""

    class Square(Bounded):
        def forward(self, x: Tensor) -> Tensor:
            return self.theta.square() * x

    run = flows.integrate(Square(), ONE, ONE, until=0.5, **QUIET)
    (event,) = run.events
    assert (event.time, event.before, event.after, event.ratio) == (0.0, 1, 0, 0.0)
    assert float(run.outputs(0.5)) == 0.0


def test_following_a_path_finds_it_too() -> None:
    run = flows.follow(Crossing(), ONE, lambda t: t * GOAL, until=0.9, **QUIET)
    require_crossing(run.events, run.times)
    assert run.condition(0.5) > 1e14


def test_a_dip_is_searched_for_only_where_there_may_be_one() -> None:
    calls = []

    def shallow(t: float) -> float:
        calls.append(t)
        return 0.1 + (t - 0.5) ** 2

    times = [k / 10 for k in range(11)]
    assert not minima_below([(t, shallow(t)) for t in times], shallow, 1e-6)
    assert len(calls) == len(times)  # no more than the samples
    for place in (0.13, 0.5, 0.78):
        found = minima_below(
            [(t, abs(t - place)) for t in times], lambda t, p=place: abs(t - p), 1e-6
        )
        assert found == pytest.approx([place], abs=1e-9)


# Products alone.

FREE = {"memory": 100}  # bytes: no matrix (QN, QN) fits


def test_products_alone_report_near_rank_loss() -> None:
    """The condition number is that of D D^T, not of the preconditioned one, which is 1."""
    run = flows.integrate(*nearly_equal(4e-7), until=0.5, tolerance=1e-6, **FREE, **QUIET)
    assert not run.range(0.0).certified
    (event,) = run.events
    assert event.ratio == pytest.approx(2e-7, rel=1e-3)
    assert run.condition(0.0) == pytest.approx(1 / 2e-7**2, rel=1e-2)
    expected = torch.tensor([1.0, -1.0], **F64) / 2**0.5
    assert abs(event.directions.flatten() @ expected) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("decades", [2, 6, 12])
def test_their_condition_number_is_an_estimate_from_below(decades: int) -> None:
    n = 12
    net = nn.Linear(n, 1, bias=False, **F64)
    x = torch.logspace(0, -decades / 2, n, **F64)[:, None] * torch.linalg.qr(normal(n, n))[0]
    with output_map(net, x, 2**30) as map:
        theta = map.pack(map.run.leaves)
        found = Factorisations(map, 1e-7, 1e-8, dense=False).at(theta, map.graph(theta))
    assert 0.5 * 10**decades < found.condition <= 10**decades * (1 + 1e-6)


def test_stalled_gradients_say_how_far_they_came() -> None:
    values = torch.logspace(0, 3, 20, **F64)
    solution, left = conjugate_gradients(lambda v: values * v, normal(20), lambda v: v, 1e-10)
    assert left <= 1e-10
    torch.testing.assert_close(values * solution, normal(20), rtol=0, atol=1e-8)
    values[0] = 0.0
    runaway, left = conjugate_gradients(lambda v: values * v, normal(20), lambda v: v, 1e-10)
    assert left > 1e-10
    assert abs(runaway[0] / runaway.norm()) > 0.9  # in the direction that is lost


def test_where_products_fail_the_flow_stops_with_what_it_has() -> None:
    t0 = 0.4
    run = flows.integrate(*fold(t0), until=0.6, tolerance=1e-5, method=RK45, memory=100, **QUIET)
    assert run.stopped is not None
    assert run.end == pytest.approx(t0, abs=1e-2)
    assert largest_deviation(run) < 1e-3
    near = run.events[-1]
    assert near.directions.flatten().abs().tolist() == pytest.approx([1.0, 0.0], abs=1e-3)


def test_their_kernel_is_that_of_matrices() -> None:
    net, x, y = small()
    points, settings = normal(3, 2, seed=9), {"until": 0.1, "tolerance": 1e-6, "method": RK45}
    free = flows.integrate(net, x, y, memory=2_000, **settings, **QUIET)
    dense = flows.integrate(net, x, y, **settings, **QUIET)
    assert not free.range(0.1).certified
    torch.testing.assert_close(
        free.kernel(0.1, points), dense.kernel(0.1, points), rtol=0, atol=1e-4
    )
    with pytest.raises(InputError, match="fewer points"):
        free.kernel(0.1, normal(300, 2))


# Memory, and dtypes.


def test_a_decomposition_that_does_not_fit_is_refused() -> None:
    """Two nearly equal points need D itself, of 400 numbers; matrices (2, 2) would fit."""
    net = nn.Linear(200, 1, bias=False, **F64)
    x = normal(1, 200).repeat(2, 1)
    x[1, 0] += 1e-6
    y = torch.zeros(2, 1, **F64)
    run = flows.integrate(net, x, y, until=0.1, tolerance=1e-3, **QUIET)
    assert run.events
    with pytest.raises(InputError, match=r"D itself, \(2, 200\), takes .* give more"):
        flows.integrate(net, x, y, until=0.1, tolerance=1e-3, memory=10_000, **QUIET)


def test_what_is_reported_as_near_includes_a_condition_number_of_1e14() -> None:
    assert ranges.NEAR <= 1e14


def test_limits_have_the_same_share_of_digits_in_float32() -> None:
    """Rows of D differ by 1e-4: near rank loss to the 7 digits of float32, and none to 16."""
    net, x, y = nearly_equal(1e-3)
    settings = {"until": 0.5, "tolerance": 1e-2, "method": RK45}
    assert not flows.integrate(net, x, y, **settings, **QUIET).events
    run = flows.integrate(net.float(), x.float(), y.float(), **settings, **QUIET)
    (event,) = run.events
    assert (event.before, event.after) == (2, 1)  # singular values 5e-4 apart, below 8e-4
    assert run.rcond == pytest.approx(8e-4, rel=0.1)


# Paths, and kinks.


def test_a_path_along_directions_that_are_left_reports_the_lost_ones() -> None:
    net = nn.Linear(1, 1, bias=False, **F64)
    net.weight.data.fill_(0.0)
    x = torch.ones(2, 1, **F64)
    run = flows.follow(net, x, lambda t: t * x, tolerance=1e-6, **QUIET)
    (event,) = run.events
    assert (event.time, event.before, event.after, event.ratio) == (0.0, 2, 1, 0.0)
    assert run.condition(0.5) == float("inf")


def test_a_path_near_rank_loss_reports_it() -> None:
    net, x, _ = nearly_equal(4e-7)
    start = net(x).detach()
    run = flows.follow(net, x, lambda t: start * (1 + t), tolerance=1e-6, **QUIET)
    (event,) = run.events
    assert event.ratio == pytest.approx(2e-7, rel=1e-6)


class Rectified(nn.Module):
    """Another network's outputs beside a rectifier that is on, with a parameter of its own."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body, self.on = body, nn.Linear(1, 1, bias=False, **F64)
        self.on.weight.data.fill_(1.0)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.body(x), torch.relu(self.on(x))], 1)


def slid(body: nn.Module, goal: Tensor, until: float) -> flows.SlidingFlow:
    return flows.slide(
        Rectified(body), ONE, torch.cat([goal, 2 * ONE], 1), until=until, tolerance=1e-5, **QUIET
    )


def test_sliding_finds_rank_loss_within_a_step() -> None:
    run = slid(Crossing(), GOAL, 0.9)
    assert (run.times - 0.5).abs().min() > 1e-2
    (event,) = run.rank_events
    assert event.time == pytest.approx(0.5, abs=1e-8)
    assert event.directions.flatten().abs().tolist() == pytest.approx([0.0, 1.0, 0.0], abs=1e-8)


def test_sliding_stops_where_rank_is_lost_and_names_the_direction() -> None:
    t0 = 0.4
    net, _, goal = fold(t0)
    run = slid(net, goal, 0.6)
    assert run.stopped is not None
    assert "rank is lost" in run.stopped
    assert run.end == pytest.approx(t0, abs=1e-3)
    assert run.deviation(run.end).norm() < 1e-3
    event = run.rank_events[-1]
    assert event.directions.flatten().abs().tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-2)


CALLS: dict[str, Callable[[], object]] = {
    "integrate": partial(flows.integrate, *nearly_equal(4e-7), until=0.1, tolerance=1e-3, **QUIET),
    "integrate, products": partial(
        flows.integrate, *nearly_equal(4e-7), until=0.1, tolerance=1e-3, **FREE, **QUIET
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_events_tell_what_and_where(name: str) -> None:
    (event,) = CALLS[name]().events
    assert str(event).startswith("at 0 a direction is nearly lost")
    assert sorted(event.examples) == [0, 1]

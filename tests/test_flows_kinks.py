"""ReLU networks: sliding keeps outputs on straight lines, short steps leave them by a predicted deviation."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from scipy.integrate import RK45
from torch import Tensor, nn

from analytic import InputError
from notebooks.topics import flows as topic
from numeric import flows
from numeric.flows.costs import Objective
from numeric.flows.output_map import output_map
from numeric.flows.sliding import first_sign_change
from numeric.flows.sliding_field import SlidingField
from test_flows import F64, QUIET, network, normal


def shallow() -> tuple[nn.Module, Tensor, Tensor]:
    return network(3, 20, 1, phi=nn.ReLU), normal(6, 3, seed=5), 2 * normal(6, 1, seed=6)


class Softplus(nn.Module):
    def __init__(self, sharpness: float) -> None:
        super().__init__()
        self.sharpness = sharpness

    def forward(self, z: Tensor) -> Tensor:
        return F.softplus(
            z, self.sharpness, threshold=40.0
        )  # of a kink of 4e-18, where exp would overflow


def smoothed(net: nn.Module, sharpness: float) -> nn.Module:
    parts = [Softplus(sharpness) if isinstance(part, nn.ReLU) else part for part in net]
    return nn.Sequential(*parts)


def packed(parameters: dict[str, Tensor]) -> Tensor:
    return torch.cat([value.flatten() for value in parameters.values()])


def test_sliding_is_the_limit_of_smooth_activations_and_keeps_to_straight_lines() -> None:
    net, x, y = shallow()
    run = flows.slide(net, x, y, until=0.8, tolerance=1e-7, **QUIET)
    assert max(run.sliding) > 1  # several kinks at once
    assert max(run.deviation(t).norm() for t in (0.1, 0.4, 0.8)) < 1e-6
    moved = packed(run.parameters(0.8)) - packed(run.parameters(0.0))
    gaps = []
    for sharpness in (30.0, 300.0):
        soft = flows.integrate(
            smoothed(net, sharpness), x, y, until=0.8, tolerance=1e-3, method=RK45, **QUIET
        )
        gaps.append((packed(soft.parameters(0.8)) - packed(run.parameters(0.8))).norm().item())
    assert gaps[1] < 0.3 * gaps[0]  # of order 1 / sharpness
    assert gaps[1] < 0.05 * moved.norm()


def test_sliding_through_two_hidden_layers() -> None:
    net = network(2, 10, 10, 2, phi=nn.ReLU)
    x, y = normal(5, 2, seed=5), normal(5, 2, seed=6)
    run = flows.slide(net, x, y, until=0.6, tolerance=1e-6, **QUIET)
    assert {event.layer for event in run.events if event.slides} == {0, 1}
    assert max(run.sliding) > 1
    assert max(run.deviation(t).norm() for t in (0.2, 0.4, 0.6)) < 1e-5


@pytest.mark.parametrize(
    "margin", [lambda t: (t - 0.43) ** 2 - 1e-5, lambda t: abs(t - 0.43) - 3e-3]
)
def test_a_kink_crossed_to_and_fro_within_a_step_is_bracketed(
    margin: Callable[[float], float],
) -> None:
    before, behind = first_sign_change(margin, 0.0, 1.0)
    assert margin(before) >= 0 > margin(behind)
    assert before < 0.43 < behind + 0.01
    assert first_sign_change(lambda t: margin(t) + 0.01, 0.0, 1.0) is None


@pytest.mark.sweep
def test_outputs_keep_to_the_line_between_the_ends_of_steps() -> None:
    """A kink that was crossed to and fro within a step, and missed, took them off by 4e-5."""
    x, y, _ = topic.points_in_plane()
    net = topic.network(2, 24, 2, seed=2, phi=nn.ReLU)
    run = flows.slide(net, x, y, until=0.4, tolerance=1e-7, **QUIET)
    assert max(run.deviation(k * run.end / 100).norm().item() for k in range(101)) < 1e-6


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("widths", [(3, 40, 1), (3, 30, 30, 2)])
def test_sliding_of_more_networks(widths: tuple[int, ...], seed: int) -> None:
    net = network(*widths, seed=seed, phi=nn.ReLU)
    x, y = normal(8, 3, seed=seed + 5), normal(8, widths[-1], seed=seed + 6)
    run = flows.slide(net, x, y, until=0.9, **QUIET)
    assert run.stopped is None
    assert max(run.deviation(t).norm() for t in (0.2, 0.5, 0.9)) < 1e-5


def test_short_steps_leave_the_straight_line_by_what_kinks_add() -> None:
    """The deviation has a limit; its prediction is off by the curvature of a step, of first order."""
    net, x, y = shallow()
    runs = [flows.euler(net, x, y, until=0.8, steps=steps, **QUIET) for steps in (80, 320)]
    coarse, fine = (run.deviations[-1].norm().item() for run in runs)
    assert fine > 0.02
    assert abs(coarse - fine) < 0.1 * fine
    errors = [(run.deviations[-1] - run.predicted[-1]).norm().item() for run in runs]
    assert errors[1] < 0.4 * errors[0]
    assert errors[1] < 0.02 * fine
    assert runs[1].crossings > 3 * runs[0].crossings  # they grow with the steps
    assert runs[1].reversed > 0.4 * runs[1].crossings
    layer, unit, example, length = runs[1].largest(1)[0]
    assert layer == 0
    assert length == runs[1].pushes.max() == runs[1].pushes[example, unit]


class OneKink(nn.Module):
    """Outputs a relu(z) + b u and u + c v at one point, of which z is held at its kink by both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.z, self.u, self.v = (nn.Linear(1, 1, bias=False, **F64) for _ in range(3))
        self.z.weight.data.fill_(0.0)
        self.u.weight.data.fill_(0.0)
        self.v.weight.data.fill_(0.0)

    def forward(self, x: Tensor) -> Tensor:
        z, u, v = self.z(x), self.u(x), self.v(x)
        return torch.cat([2 * torch.relu(z) + u - 0.5 * z, u + v + z], 1)


def test_filippovs_rate_at_one_kink() -> None:
    """Rows of D are (3/2, 1, 0) or (-1/2, 1, 0), and (1, 1, 1); least-norm velocities give v_+ and v_-."""
    goal = torch.tensor([1.0, -1.0], **F64)

    def speed(slope: float) -> float:
        jacobian = torch.tensor([[2 * slope - 0.5, 1.0, 0.0], [1.0, 1.0, 1.0]], **F64)
        return float((torch.linalg.pinv(jacobian) @ goal)[0])

    sign = 1.0 if speed(0.0) > 0 > speed(1.0) else -1.0
    low, high = sign * speed(0.0), -sign * speed(1.0)
    assert low > 0
    assert high > 0
    x, y = torch.ones(1, 1, **F64), sign * goal[None]
    steps, until = 150, 0.01
    run = flows.euler(OneKink(), x, y, until=until, steps=steps, **QUIET)
    expected = 2 * low * high / (low + high)  # j = (2, 0)
    rate = run.deviations[-1] / until
    # one crossing more or less, of the size of a step, and the curvature of the flow
    assert rate[0, 0] == pytest.approx(expected, abs=0.05 * expected)
    assert abs(rate[0, 1]) < 1e-6
    held = flows.slide(OneKink(), x, y, until=0.1, **QUIET)
    assert held.deviation(0.1).norm() < 1e-6
    assert held.sliding[-1] == 1


def test_kinks_and_outputs_that_are_not_independent_are_refused() -> None:
    """Two equal points with equal labels lose rank; and kinks may hold more than there are parameters."""
    net, x, y = shallow()
    with pytest.raises(InputError, match="do not move independently"):
        flows.slide(net, torch.cat([x[:2], x[:1]]), torch.cat([y[:2], y[:1]]), **QUIET)
    x, y = torch.ones(1, 1, **F64), torch.ones(1, 2, **F64)
    with output_map(OneKink(), x, 2**30) as map:
        field = SlidingField(map, Objective(flows.half_mean_squared_error, y))
        field.kinks = [(0, 0), (0, 0)]
        with pytest.raises(InputError, match="on 2 kinks at once, which with 2 outputs are more"):
            field.velocity(0.0, field.initial)

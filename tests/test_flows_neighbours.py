"""Prescribed paths, neighbours of the flow, and class means along it."""

import math

import pytest
import torch
import torch.nn.functional as F
from scipy.integrate import RK45
from torch import Tensor, nn

from analytic import InputError
from numeric import flows
from test_flows import F64, QUIET, network, normal, small


def circle(start: Tensor) -> flows.prescribed.OutputPath:
    turn = normal(*start.shape, seed=9) / 3
    return lambda t: start + turn * torch.sin(3 * t) + (t * t) * turn.flip(0)


def test_a_prescribed_path_is_followed_and_met_at_nodes() -> None:
    net, x, _ = small()
    path = circle(net(x).detach())
    loose = flows.follow(net, x, path, tolerance=1e-4, method=RK45, **QUIET)
    assert max(loose.deviation(t).norm() for t in (0.3, 0.7, 1.0)) < 1e-3
    exact = flows.follow(net, x, path, nodes=4, tolerance=1e-4, method=RK45, **QUIET)
    assert exact.residuals.max() < 1e-13
    assert max(exact.deviation(float(t)).norm() for t in exact.nodes) < 1e-13
    assert exact.deviation(0.4).norm() < 1e-3


@pytest.mark.parametrize("goal", [2.0, 0.9])
def test_a_path_that_leaves_the_reachable_set_is_refused(goal: float) -> None:
    """Outputs of tanh stay below 1: a line to 2 leaves them at t = 1 / 2, one to 0.9 does not."""

    class Bounded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Linear(1, 1, bias=False, **F64)
            self.weight.weight.data.fill_(0.0)

        def forward(self, x: Tensor) -> Tensor:
            return self.weight(x).tanh()

    def follow() -> flows.FollowedPath:
        x = torch.ones(1, 1, **F64)
        return flows.follow(
            Bounded(),
            x,
            lambda t: goal * t.view(1, 1),
            tolerance=1e-4,
            nodes=2,
            method=RK45,
            **QUIET,
        )

    if goal < 1:
        assert follow().deviation(1.0).norm() < 1e-13
        return
    with pytest.raises(InputError, match=r"leaves what the parameters can reach at t = 0\.5"):
        follow()


def test_nodes_end_where_the_path_does() -> None:
    """11 eleventh parts of 0.03 add up to less than 0.03 in floats: no node must be sought behind them."""
    net, x, _ = small()
    run = flows.follow(
        net, x, circle(net(x).detach()), until=0.03, nodes=11, tolerance=1e-4, **QUIET
    )
    assert run.times[-1] == run.nodes[-1] == 0.03


def test_velocities_outside_the_range_are_refused() -> None:
    """One parameter for two outputs: only the diagonal can be followed."""
    net = nn.Linear(1, 1, bias=False, **F64)
    net.weight.data.fill_(0.0)
    x = torch.ones(2, 1, **F64)
    diagonal = flows.follow(net, x, lambda t: t * torch.ones(2, 1, **F64), tolerance=1e-6, **QUIET)
    assert diagonal.deviation(1.0).norm() < 1e-6
    with pytest.raises(InputError, match="rank 1 of 2"):
        flows.follow(net, x, lambda t: t * torch.tensor([[1.0], [2.0]], **F64), **QUIET)


def packed(parameters: dict[str, Tensor]) -> Tensor:
    return torch.cat([value.flatten() for value in parameters.values()])


def test_gradient_descent_tends_to_the_flow_of_alpha_0() -> None:
    net, x, y = small()
    flow = flows.integrate(net, x, y, 0.0, duration=1.0, tolerance=1e-7, **QUIET)
    goal, errors = packed(flow.parameters(1.0)), []
    for steps in (10, 40):
        run = flows.descend(net, x, y, flows.GradientDescent(1 / steps), steps=steps, **QUIET)
        errors.append((packed(run.parameters) - goal).norm().item())
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.2)  # Euler's method


def test_natural_gradient_of_gaussian_outputs_tends_to_the_flow_of_alpha_1() -> None:
    """Fisher's matrix is D^T D / N: a step of rate h is one of h in s / N, as damping vanishes."""
    net, x, y = small()
    steps = 8
    rule = flows.NaturalGradient(1 / steps, 1e-9)
    run = flows.descend(net, x, y, rule, steps=steps, **QUIET)
    # Euler's method keeps to the straight line up to the curvature of each step
    share = (1 - 1 / steps) ** (2 * steps)
    assert run.losses[-1] / run.losses[0] == pytest.approx(share, rel=0.05)


@pytest.mark.parametrize(
    "rule", [flows.GaussNewton(), flows.LevenbergMarquardt()], ids=lambda rule: type(rule).__name__
)
def test_rules_with_a_safeguard_never_raise_the_loss(rule: object) -> None:
    net, x, y = small()
    run = flows.descend(net, x, 3 * y, rule, steps=12, **QUIET)
    assert (run.losses.diff() <= 0).all()
    assert run.losses[-1] < 1e-6 * run.losses[0]
    assert (run.seconds.diff() >= 0).all()


def test_natural_gradient_of_logits_solves_the_damped_system() -> None:
    """Against the dense (D^T F D + mu)^-1 D^T g."""
    net, x, _ = small()
    labels = torch.tensor([0, 1, 1, 0])
    rule = flows.NaturalGradient(0.5, 0.1, flows.softmax_fisher)
    run = flows.descend(net, x, labels, rule, steps=1, cost=F.cross_entropy, **QUIET)
    theta = packed(dict(net.named_parameters())).detach()
    with flows.output_map.output_map(net, x, 2**30) as map:
        jacobian = map.jacobian(theta)
    outputs = net(x).detach().requires_grad_()
    (g,) = torch.autograd.grad(F.cross_entropy(outputs, labels), outputs)
    fisher = torch.block_diag(*flows.softmax_fisher(outputs.detach()))
    system = jacobian.T @ fisher @ jacobian + 0.1 * torch.eye(len(theta), **F64)
    expected = theta - 0.5 * torch.linalg.solve(system, jacobian.T @ g.flatten())
    torch.testing.assert_close(packed(run.parameters), expected)


def test_minibatches_are_drawn_by_their_seed() -> None:
    net, x, y = small()
    runs = [
        flows.descend(
            net, x, y, flows.GradientDescent(0.1), steps=5, batch_size=2, seed=seed, **QUIET
        ).losses
        for seed in (0, 0, 1)
    ]
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


def test_classes_collapse_at_the_outputs() -> None:
    """Corollary 3.2 with classes of unequal size, and (3.11) with the weights N_j / N that print lacks."""
    classes = torch.tensor([0, 0, 0, 1])
    net, x, _ = small()
    targets = torch.eye(2, **F64)
    flow = flows.integrate(net, x, targets[classes], until=0.9, tolerance=1e-7, **QUIET)
    times = (0.0, 0.5, 0.9)
    at = flows.collapse(flow, classes, times)
    for k, t in enumerate(times):
        gap = (at.means[k] - targets) - (1 - t) * (at.means[0] - targets)
        assert gap.norm() < 1e-6
        assert (at.deviations[k] - (1 - t) * at.deviations[0]).norm() < 1e-6
        cost = (at.within + at.from_targets(targets))[k]
        assert cost / 2 == pytest.approx(flow.loss(t), rel=1e-9)
    assert at.variability[-1] < at.variability[0]


def test_the_penultimate_layer_has_its_own_means() -> None:
    classes = torch.tensor([0, 0, 1, 1])
    net, x, _ = small()
    flow = flows.integrate(net, x, torch.eye(2, **F64)[classes], until=0.5, tolerance=1e-4, **QUIET)
    at = flows.collapse(flow, classes, [0.0], layer="1")
    features = net[:2](x).detach()
    torch.testing.assert_close(at.means[0, 1], features[2:].mean(0))
    torch.testing.assert_close(at.deviations[0, 0], features[0] - features[:2].mean(0))
    total = (features - features.mean(0)).square().sum(1).mean()
    assert float(at.within + at.between) == pytest.approx(float(total))
    assert math.isfinite(at.variability[0])


def test_digits_are_learned_without_error_on_straight_lines() -> None:
    from sklearn.datasets import load_digits

    points, labels = load_digits(return_X_y=True)
    x, classes = torch.from_numpy(points[:20]) / 8 - 1, torch.from_numpy(labels[:20])
    y = torch.eye(10, **F64)[classes]
    net = network(64, 12, 10)
    flow = flows.integrate(net, x, y, until=0.9, tolerance=1e-2, method=RK45, **QUIET)
    assert (flow.outputs(0.9).argmax(1) == classes).all()
    assert flow.deviation(0.9).norm() < 0.1

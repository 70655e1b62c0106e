"""Gradient descent on a line: its limit, its optimisers, its restarts, and rates that are too large."""

import math
from functools import partial
from pathlib import Path

import pytest
import torch

from analytic.expressions.arguments import InputError
from numeric.estimate import power_law
from numeric.relu_dynamics import Descent, Divergence, Flow, Neurons, TrainedLayers, Trajectory
from numeric.relu_dynamics.descent import DescentProblem
from numeric.relu_dynamics.gradient import Samples
from numeric.runs import store

X = torch.tensor([0.5, -0.9, 0.1, 0.9, -0.4], dtype=torch.float64)
Y = torch.tensor([-1.0, 1.0, 0.5, 1.0, -1.0], dtype=torch.float64)
NEURONS = Neurons.drawn(30, 0, device="cpu")
OPTIMISERS = [
    torch.optim.SGD,
    partial(torch.optim.SGD, momentum=0.9, nesterov=True),
    torch.optim.Adam,
    torch.optim.LBFGS,
]


def distance(one: Neurons, two: Neurons) -> float:
    pairs = ((one.a, two.a), (one.b, two.b), (one.c, two.c))
    return max((p - q).abs().max().item() for p, q in pairs)


def by_autograd(optimiser: object, rate: float, steps: int) -> torch.Tensor:
    parts = [p.clone().requires_grad_() for p in (NEURONS.a, NEURONS.b, NEURONS.c)]
    steps_of = optimiser(parts, lr=rate)

    def loss() -> torch.Tensor:
        steps_of.zero_grad()
        f = torch.relu(X[:, None] * parts[0] - parts[1]) @ parts[2] / NEURONS.alpha
        loss_value = ((f - Y) ** 2).sum() / 2
        loss_value.backward()
        return loss_value

    for _ in range(steps):
        steps_of.step(loss)
    return torch.stack(parts).detach()


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=["sgd", "momentum", "adam", "lbfgs"])
def test_any_optimiser_does_what_it_does_on_a_graph(optimiser: object) -> None:
    newton = optimiser is torch.optim.LBFGS  # 20 steps in one, and quotients of small differences
    steps, tolerance = (1, 1e-11) if newton else (20, 1e-13)
    final = Descent(X, Y, NEURONS, 0.02, steps, optimizer=optimiser).run(progress=False).final
    exact = by_autograd(optimiser, 0.02, steps)
    assert (torch.stack([final.a, final.b, final.c]) - exact).abs().max() < tolerance


@pytest.mark.parametrize("trained", TrainedLayers)
def test_descent_tends_to_the_flow_as_its_rate_falls(trained: TrainedLayers) -> None:
    delta = {
        TrainedLayers.ALL: None,
        TrainedLayers.READOUT: -math.inf,
        TrainedLayers.HIDDEN: math.inf,
    }[trained]
    run = Flow(X, Y, NEURONS, delta, 0.4, 1e-6).run(progress=False)
    rates = [0.01, 0.005, 0.0025]
    runs = [Descent(X, Y, NEURONS, r, round(0.4 / r), trained).run(progress=False) for r in rates]
    smooth = min([event.time for event in run.events], default=0.4) // 0.01 * 0.01  # of all rates
    off = [distance(descent.at(smooth), run.at(smooth)) for descent in runs]
    assert abs(power_law(rates, off).value - 1) < 0.01
    assert all(distance(descent.final, run.final) < 0.2 * r for descent, r in zip(runs, rates))
    fixed_names = {"a", "b", "c"} - set(trained.value)
    assert all(torch.equal(getattr(runs[0].final, n), getattr(NEURONS, n)) for n in fixed_names)


def test_what_is_kept_of_a_run() -> None:
    run = Descent(X, Y, NEURONS, 0.05, 45, frames=4).run(progress=False)
    assert run.times.tolist() == pytest.approx([0.05 * k for k in (0, 11, 22, 33, 44, 45)])
    for k, t in enumerate(run.times.tolist()):
        assert (run.at(t).predict(X) - Y - run.residuals[k]).abs().max() < 1e-14
    left, right, middle = (run.at(t) for t in (0.55, 1.1, 0.825))
    assert (middle.a - (left.a + right.a) / 2).abs().max() < 1e-15
    assert run.losses[-1] < run.losses[0]


def same(one: Trajectory, two: Trajectory) -> bool:
    return torch.equal(one.residuals, two.residuals) and distance(one.final, two.final) == 0


@pytest.mark.parametrize("optimiser", OPTIMISERS[1:3], ids=["momentum", "adam"])
def test_a_stopped_descent_goes_on_to_the_same_bits(
    optimiser: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, path = (
        Descent(X, Y, NEURONS, 0.02, 60, optimizer=optimiser, frames=12),
        tmp_path / "run.pt",
    )
    whole, step, left = run.run(progress=False), DescentProblem.loss, [33]

    def counting(self: DescentProblem, parts: dict[str, torch.Tensor]) -> torch.Tensor:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return step(self, parts)

    with monkeypatch.context() as patch:
        patch.setattr(store, "PAUSE", -1.0)
        patch.setattr(DescentProblem, "loss", counting)
        with pytest.raises(KeyboardInterrupt):
            run.run(progress=False, store=path)
    assert same(run.run(progress=False, store=path), whole)
    left[0] = 0
    assert same(run.run(progress=False, store=path), whole)
    with pytest.raises(InputError, match="other settings"):
        Descent(X, Y, NEURONS, 0.03, 60, optimizer=optimiser).run(progress=False, store=path)


@pytest.mark.parametrize("trained", TrainedLayers)
def test_curvature_is_that_of_the_squared_jacobian(trained: TrainedLayers) -> None:
    samples, order = Samples.of(X)
    parts = tuple(torch.stack([NEURONS.a, NEURONS.b, NEURONS.c]))

    def outputs(*some: torch.Tensor) -> torch.Tensor:
        a, b, c = {
            **dict(zip("abc", parts, strict=True)),
            **dict(zip(trained.value, some, strict=True)),
        }.values()
        return torch.relu(samples.x[:, None] * a - b) @ c / NEURONS.alpha

    moved = tuple(parts["abc".index(name)] for name in trained.value)
    jacobian = torch.cat(torch.autograd.functional.jacobian(outputs, moved), 1)
    curvature = DescentProblem(samples, Y[order], NEURONS.alpha, trained).curvature(parts)
    assert curvature == pytest.approx(torch.linalg.matrix_norm(jacobian, 2).item() ** 2, rel=1e-12)


def test_the_advised_rate_is_where_the_readout_begins_to_diverge() -> None:
    """The loss of c alone is quadratic, and its curvature that of the advice."""
    with pytest.raises(Divergence, match=r"rate = 20\.0 diverges.*Take a rate below") as computed:
        Descent(X, Y, NEURONS, 20.0, 1000, TrainedLayers.READOUT).run(progress=False)
    stable = float(str(computed.value).split("below ")[1].split(",")[0])
    Descent(X, Y, NEURONS, 0.99 * stable, 1000, TrainedLayers.READOUT).run(progress=False)
    with pytest.raises(Divergence):
        Descent(X, Y, NEURONS, 1.02 * stable, 1000, TrainedLayers.READOUT).run(progress=False)


def test_overshooting_until_all_are_dead_is_told_too() -> None:
    with pytest.raises(Divergence, match="every neuron is dead"):
        Descent(X, Y, NEURONS, 4.0, 1000).run(progress=False)
    rest = Descent(X, 0 * Y, Neurons.drawn(30, 0, antisymmetric=True, device="cpu"), 1.0, 5)
    assert rest.run(progress=False).losses.max() < 1e-30  # rounding is no divergence


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Descent(X, Y, NEURONS, 0.0, 10), "rate = 0.0"),
        (lambda: Descent(X, Y, NEURONS, math.inf, 10), "rate = inf"),
        (lambda: Descent(X, Y, NEURONS, 0.1, 0), "steps = 0"),
        (lambda: Descent(X, Y, NEURONS, 0.1, 10, trained="c"), "TrainedLayers.READOUT"),
        (lambda: Descent([0.1, 0.1], [1.0, 2.0], NEURONS, 0.1, 10), "more than once"),
    ],
)
def test_bad_input_is_told(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()

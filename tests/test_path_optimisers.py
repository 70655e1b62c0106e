"""Every optimiser with a rule moves by what its rule says of the recorded gradients, to rounding."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from numeric.inputs import InputError
from numeric.path_kernel import SGDW, BackwardEuler, Leapfrog, Record, Recorder
from recorded_runs import OPTIMIZERS, gradient, recorded
from refusals import require_refusals
from short_runs import data, model

EPSILON = torch.finfo(torch.float64).eps
ULPS = 16  # roundings of a step: of the gradient's sums over 10 examples and of the update, in either route


def sides(run: Record) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Two random covectors a step applied to all displacements, to gradients, to decay; and the scale."""
    generator = torch.Generator().manual_seed(3)
    zero = torch.zeros(2, dtype=torch.float64)
    direct, gradients, decay, size, buffer = zero, zero, zero, zero, None
    for step in reversed(range(run.steps)):
        before, after = run.parameters(step), run.parameters(step + 1)
        g = gradient(run, step)
        psi = {
            name: torch.randn(2, *value.shape, generator=generator, dtype=value.dtype)
            for name, value in before.items()
        }
        on_gradient, on_decay, buffer = run.rule.pull_back(step, psi, buffer)
        for name, covector in psi.items():
            direct = direct + dot(covector, after[name] - before[name])
            size = size + dot(covector.abs(), after[name].abs() + before[name].abs())
            gradients = gradients + dot(on_gradient[name], g[name])
            size = size + dot(on_gradient[name].abs(), g[name].abs())
            if name in on_decay:
                decay = decay + dot(on_decay[name], before[name])
    return direct, gradients, decay, size


def dot(covectors: Tensor, vector: Tensor) -> Tensor:
    return (covectors * vector).flatten(1).sum(1)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_displacements_are_linear_in_recorded_gradients(name: str) -> None:
    run = recorded(name)
    direct, gradients, decay, size = sides(run)
    assert ((direct - gradients - decay).abs() <= ULPS * EPSILON * size).all()
    if decay.any():  # which is not lost in the tolerance
        assert ((direct - gradients).abs() > 1e-6 * size).any()


def test_momentum_may_come_and_go() -> None:
    """Torch fills an empty buffer undampened, and leaves it alone in steps without momentum."""
    net, (x, y) = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, dampening=0.5)
    recorder = Recorder(net, F.cross_entropy, optimizer)
    for momentum in (0.0, 0.0, 0.9, 0.5, 0.0, 0.7):
        optimizer.param_groups[0]["momentum"] = momentum
        recorder.step(x, y, torch.arange(len(x)))
    direct, gradients, _, size = sides(recorder.record((x, y)))
    assert ((direct - gradients).abs() <= ULPS * EPSILON * size).all()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_number_is_given_where_a_step_is_one_times_its_gradient(name: str) -> None:
    rule = recorded(name).rule
    expected = {"gradient descent": -0.3, "steps": -0.15, "backward Euler": -0.5}
    assert rule.scalar(5) == expected.get(name)


@pytest.mark.parametrize("name", ["heavy ball", "AdamW", "backward Euler"])
def test_names_may_be_left_out(name: str) -> None:
    run = recorded(name)
    full = buffer = None
    for step in (11, 10):
        psi = {name: torch.ones_like(value) for name, value in run.parameters(0).items()}
        full = run.rule.pull_back(step, psi, None if full is None else full.buffer)
        one = {"3.bias": psi["3.bias"]}
        part = run.rule.pull_back(step, one, buffer)
        buffer = part.buffer
        assert torch.equal(part.on_gradient["3.bias"], full.on_gradient["3.bias"])


def test_leapfrog_is_the_midpoint_rule() -> None:
    run = recorded("leapfrog")
    w = [run.parameters(s)["0.weight"] for s in range(run.steps + 1)]
    for s in range(1, run.steps):
        rate = 0.02 * 0.5 ** (s // 4)
        expected = w[s - 1] - 2 * rate * gradient(run, s)["0.weight"]
        assert (w[s + 1] - expected).abs().amax() <= ULPS * EPSILON * w[s].abs().amax()
    assert not torch.allclose(w[2], w[1] - 0.02 * gradient(run, 1)["0.weight"], rtol=1e-6)


def test_backward_euler_solves_where_gradient_descent_diverges() -> None:
    """On a parabola of curvature 40: 1/(1 + 40) a step, where an explicit step multiplies by -39."""
    w = nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = BackwardEuler([w], lr=1.0)
    scales = torch.tensor([1.0, 8.0, 40.0], dtype=torch.float64)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (scales * w**2).sum() / 2
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 24.5
    assert torch.allclose(w, 1 / (1 + scales), rtol=1e-13, atol=0)


def test_an_unsolved_step_leaves_the_weights() -> None:
    w = nn.Parameter(torch.ones(2, dtype=torch.float64))
    optimizer = BackwardEuler([w], lr=1.0, iterations=2)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = torch.cosh(w).sum()
        loss.backward()
        return loss

    for rate in (1.0, 1e3):  # too few iterations, and one that leaves the range of floats
        optimizer.param_groups[0]["lr"] = rate
        with pytest.raises(InputError, match="not solved in 2 iterations"):
            optimizer.step(closure)
        assert torch.equal(w, torch.ones_like(w))
    with pytest.raises(InputError, match="needs a closure"):
        optimizer.step()


def test_backward_euler_has_no_solution_across_a_kink() -> None:
    """w = 0.1 - lr sign(w) has none for lr = 0.5: both sides lead to the other."""
    w = nn.Parameter(torch.full((1,), 0.1, dtype=torch.float64))
    optimizer = BackwardEuler([w], lr=0.5)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = w.abs().sum()
        loss.backward()
        return loss

    with pytest.raises(InputError, match="kink of a ReLU"):
        optimizer.step(closure)
    assert w.item() == 0.1


def test_decoupled_decay_enters_no_momentum() -> None:
    """Without gradients weights shrink by the same factor each step; by torch's coupled decay they do not."""
    made = {SGDW: {"decay": 0.5}, torch.optim.SGD: {"weight_decay": 0.5}}
    sizes = {}
    for kind, decay in made.items():
        w = nn.Parameter(torch.ones(1, dtype=torch.float64))
        optimizer = kind([w], lr=0.5, momentum=0.9, **decay)
        for _ in range(3):
            w.grad = torch.zeros_like(w)
            optimizer.step()
        sizes[kind] = w.item()
    assert sizes[SGDW] == 0.75**3
    assert sizes[torch.optim.SGD] < 0.75**3


@pytest.mark.parametrize(
    "make",
    [
        partial(Leapfrog, lr=-1.0), partial(BackwardEuler, lr=-1.0), partial(SGDW, decay=-1.0),
        partial(SGDW, lr=-1), partial(SGDW, lr="a"), partial(SGDW, momentum=-1.0),
        partial(SGDW, dampening="a"), partial(SGDW, nesterov=True),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(make: partial) -> None:
    weights = [nn.Parameter(torch.ones(1))]
    require_refusals([(str(make), lambda: make(weights))])


def test_wrong_settings_of_a_group_are_refused() -> None:
    with pytest.raises(InputError, match="lr = -1"):
        SGDW([{"params": [nn.Parameter(torch.ones(1))], "lr": -1}])

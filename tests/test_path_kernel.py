"""The exact path kernel: start, training points and decay add up to the network, whatever trained it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from density import sweep
from numeric import path_kernel
from numeric.inputs import InputError
from numeric.kernels import assert_kernel
from numeric.path_kernel import Copy, ExactPathKernel, LeftRiemann, Record
from numeric.path_kernel.computation import Computation
from refusals import require_refusals

BOUND = 1e-12  # on outputs, as promised
F64 = {"dtype": torch.float64}
SGD = torch.optim.SGD
OPTIMISERS: dict[str, Callable] = {
    "sgd": partial(SGD, lr=0.6),
    "sgd, decay": partial(SGD, lr=0.5, weight_decay=0.1),
    "sgd, decoupled decay": partial(path_kernel.SGDW, lr=0.3, momentum=0.5, decay=0.1),
    "heavy ball": partial(SGD, lr=0.2, momentum=0.9, weight_decay=0.05),
    "Nesterov": partial(SGD, lr=0.2, momentum=0.8, nesterov=True),
    "Adam": partial(torch.optim.Adam, lr=0.1, weight_decay=0.01),
    "AdamW": partial(torch.optim.AdamW, lr=0.1, weight_decay=0.2),
    "leapfrog": partial(path_kernel.Leapfrog, lr=0.1),
    "backward Euler": partial(path_kernel.BackwardEuler, lr=0.1),
}
ACTIVATIONS = {"tanh": nn.Tanh, "gelu": nn.GELU, "relu": nn.ReLU, "leaky": nn.LeakyReLU}


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), **F64)


X, Y, TEST = normal(14, 4), torch.arange(14) % 3, normal(2, 4, seed=1)


def perceptron(act: type[nn.Module] = nn.ReLU, depth: int = 2) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(4, 6), act()]
    for _ in range(depth - 1):
        layers += [nn.Linear(6, 6), act()]
    return nn.Sequential(*layers, nn.Linear(6, 3), nn.LogSoftmax(1)).double()


def convolutions(act: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), act(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), act(), nn.Flatten(),
        nn.Linear(16, 3), nn.LogSoftmax(1),
    ).double()  # fmt: skip


def recorded(net: nn.Module, optimizer: Callable, steps: int = 4, **options: object) -> Record:
    """Batches of 5 of 14 points: of 5, 5 and 4."""
    data = options.pop("data", (X, Y))
    loss = options.pop("loss", nn.NLLLoss())
    batches = {"batch_size": 5} | options
    return path_kernel.record(
        net, loss, optimizer, data, steps=steps, device="cpu", progress=False, **batches
    )


def off(kernel: ExactPathKernel, x: Tensor) -> float:
    """How far start, attributions and decay are from the network."""
    rebuilt = kernel.start(x) + kernel.attributions(x).sum(2) + kernel.decay(x)
    return (rebuilt - kernel.network(x)).abs().max().item()


FEW = {("relu", name) for name in OPTIMISERS} - {("relu", "backward Euler")}
FEW |= {("tanh", "backward Euler"), ("tanh", "sgd"), ("gelu", "AdamW")}


@pytest.mark.parametrize(
    ("act", "name"),
    [
        pytest.param(act, name, marks=[] if (act, name) in FEW else sweep)
        for act in ACTIVATIONS
        for name in OPTIMISERS
        if name != "backward Euler"
        or act in ("tanh", "gelu")  # with a kink the step may have no solution
    ],
)
def test_attributions_start_and_decay_add_up_to_the_network(act: str, name: str) -> None:
    full = {"batch_size": None} if name == "backward Euler" else {}
    run = recorded(perceptron(ACTIVATIONS[act]), OPTIMISERS[name], **full)
    kernel = ExactPathKernel(run)
    assert off(kernel, TEST) <= BOUND
    assert kernel.residual(TEST).abs().max() <= BOUND
    assert (kernel.predict(TEST) - kernel.network(TEST)).abs().max() <= BOUND
    decays = "decay" in name or name in ("heavy ball", "Adam", "AdamW")
    assert bool(kernel.decay(TEST).abs().max() > 1e-3) == decays


@pytest.mark.parametrize("act", [nn.ReLU, pytest.param(nn.GELU, marks=sweep)])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "sgd" else sweep)
        for name in OPTIMISERS
        if name != "backward Euler"
    ],
)
def test_convolutional_networks(act: type[nn.Module], name: str) -> None:
    data = (normal(8, 1, 6, 6), torch.arange(8) % 3)
    kernel = ExactPathKernel(recorded(convolutions(act), OPTIMISERS[name], 3, data=data))
    assert off(kernel, normal(2, 1, 6, 6, seed=1)) <= BOUND


def test_steps_so_large_that_the_discrete_path_kernel_is_off_by_more_than_a_tenth() -> None:
    run = recorded(perceptron(nn.ReLU, 3), partial(SGD, lr=4.0), batch_size=None)
    assert ExactPathKernel(run, LeftRiemann(1)).residual(TEST).abs().max() > 0.1
    assert ExactPathKernel(run, LeftRiemann(100)).residual(TEST).abs().max() > 1e-4
    assert off(ExactPathKernel(run), TEST) <= BOUND


def test_each_attribution_is_what_dense_jacobians_say() -> None:
    """Not their sum alone: psi by a midpoint rule of 200 nodes, for a smooth network and one step."""
    run = recorded(perceptron(nn.Tanh), partial(SGD, lr=0.7), steps=1, batch_size=None)
    start, stop = run.parameters(0), run.parameters(1)

    def jacobian(at: dict[str, Tensor], x: Tensor) -> Tensor:
        found = jacrev(lambda values: functional_call(run.model, values, (x,)))(at)
        return torch.cat([value.flatten(2) for value in found.values()], 2)

    middles = (torch.arange(200, **F64) + 0.5) / 200
    psi = (
        sum(
            jacobian({n: torch.lerp(w, stop[n], t) for n, w in start.items()}, TEST)
            for t in middles.tolist()
        )
        / 200
    )
    own = jacobian(start, X)[
        torch.arange(14), Y
    ]  # the derivative of the loss is -1/14 at the label
    expected = 0.7 / 14 * torch.einsum("akw,iw->aki", psi, own)
    found = ExactPathKernel(run).attributions(TEST)
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()  # (1/200)^2 times bent/24


def test_parts_add_up_to_the_whole() -> None:
    """Of steps, modules and groups, also one inside the other."""
    run = recorded(perceptron(), OPTIMISERS["heavy ball"], steps=3)
    kernel = ExactPathKernel(run)
    whole, decay = kernel.attributions(TEST), kernel.decay(TEST)
    bound = 1e-13 * whole.abs().sum(2).max()
    by_step = [kernel.during(s) for s in range(run.steps)]
    by_module = [kernel.within(name) for name in ("0", "2", "4")]
    for parts in (by_step, by_module):
        assert (sum(part.attributions(TEST) for part in parts) - whole).abs().max() <= bound
        assert (sum(part.decay(TEST) for part in parts) - decay).abs().max() <= bound
    early = kernel.during(range(2)).within(("0", "2"))
    apart = kernel.within("0").during(range(2)).attributions(TEST)
    apart = apart + kernel.within("2").during((0, 1)).attributions(TEST)
    assert (early.attributions(TEST) - apart).abs().max() <= bound
    late = kernel.during((1, 2))
    rebuilt = kernel.start(TEST) + late.attributions(TEST).sum(2) + late.decay(TEST)
    assert (late.predict(TEST) - rebuilt).abs().max() <= bound
    grouped = torch.stack([whole[:, :, c == Y].sum(2) for c in range(3)], 2)
    assert (kernel.by_class().attributions(TEST) - grouped).abs().max() <= bound
    assert (kernel.grouped(Y).attributions(TEST) - grouped).abs().max() <= bound


def test_influence_and_defects_are_those_of_the_choice() -> None:
    """Influence of groups and steps adds up to the whole, to rounding; of modules there is none."""
    run = recorded(perceptron(nn.Tanh), OPTIMISERS["heavy ball"], steps=3)
    kernel = ExactPathKernel(run, progress=False)
    whole = kernel.influence(TEST)
    bound = 1e-13 * whole.abs().sum(2).max()
    grouped = torch.stack([whole[:, :, c == Y].sum(2) for c in range(3)], 2)
    assert (kernel.by_class().influence(TEST) - grouped).abs().max() <= bound
    by_step = [kernel.during(s).influence(TEST) for s in range(3)]
    assert (sum(by_step) - whole).abs().max() <= bound
    assert not by_step[2][:, :, [i for i in range(14) if i not in run.batch(2).tolist()]].any()
    one_class = kernel.during((0, 2)).by_class().influence(TEST).sum(2)
    assert (one_class - by_step[0].sum(2) - by_step[2].sum(2)).abs().max() <= bound
    assert not kernel.during(0).during(1).influence(TEST).any()
    riemann = ExactPathKernel(run, LeftRiemann(1), progress=False)
    assert torch.equal(riemann.during([2, 0]).defects(TEST), riemann.defects(TEST)[[2, 0]])
    for of_modules in (kernel.within("0").influence, kernel.within("0").defects):
        with pytest.raises(InputError, match="no part of it within 0"):
            of_modules(TEST)


def test_the_weight_of_a_point_in_one_step_alone_has_its_influence() -> None:
    """Central differences of two steps by hand: the error is h^2 times a third derivative."""
    run = recorded(perceptron(nn.Tanh), partial(SGD, lr=0.3, momentum=0.5), steps=2)
    h, loss = 1e-4, nn.NLLLoss(reduction="none")
    first, second = run.batch(0), run.batch(1)

    def outputs(factor: float) -> Tensor:
        net = run.model_at(0)
        optimizer = SGD(net.parameters(), lr=0.3, momentum=0.5)
        for rows, weight in ((first, 1.0), (second, factor)):
            factors = torch.ones(len(rows), **F64)
            factors[0] = weight
            optimizer.zero_grad()
            (factors * loss(net(X[rows]), Y[rows])).mean().backward()
            optimizer.step()
        return net(TEST).detach()

    slope = (outputs(1 + h) - outputs(1 - h)) / (2 * h)
    exact = ExactPathKernel(run, progress=False).during(1).influence(TEST)[:, :, second[0]]
    assert (exact - slope).abs().max() <= 1e-6 * slope.abs().max()


def test_points_that_training_never_saw_added_nothing() -> None:
    """And a point that was seen in one step alone added what that step says."""
    run = recorded(perceptron(), OPTIMISERS["sgd"], steps=2)
    seen = set(run.batch(0).tolist()) | set(run.batch(1).tolist())
    scores = ExactPathKernel(run).attributions(TEST)
    assert {i for i in range(14) if scores[:, :, i].any()} == seen
    assert len(seen) < 14


def test_the_table_of_the_largest_is_sorted_and_prints() -> None:
    kernel = ExactPathKernel(recorded(perceptron(), OPTIMISERS["sgd"]))
    top, scores = kernel.top(TEST, 4), kernel.attributions(TEST)
    for a in range(len(TEST)):
        own = scores[a, top.output[a]]
        assert torch.equal(top.attribution[a], own[top.index[a]])
        others = own[[i for i in range(14) if i not in top.index[a].tolist()]]
        assert top.attribution[a].abs().min() >= others.abs().max()
    lines = str(top).splitlines()
    assert len(lines) == 1 + len(TEST)
    assert f"{top.index[0, 0]}: {top.attribution[0, 0]:+.3g}" in lines[1]


@pytest.mark.parametrize("name", ["sgd", "heavy ball"])
def test_an_interrupted_computation_goes_on_to_the_same_bits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numeric.runs.store.PAUSE", -1.0)  # a checkpoint after every step
    kernel = ExactPathKernel(recorded(perceptron(), OPTIMISERS[name]))
    expected = kernel.attributions(TEST)
    file = tmp_path / "scores"
    step = Computation.attribute
    done: list[int] = []

    def interrupted(self: Computation, s: int, state: dict) -> None:
        if s == 1 and not done.count(1):
            done.append(s)
            raise KeyboardInterrupt
        done.append(s)
        step(self, s, state)

    monkeypatch.setattr(Computation, "attribute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernel.attributions(TEST, store=file)
    assert torch.equal(kernel.attributions(TEST, store=file), expected)
    assert done == [3, 2, 1, 1, 0]  # nothing twice but the step that was interrupted
    assert torch.equal(kernel.attributions(TEST, store=file), expected)
    assert done == [3, 2, 1, 1, 0]
    with pytest.raises(InputError, match="other points"):
        kernel.attributions(TEST[:1], store=file)


def test_a_small_budget_gives_the_same_numbers() -> None:
    run = recorded(perceptron(), OPTIMISERS["sgd"])
    large, small = (ExactPathKernel(run, memory=m).attributions(TEST) for m in (2**30, 2**18))
    assert (large - small).abs().max() <= 1e-13 * large.abs().max()


def test_parameters_without_a_rule_are_no_exception() -> None:
    class Unruled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.last = nn.Linear(4, 6), nn.Parameter(torch.randn(2, 6))
            self.frozen = nn.Linear(4, 2).requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.first(x)) @ self.last.T + self.frozen(x)

    run = recorded(
        Unruled().double(),
        partial(SGD, lr=0.3),
        loss=nn.MSELoss(),
        data=(X, normal(14, 2, seed=5)),
        steps=3,
    )
    assert off(ExactPathKernel(run), TEST) <= BOUND


# As a kernel.


@pytest.fixture(scope="module")
def full_batches() -> ExactPathKernel:
    """Two full-batch steps, in which units of the test points cross their kinks."""
    return ExactPathKernel(
        recorded(perceptron(nn.ReLU, 1), partial(SGD, lr=2.0), 2, batch_size=None)
    )


def test_one_kernel_machine_is_the_network_where_the_derivative_of_the_loss_is_constant(
    full_batches: ExactPathKernel,
) -> None:
    """On training points too, where (56), which decides by membership, is wrong."""
    machine = full_batches.machine()
    for x in (TEST, X):
        assert (machine.predict(x) - full_batches.network(x)).abs().max() <= BOUND
    by_membership = full_batches.gram(Copy(X, 1), Copy(X, 1))
    printed = full_batches.start(X) + torch.einsum(
        "nmkj,mj->nk", by_membership, machine.coefficients
    )
    assert (printed - full_batches.network(X)).abs().max() > 1e-2


def test_the_trace_kernel_obeys_the_laws_on_both_copies(full_batches: ExactPathKernel) -> None:
    kernel = full_batches.during(0).kernel()
    copies = torch.tensor([0.0, 1.0], **F64)[:, None]
    assert_kernel(kernel, torch.cat([TEST, copies], 1), torch.cat([X[:2], copies], 1), ulps=1e3)


def test_blocks_of_both_copies_are_positive_semidefinite(full_batches: ExactPathKernel) -> None:
    """Points are in both copies, so that the second half of the rows are nearly the first."""
    rows = [
        torch.cat([full_batches.gram(Copy(TEST, a), Copy(TEST, b)) for b in (0, 1)], 1)
        for a in (0, 1)
    ]
    blocks = torch.cat(rows).transpose(1, 2).flatten(2, 3).flatten(0, 1)
    values = torch.linalg.eigvalsh((blocks + blocks.T) / 2)
    assert (blocks - blocks.T).abs().max() <= 1e-13 * values[-1]
    assert values[0] >= -1e-13 * values[-1]


def test_the_ensemble_is_the_network_for_any_loss() -> None:
    run = recorded(
        perceptron(nn.ReLU, 1), partial(SGD, lr=0.5), 2, loss=nn.MSELoss(), data=(X, normal(14, 3))
    )
    kernel = ExactPathKernel(run)
    total = kernel.start(TEST)
    for s in range(run.steps):
        total = total + torch.einsum(
            "nmkj,mj->nk", kernel.during(s).gram(TEST, X), kernel.coefficients(s)
        )
    assert (total - kernel.network(TEST)).abs().max() <= BOUND
    with pytest.raises(InputError, match="full batches"):
        kernel.machine()


def test_wrong_calls_are_refused_in_a_sentence(full_batches: ExactPathKernel) -> None:
    kernel, run = full_batches, full_batches.run
    logits = nn.Sequential(nn.Linear(4, 3)).double()
    changing = ExactPathKernel(
        recorded(logits, partial(SGD, lr=0.1), 2, loss=nn.CrossEntropyLoss(), batch_size=None)
    )
    momentum = ExactPathKernel(recorded(perceptron(), OPTIMISERS["heavy ball"], 2))
    numbers = ExactPathKernel(
        recorded(
            nn.Linear(4, 1).double(), partial(SGD, lr=0.1), 1, loss=nn.MSELoss(), data=(X, X[:, :1])
        )
    )
    once = kernel.during(0).machine
    require_refusals(
        [
            ("no record", lambda: ExactPathKernel(perceptron())),
            ("quadrature", lambda: ExactPathKernel(run, "gauss")),
            ("memory", lambda: ExactPathKernel(run, memory=0)),
            ("memory", lambda: ExactPathKernel(run, memory=1000).attributions(TEST)),
            ("memory", lambda: ExactPathKernel(momentum.run, memory=15_000).decay(TEST)),
            ("shape", lambda: kernel.predict(TEST[:, :3])),
            ("one point", lambda: kernel.predict(TEST[0])),
            ("no point", lambda: kernel.attributions(TEST[:0])),
            ("NaN", lambda: kernel.attributions(TEST * float("nan"))),
            ("text", lambda: kernel.start("x")),
            ("step", lambda: kernel.during(2)),
            ("step", lambda: kernel.during(-1)),
            ("steps twice", lambda: kernel.during((0, 0))),
            ("no steps", lambda: kernel.during(())),
            ("module", lambda: kernel.within("layer")),
            ("module without parameters", lambda: kernel.within("1")),
            ("labels", lambda: kernel.grouped(Y[:3])),
            ("labels", lambda: kernel.grouped(Y - 1)),
            ("labels", lambda: kernel.grouped(Y + 0.5)),
            ("targets that are numbers", lambda: numbers.by_class()),
            ("count", lambda: kernel.top(TEST, 0)),
            ("copy", lambda: kernel.gram(Copy(TEST, 2))),
            ("copy", lambda: kernel.kernel()(torch.full((2, 5), 0.5, **F64))),
            ("coordinates", lambda: kernel.kernel()(TEST)),
            ("momentum", lambda: momentum.gram(TEST, X)),
            ("momentum", lambda: momentum.machine()),
            ("changing derivative", lambda: changing.machine()),
            ("targets", lambda: once().refitted(Y)),
            ("jitter", lambda: once().refitted(kernel.network(X), jitter=-1.0)),
            ("singular", lambda: once().refitted(kernel.network(X))),
            ("folder", lambda: kernel.attributions(TEST, store=Path(__file__).parent)),
        ]
    )
    assert once().refitted(kernel.network(X), jitter=1e-6).coefficients.isfinite().all()

"""The exact path kernel at the paper's size: against Algorithm 1 as printed, and against explaind.

3000 points of three Gaussians in 100 dimensions, one hidden layer of 128 ReLUs, log-softmax and NLL, full
batches, 100 test points: all attributions, and predictions alone. Algorithm 1 with T = 100 nodes takes
Jacobians by `torch.func`, vectorised over points and as many at a time as a gigabyte holds.
"""

from __future__ import annotations

import contextlib
import copy
import io
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from numeric import path_kernel

MEANS = ((1.0, 4.0), (4.0, 1.0), (5.0, 5.0))  # in the first two dimensions; the paper's section 4.1
WIDTH, TESTED, NODES = 128, 100, 100
MIDPOINTS = 10  # the usual number of nodes of explaind
TIMED = 20  # pairs of its accelerated path
BUDGET = 2**29  # bytes for the Jacobians of Algorithm 1, and as many for their products


def run(points: int = 1000, d: int = 100, steps: int = 10, rate: float = 0.1) -> Iterator[str]:
    x, y = gaussians(points, d, seed=0)
    test, _ = gaussians(TESTED // 3 + 1, d, seed=1)
    test = test[torch.randperm(len(test), generator=torch.Generator().manual_seed(2))[:TESTED]]
    sgd = partial(torch.optim.SGD, lr=rate)
    record = path_kernel.record(
        network(d), nn.NLLLoss(), sgd, (x, y), steps=steps, device="cpu", progress=False
    )
    kernel = path_kernel.ExactPathKernel(record, memory=2**28, progress=False)
    outputs = kernel.network(test)
    scores = kernel.attributions(test)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # before any rival has run
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ours = cpu_seconds(lambda: kernel.attributions(test), 3) / steps
    alone = cpu_seconds(lambda: kernel.predict(test), 5) / steps
    begun = time.process_time()
    printed = algorithm_1(record, test, rate)
    rival = time.process_time() - begun
    yield (
        f"{len(x)} points, d = {d}, {TESTED} test points, all attributions: {ours * 1e3:.0f} ms CPU a step, "
        f"Algorithm 1 with T = {NODES} {rival:.1f} s, {rival / ours:.0f} times; "
        f"prediction alone {alone * 1e3:.1f} ms, {rival / alone:.0f} times; this process {peak / 1e9:.2f} GB"
    )
    error = (kernel.start(test) + scores.sum(2) + kernel.decay(test) - outputs).abs().max()
    left = path_kernel.ExactPathKernel(record, path_kernel.LeftRiemann(NODES), progress=False)
    first = kernel.during(0).attributions(test)
    same = (left.during(0).attributions(test) - printed).abs().max()
    yield (
        f"error of the rebuilt outputs after {steps} steps: ours {error:.0e}, predicted "
        f"{(kernel.predict(test) - outputs).abs().max():.0e}, Algorithm 1 "
        f"{left.residual(test).abs().max():.0e}; its attributions of a step are off by "
        f"{(first - printed).abs().max():.0e}, and from our own left sum by {same:.0e}"
    )
    yield from against_explaind(record, test, rate, first, ours)
    torch.set_num_threads(threads)


def cpu_seconds(job: Callable[[], object], repeats: int) -> float:
    """The least CPU time of several runs, on one thread: other work on the machine counts less."""
    times = []
    for _ in range(repeats):
        begun = time.process_time()
        job()
        times.append(time.process_time() - begun)
    return min(times)


def against_explaind(
    record: path_kernel.Record, test: Tensor, rate: float, exact: Tensor, ours: float
) -> Iterator[str]:
    """Its vectorised path and its accelerated one, in float32 as they are, for the first step."""
    try:
        from explaind.model_paths import ModelPath
        from explaind.optimizer_paths import SGDOptimizerPath
    except ImportError as error:
        yield f"explaind 0.1.0 is not installed ({error}): no comparison"
        return
    net = copy.deepcopy(record.model).float()
    states = [{k: v.float() for k, v in record.parameters(s).items()} for s in (0, 1)]
    single, points, labels = test.float(), record.x.float(), record.y
    with contextlib.redirect_stdout(io.StringIO()):
        model = ModelPath(net, device="cpu", checkpoints=states, output_dim=3)
        sgd = SGDOptimizerPath(
            model, lr=rate, weight_decay=0.0, momentum=0.0, checkpoints=[], device="cpu"
        )
        model.get_target_mask = lambda target, device: nn.functional.one_hot(target, 3).float()
    middles = [(j + 0.5) / MIDPOINTS for j in range(MIDPOINTS)]

    def vectorised() -> Tensor:
        train, _ = sgd.train_feature_map(
            model.step_gradient_feature_map(points, labels, 0), None, 0
        )
        tested = model.gradient_step_integral(single, None, 0, 1, torch.eye(3), middles)
        parts, _ = sgd.get_step_kernel(tested, train, 0, None, None)
        summed = sum(parts.values())  # (test points, 1, outputs, training points)
        return rate / len(points) * summed.reshape(len(test), 3, len(points))

    attributions = vectorised()
    taken = cpu_seconds(vectorised, 2)
    yield (
        f"explaind 0.1.0, vectorised, midpoint rule of {MIDPOINTS}: {taken * 1e3:.0f} ms a step, ours "
        f"{taken / ours:.0f} times faster; its attributions are off by "
        f"{(attributions.double() - exact).abs().max():.0e}"
    )
    try:
        from explaind.accelerated.explainer import ReplicatedModel
    except ImportError as error:
        yield f"its accelerated path does not import ({error})"
        return
    yield _accelerated(ReplicatedModel, net, states, (single, points, labels), rate, exact, ours)


def _accelerated(
    kind: Any,
    net: nn.Module,
    states: list[dict[str, Tensor]],
    data: tuple[Tensor, Tensor, Tensor],
    rate: float,
    exact: Tensor,
    ours: float,
) -> str:
    """One pair of a test output and a training point at a time, of which a few are timed."""
    test, points, labels = data
    before, after = copy.deepcopy(net), copy.deepcopy(net)
    before.load_state_dict(states[0])
    after.load_state_dict(states[1])
    names = [name for name, _ in net.named_parameters()]
    one = {"lr": rate, "weight_decay": 0.0, "betas": (0.0, 0.0)}
    moments = {n: {**one, "exp_avg": 0 * p, "exp_avg_sq": 1 + 0 * p} for n, p in states[0].items()}
    pair = kind("net", before, after, {n: moments[n] for n in names}, 1.0, 1, num_steps=MIDPOINTS)
    begun = time.process_time()
    for _ in range(MIDPOINTS):
        pair.interpolated_model(test[:1])[0, 0].backward()
        pair.update_test_gradient_integral()
    integral = time.process_time() - begun
    begun, scores = time.process_time(), []
    for i in range(TIMED):
        pair.reset_gradients()
        nn.functional.nll_loss(before(points[i : i + 1]), labels[i : i + 1]).backward()
        _, sums = pair.compute_influence_score()
        scores.append(sum(part["sum"] for part in sums.values()) / len(points))
    product = (time.process_time() - begun) / TIMED
    off = (torch.tensor(scores, dtype=torch.float64) - exact[0, 0, :TIMED]).abs().max()
    outputs = exact.shape[0] * exact.shape[1]
    total = outputs * (integral + len(points) * product)
    return (
        f"explaind 0.1.0, accelerated: {product * 1e3:.1f} ms a pair of an output and a training point, "
        f"{total:.0f} s a step for all of them (counted from {TIMED}), {total / ours:.0f} times ours; off by "
        f"{off:.0e}"
    )


def gaussians(points: int, d: int, seed: int) -> tuple[Tensor, Tensor]:
    """So many points of each of the three classes of section 4.1."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3 * points, d, generator=generator, dtype=torch.float64)
    y = torch.arange(3).repeat_interleave(points)
    x[:, :2] += torch.tensor(MEANS, dtype=torch.float64)[y]
    return x, y


def network(d: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(d, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3), nn.LogSoftmax(1)
    ).double()


def algorithm_1(record: path_kernel.Record, test: Tensor, rate: float) -> Tensor:
    """What the first step adds to the sums of Algorithm 1, (n, k, M)."""
    net, x, y = record.model, record.x, record.y
    size = sum(p.numel() for p in net.parameters())

    def jacobians(parameters: dict[str, Tensor], points: Tensor) -> Tensor:  # (n, k, W)
        def one(values: dict[str, Tensor], point: Tensor) -> Tensor:
            return functional_call(net, values, (point[None],))[0]

        by_name = vmap(jacrev(one), (None, 0))(parameters, points)
        return torch.cat([value.flatten(2) for value in by_name.values()], 2)

    total = test.new_zeros(len(test), 3, len(x))
    start, stop = record.parameters(0), record.parameters(1)
    averaged = test.new_zeros(len(test), 3, size)
    for j in range(NODES):
        at = {name: w + j / NODES * (stop[name] - w) for name, w in start.items()}
        averaged += jacobians(at, test) / NODES
    for rows in torch.arange(len(x)).split(max(1, BUDGET // (8 * 3 * size))):
        trained = jacobians(start, x[rows])  # J^X
        outputs = functional_call(net, start, (x[rows],)).detach().requires_grad_()
        loss = nn.functional.nll_loss(outputs, y[rows], reduction="sum")
        (slope,) = torch.autograd.grad(loss, outputs)  # L'
        gram = torch.einsum("ijw,akw->aijk", trained, averaged)
        total[:, :, rows] = -rate / len(x) * torch.einsum("ij,aijk->aki", slope, gram)
    return total

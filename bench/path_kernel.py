"""The exact path kernel at the paper's size: against Algorithm 1 as printed, and against explaind.

3000 points of three Gaussians in 100 dimensions, one hidden layer of 128 ReLUs, log-softmax and NLL, full
batches, 100 test points: all attributions, and predictions alone. Algorithm 1 with T = 100 nodes takes
Jacobians by `torch.func`, vectorised over points and as many at a time as a gigabyte holds.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from numeric import path_kernel

MEANS = ((1.0, 4.0), (4.0, 1.0), (5.0, 5.0))  # in the first two dimensions; the paper's section 4.1
WIDTH, TESTED, NODES = 128, 100, 100
BUDGET = 2**29  # bytes for the Jacobians of Algorithm 1, and as many for their products


def run(points: int = 1000, d: int = 100, steps: int = 4, rate: float = 0.1) -> Iterator[str]:
    x, y = gaussians(points, d, seed=0)
    test, _ = gaussians(TESTED // 3 + 1, d, seed=1)
    test = test[torch.randperm(len(test), generator=torch.Generator().manual_seed(2))[:TESTED]]
    net = network(d)
    sgd = partial(torch.optim.SGD, lr=rate)
    record = path_kernel.record(
        net, nn.NLLLoss(), sgd, (x, y), steps=steps, device="cpu", progress=False
    )
    kernel = path_kernel.ExactPathKernel(record, progress=False)
    outputs = kernel.network(test)

    def timed(job, repeats: int = 3):
        best, result = float("inf"), None
        for _ in range(repeats):
            begun = time.perf_counter()
            result = job()
            best = min(best, time.perf_counter() - begun)
        return result, best / steps

    scores, ours = timed(lambda: kernel.attributions(test))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    rebuilt, alone = timed(lambda: kernel.predict(test))
    begun = time.perf_counter()
    one_step = algorithm_1(record, test, rate, steps=1)
    rival = time.perf_counter() - begun
    exact_step = kernel.during(0).attributions(test)
    error = (kernel.start(test) + scores.sum(2) + kernel.decay(test) - outputs).abs().max()
    left = path_kernel.ExactPathKernel(record, path_kernel.LeftRiemann(NODES), progress=False)
    printed = left.residual(test).abs().max()
    same = (left.during(0).attributions(test) - one_step).abs().max()
    moved = kernel.defects(test).abs().max()
    yield (
        f"{len(x)} points, d = {d}, {TESTED} test points, all attributions: ours {ours:.3f} s a step, Algorithm 1 "
        f"{rival:.2f} s, {rival / ours:.0f} times faster; prediction alone {alone * 1e3:.1f} ms, "
        f"{rival / alone:.0f} times"
    )
    yield (
        f"error of the rebuilt outputs: ours {error:.0e} (prediction {(rebuilt - outputs).abs().max():.0e}, worst "
        f"step {moved:.0e}), Algorithm 1 {printed:.0e}; its own numbers for one step differ from our left sum by "
        f"{same:.0e} and from the exact ones by {(exact_step - one_step).abs().max():.0e}; "
        f"peak of this process {peak / 2**30:.2f} GB"
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


def algorithm_1(record: path_kernel.Record, test: Tensor, rate: float, steps: int) -> Tensor:
    """What the first steps add to the sums of Algorithm 1, (n, k, M), with J^x set to 0 at each step."""
    net, x, y = record.model, record.x, record.y
    size = sum(p.numel() for p in net.parameters())

    def jacobians(parameters: dict[str, Tensor], points: Tensor) -> Tensor:  # (n, k, W)
        def one(values: dict[str, Tensor], point: Tensor) -> Tensor:
            return functional_call(net, values, (point[None],))[0]

        found = vmap(jacrev(one), (None, 0))(parameters, points)
        return torch.cat([value.flatten(2) for value in found.values()], 2)

    total = test.new_zeros(len(test), 3, len(x))
    for s in range(steps):
        start, stop = record.parameters(s), record.parameters(s + 1)
        averaged = test.new_zeros(len(test), 3, size)
        for j in range(NODES):
            at = {name: w + j / NODES * (stop[name] - w) for name, w in start.items()}
            averaged += jacobians(at, test) / NODES
        for rows in torch.arange(len(x)).split(max(1, BUDGET // (8 * 3 * size))):
            ours = jacobians(start, x[rows])  # J^X
            outputs = functional_call(net, start, (x[rows],)).detach().requires_grad_()
            (slope,) = torch.autograd.grad(
                nn.functional.nll_loss(outputs, y[rows], reduction="sum"), outputs
            )  # L'
            gram = torch.einsum("ijw,akw->aijk", ours, averaged)
            total[:, :, rows] -= rate / len(x) * torch.einsum("ij,aijk->aki", slope, gram)
    return total

"""Log volumes: a 784-2000 network against autograd and SVD, 165 decades of scales, ResNets and their memory.

Rivals and ours take turns. The memory of a ResNet is the peak of a process of its own.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from mpmath import mp
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from bench.clock import interleaved
from bench.gram import GIGABYTE, peak
from numeric import geometry, models
from numeric.estimate import power_law
from numeric.geometry.scaled_qr import graded

DOUBLE = {"dtype": torch.float64}
DECADES = 165
BATCH = 10  # points at once; the published code takes 40, which is no faster
BUDGET = GIGABYTE  # for a ResNet, beside its weights

Clock = Callable[[], float]


def run() -> Iterator[str]:
    threads = torch.get_num_threads()
    for count, clock, what in (
        (1, time.process_time, "CPU time on one thread"),
        (2, time.perf_counter, "wall time on two"),
    ):
        torch.set_num_threads(count)
        yield from (f"{line}, {what}" for line in factorisations(clock))
        yield from (f"{line}, {what}" for line in derivatives(clock))
    torch.set_num_threads(1)
    yield from decades()
    yield from cost_law()
    torch.set_num_threads(threads)
    for name in ("resnet50", "resnet101"):
        command = [sys.executable, "-m", "bench.log_volume", name]
        yield subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def factorisations(clock: Clock) -> Iterator[str]:
    J = torch.randn(2000, 784, generator=_seeded(), **DOUBLE)
    flat = J.mT.contiguous()
    jobs = (
        partial(torch.geqrf, J),
        partial(torch.linalg.svdvals, J),
        partial(torch.linalg.svdvals, flat),
        partial(torch.linalg.svd, J, full_matrices=False),
    )
    qr, *rivals = interleaved(jobs, clock, 5)
    tall, wide, full = (rival / qr for rival in rivals)
    yield (
        f"2000 x 784 matrix: QR {1e3 * qr:.0f} ms, SVD {full:.1f} times that, singular values alone "
        f"{tall:.1f}, and {wide:.1f} for the transpose, as in the published code"
    )


def derivatives(clock: Clock) -> Iterator[str]:
    """From weights to log volume in closed form, against rows by autograd and their SVD.

    The floor is half of one product J^T J, which is symmetric: what any factor of J costs at least.
    """
    net, x = network(784, 2000), torch.rand(BATCH, 784, generator=_seeded(), **DOUBLE)
    ours, J = partial(geometry.log_volume, net, progress=False), net[0].weight.detach()
    jobs = (
        partial(torch.mm, J.mT, J),
        partial(ours, x[:1]),
        partial(row_by_row, net, x[:1]),
        partial(published, net, x[:1]),
        partial(published, net, x),
    )
    product, one, loop, rival, batch = interleaved(jobs, clock, 5)
    floor = product / 2
    off = (ours(x).value - published(net, x)).abs().max().item()
    yield (
        f"784-2000 network: closed form {1e3 * one:.0f} ms a point, {one / floor:.1f} times the floor; "
        f"rows by autograd and SVD {loop / one:.0f} times ours ({loop / floor:.0f} times the floor), "
        f"the published code {rival / one:.0f} ({batch / BATCH / one:.0f} in batches of {BATCH}; it differs "
        f"by {off:.0e} nat)"
    )


def row_by_row(net: nn.Module, x: Tensor) -> Tensor:
    """As one writes it down, and with the faster layout of the matrix."""
    x = x.clone().requires_grad_()
    out = net(x)[0]
    rows = [torch.autograd.grad(out[j], x, retain_graph=True)[0][0] for j in range(len(out))]
    return torch.linalg.svdvals(torch.stack(rows)).log().sum()


def published(net: nn.Module, x: Tensor) -> Tensor:
    """As in the paper's repository, but with the sum of all logs and not of the largest ten.

    Its scripts call it without recording gradients, or else svdvals would compute singular vectors too; the
    rows record theirs all the same.
    """
    J = jacobian(lambda y: net(y).sum(0), x, create_graph=True).flatten(2)
    with torch.no_grad():
        return torch.linalg.svdvals(J.permute(1, 2, 0)).log().sum(-1)


def decades() -> Iterator[str]:
    """A Kronecker product has products of singular values, so that its volume is known from small factors."""
    nats, factors, logs, exact = DECADES * math.log(10), [], [], mp.mpf(0)
    for k, n in enumerate((40, 50)):
        factors.append(torch.randn(n, 28, generator=_seeded(k)).double())
        order = torch.randperm(n, generator=_seeded(k))
        logs.append(-(torch.linspace(0, nats / 2, n, **DOUBLE)[order] * 1024).round() / 1024)
        exact += 28 * exact_log_volume(logs[k], factors[k])
    rows, scales = torch.kron(*factors), (logs[0][:, None] + logs[1]).flatten()
    matrix = rows * scales.exp()[:, None]
    volumes = {
        "ours": graded(scales, rows).log_volume,
        "SVD": torch.linalg.svdvals(matrix).log().sum(),
        "plain QR": torch.geqrf(matrix)[0].diagonal().abs().log().sum(),
    }
    errors = ", ".join(f"{k} {float(abs(v.item() - exact)):.0e}" for k, v in volumes.items())
    ours, qr = interleaved(
        (partial(graded, scales, rows), partial(torch.geqrf, matrix)), time.process_time, 3
    )
    yield (
        f"2000 x 784 matrix with rows over {DECADES} decades, log volume {float(exact):.0f}: off by {errors} "
        f"nat; ours takes {ours / qr:.1f} times a plain QR"
    )


def exact_log_volume(logs: Tensor, rows: Tensor) -> mp.mpf:
    with mp.workdps(2 * DECADES + 60):
        J = mp.matrix(rows.tolist())
        for i, log in enumerate(logs.tolist()):
            J[i, :] = J[i, :] * mp.exp(log)
        return mp.log(mp.det(J.T * J)) / 2


def cost_law() -> Iterator[str]:
    """Exponents in points, units and inputs, each where it alone varies."""
    cases = {
        "points": [(n, 2000, 400) for n in (1, 2, 4, 8)],
        "units": [(1, n, 400) for n in (2000, 4000, 8000, 16000)],
        "inputs": [(1, 4000, d) for d in (200, 400, 800, 1600)],
    }
    exponents = []
    for k, (name, sizes) in enumerate(cases.items()):
        jobs = []
        for n, width, d in sizes:
            x = torch.rand(n, d, generator=_seeded(), **DOUBLE)
            jobs.append(partial(geometry.log_volume, network(d, width), x, progress=False))
        times = interleaved(tuple(jobs), time.process_time, 3)
        exponents.append(f"{name}^{power_law([size[k] for size in sizes], times).value:.1f}")
    yield f"cost of a hidden layer's log volume: {' '.join(exponents)}"


def network(d: int, width: int) -> nn.Module:
    linear = nn.Linear(d, width, **DOUBLE)
    for part in linear.parameters():
        nn.init.uniform_(part, -(d**-0.5), d**-0.5, generator=_seeded())
    return nn.Sequential(linear, nn.Sigmoid())


def memory(name: str) -> str:
    """Of a process that computes one log volume and nothing else."""
    net = getattr(models, name)()
    x = torch.randn(1, 3, 32, 32, generator=_seeded())
    before, start = peak(), time.perf_counter()
    cpu = time.process_time()
    volume = geometry.log_volume(net, x, memory=BUDGET)
    return (
        f"{name}, untrained, float32, 2048 features of 3 x 32 x 32 inputs: log volume "
        f"{volume.value.item():.3f}, rank {volume.rank.item()}, condition {volume.condition.item():.0e}; "
        f"peak {peak() / GIGABYTE:.2f} GB resident, {before / GIGABYTE:.2f} of them before; "
        f"{time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} s of CPU time"
    )


def _seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


if __name__ == "__main__":
    print(memory(*sys.argv[1:]))

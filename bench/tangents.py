"""Empirical tangent kernels: against torch.func, the machine's GEMM rate, nngeometry and dattri.

torch.func contracts dense Jacobians (vmap of jacrev), held in blocks of 50 points, half of the pairs. The
rate counts the multiplications that no way around is known for: one pass forwards, k backwards, and half of
the Gram matrices of inputs and signals of each layer. nngeometry and dattri are measured if installed.

One pass forwards and k backwards of torch's autograd are part of any such kernel; what they take by
themselves, without the gradients by a single parameter, is printed. With the products of a convolution at the
rate of GEMM they are the floor of the CNN's kernel.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import pairwise, product

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from bench.clock import interleaved, seconds
from numeric import tangents

WIDTHS = (784, 512, 512, 512, 10)
SHAPES = ((500, 512), (1000, 512), (2000, 512))  # of the products by which GEMM is judged
BLOCK = 50  # points whose Jacobian fits into memory


def run(sizes: tuple[int, ...] = (50, 200)) -> Iterator[str]:
    threads = torch.get_num_threads()
    for count, clock, what in (
        (1, time.process_time, "CPU time on one thread"),
        (2, time.perf_counter, "wall time on two"),
    ):
        torch.set_num_threads(count)
        for dtype, n in product((torch.float32, torch.float64), sizes):
            yield share_of_gemm(n, dtype, clock, what)
    yield against_jacobians(BLOCK, torch.float64)
    for n in sizes:
        yield against_jacobians(n, torch.float32)  # at 200 points 7 GB, in float64 twice that
    for dtype in (torch.float32, torch.float64):
        net, x = convolutional().to(dtype), normal(BLOCK, 1, 28, 28).to(dtype)
        jobs = [partial(job, net, x) for job in (tangents.ntk, by_jacobians, passes)]
        ours, theirs, least, *times = interleaved(
            [*jobs, *matrix_products(dtype)], time.perf_counter, 5
        )
        least += convolution_multiplications(net, BLOCK) / gemm_rate(times)
        yield (
            f"CNN of {sum(p.numel() for p in net.parameters())} parameters, N = {BLOCK}, {dtype}: "
            f"{1e3 * ours:.0f} ms, {ours / least:.2f} times its floor; torch.func {theirs / ours:.1f} times "
            f"as long, and {theirs / least:.1f} times the floor"
        )
    yield from nngeometry()
    yield from dattri()
    torch.set_num_threads(threads)


def share_of_gemm(n: int, dtype: torch.dtype, clock: Callable[[], float], what: str) -> str:
    """The rate of multiplications, against that of matrix products measured in turns with it."""
    net, x = perceptron().to(dtype), normal(n, WIDTHS[0]).to(dtype)
    jobs = [partial(job, net, x) for job in (tangents.ntk, passes)]
    ours, least, *times = interleaved([*jobs, *matrix_products(dtype)], clock, 7)
    rate = gemm_rate(times)
    return (
        f"784-512-512-512-10, N = {n}, {dtype}, {what}: {1e3 * ours:.1f} ms, "
        f"{multiplications(n) / ours / rate:.0%} of GEMM ({rate / 1e9:.0f} billion products a second); "
        f"passes alone {least / ours:.0%} of our time"
    )


def matrix_products(dtype: torch.dtype) -> list[Callable[[], Tensor]]:
    factors = [(normal(m, d).to(dtype), normal(d, m).to(dtype)) for m, d in SHAPES]
    return [partial(torch.mm, a, b) for a, b in factors]


def gemm_rate(times: Sequence[float]) -> float:
    """Multiplications a second in the fastest of these products."""
    return max(m * m * d / taken for (m, d), taken in zip(SHAPES, times, strict=True))


def passes(net: nn.Sequential, x: Tensor) -> None:
    """Forwards, and back from each of the k outputs to the first layer, all at once."""
    first = net[0](x)
    outputs = net[1:](first)
    signals = torch.eye(outputs.shape[1], dtype=x.dtype)[:, None].expand(-1, *outputs.shape)
    torch.autograd.grad(outputs, first, signals, is_grads_batched=True)


def against_jacobians(n: int, dtype: torch.dtype) -> str:
    """torch.func takes seconds to minutes, and is timed once, between two times of ours."""
    net, x = perceptron().to(dtype), normal(n, WIDTHS[0]).to(dtype)
    job = partial(tangents.ntk, net, x)
    before, start = seconds(job), time.perf_counter()
    theirs = by_jacobians(net, x)
    taken = time.perf_counter() - start
    ours, exact = max(before, seconds(job)), job()
    error = ((theirs - exact).abs().max() / exact.abs().max()).item()
    return (
        f"784-512-512-512-10, N = {n}, {dtype}: {1e3 * ours:.1f} ms, torch.func {taken / ours:.0f} times as "
        f"long (relative difference {error:.0e})"
    )


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def perceptron() -> nn.Sequential:
    torch.manual_seed(0)
    layers = []
    for d, n in pairwise(WIDTHS):
        layers += [nn.Linear(d, n), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def convolutional() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 49, 10),
    )  # fmt: skip


def by_jacobians(net: nn.Module, x: Tensor) -> Tensor:
    """(n, n, k, k) by dense Jacobians, as torch's own tutorial contracts them."""
    values = {name: value.detach() for name, value in net.named_parameters()}

    def output(values: dict[str, Tensor], point: Tensor) -> Tensor:
        return functional_call(net, values, (point[None],)).squeeze(0)

    blocks = [vmap(jacrev(output), (None, 0))(values, some) for some in x.split(BLOCK)]
    rows: list[list[Tensor]] = []
    for i, one in enumerate(blocks):
        rows.append([rows[j][i].permute(1, 0, 3, 2) for j in range(i)])
        for other in blocks[i:]:
            parts = [
                torch.einsum("naf,mbf->nmab", one[name].flatten(2), other[name].flatten(2))
                for name in one
            ]
            rows[i].append(torch.stack(parts).sum(0))
    return torch.cat([torch.cat(row, 1) for row in rows])


def convolution_multiplications(net: nn.Sequential, n: int) -> float:
    """Of the gradients by each filter, and of half of their Gram matrix; all else is little beside it."""
    k, side, total = WIDTHS[-1], 28, 0.0
    for layer in net:
        if isinstance(layer, nn.Conv2d):
            total += (
                n * k * side**2 * layer.weight.numel() + (n * k) ** 2 / 2 * layer.weight.numel()
            )
        elif isinstance(layer, nn.MaxPool2d):
            side //= 2
    return total


def multiplications(n: int) -> float:
    """Of the kernel of the perceptron at n points."""
    k, hidden = WIDTHS[-1], WIDTHS[1:-1]
    forwards = n * sum(math.prod(pair) for pair in pairwise(WIDTHS))
    backwards = n * k * sum(math.prod(pair) for pair in pairwise(hidden))
    grams = n**2 / 2 * sum(WIDTHS[:-1]) + (n * k) ** 2 / 2 * sum(hidden)
    return forwards + backwards + grams


def nngeometry() -> Iterator[str]:
    """Its Gram matrix of all outputs, with all points in one batch."""
    if find_spec("nngeometry") is None:
        yield "nngeometry is not installed: not measured"
        return
    from nngeometry.gram import GramMatrix
    from torch.utils.data import DataLoader, TensorDataset

    for name, net, x in (
        ("784-512-512-512-10", perceptron().double(), normal(BLOCK, WIDTHS[0])),
        ("CNN", convolutional().double(), normal(BLOCK, 1, 28, 28)),
    ):

        def gram(net: nn.Module = net, x: Tensor = x) -> Tensor:
            loader = DataLoader(TensorDataset(x), batch_size=len(x))
            return GramMatrix(net, loader).to_torch()  # (k, n, k, n)

        error = gram().permute(1, 3, 0, 2) - (exact := tangents.ntk(net, x))
        ours, theirs = interleaved((partial(tangents.ntk, net, x), gram), time.perf_counter, 3)
        yield (
            f"{name}, N = {BLOCK}, float64: nngeometry {theirs / ours:.1f} times as long (relative "
            f"difference {(error.abs().max() / exact.abs().max()).item():.0e})"
        )


def dattri() -> Iterator[str]:
    """Its inner products of the gradients of one number (TracIn at one checkpoint, without projection)."""
    if find_spec("dattri") is None:
        yield "dattri is not installed: not measured"
        return
    from dattri.algorithm.tracin import TracInAttributor
    from dattri.task import AttributionTask
    from torch.utils.data import DataLoader, TensorDataset

    net, x = perceptron(), normal(BLOCK, WIDTHS[0]).float()

    def number(values: dict[str, Tensor], data: tuple[Tensor, ...]) -> Tensor:
        return functional_call(net, values, (data[0][None],)).sum()

    task = AttributionTask(loss_func=number, model=net, checkpoints=net.state_dict())
    attributor = TracInAttributor(task, torch.ones(1), normalized_grad=False)
    attributor.projector_kwargs = None  # exact
    loader = DataLoader(TensorDataset(x), batch_size=len(x))

    def theirs() -> Tensor:
        return attributor.attribute(loader, loader)

    def ours() -> Tensor:
        g = tangents.gradients(net, x, signals=torch.ones(len(x), 1, WIDTHS[-1]))
        return g.inner(g)[:, 0, :, 0]

    exact = ours()
    error = (theirs() - exact).abs().max() / exact.abs().max()
    own, other = interleaved((ours, theirs), time.perf_counter, 3)
    yield (
        f"784-512-512-512-10, N = {BLOCK}, float32, sum of outputs: dattri {other / own:.1f} times as long "
        f"(relative difference {error.item():.0e})"
    )

"""Empirical tangent kernels: against torch.func, the machine's GEMM rate, nngeometry and dattri.

torch.func contracts dense Jacobians (vmap of jacrev), held in blocks of 50 points, half of the pairs. The rate
counts the multiplications that no way around is known for: one pass forwards, k backwards, and half of the
Gram matrices of inputs and signals of each layer. nngeometry and dattri are measured where they are installed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from bench.clock import interleaved, seconds
from numeric import tangents

WIDTHS = (784, 512, 512, 512, 10)
BLOCK = 50  # points whose Jacobian fits into memory


def run(sizes: tuple[int, ...] = (50, 200)) -> Iterator[str]:
    for dtype in (torch.float32, torch.float64):
        net = perceptron().to(dtype)
        rate = gemm_rate(dtype)
        yield f"GEMM in {dtype}: {rate / 1e9:.0f} billion multiplications a second"
        for n in sizes:
            x = normal(n, WIDTHS[0]).to(dtype)
            ours = min(interleaved((partial(tangents.ntk, net, x),), time.perf_counter))
            share = multiplications(n) / ours / rate
            theirs, error = against(lambda net=net, x=x: by_jacobians(net, x), tangents.ntk(net, x))
            yield (
                f"784-512-512-512-10, N = {n}, {dtype}: {1e3 * ours:.1f} ms, {share:.0%} of GEMM, torch.func "
                f"{theirs / ours:.0f} times as long (relative difference {error:.0e})"
            )
    for dtype in (torch.float32, torch.float64):
        net, x = convolutional().to(dtype), normal(BLOCK, 1, 28, 28).to(dtype)
        jobs = (partial(tangents.ntk, net, x), partial(by_jacobians, net, x))
        ours, theirs = interleaved(jobs, time.perf_counter, 5)
        yield (
            f"CNN of {sum(p.numel() for p in net.parameters())} parameters, N = {BLOCK}, {dtype}: "
            f"{1e3 * ours:.0f} ms, torch.func {theirs / ours:.1f} times as long"
        )
    yield from nngeometry()
    yield from dattri()


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def perceptron() -> nn.Sequential:
    torch.manual_seed(0)
    layers = []
    for d, n in zip(WIDTHS, WIDTHS[1:], strict=False):
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


def against(rival: Callable[[], Tensor], ours: Tensor) -> tuple[float, float]:
    """The time of a rival that takes seconds, and how far its result is from ours."""
    start = time.perf_counter()
    theirs = rival()
    taken = time.perf_counter() - start
    return taken, ((theirs - ours).abs().max() / ours.abs().max()).item()


def multiplications(n: int) -> float:
    """Of the kernel of the perceptron at n points."""
    k, hidden = WIDTHS[-1], WIDTHS[1:-1]
    forwards = n * sum(math.prod(pair) for pair in zip(WIDTHS, WIDTHS[1:], strict=False))
    backwards = n * k * sum(math.prod(pair) for pair in zip(hidden, hidden[1:], strict=False))
    grams = n**2 / 2 * sum(WIDTHS[:-1]) + (n * k) ** 2 / 2 * sum(hidden)
    return forwards + backwards + grams


def gemm_rate(dtype: torch.dtype) -> float:
    """Multiplications a second of the fastest of some matrix products."""
    rates = []
    for n, d in ((500, 512), (1000, 512), (2000, 512), (2000, 2000)):
        a, b = normal(n, d).to(dtype), normal(d, n).to(dtype)
        rates.append(n * n * d / seconds(lambda a=a, b=b: a @ b))
    return max(rates)


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
            f"{name}, N = {BLOCK}, float64: nngeometry {theirs / ours:.1f} times as long (relative difference "
            f"{(error.abs().max() / exact.abs().max()).item():.0e})"
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

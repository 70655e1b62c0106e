"""Networks on a line: a gradient by prefix sums against dense ones, and what training costs.

The dense rival multiplies the features of all neurons at all samples; the other one is what torch
differentiates by itself. CPU time on one thread; the rivals take turns.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from bench.clock import interleaved
from numeric.relu_dynamics import Flow, Neurons
from numeric.relu_dynamics.gradient import Gradient, Samples, gradient

IN_A_ROW = 20  # evaluations, as in training
SIZES = ((25_000, 20), (1000, 20), (25_000, 100))  # neurons, samples


def run(sizes: tuple[tuple[int, int], ...] = SIZES) -> Iterator[str]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for dtype in (torch.float64, torch.float32):
        for m, s in sizes:
            yield f"gradient, {m} neurons, {s} samples, {str(dtype)[6:]}: {compared(m, s, dtype)}"
    x = torch.linspace(-0.9, 0.9, 10, dtype=torch.float64)
    for delta in (-math.inf, -10.0, 0.0, 10.0):
        yield f"flow, 1000 neurons, 10 samples of a square wave, {trained(x, delta)}"
    torch.set_num_threads(threads)


def compared(m: int, s: int, dtype: torch.dtype) -> str:
    neurons = Neurons.drawn(m, 0, device="cpu", dtype=dtype)
    samples, _ = Samples.of(torch.linspace(-1, 1, s, dtype=dtype))
    y = torch.sin(5 * samples.x)
    task = (samples, y, neurons.a, neurons.b, neurons.c, neurons.alpha)
    jobs = tuple(partial(repeated, way, task) for way in (gradient, dense, differentiated))
    ours, matmul, graph = (t / IN_A_ROW for t in interleaved(jobs, time.process_time))
    one, two = gradient(*task), dense(*task)
    off = max((getattr(one, p) - getattr(two, p)).abs().max().item() for p in ("a", "b", "c"))
    return (
        f"ours {1e6 * ours:.0f} us; dense {matmul / ours:.1f} and autograd {graph / ours:.1f} times that; "
        f"they differ by {off:.0e}"
    )


def repeated(way: Callable[..., Gradient], task: tuple) -> None:
    for _ in range(IN_A_ROW):
        way(*task)


def trained(x: Tensor, delta: float) -> str:
    flow = Flow(x, torch.sign(torch.sin(5 * x)), Neurons.drawn(1000, 0, device="cpu"), delta, 100.0)
    start = time.process_time()
    trajectory = flow.run(progress=False)
    seconds = time.process_time() - start
    start = time.process_time()
    trajectory.at(37.0)
    return (
        f"delta = {delta}: time 100 in {seconds:.2f} s, {len(trajectory.times) - 1} steps, loss "
        f"{trajectory.losses[0]:.2g} to {trajectory.losses[-1]:.2g}; "
        f"{1e3 * (time.process_time() - start):.1f} ms for the neurons at any time"
    )


def dense(samples: Samples, y: Tensor, a: Tensor, b: Tensor, c: Tensor, alpha: float) -> Gradient:
    x = samples.x
    features = torch.relu(x[:, None] * a - b)
    residuals = features @ c / alpha - y
    over, active = residuals / alpha, (features > 0).to(features.dtype)
    return Gradient(c * ((over * x) @ active), -c * (over @ active), over @ features, residuals)


def differentiated(
    samples: Samples, y: Tensor, a: Tensor, b: Tensor, c: Tensor, alpha: float
) -> Gradient:
    parts = [part.detach().requires_grad_() for part in (a, b, c)]
    residuals = torch.relu(samples.x[:, None] * parts[0] - parts[1]) @ parts[2] / alpha - y
    loss = (residuals**2).sum() / 2
    return Gradient(*torch.autograd.grad(loss, parts), residuals.detach())

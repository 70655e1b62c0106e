"""Ricci scalars at 1600 points: hidden layers against the sum over triples, any map against nested autograd.

CPU time on one thread, all in one run, rivals at their best batch size; slow rivals take a part of the
points, and their time is scaled up. Then errors against 100 digits, and the cost law.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import torch
from mpmath import mp
from torch import Tensor, nn
from torch.func import jacfwd, jacrev

from analytic.activations import sigmoid, tanh
from analytic.finite.units import Units
from bench.clock import interleaved
from numeric import geometry
from numeric.estimate import power_law
from numeric.experiments.autodiff_curvature import ricci_by_nesting
from numeric.geometry import closed_form
from numeric.models.hidden_layers import HiddenLayer, hidden_layer
from numeric.models.shallow import ShallowNetwork

DOUBLE = {"dtype": torch.float64}
Job = Callable[[], object]


def run() -> Iterator[str]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield from against_triples()
        yield from against_nesting()
        yield from errors()
        yield from cost_law()
    finally:
        torch.set_num_threads(threads)


def grid(side: int = 40) -> Tensor:
    axis = torch.linspace(-1.5, 1.5, side, **DOUBLE)
    return torch.cartesian_prod(axis, axis)


def against_triples(width: int = 500, part: int = 32) -> Iterator[str]:
    x = grid()
    net = ShallowNetwork.gaussian(sigmoid, width, 2, 1.0, 1.0, generator=_seeded())
    layer, some = hidden_layer(net), x[:: len(x) // part]
    rivals = {n: lambda n=n: triple_sum(net, some, n) for n in (1, 4, 16)}
    slow, batch = _best(rivals)
    times = interleaved(
        (
            lambda: triple_sum(net, some, batch),
            lambda: _chunked(closed_form.by_frames, layer, x),
            lambda: _chunked(closed_form.by_moments, layer, x),
            lambda: geometry.ricci_scalar(net, x),
        ),
        time.process_time,
        9,
    )
    triples = min(slow, times[0]) * len(x) / len(some)
    off = (geometry.ricci_scalar(net, some).value / triple_sum(net, some, 1) - 1).abs().max()
    yield (
        f"width {width}, d = 2: the sum over triples (B.15) takes {triples:.1f} s (batch {batch}); "
        f"by frames {1e3 * times[1]:.0f} ms, ratio {triples / times[1]:.0f}; "
        f"by moments {1e3 * times[2]:.0f} ms, ratio {triples / times[2]:.0f}; "
        f"whichever fits {1e3 * times[3]:.0f} ms, ratio {triples / times[3]:.0f}; "
        f"largest relative difference {off:.0e}"
    )


def _chunked(way: Callable[..., object], layer: HiddenLayer, x: Tensor) -> None:
    """One of the two ways for all points, as `closed_form.curvature` takes them."""
    for some in x.split(closed_form.CHUNK_SIZE // len(layer.weights)):
        way(layer, *layer.derivatives(some))


def triple_sum(net: ShallowNetwork, x: Tensor, batch: int) -> Tensor:
    """(B.15) with its factor corrected, some points at a time."""
    w, n = net.weights, len(net.weights)
    M = w[:, None, 0] * w[None, :, 1] - w[:, None, 1] * w[None, :, 0]
    parts = []
    for some in x.split(batch):
        slope, bend = (part(net.preactivations(some)) for part in net.slopes)
        c = slope * bend
        inner = M.T @ (slope.square()[:, :, None] * M)
        parts.append((inner.mul_(M**2) @ c[:, :, None] * c[:, :, None]).sum((1, 2)))
    return -torch.cat(parts) / (n**3 * torch.linalg.det(net.metric(x)) ** 2)


def against_nesting(width: int = 100, part: int = 64) -> Iterator[str]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, width), nn.Sigmoid()).double()
    x = grid()

    def features(y: Tensor) -> Tensor:  # as a function, for as a module it would have a closed form
        return net(y)

    ours = interleaved((lambda: geometry.ricci_scalar(features, x),), time.process_time, 7)[0]
    for derive, name, count, batches in (
        (jacrev, "nested autograd (reverse mode)", part, (1, 4, 16, 64)),
        (jacfwd, "forward mode nested three times", len(x), (100, 400, 1600)),
    ):
        some = x[:: len(x) // count]
        nested, batch = _best(
            {
                n: lambda n=n, some=some, way=derive: ricci_by_nesting(
                    features, some, derive=way, batch_size=n
                )
                for n in batches
            }
        )
        nested *= len(x) / len(some)
        yield (
            f"width {width}, any map: {name} takes {nested:.2f} s (batch {batch}), the Gauss equation "
            f"{1e3 * ours:.0f} ms, ratio {nested / ours:.1f}"
        )


def errors() -> Iterator[str]:
    """Eight units of tanh, nearly collinear or far out, at growing condition numbers."""
    for name, angle, size in (
        ("collinear", 1e-1, 1.0), ("collinear", 1e-4, 1.0), ("collinear", 1e-10, 1.0),
        ("collinear", 1e-14, 1.0), ("saturated", 1.0, 10.0), ("saturated", 1.0, 20.0),
    ):  # fmt: skip
        worst, any_map, conditions = 0.0, 0.0, []
        for seed in range(5):
            net = ShallowNetwork.gaussian(tanh, 8, 2, size, size, generator=_seeded(seed))
            net.weights[:, 1] = 0.3 * net.weights[:, 0] + angle * net.weights[:, 1]
            x = torch.tensor([[0.7, -0.4]], **DOUBLE)
            with mp.workdps(100):
                rows, biases = net.weights.tolist(), net.biases.tolist()
                R = float(Units.of(tanh, rows, biases, x[0].tolist()).scalar())
            closed = geometry.ricci_scalar(net, x)
            conditions.append(closed.condition.item())
            worst = max(worst, abs(closed.value.item() / R - 1))
            if closed.condition < 1e12:  # beyond, any other map counts as degenerate
                plain = geometry.ricci_scalar(lambda y, net=net: net(y), x)
                any_map = max(any_map, abs(plain.value.item() / R - 1))
        other = f", by the Gauss equation of any map {any_map:.0e}" if any_map else ""
        yield (
            f"{name}, condition {min(conditions):.0e} to {max(conditions):.0e}: largest relative error of "
            f"the closed form {worst:.0e}{other}"
        )


def cost_law() -> Iterator[str]:
    """Slopes of log time against log size, one size moving and the others fixed."""

    def hidden(points: int, width: int, d: int) -> Job:
        net = ShallowNetwork.gaussian(sigmoid, width, d, 1.0, 1.0, generator=_seeded())
        layer, x = hidden_layer(net), torch.randn(points, d, generator=_seeded(), **DOUBLE)
        return lambda: _chunked(closed_form.by_frames, layer, x)

    def deep(points: int, features: int, d: int) -> Job:
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Linear(d, 64), nn.Tanh(), nn.Linear(64, features), nn.Tanh()
        ).double()
        x = torch.randn(points, d, generator=_seeded(), **DOUBLE)
        return lambda: geometry.ricci_scalar(net, x, progress=False)

    for name, make, middle in (
        ("hidden layer by frames", hidden, "width"), ("any map", deep, "features"),
    ):  # fmt: skip
        laws = (
            ("points", (500, 1000, 2000, 4000), lambda n, make=make: make(n, 128, 2)),
            (middle, (256, 512, 1024, 2048), lambda n, make=make: make(200, n, 2)),
            ("d", (4, 8, 16, 32), lambda n, make=make: make(20, 256, n)),
        )
        exponents = [f"{what}^{_slope(sizes, job)}" for what, sizes, job in laws]
        yield f"cost law, {name}: {' '.join(exponents)}"


def _slope(sizes: Sequence[int], make: Callable[[int], Job]) -> str:
    law = power_law(sizes, interleaved(tuple(map(make, sizes)), time.process_time, 3))
    return f"{law.value:.1f}±{law.stderr:.1f}"


def _best(jobs: dict[int, Job]) -> tuple[float, int]:
    """The least time, and its batch size."""
    times = interleaved(tuple(jobs.values()), time.process_time, 2)
    return min(zip(times, jobs, strict=True))


def _seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)

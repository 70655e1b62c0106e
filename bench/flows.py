"""Output-space flows: one evaluation of the velocity against an SVD, a QR and conjugate gradients.

All give D^+ (x - y) of the same network. The rivals form D, (QN, K), from the same factored gradients, and
decompose it; curvlinops, if it is installed, solves with its Gauss-Newton operator of the mean squared
error by conjugate gradients, to a residual of 1e-6; ours has the last digits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from bench.clock import interleaved
from numeric import flows
from numeric.flows.output_map import OutputMap, output_map
from numeric.flows.ranges import factorisations

WIDTHS, POINTS = (24, 150, 150, 10), 50  # QN = 500, K = 27 910
MEMORY = 2**31


def run(repeats: int = 1) -> Iterator[str]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    net, x, y = problem(WIDTHS, POINTS)
    with output_map(net, x, MEMORY) as map:
        theta = map.pack(map.run.leaves)
        residual = (map.outputs(theta).detach() - y).flatten()
        jobs = tuple(partial(job, map, theta, residual) for job in (ours, by_qr, by_svd))
        least, qr, svd = interleaved(jobs, time.process_time, repeats)
        results = [job() for job in jobs[:2]]
        off = float((results[0] - results[1]).norm() / results[1].norm())
        condition = factorisations(map, 1e-7, 1e-8).at(theta, map.graph(theta)).condition
        size = f"QN = {map.count}, K = {map.parameters}"
    yield (
        f"velocity at {size}, condition at most {condition:.0e}, one thread: ours {1e3 * least:.0f} ms, "
        f"QR {qr / least:.0f}, SVD {svd / least:.0f} times it; ours and QR differ by {off:.0e}"
    )
    yield by_curvlinops(net, x, y, least)
    net, x, y = problem((10, 60, 60, 5), 20)
    flow = None

    def integrate() -> None:
        nonlocal flow
        flow = flows.integrate(net, x, y, tolerance=1e-10, progress=False)

    spent = _cpu(integrate)
    assert flow is not None
    worst = max(float(flow.deviation(flow.end * k / 50).norm()) for k in range(51))
    yield (
        f"flow at QN = 100, K = 4625 up to t = 0.99, tolerance 1e-10: {spent:.1f} s of CPU time, "
        f"{flow.evaluations} velocities, at most {worst:.0e} off the straight line"
    )
    torch.set_num_threads(threads)


def problem(widths: tuple[int, ...], n: int) -> tuple[nn.Sequential, Tensor, Tensor]:
    """A tanh network of variance 1 / fan-in, with points and labels from a normal law."""
    generator = torch.Generator().manual_seed(0)
    normal = partial(torch.randn, generator=generator, dtype=torch.float64)
    parts: list[nn.Module] = []
    for d, m in pairwise(widths):
        layer = nn.Linear(d, m, dtype=torch.float64)
        layer.weight.data, layer.bias.data = normal(m, d) / d**0.5, normal(m) / 3
        parts += [layer, nn.Tanh()]
    return nn.Sequential(*parts[:-1]), normal(n, widths[0]), normal(n, widths[-1])


def ours(map: OutputMap, theta: Tensor, residual: Tensor) -> Tensor:
    return factorisations(map, 1e-7, 1e-8).at(theta, map.graph(theta)).lift(residual)


def by_qr(map: OutputMap, theta: Tensor, residual: Tensor) -> Tensor:
    q, r = torch.linalg.qr(map.jacobian(theta).T)
    return (q @ torch.linalg.solve_triangular(r.T, residual[:, None], upper=False))[:, 0]


def by_svd(map: OutputMap, theta: Tensor, residual: Tensor) -> Tensor:
    left, values, right = torch.linalg.svd(map.jacobian(theta), full_matrices=False)
    return right.T @ ((left.T @ residual) / values)


def by_curvlinops(net: nn.Module, x: Tensor, y: Tensor, least: float) -> str:
    """Its Gauss-Newton operator, half the mean over points of |f - y|^2, and SciPy's conjugate gradients."""
    try:
        from curvlinops import GGNLinearOperator
    except ImportError:
        return "curvlinops is not installed"
    from scipy.sparse.linalg import LinearOperator, cg

    def loss(outputs: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.mse_loss(outputs, labels)

    parameters = [p for p in net.parameters() if p.requires_grad]
    criterion = nn.MSELoss()
    operator = GGNLinearOperator(net, criterion, parameters, [(x, y)], check_deterministic=False)
    gradient = torch.autograd.grad(loss(net(x), y), parameters)
    goal = torch.cat([part.flatten() for part in gradient])
    size = len(goal)

    def product(v: object) -> object:
        return (operator @ torch.as_tensor(v).view(size)).detach().numpy()

    matrix = LinearOperator((size, size), product, dtype="float64")
    count = 0

    def counted(_: object) -> None:
        nonlocal count
        count += 1

    def solve() -> None:
        nonlocal count
        count = 0
        cg(matrix, goal.numpy(), rtol=1e-6, maxiter=2_000, callback=counted)

    spent = _cpu(solve)
    return (
        f"curvlinops' Gauss-Newton operator with conjugate gradients to 1e-6: {count} products, "
        f"{spent / least:.0f} times ours"
    )


def _cpu(job: Callable[[], object]) -> float:
    begin = time.process_time()
    job()
    return time.process_time() - begin

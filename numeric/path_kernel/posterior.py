"""Gaussian processes with the exact path kernel as covariance and the untrained network as prior mean."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, as_numbers, require_instance
from numeric.kernels import PointwiseGaussian
from numeric.kernels.conditional import conditional
from numeric.path_kernel.exact import ExactPathKernel
from numeric.path_kernel.integrals import integrals
from numeric.path_kernel.two_copies import Copy
from numeric.progress import progress_bar

__all__ = ["own_blocks", "posterior"]


def posterior(
    path: ExactPathKernel, x: ArrayLike, targets: ArrayLike | None = None, *, jitter: float = 0.0
) -> PointwiseGaussian:
    r"""Outputs at new points given those at the training points, as a Gaussian process with the path kernel.

    $$m(x) = f_0(x) + K(x, X)\,(K(X, X) + jI)^{-1}\,(Y - f_0(X)), \qquad
      C(x) = K(x, x) - K(x, X)\,(K(X, X) + jI)^{-1}\,K(X, x)$$

    with the new points in copy 0, the training points in copy 1, and the untrained network f_0 as prior
    mean. (Bell et al. 2023, (91) and (92), where the prior mean is missing.)

    path: an ExactPathKernel of a run of plain gradient descent. x: points (n, ...). targets: Y (M, k); None
        takes what the trained network has there. jitter: a variance on the diagonal of K(X, X), in units of
        its mean. Log-softmax leaves K(X, X) singular after few steps.

    Returned is a PointwiseGaussian: mean (n, k), covariance (n, k, k), and by Monte Carlo through softmax
    the spread of the probabilities, `.softmax(draws, seed).spread`. Refused are a Gram matrix that is
    singular to rounding without enough jitter, targets of another shape, and optimisers with a memory.

    >>> from functools import partial
    >>> from numeric.path_kernel import record
    >>> x = torch.linspace(-1, 1, 8, dtype=torch.float64)[:, None]
    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 9), torch.nn.Tanh(), torch.nn.Linear(9, 1)).double()
    >>> sgd = partial(torch.optim.SGD, lr=0.5)
    >>> run = record(net, torch.nn.MSELoss(), sgd, (x, x**2), steps=5, device="cpu", progress=False)
    >>> posterior(ExactPathKernel(run, progress=False), x[:3], jitter=1e-6).std.shape
    torch.Size([3, 1])
    """
    require_instance("path", path, ExactPathKernel, "ExactPathKernel(run)")
    training_points = Copy(path.run.x, 1)
    start = path.start(path.run.x)
    values = path.network(path.run.x)
    if targets is not None:
        values = as_numbers("targets", targets, "(M, k)").to(start)
    if values.shape != start.shape:
        raise InputError(
            f"targets of shape {tuple(values.shape)} were given, but {tuple(start.shape)} is needed: the "
            "outputs at the training points."
        )
    gram = path.gram(training_points).transpose(1, 2).flatten(2).flatten(0, 1)  # (M k, M k)
    cross = path.gram(x, path.run.x).transpose(1, 2).flatten(2)  # (n, k, M k)
    gaussian = conditional(gram, (values - start).flatten(), cross, own_blocks(path, x), jitter)
    return replace(gaussian, mean=path.start(x) + gaussian.mean)


def own_blocks(path: ExactPathKernel, x: ArrayLike) -> Tensor:
    r"""The blocks K(x, x) of each point with itself, in copy 0: (n, ...) -> (n, k, k).

    $$K(x, x) = \sum_s \varepsilon_s \int_0^1 J_{w_s(t)}(x)\,J_{w_s(t)}(x)^T dt$$

    These are on the diagonal of `path.gram(x)`, here by the nodes that each point has of its own.

    >>> from functools import partial
    >>> from numeric.path_kernel import record
    >>> x, sgd = torch.ones(2, 1, dtype=torch.float64), partial(torch.optim.SGD, lr=0.5)
    >>> net = torch.nn.Linear(1, 1, bias=False).double()
    >>> run = record(net, torch.nn.MSELoss(), sgd, (x, x), steps=4, device="cpu", progress=False)
    >>> own_blocks(ExactPathKernel(run, progress=False), x).flatten().tolist()
    [2.0, 2.0]
    """
    with path._open(x) as work:
        total = work.new_zeros(len(work.x), work.outputs, work.outputs)
        steps = range(path.run.steps) if path.steps is None else path.steps
        for s in progress_bar(steps, of="steps", show=path.progress):
            rate, segment = path.rate(s), work.segment(s)
            nodes = work.nodes(segment)
            # Each node is a point of its own here: gradients are multiplied before they are summed.
            numbers = torch.arange(len(nodes), device=work.x.device)
            each_node = replace(nodes, index=numbers, weight=torch.ones_like(nodes.weight))
            at_nodes = replace(segment, x=segment.x[nodes.index], first_layer={})
            for one in integrals(work.test, at_nodes, each_node, work.rows):
                flat = torch.cat([g.flatten(2) for g in one.gradients.dense().values()], 2)
                weight = rate * nodes.weight[one.points, None, None]
                total.index_add_(0, nodes.index[one.points], weight * (flat @ flat.mT))
        return total

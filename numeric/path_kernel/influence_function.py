"""Influence functions: how outputs depend on the weights of training points, from the last state alone."""

from __future__ import annotations

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, positive, require_instance, whole
from numeric.models import Model
from numeric.models.memory import GIGABYTE
from numeric.path_kernel.record import Record
from numeric.path_kernel.weighted_steps import batched_gradient, twice_differentiable
from numeric.tangents import gradients

__all__ = ["influence_function"]

ROWS = 128  # of the Hessian, which are computed at once


def influence_function(
    record: Record,
    x: ArrayLike,
    signals: Tensor | None = None,
    *,
    damping: float,
    memory: int = 2 * GIGABYTE,
) -> Tensor:
    r"""The influence function of Cook and Weisberg, with a damped Hessian of the training loss at the last
    weights.

    $$-J_{w_N}(x)\,(H + \lambda)^{-1}\,\omega_i \nabla \ell_i$$

    It is the derivative of the outputs by the weight of a training point if training ends in a minimum of
    $\sum_i \omega_i \ell_i + \frac\lambda2 |w - w_N|^2$, whatever the path to it was. `influence` follows
    the path instead, and is exact; this stands beside it for comparison. Sign and scale are the same.

    record: the run. x: points (n, ...). signals: (n, c, k), combinations of outputs; None takes all k.
        damping: the number lambda, above 0. memory: in bytes, which the Hessian must fit into.

    Returned is (n, k, M), or (n, c, M) for signals. Refused are models with too many parameters for a dense
    Hessian, and a damping that does not make it positive definite.

    >>> from functools import partial
    >>> from numeric.path_kernel import record
    >>> x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> net, sgd = torch.nn.Linear(1, 1).double(), partial(torch.optim.SGD, lr=0.1)
    >>> run = record(net, torch.nn.MSELoss(), sgd, (x, 2 * x), steps=3, device="cpu", progress=False)
    >>> influence_function(run, x[:5], damping=1e-3).shape
    torch.Size([5, 1, 20])
    """
    require_instance("record", record, Record, "path_kernel.record(...)")
    damping = positive("damping", damping)
    whole("memory", memory)
    parameters = record.parameters(record.steps)
    points = record.points(x)
    count = sum(value.numel() for value in parameters.values())
    if (need := 3 * count**2 * record.dtype.itemsize) > memory:
        raise InputError(
            f"The Hessian of {count} parameters needs {need} bytes, but memory = {memory} was given: give "
            "more, or take `influence`, which forms no Hessian."
        )
    hessian, slopes = _hessian(record, parameters)
    factor, failed = torch.linalg.cholesky_ex(hessian + damping * torch.eye(count).to(hessian))
    if failed:
        least = float(torch.linalg.eigvalsh(hessian)[0])
        raise InputError(
            f"With damping = {damping:g} the Hessian is not positive definite, its least eigenvalue being "
            f"{least:.3g}: give a damping above {-least:.3g}."
        )

    def flat_gradients(x: Tensor, signals: Tensor | None) -> Tensor:
        return _flat(gradients(record.model, x, signals, parameters=parameters).dense())

    of_losses = flat_gradients(record.x, slopes[:, None])[:, 0]
    return -flat_gradients(points, signals) @ torch.cholesky_solve(of_losses.T, factor)


def _hessian(record: Record, parameters: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The Hessian of the loss of all points, (P, P), and its slopes by their outputs, (M, k)."""
    with twice_differentiable():
        leaves = {
            name: value.detach().clone().requires_grad_() for name, value in parameters.items()
        }
        outputs = Model.of(record.model).functional_call(leaves, record.x)
        value = record.loss(outputs, record.y)
        (slopes,) = torch.autograd.grad(value, outputs, retain_graph=True)
        gradient = torch.autograd.grad(value, list(leaves.values()), create_graph=True)
        flat = torch.cat([part.flatten() for part in gradient])
        unit = torch.eye(len(flat), dtype=flat.dtype, device=flat.device)
        parts = [
            torch.cat(
                [g.flatten(1) for g in batched_gradient([flat], list(leaves.values()), [rows])], 1
            )
            for rows in unit.split(ROWS)
        ]
    hessian = torch.cat(parts)
    return (hessian + hessian.T) / 2, slopes.detach().flatten(1)


def _flat(named: dict[str, Tensor]) -> Tensor:
    """(n, c, P) from gradients by name."""
    return torch.cat([value.flatten(2) for value in named.values()], 2)

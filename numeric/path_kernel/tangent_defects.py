"""What the tangent kernel at fixed weights misses of every training step, beside the exact path kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, require_instance
from numeric.models import Model
from numeric.models.memory import GIGABYTE
from numeric.path_kernel.record import Record
from numeric.tangents import gradients

__all__ = ["tangent_defects"]


def tangent_defects(record: Record, x: ArrayLike, at: int = 0, *, memory: int = GIGABYTE) -> Tensor:
    r"""What the outputs at points would have moved with the gradients of step `at`, less what they did move.

    $$J_{w_a}(x)\,(w_{s+1} - w_s) - \left(f_{w_{s+1}}(x) - f_{w_s}(x)\right)$$

    With a = 0 that is the empirical tangent kernel of the untrained network along the recorded path, with a
    = N that of the trained one. The discrete path kernel takes a = s: `ExactPathKernel(run,
    LeftRiemann(1)).defects(x)`. Of the exact path kernel all are 0. Sums over steps are the errors of the
    predictions.

    record: the run. x: points (n, ...). at: the number of a state, from 0 to N. memory: in bytes, for
    displacements.

    Returned is (N, n, k). Refused are points that do not fit the model, and states that the record does not
    have.

    >>> from functools import partial
    >>> from numeric.path_kernel import record
    >>> x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> net, sgd = torch.nn.Linear(1, 1).double(), partial(torch.optim.SGD, lr=0.1)
    >>> run = record(net, torch.nn.MSELoss(), sgd, (x, 2 * x), steps=3, device="cpu", progress=False)
    >>> bool(tangent_defects(run, x).abs().max() < 1e-15)  # it is linear in its parameters
    True
    """
    require_instance("record", record, Record, "path_kernel.record(...)")
    model = Model.of(record.model)
    points = record.points(x)
    moved = gradients(record.model, points, parameters=record.parameters(at))
    size = max(1, memory // (16 * sum(v.numel() for v in record.parameters(0).values())))
    defects = []
    for start in range(0, record.steps, size):
        states = [record.parameters(s) for s in range(start, min(start + size, record.steps) + 1)]
        weights = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        tangent = moved.along({name: value.diff(dim=0) for name, value in weights.items()})
        with torch.no_grad():
            outputs = [model.functional_call(state, points.clone()).flatten(1) for state in states]
        defects.append(tangent.permute(2, 0, 1) - torch.stack(outputs).diff(dim=0))
    return torch.cat(defects)

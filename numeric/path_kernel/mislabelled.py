"""Training points whose label the rest of the training set contradicts, found from their own attributions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.inputs import InputError, require_instance, whole
from numeric.path_kernel.exact import ExactPathKernel

__all__ = ["Suspects", "mislabelled"]


@dataclass(frozen=True, eq=False)
class Suspects:
    """How much of its label's output each training point made itself, and what the others made."""

    own: Tensor  # (M,), what each point added to the output of its own label
    others: (
        Tensor  # (M,), the margin of that output over the best other, without what the point added
    )

    @property
    def order(self) -> Tensor:
        """The points, the most suspect first: those whose margin without themselves is least."""
        return self.others.argsort(stable=True)


def mislabelled(path: ExactPathKernel, batch_size: int = 32) -> Suspects:
    r"""Which labels of the training points are likely to be wrong.

    A point's own attribution $A_i(x_i)$ is taken off the outputs at it: what is left is what the start,
    weight decay and all other points made of it. A right label is then still ahead; a wrong one is far
    behind, since the others speak against it and only the point itself for it.
    On digits with a tenth of the labels wrong the area under the ROC curve was 0.93 to 0.99, that of the
    plain loss after training 0.98 to 1.00: this explains a suspicion, and finds no more than the loss does.

    path: an ExactPathKernel of a run whose targets are class numbers (M,). batch_size: points at a time.

    Returned are `Suspects`. Refused are other targets than class numbers.

    >>> from functools import partial
    >>> from numeric.path_kernel import record
    >>> x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> y = (x[:, 0] > 0).long()
    >>> y[3] = 1
    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double()
    >>> sgd = partial(torch.optim.SGD, lr=0.5)
    >>> run = record(net, torch.nn.CrossEntropyLoss(), sgd, (x, y), steps=30, device="cpu", progress=False)
    >>> int(mislabelled(ExactPathKernel(run, progress=False)).order[0])
    3
    """
    require_instance("path", path, ExactPathKernel, "ExactPathKernel(run)")
    whole("batch_size", batch_size)
    x, y = path.run.x, path.run.y
    if y.ndim != 1 or y.is_floating_point():
        raise InputError(
            f"The record's targets are {y.dtype} of shape {tuple(y.shape)}, but class numbers (M,) are "
            "needed."
        )
    own, others = [], []
    for rows in torch.arange(len(x), device=x.device).split(batch_size):
        numbers = torch.arange(len(rows), device=x.device)
        added = path.attributions(x[rows])[numbers, :, rows]  # (b, k)
        without_own = path.network(x[rows]) - added
        label = y[rows, None]
        rival = without_own.scatter(1, label, -torch.inf).amax(1)
        own.append(added.gather(1, label)[:, 0])
        others.append(without_own.gather(1, label)[:, 0] - rival)
    return Suspects(torch.cat(own), torch.cat(others))

"""The straight line from the first to the last weights of a run: outputs, slopes, loss and norm along it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, require_instance, whole
from numeric.models import Model, evaluation_mode
from numeric.path_kernel.record import Record, require_pair
from numeric.path_kernel.segments import Segment

__all__ = ["Interpolation", "interpolation"]


@dataclass(frozen=True, eq=False)
class Interpolation:
    """A model along the line w(t) = w_0 + t (w_N - w_0), at T values of t."""

    t: Tensor  # (T,)
    outputs: Tensor  # (T, n, k)
    slopes: Tensor  # (T, n, k), of the outputs along the unit vector (w_N - w_0) / |w_N - w_0|
    loss: Tensor  # (T,)
    norm: Tensor  # (T,), |w(t)| of the parameters that training moved
    distance: float  # |w_N - w_0|

    def accuracy(self, labels: Tensor) -> Tensor:
        """The share of points whose largest output is that of their class number in labels (n,): (T,)."""
        if labels.shape != self.outputs.shape[1:2]:
            raise InputError(
                f"labels of shape {tuple(labels.shape)} were given, but the class numbers of "
                f"{self.outputs.shape[1]} points are needed."
            )
        return (self.outputs.argmax(2) == labels).to(self.t).mean(1)


def interpolation(
    record: Record, data: tuple[ArrayLike, ArrayLike] | None = None, count: int = 41
) -> Interpolation:
    r"""The model with weights on the line from the first to the last ones, which training did not follow.

    $$w(t) = w_0 + t\,(w_N - w_0), \qquad
      \nabla_w f_{w(t)}(x) \cdot \frac{w_N - w_0}{|w_N - w_0|}$$

    (Bell et al. 2023, Figure 8.)

    record: the run. data: points and targets (n, ...); None takes the training points. count: values of t
    from 0 to 1.

    Returned is an `Interpolation`. Refused are a run that moved nothing, and fewer than two values of t.

    >>> from functools import partial
    >>> from numeric.path_kernel import record
    >>> x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> net, sgd = torch.nn.Linear(1, 1).double(), partial(torch.optim.SGD, lr=0.1)
    >>> run = record(net, torch.nn.MSELoss(), sgd, (x, 2 * x), steps=3, device="cpu", progress=False)
    >>> line = interpolation(run, count=5)
    >>> line.loss.shape, bool(line.loss[-1] < line.loss[0])
    (torch.Size([5]), True)
    """
    require_instance("record", record, Record, "path_kernel.record(...)")
    count = whole("count", count, 2)
    x, y = (record.x, record.y) if data is None else require_pair(data)
    model = Model.of(record.model)
    x, y = record.points(x), y.to(record.x.device)
    start, stop = record.parameters(0), record.parameters(record.steps)
    distance = _norm([stop[name] - start[name] for name in start])
    if not distance:
        raise InputError(
            "The last weights are the first ones, so that there is no line between them: train first."
        )
    with evaluation_mode(model), torch.no_grad():
        segment = Segment.of(model, start, stop, x)
        t = torch.linspace(0, 1, count, dtype=record.dtype, device=x.device)
        points = torch.arange(len(x), device=x.device)
        rows = [segment.slopes(points, one.expand(len(x)).clone()) for one in t]
        outputs, slopes = (torch.stack(parts) for parts in zip(*rows, strict=True))
        shape = model.functional_call(start, x.clone()).shape
        loss = torch.stack([record.loss(one.view(shape), y) for one in outputs])
        norm = [_norm(segment.at(float(one)).values()) for one in t]
    return Interpolation(t, outputs, slopes / distance, loss, t.new_tensor(norm), distance)


def _norm(parts: Iterable[Tensor]) -> float:
    return float(torch.cat([part.flatten() for part in parts]).norm())

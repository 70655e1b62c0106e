"""Recorded steps with a factor for each training point: gradients, their derivatives, and retraining."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from numeric.inputs import ArrayLike, InputError, require_instance, values_on_a_line
from numeric.models import Model
from numeric.path_kernel.record import Record
from numeric.path_kernel.update_rules import OPTIMIZERS
from numeric.progress import progress_bar

__all__ = ["StepGradient", "batched_gradient", "retrain", "twice_differentiable"]

ByName = dict[str, Tensor]


class StepGradient:
    """The gradient g_s of a recorded step, and its derivatives by the weights and by factors of the examples.

    g_s = sum over the batch of q_i w_i grad loss_i at q = 1, where w_i are the record's weights.
    """

    def __init__(self, record: Record, step: int) -> None:
        self.rows = record.batch(step)
        parameters = record.parameters(record.rule.gradient_at(step))
        self.leaves = {name: value.requires_grad_() for name, value in parameters.items()}
        self.factors = torch.ones(len(self.rows), dtype=_dtype(parameters), device=record.x.device)
        self.factors.requires_grad_()
        outputs = Model.of(record.model).functional_call(self.leaves, record.x[self.rows])
        value = record.loss(outputs, record.y[self.rows])
        self._gradient = _weighted(outputs, value, self.factors, list(self.leaves.values()))

    @property
    def gradient(self) -> ByName:
        """g_s by name."""
        return {name: g.detach() for name, g in zip(self.leaves, self._gradient, strict=True)}

    def products(self, covectors: Mapping[str, Tensor]) -> tuple[ByName, Tensor]:
        """Covectors (r, *shape) times the Hessian, by name, and times each w_i grad loss_i, (r, |B|)."""
        by = [*self.leaves.values(), self.factors]
        signals = [covectors[name] for name in self.leaves]
        *curved, shares = batched_gradient(self._gradient, by, signals)
        return dict(zip(self.leaves, curved, strict=True)), shares


def _weighted(
    outputs: Tensor, value: Tensor, factors: Tensor, by: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The gradient of the loss with a factor for each example, which may be differentiated again.

    The loss treats each example alone, so that its slope by an example's output is multiplied by the factor.
    """
    (slope,) = torch.autograd.grad(value, outputs, create_graph=True)
    slope = slope * factors.view(-1, *[1] * (outputs.ndim - 1)).to(slope)
    return torch.autograd.grad(outputs, by, slope, create_graph=True, materialize_grads=True)


def batched_gradient(
    outputs: Sequence[Tensor], by: Sequence[Tensor], signals: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Signals (r, *shape) of outputs, pulled back to what the outputs were computed from: (r, *shape) each.

    All at once where torch can; operations that it cannot batch are pulled back one by one.
    """
    count = len(signals[0])
    moving = [place for place, output in enumerate(outputs) if output.requires_grad]
    chosen, signals = [outputs[p] for p in moving], [signals[p] for p in moving]
    if not chosen:
        return tuple(one.new_zeros(count, *one.shape) for one in by)

    def pulled(cotangents: Sequence[Tensor], batched: bool) -> tuple[Tensor, ...]:
        made = torch.autograd.grad(
            chosen, by, cotangents, retain_graph=True, allow_unused=True, is_grads_batched=batched
        )
        lead = (count,) if batched else ()
        return tuple(
            one.new_zeros(*lead, *one.shape) if g is None else g
            for g, one in zip(made, by, strict=True)
        )

    if count > 1:
        try:
            return pulled(signals, True)
        except RuntimeError as error:
            if "vmap" not in str(error):
                raise
    rows = [pulled([signal[r] for signal in signals], False) for r in range(count)]
    return tuple(torch.stack(parts) for parts in zip(*rows, strict=True))


@contextmanager
def twice_differentiable() -> Iterator[None]:
    """Attention in the form that has second derivatives."""
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        yield


def retrain(record: Record, weights: ArrayLike, progress: bool = True) -> nn.Module:
    """Train again as recorded, with a factor for the loss of each training point: what `influence` predicts.

    The loss of step s is the sum over its batch of weights_i w_i loss_i, from the same start, with the same
    batches, optimiser and settings of every step; w_i are the record's, so that leaving a point out by a
    factor 0 leaves the number by which a mean divides as it was.

    record: the run. weights: (M,), of the training points; all 1 gives the recorded run.

    Returned is the model after training. Refused are weights of another shape.

    >>> from functools import partial
    >>> from numeric.path_kernel import record
    >>> x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> net, sgd = nn.Linear(1, 1).double(), partial(torch.optim.SGD, lr=0.1)
    >>> run = record(net, nn.functional.mse_loss, sgd, (x, 2 * x), steps=3, device="cpu", progress=False)
    >>> same = retrain(run, torch.ones(20), progress=False)
    >>> torch.allclose(same.weight, run.model_at(3).weight, rtol=1e-12)
    True
    """
    require_instance("record", record, Record, "path_kernel.record(...)")
    factors = values_on_a_line("weights", weights, next(iter(record.parameters(0).values())))
    if len(factors) != len(record.x):
        raise InputError(
            f"{len(factors)} weights were given, but the record has {len(record.x)} training points: "
            "give as many."
        )
    model = record.model_at(0)
    own = dict(model.named_parameters())
    head = record.files.head
    made = next(one for one in OPTIMIZERS if one.__name__ == head.optimizer)
    groups = [{"params": [own[name] for name in g.names]} for g in head.groups if g.names]
    optimizer = made(groups, lr=1.0)  # pyrefly: ignore[missing-argument, unexpected-keyword]
    places = [place for place, group in enumerate(head.groups) if group.names]
    moving = [own[name] for name in head.shapes]
    for step in progress_bar(range(record.steps), of="steps", show=progress):
        rows = record.batch(step)
        for place, group in zip(places, optimizer.param_groups, strict=True):
            numbers = record.rule.settings(step, place)
            group |= {**head.groups[place].flags, **numbers}
            if "beta1" in numbers:
                group["betas"] = numbers["beta1"], numbers["beta2"]

        def closure(rows: Tensor = rows) -> Tensor:
            outputs = model(record.x[rows])
            value = record.loss(outputs, record.y[rows])
            for p, g in zip(moving, _weighted(outputs, value, factors[rows], moving), strict=True):
                p.grad = g.detach()
            return value.detach()

        optimizer.step(closure)  # pyrefly: ignore[no-matching-overload]
    return model


def _dtype(parameters: Mapping[str, Tensor]) -> torch.dtype:
    return next(iter(parameters.values())).dtype

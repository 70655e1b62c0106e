r"""Costs that are functions of outputs, their gradients there, and the two times of a flow.

The default is half the mean squared error, (2.48) of `output-space-flow`:

$$C(x) = \frac{1}{2N}|x - y|^2, \qquad \nabla_x C = \frac{x - y}{N}$$

Definition (2.7) there has twice that cost; what follows it has this one. Times are s, in which
$\partial_s\theta = V_\theta$, and $t = 1 - e^{-s/N}$, (2.52).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.inputs import (
    ArrayLike,
    InputError,
    as_numbers,
    number,
    positive,
    require_finite,
    shown,
)
from numeric.models import Model

__all__ = [
    "Clock", "Cost", "Objective", "half_mean_squared_error", "require_consistent_labels", "require_end",
    "require_objective", "require_precision",
]  # fmt: skip

Cost = Callable[[Tensor, Tensor], Tensor]  # outputs (N, Q) and labels -> a number


def half_mean_squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """C = |x - y|^2 / (2 N) for outputs and labels (N, Q).

    >>> half_mean_squared_error(torch.tensor([[1.0], [3.0]]), torch.zeros(2, 1)).item()
    2.5
    """
    return (outputs - labels).square().sum() / (2 * len(outputs))


@dataclass(frozen=True, eq=False)
class Objective:
    """A cost with its labels, differentiated by the outputs."""

    cost: Cost
    labels: Tensor

    @property
    def squared(self) -> bool:
        """Whether it is the default, for which outputs of a flow of full rank move on straight lines."""
        return self.cost is half_mean_squared_error

    def value(self, outputs: Tensor) -> Tensor:
        return self.cost(outputs, self.labels)

    def gradient(self, outputs: Tensor) -> Tensor:
        """The gradient by the outputs, (N, Q)."""
        if self.squared:
            return (outputs - self.labels) / len(outputs)
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.value(leaf), leaf)
        return gradient

    def identity(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Labels, value and gradient at some outputs, by which a checkpoint tells costs apart."""
        return self.labels, self.value(outputs).detach(), self.gradient(outputs)


@dataclass(frozen=True)
class Clock:
    """The variable of a flow: t in [0, 1), or s >= 0, with t = 1 - exp(-s / N)."""

    examples: int  # N
    in_s: bool

    def s(self, time: float) -> float:
        return time if self.in_s else -self.examples * math.log1p(-time)

    def t(self, time: float) -> float:
        return -math.expm1(-time / self.examples) if self.in_s else time

    def speed(self, time: float) -> float:
        """ds / d(time)."""
        return 1.0 if self.in_s else self.examples / (1 - time)


def require_end(until: float, duration: float | None) -> tuple[float, bool]:
    if duration is not None:
        return positive("duration", duration), True
    if number("until", until) == 1:
        raise InputError(
            "until = 1 was given, but t = 1 is s = infinity, where the flow only tends to: give until below "
            "1, such as 0.999."
        )
    if not 0 < until < 1:
        raise InputError(f"until = {until!r} was given, but t is between 0 and 1.")
    return float(until), False


def require_precision(tolerance: float, outputs: Tensor) -> None:
    epsilon = torch.finfo(outputs.dtype).eps
    if tolerance < 100 * epsilon * float(outputs.norm()):
        raise InputError(
            f"tolerance = {tolerance} was given, but outputs of this size are {outputs.dtype}, which has no "
            "such digits: write model.double(), or give a larger tolerance."
        )


def require_objective(cost: Cost | None, y: ArrayLike, outputs: Tensor, model: Model) -> Objective:
    """Refuse labels that do not fit outputs (N, Q), and costs that are no function of outputs."""
    labels = as_numbers("y", y).to(outputs.device)
    if cost is None:
        if labels.shape != outputs.shape:
            raise InputError(
                f"y has shape {tuple(labels.shape)}, but the model's outputs at x have "
                f"{tuple(outputs.shape)}: give one label for each output, such as one-hot vectors of classes."
            )
        labels = labels.to(outputs.dtype)
        require_finite("y", labels)
        return Objective(half_mean_squared_error, labels)
    if not callable(cost):
        raise InputError(
            f"cost = {shown(cost)} was given, but a function of outputs and labels is needed."
        )
    if len(labels) != len(outputs):
        raise InputError(
            f"{len(outputs)} points x and {len(labels)} labels y were given: give as many."
        )
    objective = Objective(cost, labels)
    _require_function_of_outputs(objective, outputs, model)
    return objective


def _require_function_of_outputs(objective: Objective, outputs: Tensor, model: Model) -> None:
    parameters = list(model.parameters().values())
    with torch.enable_grad():
        leaf = outputs.detach().requires_grad_()
        try:
            value, again = objective.value(leaf), objective.value(leaf)
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(
                f"The cost fails at outputs of shape {tuple(outputs.shape)} and labels of shape "
                f"{tuple(objective.labels.shape)} ({reason}): give a function of both."
            ) from error
        if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
            raise InputError(
                f"The cost gave {shown(value)}, but one number that depends on the outputs is needed: take "
                "a mean or a sum, and detach nothing."
            )
        by_outputs, *by_parameters = torch.autograd.grad(
            value, [leaf, *parameters], allow_unused=True
        )
    if any(one is not None for one in by_parameters):
        raise InputError(
            "The cost depends on the parameters beside the outputs, as weight decay does, but the theory "
            "needs a function of outputs alone: leave that term out."
        )
    if by_outputs is None:
        raise InputError("The cost does not depend on the outputs: use the first argument.")
    if not torch.equal(value, again):
        raise InputError("The cost is random: two calls at the same outputs differ.")
    if not bool(by_outputs.isfinite().all()):
        raise InputError("The cost has no finite gradient at the start: change it, or the model.")


def require_consistent_labels(x: Tensor, labels: Tensor) -> None:
    """Refuse two equal inputs with different labels, which no parameters fit."""
    flat = x.flatten(1)
    _, group = torch.unique(flat, dim=0, return_inverse=True)
    order = torch.argsort(group, stable=True)
    same = group[order][1:] == group[order][:-1]
    rows = labels.flatten(1) if labels.ndim > 1 else labels[:, None]
    differ = (rows[order][1:] != rows[order][:-1]).any(1)
    clash = torch.nonzero(same & differ)
    if len(clash):
        first = int(clash[0])
        one, other = sorted((int(order[first]), int(order[first + 1])))
        raise InputError(
            f"Inputs {one} and {other} are equal and their labels differ, so that no parameters fit both: "
            "keep one of them, with the mean label."
        )

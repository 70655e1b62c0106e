"""Optimisers as linear maps of the gradients of all steps so far, and the transpose of these maps.

Each parameter group moves by

    g' = sign g + coupled w,    b <- keep b + take g',
    w <- w + (by_buffer b + direct g') / scale + decoupled w,

with numbers that hold for one step, and a `scale` that is 1 or, for Adam, sqrt(v) / root + epsilon with the
second moments v as they were recorded. So w_{s+1} - w_s is the sum over r <= s of B_{s,r} g_r, and what
weight decay adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from numeric.inputs import InputError
from numeric.path_kernel.optimisers import SGDW, BackwardEuler, Leapfrog

__all__ = [
    "OPTIMIZERS", "Coefficients", "Group", "OptimizerClass", "PulledBack", "Rule", "numbers_of",
    "optimizer_class",
]  # fmt: skip

ByName = dict[str, Tensor]
Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Coefficients:
    """The numbers of one step of one parameter group; by default it stays where it is."""

    direct: float = 0.0
    by_buffer: float = 0.0
    keep: float = 1.0
    take: float = 0.0
    sign: float = 1.0
    coupled: float = 0.0
    decoupled: float = 0.0
    root: float = 1.0  # of Adam's scale, as are the next two
    epsilon: float = 0.0
    keep_square: float = 1.0  # v <- keep_square v + (1 - keep_square) g'^2

    def scale(self, v: Tensor) -> Tensor:
        """The divisor of the step, rounded as torch rounds it."""
        return (v.sqrt() / self.root).add_(self.epsilon)


@dataclass(frozen=True)
class OptimizerClass:
    """What is recorded of an optimiser's class, and the coefficients that follow."""

    settings: tuple[str, ...]  # of a group, one number each at every step
    coefficients: Callable[[Numbers, Mapping[str, bool], int, bool], Coefficients]
    flags: tuple[str, ...] = ()  # of a group, constant
    adaptive: bool = False  # whether second moments scale the step
    gradient_at_end: bool = False  # whether g_s is the gradient at w_{s+1}


@dataclass(frozen=True)
class Group:
    """The names of the parameters of a group, and its constant settings."""

    names: tuple[str, ...]
    flags: Mapping[str, bool]


@dataclass(frozen=True, eq=False)
class PulledBack:
    """What covectors of one displacement multiply, by name; each has the leading axes of the covectors."""

    on_gradient: ByName  # the gradient g_s
    on_decay: ByName  # the weights w_s; parameters without weight decay are left out
    buffer: ByName  # the buffer after step s - 1

    def __iter__(self) -> Any:
        return iter((self.on_gradient, self.on_decay, self.buffer))


@dataclass(frozen=True, eq=False)
class Rule:
    """The displacements Delta_s = w_{s+1} - w_s of one run as linear maps of its gradients g_0 ... g_s.

    Delta_s = sum over r <= s of B_{s,r} g_r + c_s, where c_s comes from weight decay alone, and
    g_r = sum over i of w_i grad loss_i is the gradient that torch computed: of the step's loss, without
    decay.
    """

    kind: OptimizerClass
    groups: tuple[Group, ...]
    table: np.ndarray = field(repr=False)  # (steps, groups, settings)
    moments: Callable[[int], ByName] | None = field(repr=False, default=None)

    def gradient_at(self, step: int) -> int:
        """The number s of the weights w_s at which the step's gradients are taken."""
        return step + 1 if self.kind.gradient_at_end else step

    def settings(self, step: int, group: int) -> dict[str, float]:
        """The numbers of a group in a step, by the optimiser's names: learning rate, momentum and so on."""
        return dict(zip(self.kind.settings, self.table[step, group].tolist(), strict=True))

    def flag(self, name: str, flag: str) -> bool:
        """A constant setting of the group of a parameter."""
        return next(group.flags[flag] for group in self.groups if name in group.names)

    def coefficients(self, step: int) -> dict[str, Coefficients]:
        """The coefficients of a step by the name of the parameter."""
        by_name = {}
        for number, group in enumerate(self.groups):
            numbers, first = self.settings(step, number), step == self._starts[number]
            coefficients = self.kind.coefficients(numbers, group.flags, step, first)
            by_name |= dict.fromkeys(group.names, coefficients)
        return by_name

    @cached_property
    def _starts(self) -> list[int]:
        """The step in which the buffer of each group is filled for the first time."""
        if "momentum" not in self.kind.settings:
            return [0] * len(self.groups)
        used = self.table[:, :, self.kind.settings.index("momentum")] != 0
        return [int(steps.argmax()) if steps.any() else -1 for steps in used.T]

    def second_moments(self, step: int) -> ByName:
        """Those by which Adam divides step s; none for other optimisers, and before step 0."""
        return {} if self.moments is None or step < 0 else self.moments(step)

    def scalar(self, step: int) -> float | None:
        """The number B_{s,s}, if the step is this number times its own gradient beside weight decay."""
        coefficients = set(self.coefficients(step).values())
        factors = {one.sign * one.direct for one in coefficients}
        plain = self.moments is None and not any(one.by_buffer or one.take for one in coefficients)
        return factors.pop() if plain and len(factors) == 1 else None

    def pull_back(
        self, step: int, psi: Mapping[str, Tensor], buffer: Mapping[str, Tensor] | None = None
    ) -> PulledBack:
        """Apply the transposed maps: what covectors psi_s of all Delta_s multiply, step by step backwards.

        sum over s of psi_s . Delta_s = sum over s of on_gradient_s . g_s + on_decay_s . w_s

        step: s, from the last to the first without a gap.
        psi: covectors by the name of the parameter, (..., *shape); names may be left out in all steps.
        buffer: what the call for step s + 1 returned, and None for the last step.

        Returned are `on_gradient`, `on_decay` and `buffer` by name, which also unpack in this order.
        """
        coefficients, squares = self.coefficients(step), self.second_moments(step)
        on_gradient, on_decay, carried = {}, {}, {}
        for name, covector in psi.items():
            one = coefficients[name]
            scaled = covector / one.scale(squares[name]) if squares else covector
            on_total = one.direct * scaled
            on_buffer = None if buffer is None else buffer.get(name)
            if one.by_buffer:
                added = one.by_buffer * scaled
                on_buffer = added if on_buffer is None else on_buffer + added
            if on_buffer is not None:
                on_total = on_total + one.take * on_buffer
                carried[name] = one.keep * on_buffer
            on_gradient[name] = one.sign * on_total
            if one.coupled or one.decoupled:
                on_decay[name] = one.coupled * on_total + one.decoupled * covector
        return PulledBack(on_gradient, on_decay, carried)


def optimizer_class(optimizer: torch.optim.Optimizer) -> OptimizerClass:
    """What is recorded of an optimiser; refused are other classes, and subclasses, which may do anything."""
    kind = OPTIMIZERS.get(type(optimizer))
    if kind is None:
        known = ", ".join(one.__name__ for one in OPTIMIZERS)
        raise InputError(
            f"{type(optimizer).__name__} has no rule that makes its steps linear in recorded gradients: "
            f"use one of {known}."
        )
    return kind


def numbers_of(kind: OptimizerClass, group: Mapping[str, Any]) -> list[float]:
    """The settings of a parameter group at this moment, in the order of the rule."""
    named = dict(group) | dict(zip(("beta1", "beta2"), group.get("betas", ()), strict=False))
    return [float(named[name]) for name in kind.settings]


def _sgd(of: Numbers, flags: Mapping[str, bool], step: int, first: bool) -> Coefficients:
    rate, momentum = of["lr"], of["momentum"]
    common = {
        "sign": -1.0 if flags["maximize"] else 1.0,
        "coupled": of.get("weight_decay", 0.0),
        "decoupled": -rate * of.get("decay", 0.0),
    }
    if not momentum:
        return Coefficients(direct=-rate, **common)
    take = 1.0 if first else 1 - of["dampening"]  # torch fills an empty buffer with all of g'
    keep = 0.0 if first else momentum
    if flags["nesterov"]:
        return Coefficients(-rate, -rate * momentum, keep, take, **common)
    return Coefficients(0.0, -rate, keep, take, **common)


def _adam(of: Numbers, flags: Mapping[str, bool], step: int, first: bool) -> Coefficients:
    rate, beta1, beta2, decay = of["lr"], of["beta1"], of["beta2"], of["weight_decay"]
    decoupled = flags["decoupled_weight_decay"]
    return Coefficients(
        by_buffer=-rate / (1 - beta1 ** (step + 1)),
        keep=beta1,
        take=1 - beta1,
        sign=-1.0 if flags["maximize"] else 1.0,
        coupled=0.0 if decoupled else decay,
        decoupled=-rate * decay if decoupled else 0.0,
        root=(1 - beta2 ** (step + 1)) ** 0.5,
        epsilon=of["eps"],
        keep_square=beta2,
    )


def _leapfrog(of: Numbers, flags: Mapping[str, bool], step: int, first: bool) -> Coefficients:
    """The buffer is the last displacement: Delta_s = -Delta_{s-1} - 2 lr g_s, after one step of Euler."""
    if first:
        return Coefficients(by_buffer=1.0, keep=0.0, take=-of["lr"])
    return Coefficients(by_buffer=1.0, keep=-1.0, take=-2 * of["lr"])


def _euler(of: Numbers, flags: Mapping[str, bool], step: int, first: bool) -> Coefficients:
    return Coefficients(direct=-of["lr"])


ADAM = OptimizerClass(
    ("lr", "beta1", "beta2", "eps", "weight_decay"),
    _adam,
    ("maximize", "amsgrad", "decoupled_weight_decay"),
    adaptive=True,
)
OPTIMIZERS: dict[type[torch.optim.Optimizer], OptimizerClass] = {
    torch.optim.SGD: OptimizerClass(
        ("lr", "momentum", "dampening", "weight_decay"), _sgd, ("maximize", "nesterov")
    ),
    SGDW: OptimizerClass(("lr", "momentum", "dampening", "decay"), _sgd, ("maximize", "nesterov")),
    torch.optim.Adam: ADAM,
    torch.optim.AdamW: ADAM,
    Leapfrog: OptimizerClass(("lr",), _leapfrog),
    BackwardEuler: OptimizerClass(("lr",), _euler, gradient_at_end=True),
}

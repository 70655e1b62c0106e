"""Descriptions of a run: its loss, model and optimiser, and which parameters the optimiser trains."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from numeric.inputs import InputError
from numeric.runs.result import Loss

OMITTED = {"params", "foreach", "fused", "capturable", "differentiable"}


def named(loss: Loss) -> str:
    """The name of a function, or the repr of another object."""
    if isinstance(loss, partial):
        arguments = [*map(repr, loss.args), *(f"{k}={v!r}" for k, v in loss.keywords.items())]
        return f"{named(loss.func)}({', '.join(arguments)})"
    return getattr(loss, "__name__", None) or repr(loss)


def settings(optimizer: torch.optim.Optimizer) -> str:
    """The optimiser's class and all its settings, weight decay included."""
    groups = [
        ", ".join(
            f"{k}={v}" for k, v in group.items() if k not in OMITTED and v not in (None, False)
        )
        for group in optimizer.param_groups
    ]
    return f"{type(optimizer).__name__}({' | '.join(groups)})"


def structure(model: nn.Module) -> list[tuple[str, str]]:
    """The names of all modules and of their classes."""
    kinds = [(name, type(part)) for name, part in model.named_modules()]
    return [(name, f"{kind.__module__}.{kind.__qualname__}") for name, kind in kinds]


def trained(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[list[str]]:
    """The names of the parameters that each group of the optimiser trains."""
    names = {p: name for name, p in model.named_parameters()}
    groups = [group["params"] for group in optimizer.param_groups]
    if not all(p in names for group in groups for p in group):
        raise InputError(
            "optimizer has parameters that are not the model's, of which a copy is trained: make it from "
            "the parameters that it is given."
        )
    moved = [[names[p] for p in group if p.requires_grad] for group in groups]
    if not any(moved):
        raise InputError(
            "optimizer has no parameter to train: all that it was made from are frozen."
        )
    return moved


def scheduled(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a learning rate scheduler is attached, by the attribute that torch sets."""
    return getattr(optimizer.step, "_wrapped_by_lr_sched", False)

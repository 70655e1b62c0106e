"""A small network recorded in training by every optimiser with a rule, for tests of the path kernel."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW
from torch.optim.lr_scheduler import OneCycleLR, StepLR

from numeric.models import Model
from numeric.path_kernel import SGDW, BackwardEuler, Leapfrog, Record, record
from short_runs import data, model

HALVED = partial(StepLR, step_size=4, gamma=0.5)
CYCLE = partial(OneCycleLR, max_lr=0.05, total_steps=20)  # it moves momentum, or beta1, as well
QUIET = {"device": "cpu", "progress": False}


def grouped(make: Callable[..., Any], **second: float) -> Callable[..., Any]:
    """Two groups of parameters with different settings."""

    def made(parameters: Iterable[nn.Parameter]) -> Any:
        first, *rest = parameters
        return make([{"params": [first]}, {"params": rest, **second}])

    return made


OPTIMIZERS: dict[str, tuple[Any, Any]] = {  # with a scheduler
    "gradient descent": (partial(SGD, lr=0.3), None),
    "steps": (partial(SGD, lr=0.3, weight_decay=0.05), HALVED),
    "heavy ball": (partial(SGD, lr=0.1, momentum=0.9), HALVED),
    "dampened": (partial(SGD, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.05), None),
    "Nesterov": (partial(SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05), HALVED),
    "maximize": (partial(SGD, lr=0.01, momentum=0.5, maximize=True, weight_decay=0.1), None),
    "cycle": (partial(SGD, lr=0.01, momentum=0.9), CYCLE),
    "SGDW": (partial(SGDW, lr=0.1, momentum=0.9, decay=0.1), HALVED),
    "groups": (grouped(partial(SGD, lr=0.1, momentum=0.5), lr=0.02, momentum=0.9), None),
    "Adam": (partial(Adam, lr=0.02), CYCLE),
    "Adam, coupled": (partial(Adam, lr=0.02, weight_decay=0.1, maximize=True), None),
    "AdamW": (partial(AdamW, lr=0.02, weight_decay=0.1), HALVED),
    "amsgrad": (partial(AdamW, lr=0.05, betas=(0.8, 0.7), amsgrad=True), None),
    "AdamW, groups": (grouped(partial(AdamW, lr=0.02), lr=0.05, weight_decay=0.3), None),
    "leapfrog": (partial(Leapfrog, lr=0.02), HALVED),
    "backward Euler": (partial(BackwardEuler, lr=1.0), HALVED),
}


def recorded(name: str = "gradient descent", **more: Any) -> Record:
    """12 steps on 23 examples in batches of 10, 10 and 3."""
    optimizer, scheduler = OPTIMIZERS[name]
    kind = {"steps": 12, "batch_size": 10, "scheduler": scheduler} | QUIET | more
    net = kind.pop("net", None) or model()
    return record(net, kind.pop("loss", F.cross_entropy), optimizer, data(), **kind)


def gradient(run: Record, step: int) -> dict[str, Tensor]:
    """The gradient of the step's loss, where its optimiser takes it."""
    at = run.parameters(run.rule.gradient_at(step))
    at = {name: value.requires_grad_() for name, value in at.items()}
    rows = run.batch(step)
    value = run.loss(Model.of(run.model).functional_call(at, run.x[rows]), run.y[rows])
    return dict(zip(at, torch.autograd.grad(value, list(at.values())), strict=True))

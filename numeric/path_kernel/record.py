"""The read side of a recorded training run: weights, batches and the optimiser's rule, step by step."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from numeric.inputs import ArrayLike, InputError, as_numbers, shown, whole
from numeric.models import Model
from numeric.path_kernel.examples import digests
from numeric.path_kernel.files import FIXED, Files, RecordFolder, outline
from numeric.path_kernel.update_rules import Rule
from numeric.runs.result import Loss

__all__ = [
    "Record", "load", "opened", "require_model", "require_pair", "require_same_losses",
    "require_same_model",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Record:
    """A training run of N steps: w_0 ... w_N, the batch of each step, and how gradients moved the weights.

    The step's loss is the sum over its batch of weights(s)_i times the loss of example i. With g_s, the
    gradient of that loss at the weights number `rule.gradient_at(s)`, `rule` says what moved from w_s to
    w_{s+1}.
    """

    model: nn.Module = field(repr=False)  # in the mode it was trained in, at w_0
    loss: Loss = field(repr=False)  # of a batch
    x: Tensor = field(repr=False)  # (M, ...), all training points
    y: Tensor = field(repr=False)  # (M, ...)
    steps: int  # N
    files: Files = field(repr=False)

    @cached_property
    def rule(self) -> Rule:
        """The displacements as linear maps of the gradients."""
        files, head = self.files, self.files.head
        shape = (self.steps, len(head.groups), len(head.kind.settings))
        moments = None
        if files.moments is not None:
            moments = partial(files.by_name, files.moments, device=self.x.device)
        return Rule(head.kind, head.groups, files.table[:, FIXED:].reshape(shape), moments)

    @property
    def losses(self) -> Tensor:
        """(N,), of each batch before its step."""
        return torch.tensor(self.files.table[:, 0], device="cpu")

    def parameters(self, step: int) -> dict[str, Tensor]:
        """The weights w_s by name, s from 0 to N: those that training moved."""
        self._require_step(step, self.steps)
        return self.files.by_name(self.files.weights, step, self.x.device)

    def batch(self, step: int) -> Tensor:
        """Which examples step s saw, s from 0 to N - 1: (|B|,)."""
        self._require_step(step, self.steps - 1)
        start, end = (int(one) for one in self.files.table[step, 1:FIXED])
        return torch.tensor(self.files.batches.rows()[start:end], device=self.x.device)

    def weights(self, step: int) -> Tensor:
        """The factor of each example's loss in the loss of step s, (|B|,): 1/|B| for a mean, 1 for a sum."""
        start, end = (int(one) for one in self.files.table[step, 1:FIXED])
        factor = 1 / (end - start) if self.files.head.mean else 1.0
        return torch.full((end - start,), factor, dtype=self.dtype, device=self.x.device)

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights, and of outputs."""
        return getattr(torch, self.files.head.dtype)

    def model_at(self, step: int) -> nn.Module:
        """A copy of the model with the weights w_s."""
        model = copy.deepcopy(self.model)
        _set(model, self.parameters(step))
        return model

    def points(self, x: ArrayLike) -> Tensor:
        """Points (n, ...) of the shape of the training points, on the same device and of the same dtype."""
        x = as_numbers("x", x)
        expected = self.x.shape[1:]
        if x.shape[1:] != expected or not x.ndim or not len(x):
            raise InputError(
                f"x of shape {tuple(x.shape)} was given, but the record's points are of shape "
                f"(n, {', '.join(map(str, expected))})."
            )
        made = x.to(self.x.device, self.x.dtype)
        if not made.is_floating_point() and (made != x.to(made.device)).any():
            raise InputError(
                "x has entries that are no whole numbers, but the record's points are tokens."
            )
        Model.of(self.model).check_points(made, tokens=True)
        return made

    def require_steps(self, steps: int | Iterable[int]) -> tuple[int, ...]:
        """One step or several, from 0 to N - 1 and no one twice."""
        chosen = tuple(steps) if isinstance(steps, Iterable) else (steps,)
        for step in chosen:
            self._require_step(step, self.steps - 1)
        if len(set(chosen)) < len(chosen):
            raise InputError(f"steps must differ, but {chosen} was given.")
        return chosen

    def _require_step(self, step: int, last: int) -> None:
        if not 0 <= whole("step", step, 0) <= last:
            raise InputError(f"Step {step} was asked for, but the record's last is {last}.")


def load(
    store: str | Path,
    model: nn.Module,
    loss: Loss,
    data: tuple[ArrayLike, ArrayLike],
) -> Record:
    """Open a record again, with the model, loss and data that it was made with.

    store: the folder of the record.
    model: the same modules with weights of any values; it is copied, on its device.
    loss: outputs and targets of a batch -> one number, as when the record was made.
    data: tensors or arrays (x, y), all training points in their order.

    Returned is a `Record`. Refused are folders without a record, records with missing steps, other models,
    other data than recorded, and a model or loss that computes other values at the first and last step.

    >>> from functools import partial
    >>> from tempfile import TemporaryDirectory
    >>> from numeric.path_kernel import record
    >>> x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> net, mse, sgd = nn.Linear(1, 1).double(), nn.functional.mse_loss, partial(torch.optim.SGD, lr=0.1)
    >>> quiet = {"device": "cpu", "progress": False}
    >>> with TemporaryDirectory() as folder:
    ...     run = record(net, mse, sgd, (x, 2 * x), steps=3, store=f"{folder}/run", **quiet)
    ...     again = load(f"{folder}/run", net, mse, (x, 2 * x))
    ...     again.steps, torch.equal(again.parameters(3)["weight"], run.parameters(3)["weight"])
    (3, True)
    """
    return opened(Files.opened(RecordFolder(store)), require_model(model), loss, require_pair(data))


def opened(files: Files, model: nn.Module, loss: Loss, data: tuple[Tensor, Tensor]) -> Record:
    """The record in files, after all that `load` refuses."""
    files.require_all()
    require_same_model(files, model)
    x, y = data
    require_same_data(files, x, y)
    record = Record(copy.deepcopy(model), loss, x, y, files.steps, files)
    _set(record.model, record.parameters(0))
    require_same_losses(record)
    return record


def require_model(model: object) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise InputError(f"model = {shown(model)} was given, but a torch.nn.Module is needed.")
    return model


def require_pair(data: tuple[ArrayLike, ArrayLike]) -> tuple[Tensor, Tensor]:
    """Inputs and targets as tensors; arrays keep their dtype, as whole numbers of classes must."""
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise InputError("data must be a pair of tensors (inputs, targets), examples first.")
    x, y = (_tensor(*part) for part in zip(("inputs", "targets"), data, strict=True))
    return x, y


def _tensor(name: str, part: Any) -> Tensor:
    if isinstance(part, np.ndarray) and part.dtype.kind in "iuf" and part.dtype.itemsize <= 8:
        return torch.from_numpy(part.astype(part.dtype.newbyteorder("=")))  # a copy
    return as_numbers(name, part)


def _set(model: nn.Module, parameters: Mapping[str, Tensor]) -> None:
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in parameters.items():
            own[name].copy_(value)


def require_same_model(files: Files, model: nn.Module) -> None:
    """Refuse other modules, parameters or modes, and other values of what training did not move."""
    written, now = files.head.outline, outline(model, files.head.shapes)
    what = next((part for part in written if written[part] != now[part]), None)
    if what is None:
        return
    differs = {
        "modules": "other modules",
        "parameters": "parameters of other names, shapes or dtypes",
        "modes": "modules in another mode (train or eval)",
        "fixed": "other values of buffers or of parameters that were not trained",
    }[what]
    raise InputError(
        f"The record in {files.folder.path} is of another model, not of the one given, which has {differs}: "
        "give the model that was recorded."
    )


def require_same_data(files: Files, x: Tensor, y: Tensor) -> None:
    """Refuse examples whose content differs from what was recorded under their index."""
    known = files.digests()
    index = sorted(known)
    if index and index[-1] >= len(x):
        raise InputError(
            f"The record in {files.folder.path} has seen the example {index[-1]}, but only {len(x)} were "
            "given: give all training data in their order."
        )
    rows = torch.tensor(index, device=x.device)
    now = digests(x[rows], y[rows])
    for place, i in enumerate(index):
        if now[place].tobytes() != known[i]:
            raise InputError(
                f"The example {i} has other content than in the record in {files.folder.path}: give the very "
                "data that it was trained on, in the same order and dtype."
            )


def require_same_losses(record: Record) -> None:
    """Refuse a model or loss that computes other numbers, to half the digits, at the first and last step."""
    digits = torch.finfo(record.dtype).eps ** 0.5
    model = Model.of(record.model)
    written = record.losses.tolist()
    for step in {0, record.steps - 1}:
        rows = record.batch(step)
        with torch.no_grad():
            outputs = model.functional_call(record.parameters(step), record.x[rows])
            now = float(record.loss(outputs, record.y[rows]))
        if not math.isclose(now, written[step], rel_tol=digits, abs_tol=digits * abs(written[0])):
            raise InputError(
                f"The model or loss computes other values than recorded in {record.files.folder.path}: in "
                f"step {step} a loss of {now:.6g}, not {written[step]:.6g}. Give the model and loss of "
                "that run."
            )

"""Everything that changes during a training run: its update, and its checkpoint on disk."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from numeric.inputs import InputError, whole
from numeric.runs import random_state, store
from numeric.runs.description import named, settings, structure, trained
from numeric.runs.result import Data, Loss, Run

SETTINGS = "another model, optimiser, data, batch, seed, device, torch or `key`"
Optimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


class TrainingState:
    """A copy of the model being trained, with its optimiser, random state, losses and snapshots."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        data: Data,
        optimizer: Optimizer,
        batch: int | None,
        seed: int,
        device: torch.device,
        key: str,
    ) -> None:
        if not isinstance(model, nn.Module) or not any(p.requires_grad for p in model.parameters()):
            raise InputError(
                f"A torch.nn.Module with parameters to train is needed, not {model!r}."
            )
        self.x, self.y = (part.to(device) for part in _require_data(data))
        self.size = len(self.x) if batch is None else whole("batch", batch)
        if self.size > len(self.x):
            raise InputError(
                f"Batches of {batch} were asked for, but there are {len(self.x)} examples."
            )
        self.loss, self.device, self.seed = loss, device, seed
        self.template = copy.deepcopy(model).to(device)
        self.model = copy.deepcopy(self.template).train()
        self.optimizer = optimizer(self.model.parameters())
        if not isinstance(self.optimizer, torch.optim.Optimizer):
            raise InputError(
                f"optimizer made a {type(self.optimizer).__name__}: give a function from parameters to a "
                "torch optimiser, such as partial(torch.optim.SGD, lr=0.1)."
            )
        self.generator = torch.Generator().manual_seed(whole("seed", seed, 0))
        self.order, self.place = (
            torch.empty(0, dtype=torch.long),
            0,
        )  # the shuffled epoch, and the position in it
        self.losses: list[float] = []
        self.snapshots: dict[int, dict[str, Tensor]] = {}
        batches = "all at once" if self.size == len(self.x) else f"in batches of {self.size}"
        self.statement = (
            f"{named(loss)} on {len(self.x)} examples {batches}, nothing added; "
            f"{settings(self.optimizer)}; seed {seed}"
        )
        parts = (*self.template.state_dict().values(), self.x, self.y)
        moving = trained(self.model, self.optimizer)
        choices = (structure(self.template), settings(self.optimizer), moving, self.size, seed)
        self.key = store.fingerprint(*choices, device.type, key, parts)

    @property
    def step(self) -> int:
        return len(self.losses)

    def update(self) -> None:
        x, y = self._batch()

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            value = self.loss(self.model(x), y)
            if not isinstance(value, Tensor) or value.ndim or not value.requires_grad:
                raise InputError(
                    f"{named(self.loss)} gave {value!r}, but one number that depends on the parameters "
                    "is needed: take a mean or a sum, and detach nothing."
                )
            value.backward()
            return value.detach()

        value = float(self.optimizer.step(closure))
        if not math.isfinite(value):
            raise self._diverged(f"The loss is {value}")
        self.losses.append(value)

    def _batch(self) -> Data:
        """The next examples of a shuffled epoch; the last ones of it may be fewer."""
        if self.size == len(self.x):
            return self.x, self.y
        if self.place >= len(self.order):
            self.order = torch.randperm(len(self.x), generator=self.generator)
            self.place = 0
        rows = self.order[self.place : self.place + self.size].to(self.device)
        self.place += self.size
        return self.x[rows], self.y[rows]

    def snap(self, wanted: Collection[int]) -> None:
        """A copy of the parameters, if this step is wanted."""
        if self.step not in wanted or self.step in self.snapshots:
            return
        state = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        if not all(value.isfinite().all() for value in state.values()):
            raise self._diverged("Parameters are NaN or infinite")
        self.snapshots[self.step] = state

    def _diverged(self, what: str) -> InputError:
        return InputError(
            f"{what} after {self.step} updates: training diverged. Lower the learning rate, or scale the "
            "data or the initial parameters down."
        )

    def save(self, path: Path) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "chance": random_state.state(self.device),
            "order": self.order,
            "place": self.place,
            "losses": torch.tensor(self.losses, dtype=torch.float64),
            "snapshots": self.snapshots,
            "check": [self._start_loss, self._check_loss(self.model)],
        }
        store.write(path, self.key, state)

    def resume(self, path: Path, wanted: Collection[int]) -> None:
        """Continue from a checkpoint, if there is one."""
        state = store.read(path, self.key, self.device, settings=SETTINGS)
        if state is None:
            return
        losses, snapshots = state["losses"].tolist(), state["snapshots"]
        if missed := sorted(s for s in wanted if s <= len(losses) and s not in snapshots):
            raise InputError(
                f"{path} is at step {len(losses)} and has no snapshots of steps {missed}: delete it, or "
                "keep this run elsewhere."
            )
        self.model.load_state_dict(state["model"])
        self._require_same_losses(path, state["check"])
        self.optimizer.load_state_dict(state["optimizer"])
        moving = [p for group in self.optimizer.param_groups for p in group["params"]]
        for place, memory in state["optimizer"]["state"].items():
            # Torch has cast all of it to the type of the parameter, which is not what NAdam's had.
            tensors = {name: value for name, value in memory.items() if isinstance(value, Tensor)}
            self.optimizer.state[moving[place]].update(tensors)
        self.generator.set_state(state["generator"].cpu())
        random_state.restore(state["chance"], self.device)
        self.order, self.place = state["order"].cpu(), state["place"]
        self.losses, self.snapshots = losses, snapshots

    @cached_property
    def _start_loss(self) -> float:
        return self._check_loss(self.template)

    def _check_loss(self, model: nn.Module) -> float:
        """The loss of the first examples, by a copy: neither statistics nor random numbers move on."""
        model = copy.deepcopy(model).train()
        with random_state.borrowed(self.device, self.seed):
            return float(self.loss(model(self.x[: self.size]), self.y[: self.size]).detach())

    def _require_same_losses(self, path: Path, written: list[float]) -> None:
        """Refuse a model or loss that computes other numbers than the one that wrote the file.

        Half the digits must agree: another processor rounds otherwise, and a deep network makes that
        larger by some powers of ten. A loss near 0 is a difference of larger numbers, so that the loss
        at the start sets the scale.
        """
        now = [self._start_loss, self._check_loss(self.model)]
        floats = (p.dtype for p in self.model.parameters() if p.is_floating_point())
        digits = math.sqrt(max(torch.finfo(dtype).eps for dtype in floats))
        allowed = {"rel_tol": digits, "abs_tol": digits * abs(written[0])}
        for where, before, after in zip(("the start", "its last step"), written, now, strict=True):
            both_nan = math.isnan(before) and math.isnan(
                after
            )  # NaN at examples that no batch has reached
            if not both_nan and not math.isclose(before, after, **allowed):
                raise InputError(
                    f"The model or loss computes other values than in the run that wrote {path}: at the "
                    f"weights of {where} a loss of {after:.6g}, not {before:.6g}. Delete the file, keep this "
                    "run elsewhere, or restore the code and attributes of that run."
                )

    def run(self, wanted: Collection[int]) -> Run:
        last = max(wanted)
        losses = torch.tensor(self.losses[:last], dtype=torch.float64)
        snapshots = {step: self.snapshots[step] for step in sorted(wanted)}
        statement = f"{self.statement}; {last} updates"
        return Run(self.loss, (self.x, self.y), statement, losses, snapshots, self.template)


def _require_data(data: Any) -> Data:
    x, y = data if isinstance(data, tuple | list) and len(data) == 2 else (None, None)
    if not isinstance(x, Tensor) or not isinstance(y, Tensor) or not x.ndim or not y.ndim:
        raise InputError("data must be a pair of tensors (inputs, targets), examples first.")
    if len(x) != len(y) or not len(x):
        raise InputError(
            f"{len(x)} inputs and {len(y)} targets were given, but as many are needed, and at least one."
        )
    if not (x.isfinite().all() and y.isfinite().all()):
        raise InputError("data has entries that are NaN or infinite: remove those examples.")
    return x, y

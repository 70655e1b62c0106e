"""One training loop for any model, loss and torch optimiser; an interrupted run can be resumed."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterable, MutableMapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from numeric.inputs import InputError, require_seed, resolve, whole
from numeric.progress import progress_bar
from numeric.runs import random_state
from numeric.runs.result import Data, Loss, Run, StateDict, StoredSnapshots
from numeric.runs.store import Checkpoint, checkpoint, fingerprint

__all__ = ["Batch", "Optimizer", "Scheduler", "Step", "train"]

SETTINGS = "another model, optimiser, scheduler, data, batch size, seed, device, torch or `key`"
OMITTED = {"params", "foreach", "fused", "capturable", "differentiable"}


@dataclass(frozen=True, eq=False)
class Batch:
    """The examples of one update."""

    x: Tensor  # (n, ...)
    y: Tensor | None  # (n, ...), or None if there are no targets
    index: Tensor  # (n,), which of all examples they are
    step: int  # the number of updates before this one


Optimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
Scheduler = Callable[[torch.optim.Optimizer], LRScheduler]
Step = Callable[[nn.Module, torch.optim.Optimizer, Batch], Tensor]  # -> the loss before its update


def train(
    model: nn.Module,
    loss: Loss | None,
    data: Data,
    optimizer: Optimizer,
    *,
    steps: int,
    batch_size: int | None = None,
    seed: int = 0,
    at: Collection[int] = (),
    store: str | Path | None = None,
    key: str = "",
    every: int = 1_000,
    device: str | torch.device = "auto",
    progress: bool = True,
    scheduler: Scheduler | None = None,
    step: Step | None = None,
) -> Run:
    """Minimise loss(model(x), y), and nothing else, over so many updates of a copy of the model.

    model: a torch module with parameters to train; it is copied, and left as it is.
    loss: outputs (n, ...) and targets (n, ...) of a batch -> one number; None only with a `step`.
    data: tensors (x, y) with examples along the first axis; y may be None only with a `step`.
    optimizer: makes one for given parameters, as `partial(torch.optim.SGD, lr=0.1)` does.
    steps: the number of updates.
    batch_size: of minibatches, drawn without replacement in epochs; None takes all data at once.
    seed: of the batches, and of torch's global random numbers, which dropout draws from.
    at: numbers of updates after which a snapshot is taken, beside those after none and after all.
    store: a file for a checkpoint, written `every` so many updates and at the end; the same call then
        continues from it, and on one machine's CPU gives the very numbers of a run that was never
        stopped. Snapshots are appended to a second file beside it, with `.snapshots` at the end of its
        name. More steps may be asked of a run that has ended.
    key: text that names whatever of the run the checkpoint cannot compare; see below.
    device: where to train; "auto" takes an accelerator if there is one.
    scheduler: makes a learning rate scheduler for the optimiser; it steps after each update.
    step: a function (model, optimizer, Batch) -> loss that makes one update in its own way, in place of
        that of `loss`: zero_grad, backward and step are its own. All that it remembers must be in the
        model, its buffers included, or in the optimiser; random numbers must come from torch's global
        generator. Then it resumes to the same bits too.

    Returned is a Run: the loss of each update, snapshots, models, and a statement of what was minimised.
    Refused are data that are no pair of finite tensors, losses that are no single number, divergence, and
    a checkpoint unless these are as they were when it was written: weights and buffers at the start,
    names and classes of modules, data, the optimiser's class, settings and parameters, the scheduler's
    class and settings, batch size, seed, type of device, version of torch, and `key`. The code of `loss`,
    `step` and the model is not compared, nor are plain attributes and global variables that they use:
    state in `key` what you may change of those, as in key=f"slope {slope}". Without a step of one's own,
    what goes unstated is refused if it shows: the loss of the first examples, at the first weights and at
    those of the checkpoint, must agree with what was written to half the digits. That costs one
    evaluation of the loss for each checkpoint, and one for the start.

    >>> from functools import partial
    >>> import torch
    >>> x = torch.linspace(-1, 1, 20)[:, None]
    >>> sgd, quiet = partial(torch.optim.SGD, lr=0.1), {"device": "cpu", "progress": False}
    >>> run = train(torch.nn.Linear(1, 1), torch.nn.functional.mse_loss, (x, 2 * x), sgd, steps=90, **quiet)
    >>> round(run.model.weight.item(), 1), run.steps
    (2.0, (0, 90))

    Self-supervised, by two noisy views of each example that are to agree:

    >>> def two_views(model, optimizer, batch):
    ...     one, two = (model(batch.x + 0.1 * torch.randn_like(batch.x)) for _ in range(2))
    ...     loss = ((one - two) ** 2).mean() - (one * two).mean()
    ...     optimizer.zero_grad()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    >>> run = train(torch.nn.Linear(1, 1), None, (x, None), sgd, steps=3, step=two_views, **quiet)
    >>> run.losses.shape, run.loss is None
    (torch.Size([3]), True)
    """
    where = resolve(device)
    last, every = whole("steps", steps, 0), whole("every", every)
    if isinstance(at, str) or not isinstance(at, Collection):
        raise InputError(f"at must be numbers of updates such as (10, 100), not {at!r}.")
    wanted = {whole("a step of `at`", number, 0) for number in at} | {0, last}
    if max(wanted) > last:
        raise InputError(f"A snapshot at step {max(wanted)} was asked for, but the last is {last}.")
    seed = require_seed(seed)
    state = TrainingState(model, loss, data, optimizer, scheduler, step, batch_size, seed, where)
    file = checkpoint(store, state.fingerprint(), SETTINGS, key)
    if file.path is not None and state.has_other_scheduler:
        raise InputError(
            "optimizer has a scheduler, whose state no checkpoint holds, so that a run could not go on as "
            "it was: give it as `scheduler`, or leave out `store`."
        )
    with random_state.borrowed(where, seed):
        state.resume(file, wanted)
        state.snap(wanted)
        left = range(state.step, last)
        bar = progress_bar(left, of="steps", show=progress, initial=state.step, total=last)
        for _ in bar:
            state.update()
            state.snap(wanted)
            if file.path is not None and (state.step % every == 0 or state.step == last):
                state.save(file)
    return state.run(wanted)


class TrainingState:
    """What changes during a run: a copy of the model, its optimiser, random state, losses, snapshots."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss | None,
        data: Data,
        optimizer: Optimizer,
        scheduler: Scheduler | None,
        step: Step | None,
        batch_size: int | None,
        seed: int,
        device: torch.device,
    ) -> None:
        if not isinstance(model, nn.Module) or not any(p.requires_grad for p in model.parameters()):
            raise InputError(
                f"A torch.nn.Module with parameters to train is needed, not {model!r}."
            )
        _require_callable("optimizer", optimizer, "a function from parameters to a torch optimiser")
        _require_callable("loss", loss, "a function of outputs and targets", none=step is not None)
        _require_callable("step", step, "a function of model, optimiser and Batch", none=True)
        _require_callable("scheduler", scheduler, "a function of the optimiser", none=True)
        x, y = _require_data(data, targets=step is None)
        self.x, self.y = x.to(device), None if y is None else y.to(device)
        self.size = len(x) if batch_size is None else whole("batch_size", batch_size)
        if self.size > len(x):
            raise InputError(
                f"Batches of {batch_size} were asked for, but there are {len(x)} examples."
            )
        self.loss, self.device, self.seed = loss, device, seed
        self.own_step = step
        self.template = copy.deepcopy(model).to(device)
        self.model = copy.deepcopy(self.template).train()
        self.optimizer = optimizer(self.model.parameters())
        if not isinstance(self.optimizer, torch.optim.Optimizer):
            raise InputError(
                f"optimizer made a {type(self.optimizer).__name__}: give a function from parameters to a "
                "torch optimiser, such as partial(torch.optim.SGD, lr=0.1)."
            )
        self.settings = _settings(self.optimizer)  # before a scheduler adds its own
        self.has_other_scheduler = getattr(self.optimizer.step, "_wrapped_by_lr_sched", False)
        self.scheduler = None if scheduler is None else scheduler(self.optimizer)
        if self.scheduler is not None and not isinstance(self.scheduler, LRScheduler):
            raise InputError(
                f"scheduler made a {type(self.scheduler).__name__}: give a function from the optimiser to "
                "a scheduler of torch.optim.lr_scheduler, such as partial(StepLR, step_size=100)."
            )
        self.generator = torch.Generator().manual_seed(seed)
        self.order, self.place = (
            torch.empty(0, dtype=torch.long),
            0,
        )  # the shuffled epoch, and the position in it
        self.losses: list[float] = []
        self.snapshots: MutableMapping[int, StateDict] | StoredSnapshots = {}

    @property
    def step(self) -> int:
        return len(self.losses)

    def fingerprint(self) -> str:
        """A hash of all that decides the run, as far as it can be compared."""
        schedule = None
        if self.scheduler is not None:
            schedule = type(self.scheduler).__name__, self.scheduler.state_dict()
        parts = (*self.template.state_dict().values(), self.x, self.y)
        trained = _trained(self.model, self.optimizer)
        choices = (
            _structure(self.template),
            self.settings,
            schedule,
            trained,
            self.size,
            self.seed,
        )
        return fingerprint(*choices, self.device.type, self.own_step is None, parts)

    def update(self) -> None:
        make = self.own_step or self._plain_step
        value = _require_number(make(self.model, self.optimizer, self._batch()))
        if not math.isfinite(value):
            raise self._diverged(f"The loss is {value}")
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(value)
        elif self.scheduler is not None:
            self.scheduler.step()
        self.losses.append(value)

    def _plain_step(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch
    ) -> Tensor:
        def closure() -> Tensor:  # some optimisers evaluate it several times
            optimizer.zero_grad()
            value = self._loss_of(model(batch.x), batch.y)
            if not isinstance(value, Tensor) or value.ndim or not value.requires_grad:
                raise InputError(
                    f"{_named(self.loss)} gave {value!r}, but one number that depends on the parameters "
                    "is needed: take a mean or a sum, and detach nothing."
                )
            value.backward()
            return value.detach()

        # By torch's stubs a closure returns a float; by its manual it returns the loss, a tensor.
        return optimizer.step(closure)  # pyrefly: ignore[no-matching-overload]

    def _loss_of(self, outputs: Tensor, targets: Tensor | None) -> Tensor:
        if self.loss is None or targets is None:
            raise InputError("The loss or y is None: give both, or a step of one's own.")
        return self.loss(outputs, targets)

    def _batch(self) -> Batch:
        """The next examples of a shuffled epoch; the last ones of it may be fewer."""
        if self.size == len(self.x):
            return Batch(self.x, self.y, self._all_rows, self.step)
        if self.place >= len(self.order):
            self.order = torch.randperm(len(self.x), generator=self.generator)
            self.place = 0
        rows = self.order[self.place : self.place + self.size].to(self.device)
        self.place += self.size
        return Batch(self.x[rows], None if self.y is None else self.y[rows], rows, self.step)

    @cached_property
    def _all_rows(self) -> Tensor:
        return torch.arange(len(self.x), device=self.device)

    def snap(self, wanted: Collection[int]) -> None:
        """A copy of the parameters, if this step is wanted."""
        if self.step not in wanted or self.step in self.snapshots:
            return
        state = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        if not all(value.isfinite().all() for value in state.values()):
            raise self._diverged("Parameters are NaN or infinite")
        if isinstance(self.snapshots, StoredSnapshots):
            self.snapshots.add(self.step, state)
        else:
            self.snapshots[self.step] = state

    def _diverged(self, what: str) -> InputError:
        return InputError(
            f"{what} after {self.step} updates: training diverged. Lower the learning rate, or scale the "
            "data or the initial parameters down."
        )

    def save(self, file: Checkpoint) -> None:
        if isinstance(self.snapshots, StoredSnapshots):
            self.snapshots.file.flush()
        # A step of one's own is not called, which would leave traces wherever it keeps a record.
        plain = self.own_step is None
        file.write({
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "generator": self.generator.get_state(),
            "random state": random_state.state(self.device),
            "order": self.order,
            "place": self.place,
            "losses": torch.tensor(self.losses, dtype=torch.float64),
            "snapshots": len(self.snapshots),
            "check": [self._start_loss, self._check_loss(self.model)] if plain else [None, None],
        })  # fmt: skip

    def resume(self, file: Checkpoint, wanted: Collection[int]) -> None:
        """Continue from a checkpoint, if there is one; snapshots go to the file beside it from now on."""
        if file.path is None:
            return
        state = file.read(self.device)
        beside = file.path.with_name(f"{file.path.name}.snapshots")
        if state is None:  # snapshots without their checkpoint belong to nothing
            beside.unlink(missing_ok=True)
        self.snapshots = StoredSnapshots(beside, file.run, self.template.state_dict())
        if state is None:
            return
        self.snapshots.truncate(state["snapshots"])
        losses = state["losses"].tolist()
        if missed := sorted(s for s in wanted if s <= len(losses) and s not in self.snapshots):
            raise InputError(
                f"{file.path} is at step {len(losses)} and has no snapshots of steps {missed}: delete it, "
                "or store this run elsewhere."
            )
        self.model.load_state_dict(state["model"])
        if self.own_step is None:
            self._require_same_losses(file.path, state["check"])
        self.optimizer.load_state_dict(state["optimizer"])
        moving = [p for group in self.optimizer.param_groups for p in group["params"]]
        for place, memory in state["optimizer"]["state"].items():
            # Torch has cast all of it to the type of the parameter, which is not what NAdam's had.
            tensors = {name: value for name, value in memory.items() if isinstance(value, Tensor)}
            self.optimizer.state[moving[place]].update(tensors)
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.generator.set_state(state["generator"].cpu())
        random_state.restore(state["random state"], self.device)
        self.order, self.place = state["order"].cpu(), state["place"]
        self.losses = losses
        self.snapshots.file.require_room(len(set(wanted) - set(self.snapshots)))

    @cached_property
    def _start_loss(self) -> float:
        return self._check_loss(self.template)

    def _check_loss(self, model: nn.Module) -> float:
        """The loss of the first examples, by a copy: neither statistics nor random numbers move on."""
        model = copy.deepcopy(model).train()
        targets = None if self.y is None else self.y[: self.size]
        with random_state.borrowed(self.device, self.seed):
            return float(self._loss_of(model(self.x[: self.size]), targets).detach())

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
                    f"weights of {where} a loss of {after:.6g}, not {before:.6g}. Delete the file, store "
                    "this run elsewhere, or restore the code and attributes of that run."
                )

    def run(self, wanted: Collection[int]) -> Run:
        last = max(wanted)
        losses = torch.tensor(self.losses[:last], dtype=torch.float64)
        snapshots = self.snapshots
        if set(snapshots) != set(wanted):
            snapshots = {step: self.snapshots[step] for step in sorted(wanted)}
        return Run(
            self.loss, (self.x, self.y), self._statement(last), losses, snapshots, self.template
        )

    def _statement(self, last: int) -> str:
        batches = "all at once" if self.size == len(self.x) else f"in batches of {self.size}"
        examples = f"on {len(self.x)} examples {batches}"
        parts = [
            f"{_named(self.loss)} {examples}, nothing added"
            if self.own_step is None
            else f"steps of {_named(self.own_step)} {examples}",
            self.settings,
            f"seed {self.seed}",
            f"{last} updates",
        ]
        if self.scheduler is not None:
            parts.insert(2, f"learning rates of {type(self.scheduler).__name__}")
        return "; ".join(parts)


def _named(function: object) -> str:
    """The name of a function, or the repr of another object."""
    if isinstance(function, partial):
        arguments = [
            *map(repr, function.args),
            *(f"{k}={v!r}" for k, v in function.keywords.items()),
        ]
        return f"{_named(function.func)}({', '.join(arguments)})"
    return getattr(function, "__name__", None) or repr(function)


def _settings(optimizer: torch.optim.Optimizer) -> str:
    """The optimiser's class and all its settings, weight decay included."""
    groups = [
        ", ".join(
            f"{k}={v}" for k, v in group.items() if k not in OMITTED and v not in (None, False)
        )
        for group in optimizer.param_groups
    ]
    return f"{type(optimizer).__name__}({' | '.join(groups)})"


def _structure(model: nn.Module) -> list[tuple[str, str]]:
    """The names of all modules and of their classes."""
    kinds = [(name, type(part)) for name, part in model.named_modules()]
    return [(name, f"{kind.__module__}.{kind.__qualname__}") for name, kind in kinds]


def _trained(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[list[str]]:
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


def _require_callable(name: str, value: Any, what: str, none: bool = False) -> None:
    if not (callable(value) or (none and value is None)):
        raise InputError(f"{name} = {value!r} was given, but {what} is needed.")


def _require_number(loss: Any) -> float:
    if isinstance(loss, Tensor | int | float) and torch.as_tensor(loss).numel() == 1:
        return float(loss.detach() if isinstance(loss, Tensor) else loss)
    raise InputError(f"step returned {loss!r}, but the loss is needed: return one number.")


def _require_data(data: Any, targets: bool) -> Data:
    x, y = data if isinstance(data, tuple | list) and len(data) == 2 else (None, None)
    if y is None and not targets and isinstance(x, Tensor) and x.ndim:
        y = x  # what holds of the inputs holds of no targets
    if not isinstance(x, Tensor) or not isinstance(y, Tensor) or not x.ndim or not y.ndim:
        raise InputError("data must be a pair of tensors (inputs, targets), examples first.")
    if len(x) != len(y) or not len(x):
        raise InputError(
            f"{len(x)} inputs and {len(y)} targets were given, but as many are needed, and at least one."
        )
    if x.is_meta or y.is_meta:
        raise InputError(
            "data must hold numbers, but tensors on the meta device have none: use another."
        )
    if not (x.isfinite().all() and y.isfinite().all()):
        raise InputError("data has entries that are NaN or infinite: remove those examples.")
    return x, data[1]

"""Records of training runs: weights, batches and the optimiser's settings go to disk as they come."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from numeric.inputs import ArrayLike, InputError, resolve, shown, whole
from numeric.models import Model
from numeric.path_kernel.examples import digests, is_mean, loss_of, spread
from numeric.path_kernel.files import Files, Head, RecordFolder, outline
from numeric.path_kernel.record import (
    Record,
    opened,
    require_model,
    require_pair,
    require_same_losses,
    require_same_model,
)
from numeric.path_kernel.update_rules import Group, numbers_of, optimizer_class
from numeric.runs import Batch, train
from numeric.runs.result import Loss
from numeric.runs.store import fingerprint, require_key
from numeric.runs.training import Optimizer, Scheduler

__all__ = ["Recorder", "record", "record_size"]

DTYPES = {torch.float32: "float32", torch.float64: "float64"}


def record(
    model: nn.Module,
    loss: Loss,
    optimizer: Optimizer,
    data: tuple[ArrayLike, ArrayLike],
    *,
    steps: int,
    batch_size: int | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    key: str = "",
    every: int = 1_000,
    device: str | torch.device = "auto",
    progress: bool = True,
    scheduler: Scheduler | None = None,
) -> Record:
    """Train a copy of a model, and keep all that the exact path kernel needs of every step.

    model: a torch module with parameters to train, all float32 or all float64. It is trained in the mode it
        is in, and left as it is.
    loss: outputs (n, ...) and targets (n, ...) of a batch -> the mean or the sum of the losses of its
        examples.
    optimizer: makes one for given parameters, as `partial(torch.optim.SGD, lr=0.1)` does: SGD, Adam or
        AdamW of torch, Leapfrog or BackwardEuler of this package, with any settings and groups.
    data: tensors or arrays (x, y) with examples along the first axis.
    steps, batch_size, seed, key, every, device, progress, scheduler: as `numeric.runs.train` takes them.
    store: a folder for the record, which holds steps + 1 copies of the weights, and for Adam its second
        moments after each step: `record_size` says how many bytes. The same call goes on with a record
        that was interrupted, to the same bits, or does nothing. Without one, the record is in a temporary
        folder that lives as long as it does.

    Returned is a `Record`. Refused, before anything is trained, are models whose outputs depend on other
    examples or on chance (batch normalisation and dropout in training mode), losses that mix examples,
    optimisers without a rule, hooks that may change gradients or weights, and a record that the disk cannot
    hold; and afterwards what `train` refuses.

    >>> from functools import partial
    >>> x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> sgd = partial(torch.optim.SGD, lr=0.1)
    >>> net = nn.Linear(1, 1).double()
    >>> run = record(net, nn.functional.mse_loss, sgd, (x, 2 * x), steps=3, device="cpu", progress=False)
    >>> run.steps, run.rule.scalar(0), run.weights(0)[:2].tolist()
    (3, -0.1, [0.05, 0.05])
    """
    whole("steps", steps)
    _require_loss_function(loss)
    if isinstance(model, nn.Module):
        _require_no_hooks(model)  # its copy, which is trained, has those of modules only
    where, folder = resolve(device), RecordFolder(store)
    folder.make()
    data = x, y = require_pair(data)
    modes = [part.training for part in model.modules()] if isinstance(model, nn.Module) else []
    step = _RecordedStep(folder, loss, (x.to(where), y.to(where)), steps, every, modes)
    run = train(
        model, None, data, optimizer, steps=steps, batch_size=batch_size, seed=seed, device=where,
        store=None if folder.temporary else folder.path / "training",
        key=f"{require_key(key)}; modes {modes}", every=every, progress=progress, scheduler=scheduler,
        step=step,
    )  # fmt: skip
    trained = run.template
    _set_modes(trained, modes)
    return opened(Files.opened(folder), trained, loss, (x.to(where), y.to(where)))


def record_size(model: nn.Module, optimizer: Optimizer, *, steps: int) -> int:
    """How many bytes a record of so many steps will take on the disk, before anything is trained.

    model, optimizer: as `record` takes them; all parameters that require gradients are taken to move.

    Counted are weights, and second moments where there are any; batches and hashes, of 8 to 24 bytes an
    example, come on top. Refused are optimisers without a rule.

    >>> from functools import partial
    >>> record_size(nn.Linear(999, 1000), partial(torch.optim.AdamW, lr=1e-3), steps=1000) / 1e9  # GB
    8.004
    """
    made = optimizer(require_model(model).parameters())
    optimizer_class(made)
    moving = [p for group in made.param_groups for p in group["params"] if p.requires_grad]
    shapes = {str(number): tuple(p.shape) for number, p in enumerate(moving)}
    head = Head(
        "", type(made).__name__, (), shapes, _dtype_of(moving), {}, True, whole("steps", steps)
    )
    return head.bytes_of(head.steps)


class _RecordedStep:
    """A step of the training loop that records itself; its files are opened at the first."""

    def __init__(
        self,
        folder: RecordFolder,
        loss: Loss,
        data: tuple[Tensor, Tensor],
        steps: int,
        every: int,
        modes: list[bool],
    ) -> None:
        self.folder, self.loss, self.data = folder, loss, data
        self.steps, self.every, self.modes = steps, every, modes
        self.recorder: Recorder | None = None
        self.new: dict[int, bytes] = {}  # the hashes of all examples, until they are written

    def __call__(self, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> Tensor:
        if self.recorder is None:
            _set_modes(model, self.modes)
            self.recorder = Recorder(
                model, self.loss, optimizer, self.folder, steps=self.steps, resume=batch.step
            )
            x, y = self.data
            self.new = self.recorder.new_examples(x, y, range(len(x)))
            if batch.step:
                files = self.recorder.files
                require_same_losses(Record(model, self.loss, x, y, files.steps, files))
            else:
                self.recorder.begin(spread(x), spread(y))
        targets = self.data[1][batch.index]
        value = self.recorder.recorded(batch.x, targets, batch.index, self.new)
        self.new = {}
        done = batch.step + 1
        if done % self.every == 0 or done == self.steps:
            self.recorder.files.flush()  # the checkpoint that is written now counts on it
        return value


class Recorder:
    """Records the steps of a training loop of one's own.

    `step(x, y, index)` takes the place of zero_grad, backward and step; `record((x, y))` is what there is.

    model, loss: as `record` takes them.
    optimizer: a torch optimiser of the model's parameters, with a rule, that has made no step yet.
    store: a folder, or None for a temporary one that is removed when nothing uses it.
    steps: how many are planned, if that is known: room on the disk is then required in advance.
    resume: the number of steps after which to go on with a record in the folder; later ones are dropped.
        Model and optimiser must have been restored to that step.

    Refused are what `record` refuses, a folder that holds a record unless it is resumed, and weights other
    than those of the step to resume.

    >>> x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> net = nn.Linear(1, 1).double()
    >>> recorder = Recorder(net, nn.functional.mse_loss, torch.optim.SGD(net.parameters(), lr=0.1))
    >>> for rows in torch.arange(20).split(8):
    ...     value = recorder.step(x[rows], 2 * x[rows], rows)
    >>> recorder.record((x, 2 * x)).steps
    3
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        store: str | Path | RecordFolder | None = None,
        *,
        steps: int | None = None,
        resume: int = 0,
    ) -> None:
        _require_loss_function(loss)
        self.model, self.loss, self.optimizer = require_model(model), loss, optimizer
        self.kind = optimizer_class(optimizer)
        self.folder = store if isinstance(store, RecordFolder) else RecordFolder(store)
        self.planned = 0 if steps is None else whole("steps", steps)
        self.done = whole("resume", resume, 0)
        self.digests: dict[int, bytes] = {}
        self._files: Files | None = None
        self._names = {p: name for name, p in model.named_parameters()}
        self._last = torch.empty(0, device="cpu")  # all weights after the last step
        self._moments: Tensor | None = None
        self._thread = ThreadPoolExecutor(1, "record")  # writes while the next step is computed
        self._pending: Future[None] | None = None
        self._reopened = self.done > 0
        if self._reopened:
            self._reopen()
        elif optimizer.state:
            raise InputError(
                "The optimiser has made steps already, which the record would lack: make a new one, or "
                "resume a record of those steps."
            )

    @property
    def files(self) -> Files:
        """The files, when all steps so far are in them."""
        if self._files is None:
            raise InputError("Nothing is recorded yet: make a step first.")
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()
        return self._files

    def step(self, x: ArrayLike, y: ArrayLike, index: Tensor) -> Tensor:
        """Clear the gradients, differentiate the loss of a batch, move the weights, and record it.

        x, y: the examples of the batch, (n, ...). index: which of all training points they are, (n,).
        Returned is the loss before the step. Refused are parameters that something else has changed since
        the last step, and an example that differs from what it was before, as augmented ones do.
        """
        if not isinstance(index, Tensor) or index.ndim != 1 or index.is_floating_point():
            raise InputError(
                f"index = {shown(index)} was given, but a tensor of whole numbers (n,) is needed."
            )
        x, y = require_pair((x, y))
        if not len(x) == len(y) == len(index):
            raise InputError(
                f"{len(x)} inputs, {len(y)} targets and {len(index)} indices were given: give as "
                "many of each."
            )
        return self.recorded(x, y, index, self.new_examples(x, y, index.tolist()))

    def record(self, data: tuple[ArrayLike, ArrayLike]) -> Record:
        """What has been recorded so far, with all training points (x, y), (M, ...) each."""
        return opened(self.files, self.model, self.loss, require_pair(data))

    def new_examples(self, x: Tensor, y: Tensor, index: Iterable[int]) -> dict[int, bytes]:
        """The hashes of examples that are new; those that have changed are refused."""
        now = {i: row.tobytes() for i, row in zip(index, digests(x, y), strict=True)}
        changed = [i for i, digest in now.items() if self.digests.get(i, digest) != digest]
        if changed:
            raise InputError(
                f"The example {changed[0]} has other content than in an earlier step: give augmented "
                "examples an index and a row of the data of their own."
            )
        return {i: digest for i, digest in now.items() if i not in self.digests}

    def recorded(self, x: Tensor, y: Tensor, index: Tensor, new: dict[int, bytes]) -> Tensor:
        """`step` for examples that were looked at; `new` has the hashes of those that are not written yet."""
        if self._files is None:
            self.begin(x, y)
        elif self._reopened:
            self._go_on()
        self._require_unmoved()
        numbers = [numbers_of(self.kind, group) for group in self.optimizer.param_groups]
        value = self._move(x, y)
        self._write(float(value), index, numbers, new)
        return value

    def begin(self, x: Tensor, y: Tensor) -> None:
        """Look at model, loss and disk before the first step, by some examples, and open the files."""
        Model.of(self.model).require_separate_examples(x)
        before = self._versions(set())
        candidates = [
            p for g in self.optimizer.param_groups for p in g["params"] if p.requires_grad
        ]
        if not all(p in self._names for p in candidates):
            raise InputError(
                "The optimiser has parameters that are not the model's: make it from the model's own."
            )
        outputs = self.model(x)
        value = loss_of(self.loss, outputs, y)
        slopes = torch.autograd.grad(value, candidates, allow_unused=True)
        self._moving = [p for p, slope in zip(candidates, slopes, strict=True) if slope is not None]
        self._head = head = self._describe(is_mean(self.loss, outputs.detach(), y))
        self._require_free_folder(head)
        self.folder.make()
        head.write(self.folder.path)
        self._files = Files(self.folder, head)
        self._files.require_room(self.planned)
        self._remember()
        self._fixed = {name: before[name] for name in self._versions(set(self._moving))}
        self._files.weights.append(self._last)

    def _describe(self, mean: bool) -> Head:
        shapes = {self._names[p]: tuple(p.shape) for p in self._moving}
        groups = tuple(self._groups(shapes))
        described = outline(self.model, shapes)
        settings = [numbers_of(self.kind, group) for group in self.optimizer.param_groups]
        kind, weights = type(self.optimizer).__name__, list(self._moving)
        run = fingerprint("record", kind, [vars(g) for g in groups], settings, described, weights)
        dtype = _dtype_of(weights)
        return Head(run, kind, groups, shapes, dtype, described, mean, self.planned)

    def _groups(self, names: Any) -> list[Group]:
        return [
            Group(
                tuple(self._names[p] for p in g["params"] if self._names.get(p) in names),
                {flag: bool(g[flag]) for flag in self.kind.flags},
            )
            for g in self.optimizer.param_groups
        ]

    def _require_free_folder(self, head: Head) -> None:
        """Refuse a folder with a record, unless it is a part of this very run, which is begun again."""
        earlier = Head.read(self.folder.path) if self.folder.path.is_dir() else None
        if earlier is None:
            return
        files = Files(self.folder, earlier)
        part = earlier.run == head.run and files.steps < earlier.steps
        if files.steps and not part:
            raise InputError(
                f"{self.folder.path} holds a record of {files.steps} steps already: resume it, delete it, or "
                "store this run elsewhere."
            )
        for array in ("weights", "moments", "steps", "batches", "examples"):
            (self.folder.path / array).unlink(missing_ok=True)

    def _reopen(self) -> None:
        """Go on with a record after `done` of its steps."""
        files = Files.opened(self.folder)
        require_same_model(files, self.model)
        groups = tuple(self._groups(files.head.shapes))
        if (type(self.optimizer).__name__, groups) != (files.head.optimizer, files.head.groups):
            raise InputError(
                f"The record in {self.folder.path} is of another optimiser: resume it with the one that it "
                "was made with."
            )
        if files.steps < self.done:
            raise InputError(
                f"The record in {self.folder.path} has {files.steps} steps, so that step {self.done} cannot "
                "be resumed: go back to an earlier state of the run, or delete the folder."
            )
        own = {name: p for p, name in self._names.items()}
        self._moving = [own[name] for name in files.head.shapes]
        self._fixed = self._versions(set(self._moving))
        self._remember()
        now = files.by_name(files.weights, self.done, self._last.device)
        if not torch.equal(torch.cat([value.flatten() for value in now.values()]), self._last):
            raise InputError(
                f"The model's weights are not those of step {self.done} in {self.folder.path}: restore them "
                "first."
            )
        files.require_room(max(self.planned - self.done, 0))
        self._files, self._head, self.digests = files, files.head, files.digests()

    def _go_on(self) -> None:
        """Drop the steps that come after those that were done, when the first of them is made again."""
        self._reopened = False
        files = self.files
        files.truncate(self.done)
        if self.planned > files.head.steps:
            files.head = replace(files.head, steps=self.planned)
            files.head.write(self.folder.path)

    def _remember(self) -> None:
        """Keep the weights as they are now."""
        parts = [p.detach().flatten() for p in self._moving]
        memory = self._last if self._last.numel() else None
        self._last = torch.cat(parts, out=memory)  # in the same memory: new pages take longer

    def _versions(self, moving: set[nn.Parameter]) -> dict[str, int]:
        """How often buffers, and parameters that do not move, have been written to, by name."""
        return {name: part._version for name, part in self._named_parts(moving)}

    def _named_parts(self, moving: set[nn.Parameter]) -> Iterator[tuple[str, Tensor]]:
        yield from self.model.named_buffers()
        yield from ((name, p) for p, name in self._names.items() if p not in moving)

    def _require_unmoved(self) -> None:
        _require_no_hooks(self.model, self.optimizer)
        now = self._versions(set(self._moving))
        changed = [name for name, version in self._fixed.items() if now.get(name) != version]
        for p, last in zip(self._moving, self._split(self._last), strict=True):
            if not _equal(p.detach().flatten(), last):
                changed.append(self._names[p])
        if changed:
            raise InputError(
                f"{changed[0]!r} was changed by something else than the optimiser: let every change of a "
                "parameter be a step of the recorder, and let no buffer change."
            )
        head = self._head
        if tuple(self._groups(head.shapes)) != head.groups:
            raise InputError(
                "The optimiser's parameter groups or their flags have changed since the first step: keep "
                "them, and begin another record for another optimiser."
            )

    def _split(self, flat: Tensor) -> tuple[Tensor, ...]:
        return flat.split([p.numel() for p in self._moving])

    def _move(self, x: Tensor, y: Tensor) -> Tensor:
        def closure() -> Tensor:  # backward Euler evaluates it several times
            self.optimizer.zero_grad()
            value = loss_of(self.loss, self.model(x), y)
            value.backward()
            for p in self._moving:
                if p.grad is None:
                    raise InputError(
                        f"{self._names[p]!r} got no gradient in this step, but had one in the first: let "
                        "every trained parameter take part in every step."
                    )
            return value.detach()

        # By torch's stubs a closure returns a float; by its manual it returns the loss, a tensor.
        value = self.optimizer.step(closure)  # pyrefly: ignore[no-matching-overload]
        if not math.isfinite(value):
            raise InputError(
                f"The loss is {float(value)} after {self.done} steps: training diverged. Lower the learning "
                "rate, or scale the data or the initial parameters down."
            )
        return value

    def _write(
        self, value: float, index: Tensor, numbers: list[list[float]], new: dict[int, bytes]
    ) -> None:
        """Hand the step over to the thread that writes, once it has written the one before."""
        files = self.files
        if new:
            rows = b"".join(i.to_bytes(8, "little") + digest for i, digest in new.items())
            files.examples.extend(np.frombuffer(rows, np.uint8).reshape(len(new), -1))
            self.digests |= new
        start, end = self._batch_range(index.detach().cpu().to(torch.int64))
        settings = np.array([value, start, end, *(one for group in numbers for one in group)])
        if files.moments is not None:
            parts = [self._moment(p).flatten() for p in self._moving]
            self._moments = torch.cat(parts, out=self._moments)
        self._remember()
        moments = None if self._moments is None else self._moments.cpu()
        self._pending = self._thread.submit(files.append, settings, moments, self._last.cpu())
        self.done += 1
        if self.done == 1:  # from now on whoever opens the folder sees that it holds a record
            self._pending.result()

    def _batch_range(self, rows: Tensor) -> tuple[int, int]:
        """Where the batch stands in its file; the same batch as in the step before is not written again."""
        same, start, end = getattr(self, "_batch", (None, 0, 0))
        if same is None or not torch.equal(same, rows):
            start = len(self.files.batches)
            end = start + len(rows)
            self.files.batches.extend(rows)
            self._batch = (rows.clone(), start, end)
        return start, end

    def _moment(self, p: nn.Parameter) -> Tensor:
        state: Any = self.optimizer.state[p]
        return state["max_exp_avg_sq"] if "max_exp_avg_sq" in state else state["exp_avg_sq"]


def _require_no_hooks(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
    """Refuse hooks by which a step may be another than the optimiser's by the loss's gradient."""
    hooks_of: dict[str, tuple[Any, Any]] = {
        f"The parameter {name!r}": (p._backward_hooks, p._post_accumulate_grad_hooks)
        for name, p in model.named_parameters()
    }
    for name, part in model.named_modules():
        owner = f"The module {name or type(part).__name__!r}"
        hooks_of[owner] = (part._backward_hooks, part._backward_pre_hooks)
    if optimizer is not None:
        around = (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks)
        hooks_of["The optimiser"] = around
    for owner, hooks in hooks_of.items():
        if any(hooks):
            raise InputError(
                f"{owner} has a hook that may change gradients or weights, as clipping does, which no rule "
                "accounts for, so that attributions would not add up to the outputs: remove it, and look at "
                "p.grad after the step instead."
            )


def _dtype_of(moving: Sequence[Tensor]) -> str:
    dtypes = {p.dtype for p in moving}
    if len(dtypes) != 1 or not dtypes <= set(DTYPES):
        raise InputError(
            f"The parameters are {', '.join(sorted(map(str, dtypes)))}, but a record holds one of "
            "torch.float32 and torch.float64: convert the model by .float() or .double()."
        )
    return DTYPES[dtypes.pop()]


def _equal(one: Tensor, other: Tensor) -> bool:
    if one.device.type == "cpu":  # where torch.equal takes five times as long
        return np.array_equal(one.numpy(), other.numpy())
    return torch.equal(one, other)


def _set_modes(model: nn.Module, modes: list[bool]) -> None:
    for part, training in zip(model.modules(), modes, strict=True):
        part.training = training


def _require_loss_function(loss: Any) -> None:
    if not callable(loss):
        raise InputError(
            f"loss = {shown(loss)} was given, but a function of outputs and targets is needed."
        )

"""One training loop for any model, loss and torch optimiser; an interrupted run can be resumed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import torch
from torch import nn
from tqdm import tqdm

from numeric.inputs import InputError, require_writable, resolve, whole
from numeric.runs import random_state
from numeric.runs.description import scheduled
from numeric.runs.result import Data, Loss, Run
from numeric.runs.training_state import Optimizer, TrainingState


def train(
    model: nn.Module,
    loss: Loss,
    data: Data,
    optimizer: Optimizer,
    *,
    steps: int,
    batch: int | None = None,
    seed: int = 0,
    at: Collection[int] = (),
    keep: Path | None = None,
    key: str = "",
    every: int = 1_000,
    device: str | torch.device = "auto",
    progress: bool = True,
) -> Run:
    """Minimise loss(model(x), y), and nothing else, over so many updates of a copy of the model.

    `optimizer` makes one for given parameters, as `partial(torch.optim.SGD, lr=0.1)` does. `batch` is
    the size of minibatches, drawn without replacement in epochs; None takes all data at once. Snapshots
    are of the parameters after the numbers of updates in `at`, after none and after all. With a path
    `keep`, a checkpoint is written there `every` so many updates and at the end; the same call then
    continues from it, and on one machine's CPU gives the very numbers of a run that was never stopped.
    More steps may be asked of a run that has ended.

    A checkpoint is refused unless these are as they were when it was written: weights and buffers at the
    start, names and classes of modules, data, the optimiser's class, settings and parameters, batch, seed,
    type of device, version of torch, and `key`. The code of `loss` and of the model is not compared, nor
    are plain attributes and global variables that they use: state in `key` what you may change of those,
    as in key=f"slope {slope}". What goes unstated is refused only if it shows: the loss of the first
    examples, at the first weights and at those of the checkpoint, must agree with what was written to
    half the digits. That costs one evaluation of the loss for each checkpoint, and one for the start.
    """
    where = resolve(device)
    last, every = whole("steps", steps, 0), whole("every", every)
    wanted = {whole("a step of `at`", step, 0) for step in at} | {0, last}
    if not isinstance(key, str):
        raise InputError(f"key must be text that names the run, not {key!r}: write it as a string.")
    if max(wanted) > last:
        raise InputError(f"A snapshot at step {max(wanted)} was asked for, but the last is {last}.")
    keep = None if keep is None else require_writable(keep)
    state = TrainingState(model, loss, data, optimizer, batch, seed, where, key)
    if keep is not None and scheduled(state.optimizer):
        raise InputError(
            "optimizer has a scheduler, whose state no checkpoint holds, so that a run could not go on as "
            "it was: leave out `keep`, or the scheduler."
        )
    with random_state.borrowed(where, seed):
        if keep is not None:
            state.resume(keep, wanted)
        state.snap(wanted)
        left = range(state.step, last)
        for _ in tqdm(left, desc="steps", disable=not progress, leave=False):
            state.update()
            state.snap(wanted)
            if keep is not None and (state.step % every == 0 or state.step == last):
                state.save(keep)
    return state.run(wanted)

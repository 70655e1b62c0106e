"""The result of a training run: losses, snapshots in memory or on disk, and what was minimised, and how."""

from __future__ import annotations

import copy
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from numeric.inputs import InputError
from numeric.runs.store import GrowingArray

__all__ = ["Data", "Loss", "Run", "StateDict", "StoredSnapshots"]

Loss = Callable[[Tensor, Tensor], Tensor]  # outputs and targets of a batch -> a number
Data = tuple[Tensor, Tensor | None]  # inputs and targets, examples along the first axis
StateDict = Mapping[str, Tensor]
HEAD = struct.Struct("<qQ")  # the step of a snapshot, and the checksum of its bytes


@dataclass(frozen=True, eq=False)
class Run:
    """One run. Nothing but the stated loss, or step, was minimised: no penalty is added anywhere."""

    loss: Loss | None  # None if a step of one's own minimised something else
    data: Data = field(repr=False)
    statement: str  # loss, data, optimiser with its settings, batches, steps, seed
    losses: Tensor = field(repr=False)  # (steps,), of each batch before its update
    snapshots: Mapping[int, StateDict] = field(
        repr=False
    )  # step -> state dict, 0 and the last included
    template: nn.Module = field(repr=False)

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps of which there are snapshots."""
        return tuple(sorted(self.snapshots))

    @property
    def model(self) -> nn.Module:
        """The model after training."""
        return self.model_at(self.steps[-1])

    def model_at(self, step: int) -> nn.Module:
        """A new model with the parameters after so many updates; a step without snapshot is refused."""
        if step not in self.steps:
            raise InputError(
                f"There is no snapshot of step {step}, only of {self.steps}: name it in `at`."
            )
        model = copy.deepcopy(self.template)
        model.load_state_dict(self.snapshots[step])
        return model


class StoredSnapshots(Mapping[int, StateDict]):
    """State dicts by step in a file that is only appended to; each is read when it is asked for.

    A row has the step, a checksum, and the bytes of all tensors one after another, of the shapes, dtypes
    and devices in `template`.
    """

    def __init__(self, path: Path, run: str, template: StateDict) -> None:
        self.template = template
        size = HEAD.size + sum(value.nbytes for value in template.values())
        self.file = GrowingArray(path, run, (size,), "uint8")
        heads = (HEAD.unpack(row[: HEAD.size].tobytes()) for row in self.file.rows())
        self._row_of = {step: row for row, (step, _) in enumerate(heads)}

    def add(self, step: int, state: StateDict) -> None:
        content = b"".join(_to_bytes(value) for value in state.values())
        row = HEAD.pack(step, zlib.crc32(content)) + content
        self._row_of[step] = len(self.file)
        self.file.append(np.frombuffer(row, np.uint8))

    def truncate(self, count: int) -> None:
        """Keep the first `count` snapshots only."""
        self.file.truncate(count)
        self._row_of = {step: row for step, row in self._row_of.items() if row < count}

    def __getitem__(self, step: int) -> StateDict:
        row = self.file.rows()[self._row_of[step]].tobytes()
        (_, checksum), content = HEAD.unpack(row[: HEAD.size]), row[HEAD.size :]
        if zlib.crc32(content) != checksum:
            raise InputError(
                f"The snapshot of step {step} in {self.file.path} is damaged: delete that file and the "
                "checkpoint beside it, and train again."
            )
        state, place = {}, 0
        for name, like in self.template.items():
            state[name] = _from_bytes(content[place : place + like.nbytes], like)
            place += like.nbytes
        return state

    def __iter__(self) -> Iterator[int]:
        return iter(self._row_of)

    def __len__(self) -> int:
        return len(self._row_of)


def _to_bytes(value: Tensor) -> bytes:
    value = value.detach().cpu().contiguous().flatten()
    return value.view(torch.uint8).numpy().tobytes()  # numpy has no bfloat16, but it has bytes


def _from_bytes(content: bytes, like: Tensor) -> Tensor:
    if not content:
        return torch.empty_like(like)
    values = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(like.dtype)
    return values.reshape(like.shape).to(like.device)

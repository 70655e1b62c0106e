"""The files of a record: weights, second moments, settings and batches of each step, hashes of examples."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from numeric.inputs import InputError, as_path, require_writable
from numeric.path_kernel.examples import SIZE, content
from numeric.path_kernel.update_rules import OPTIMIZERS, Group, OptimizerClass
from numeric.runs.store import Checkpoint, GrowingArray

__all__ = ["FIXED", "Files", "Head", "RecordFolder", "outline"]

HEAD = "record"
FORM = "a record of the exact path kernel, form 1"
FIXED = (
    3  # numbers of a step before those of the groups: its loss, the start and the end of its batch
)


class RecordFolder:
    """A folder, or a temporary one that is removed when nothing uses it any more."""

    def __init__(self, store: str | Path | None) -> None:
        self.temporary = store is None
        if store is None:
            self.path = Path(tempfile.mkdtemp(prefix="path-kernel-"))
            weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
            return
        self.path = as_path(store)
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file, but a record is a folder: name a new one.")

    def make(self) -> None:
        """Make the folder where there is none; one where nothing can be written is refused."""
        require_writable(self.path / HEAD)


@dataclass(frozen=True)
class Head:
    """What a record says of itself before its first step."""

    run: str  # a name of its own, which its other files carry too
    optimizer: str  # the name of its class
    groups: tuple[Group, ...]
    shapes: Mapping[
        str, tuple[int, ...]
    ]  # of the parameters that move, by name, in the order of their files
    dtype: str  # "float32" or "float64"
    outline: Mapping[str, Any]  # of the model: see `outline`
    mean: bool  # whether the loss of a batch is the mean of its examples' losses, else their sum
    steps: int  # how many were asked for, or 0 if that was not said

    @property
    def kind(self) -> OptimizerClass:
        by_name = {one.__name__: kind for one, kind in OPTIMIZERS.items()}
        return by_name[self.optimizer]

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(int(np.prod(shape, dtype=np.int64)) for shape in self.shapes.values())

    def bytes_of(self, steps: int) -> int:
        """Bytes of weights and second moments, beside which all else is small."""
        rows = steps + 1 + steps * self.kind.adaptive
        return rows * self.size * np.dtype(self.dtype).itemsize

    def fields(self) -> dict[str, Any]:
        groups = [{"names": list(g.names), "flags": dict(g.flags)} for g in self.groups]
        shapes = {name: list(shape) for name, shape in self.shapes.items()}
        return vars(self) | {"groups": groups, "shapes": shapes}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Head:
        groups = tuple(Group(tuple(g["names"]), g["flags"]) for g in fields["groups"])
        shapes = {name: tuple(shape) for name, shape in fields["shapes"].items()}
        return cls(**fields | {"groups": groups, "shapes": shapes})

    @classmethod
    def read(cls, folder: Path) -> Head | None:
        fields = Checkpoint(folder / HEAD, FORM, "another form").read()
        return None if fields is None else cls.from_fields(fields)

    def write(self, folder: Path) -> None:
        Checkpoint(folder / HEAD, FORM).write(self.fields())


def outline(model: nn.Module, moving: Mapping[str, Any]) -> dict[str, Any]:
    """What a record must agree with: a model's modules, parameters and modes, and all that does not move."""
    kinds = [(name, type(part)) for name, part in model.named_modules()]
    fixed = [(name, p) for name, p in model.named_parameters() if name not in moving]
    return {
        "modules": [[name, f"{kind.__module__}.{kind.__qualname__}"] for name, kind in kinds],
        "modes": [part.training for part in model.modules()],
        "parameters": [
            [name, list(p.shape), str(p.dtype).removeprefix("torch.")]
            for name, p in model.named_parameters()
        ],
        "fixed": content([*fixed, *model.named_buffers()]),
    }


class Files:
    """The arrays of a record in a folder; steps are appended, and read one at a time."""

    def __init__(self, folder: RecordFolder, head: Head) -> None:
        self.folder, self.head = folder, head
        self.weights = self._array("weights", (head.size,), head.dtype)
        self.moments = (
            self._array("moments", (head.size,), head.dtype) if head.kind.adaptive else None
        )
        width = FIXED + len(head.groups) * len(head.kind.settings)
        self.settings = self._array("steps", (width,), "float64")
        self.batches = self._array("batches", (), "int64")
        self.examples = self._array("examples", (8 + SIZE,), "uint8")

    def _array(self, name: str, shape: tuple[int, ...], dtype: str) -> GrowingArray:
        return GrowingArray(self.folder.path / name, self.head.run, shape, dtype)

    @classmethod
    def opened(cls, folder: RecordFolder) -> Files:
        """The files of a record that exists; a folder without one, or with a part of one, is refused."""
        head = Head.read(folder.path) if folder.path.is_dir() else None
        if head is None:
            raise InputError(
                f"{folder.path} holds no record: name the folder that one was stored in."
            )
        names = ["weights", "steps", "batches", "examples", *["moments"] * head.kind.adaptive]
        if missing := [name for name in names if not (folder.path / name).is_file()]:
            raise InputError(
                f"The record in {folder.path} has lost its file {missing[0]!r}: bring it back, or "
                "record again."
            )
        return cls(folder, head)

    @property
    def steps(self) -> int:
        """The number of whole steps; weights are written last."""
        return max(len(self.weights) - 1, 0)

    def require_all(self) -> None:
        """Refuse a record of which steps are missing."""
        arrays = [self.settings] if self.moments is None else [self.settings, self.moments]
        there = min(self.steps, *(len(array) for array in arrays))
        wanted = max(self.head.steps, self.steps)
        if there < max(wanted, 1):
            raise InputError(
                f"The record in {self.folder.path} has {there} of its {max(wanted, 1)} steps, and the others "
                "are missing: record again with the same arguments, which goes on where it can."
            )
        ends = self.table[:, 2]
        if ends.max() > len(self.batches):
            raise InputError(
                f"The record in {self.folder.path} has lost the batches of some steps: record again."
            )

    def require_room(self, steps: int) -> None:
        """Refuse before anything is computed if the disk cannot take so many steps."""
        needed = self.head.bytes_of(steps)
        free = shutil.disk_usage(self.folder.path).free
        if needed > free:
            raise InputError(
                f"{steps} steps need {needed / 1e9:.3g} GB at {self.folder.path}, where {free / 1e9:.3g} GB "
                "are free: make room, take fewer steps, or name a `store` on another disk."
            )

    def truncate(self, steps: int) -> None:
        """Keep the first steps only."""
        self.weights.truncate(steps + 1)
        self.settings.truncate(steps)
        if self.moments is not None:
            self.moments.truncate(steps)
        self.batches.truncate(int(self.settings.rows()[:, 2].max()) if steps else 0)
        self.__dict__.pop("table", None)

    def append(self, settings: np.ndarray, moments: Tensor | None, weights: Tensor) -> None:
        """Write one step; weights come last, so that a step with its weights is whole."""
        self.settings.append(settings)
        if self.moments is not None and moments is not None:
            self.moments.append(moments)
        self.weights.append(weights)

    def flush(self) -> None:
        """Return when all of it is on the disk."""
        for array in (self.weights, self.moments, self.settings, self.batches, self.examples):
            if array is not None:
                array.flush()

    @cached_property
    def table(self) -> np.ndarray:
        """(steps, 3 + numbers of the groups), in memory."""
        return np.array(self.settings.rows()[: self.steps])

    def digests(self) -> dict[int, bytes]:
        """The hashes of the examples by their index."""
        rows = np.array(self.examples.rows())
        index = rows[:, :8].copy().view(np.int64)[:, 0]
        return {i: row.tobytes() for i, row in zip(index.tolist(), rows[:, 8:], strict=True)}

    def by_name(self, array: GrowingArray, row: int, device: torch.device) -> dict[str, Tensor]:
        """One row of weights or moments, copied; the file is mapped for as long as that takes."""
        flat = torch.from_numpy(np.array(array.rows()[row])).to(device)
        sizes = [int(np.prod(shape, dtype=np.int64)) for shape in self.head.shapes.values()]
        parts = zip(self.head.shapes.items(), flat.split(sizes), strict=True)
        return {name: part.view(shape) for (name, shape), part in parts}

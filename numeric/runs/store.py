"""Storage of runs: files that are written atomically and belong to one run, and append-only arrays."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.serialization import default_restore_location

from numeric.inputs import InputError, require_writable


def fingerprint(*settings: Any) -> str:
    """A hash of all settings that determine a run, and of torch's version.

    Tensors count by their bytes, shape, dtype and type of device; all else by its `repr`, which must not
    differ between processes. Lists, tuples and dictionaries may hold tensors.
    """
    digest = hashlib.sha256(torch.__version__.encode())

    def add(part: Any) -> None:
        if isinstance(part, Tensor):
            digest.update(repr((part.shape, part.dtype, part.device.type)).encode())
            digest.update(part.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        elif isinstance(part, dict):
            add(list(part.items()))
        elif isinstance(part, tuple | list):
            digest.update(f"{len(part)} parts".encode())
            for one in part:
                add(one)
        else:
            digest.update(repr(part).encode())

    add(settings)
    return digest.hexdigest()


def write(path: Path, run: str, state: dict[str, Any]) -> None:
    """Write a state atomically: an interrupted writer leaves the previous file intact."""
    require_writable(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    content = io.BytesIO()
    torch.save(
        {"run": run, "state": state}, content
    )  # into memory first: torch reports a full disk unclearly
    try:
        with part.open("wb") as file:
            file.write(content.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise OSError(
            f"{path} could not be written ({error}). What was there before is whole, and the run can go "
            "on from it once there is room."
        ) from error
    finally:
        part.unlink(missing_ok=True)


def read(
    path: Path, run: str, device: torch.device | str = "cpu", *, settings: str = "other settings"
) -> dict[str, Any] | None:
    """The state that this run has written, or None; damaged files and those of other runs are refused.

    `settings` says in the refusal what of the other run may differ.
    """
    if not path.exists():
        return None
    try:
        with zipfile.ZipFile(path) as file:
            if damaged := file.testzip():  # torch itself does not verify checksums
                raise zipfile.BadZipFile(f"bad {damaged}")
        content = torch.load(path, map_location=partial(_location, device), weights_only=True)
        writer, state = content["run"], content["state"]
    except PermissionError:
        raise InputError(f"{path} may not be read: change its permissions.") from None
    except Exception as error:  # damaged bytes raise almost anything
        what = type(error).__name__
        raise InputError(f"{path} holds no run, but {what}: delete it.") from None
    if writer != run:
        raise InputError(
            f"{path} was written by a run of {settings}: delete it, or keep this run elsewhere."
        )
    return state


def _location(device: torch.device | str, storage: Any, written: str) -> Any:
    """Tensors from the CPU stay there: Adam's step count on a device would slow down every update."""
    return storage if written == "cpu" else default_restore_location(storage, str(device))


class GrowingArray:
    """Rows of one shape and dtype in a file that is only ever appended to.

    The file opens with one line of JSON (run, dtype, shape of a row), then come the rows as bytes. A row
    that was cut short by an interrupt is dropped when the file is opened again; whole rows are never
    rewritten, and reading maps the file instead of loading it.
    """

    def __init__(
        self, path: Path, run: str, shape: tuple[int, ...], dtype: str = "float64"
    ) -> None:
        self.path, self.shape, self.dtype = require_writable(path), tuple(shape), np.dtype(dtype)
        head = json.dumps({"run": run, "dtype": self.dtype.str, "shape": list(self.shape)})
        self._head = head.encode() + b"\n"
        self._row_bytes = self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))
        if not self.path.exists() or not self.path.stat().st_size:
            self.path.write_bytes(self._head)
        with self.path.open("rb") as file:
            head_on_disk = file.readline()
        if head_on_disk != self._head:
            raise InputError(
                f"{self.path} holds rows of another run, shape or dtype: delete it, or keep this run "
                "elsewhere."
            )
        self.truncate(len(self))

    def __len__(self) -> int:
        """Whole rows."""
        return (self.path.stat().st_size - len(self._head)) // self._row_bytes

    def truncate(self, rows: int) -> None:
        """Keep the first rows only, as a run does that goes on from an earlier step."""
        with self.path.open("r+b") as file:
            file.truncate(len(self._head) + rows * self._row_bytes)

    def require_room(self, rows: int) -> None:
        """Refuse before anything is computed if the disk cannot take so many rows more."""
        needed, free = rows * self._row_bytes, shutil.disk_usage(self.path.parent).free
        if needed > free:
            raise InputError(
                f"{rows} rows more need {needed / 1e9:.3g} GB at {self.path}, where {free / 1e9:.3g} GB are "
                "free: make room, take fewer steps, or keep this run elsewhere."
            )

    def append(self, row: Tensor | np.ndarray) -> None:
        values = row.detach().cpu().numpy() if isinstance(row, Tensor) else np.asarray(row)
        if values.shape != self.shape:
            raise InputError(f"A row of shape {self.shape} is needed, not {values.shape}.")
        with self.path.open("ab") as file:
            file.write(np.ascontiguousarray(values, self.dtype).tobytes())

    def rows(self) -> np.ndarray:
        """All whole rows, (n, *shape), mapped from the file and read-only."""
        count = len(self)
        if not count:
            return np.empty((0, *self.shape), self.dtype)
        return np.memmap(
            self.path, self.dtype, "r", offset=len(self._head), shape=(count, *self.shape)
        )

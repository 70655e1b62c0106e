"""Storage of runs: files that are written atomically and belong to one run, and append-only arrays."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import time
import zipfile
from collections.abc import Callable
from functools import partial
from io import BufferedWriter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.serialization import default_restore_location

from numeric.inputs import InputError, require_writable

__all__ = ["Checkpoint", "GrowingArray", "checkpoint", "fingerprint", "require_key"]

PAUSE = 5.0  # seconds between two writes of a checkpoint that come when they are due
CACHED = 32 * 2**20  # bytes at the end of an array that stay in the memory of the system


def fingerprint(*settings: object) -> str:
    """A hash of all settings that determine a run, and of torch's version.

    Tensors count by their bytes, shape, dtype and type of device; all else by its `repr`, which must not
    differ between processes. Lists, tuples and dictionaries may hold tensors.

    >>> fingerprint("seed", 0) == fingerprint("seed", 0), fingerprint("seed", 0) == fingerprint("seed", 1)
    (True, False)
    """
    digest = hashlib.sha256(torch.__version__.encode())

    def add(part: object) -> None:
        if isinstance(part, Tensor):
            digest.update(repr((part.shape, part.dtype, part.device.type)).encode())
            digest.update(part.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
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


class Checkpoint:
    """The file that holds the state of one run; without a path nothing is read or written.

    A state is a dictionary of what torch.load accepts with weights_only: tensors, numbers, texts, and
    lists and dictionaries of them. `settings` says in a refusal what of another run may differ.
    """

    def __init__(self, path: Path | None, run: str, settings: str = "other settings") -> None:
        self.path, self.run, self.settings = path, run, settings
        self._written = time.monotonic()

    def read(self, device: torch.device | str = "cpu") -> dict[str, Any] | None:
        """The state that this run has written, or None; damaged files and those of other runs are refused."""
        if self.path is None or not self.path.exists():
            return None
        try:
            with zipfile.ZipFile(self.path) as file:
                if damaged := file.testzip():  # torch itself does not verify checksums
                    raise zipfile.BadZipFile(f"bad {damaged}")
            location = partial(_location, device)
            content = torch.load(self.path, map_location=location, weights_only=True)
            writer, state = content["run"], content["state"]
        except PermissionError:
            raise InputError(f"{self.path} may not be read: change its permissions.") from None
        except Exception as error:  # damaged bytes raise almost anything
            what = type(error).__name__
            raise InputError(f"{self.path} holds no run, but {what}: delete it.") from None
        if writer != self.run:
            raise InputError(
                f"{self.path} was written by a run of {self.settings}: delete it, or store this run "
                "elsewhere."
            )
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Write a state atomically: an interrupted writer leaves the previous file intact."""
        if self.path is None:
            return
        require_writable(self.path)
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        content = io.BytesIO()
        torch.save(
            {"run": self.run, "state": state}, content
        )  # into memory first: torch reports a full disk unclearly
        try:
            with part.open("wb") as file:
                file.write(content.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        except OSError as error:
            raise OSError(
                f"{self.path} could not be written ({error}). What was there before is whole, and the run "
                "can go on from it once there is room."
            ) from error
        finally:
            part.unlink(missing_ok=True)
        self._written = time.monotonic()

    def write_when_due(self, make_state: Callable[[], dict[str, Any]]) -> None:
        """Write the state if the last write was some seconds ago; else it is not even made."""
        if self.path is not None and time.monotonic() - self._written > PAUSE:
            self.write(make_state())


def require_key(key: str) -> str:
    """The text by which users name what of a run cannot be compared; anything else is refused.

    So is the `repr` of a function, which differs between processes and would never fit again.

    >>> require_key("slope 2.5")
    'slope 2.5'
    """
    if not isinstance(key, str):
        raise InputError(f"key must be text that names the run, not {key!r}: write it as a string.")
    if " at 0x" in key:
        raise InputError(
            f"key = {key!r} has an address in memory, which another process will not have: name functions by "
            "numeric.runs.names.qualified_name, and objects by their settings."
        )
    return key


def checkpoint(
    store: str | Path | None, run: str, settings: str = "other settings", key: str = ""
) -> Checkpoint:
    """The checkpoint of the run with this fingerprint and key at a path.

    A place that takes no file is refused, and so is a key that is no text, whether or not there is a path.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = checkpoint(f"{folder}/run.pt", fingerprint("a run", 3))
    ...     file.write({"step": 7})
    ...     file.read()
    {'step': 7}
    >>> checkpoint(None, fingerprint("a run", 3)).read() is None
    True
    """
    named = fingerprint(run, require_key(key))
    return Checkpoint(None if store is None else require_writable(store), named, settings)


def _location(device: torch.device | str, storage: Any, written: str) -> Any:
    """Tensors from the CPU stay there: Adam's step count on a device would slow down every update."""
    return storage if written == "cpu" else default_restore_location(storage, str(device))


class GrowingArray:
    """Rows of one shape and dtype in a file that is only ever appended to.

    The file opens with one line of JSON (run, dtype, shape of a row), then come the rows as bytes. A row
    that was cut short by an interrupt is dropped before the next is written; whole rows are never
    rewritten. Reading maps the file instead of loading it, and changes nothing: another process may be
    writing. A file of another run, shape or dtype is refused.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = GrowingArray(f"{folder}/weights", fingerprint("a run"), shape=(3,))
    ...     path.append(torch.zeros(3))
    ...     path.extend(torch.ones(4, 3))
    ...     len(path), path.rows()[-1].tolist()
    (5, [1.0, 1.0, 1.0])
    """

    def __init__(
        self, path: str | Path, run: str, shape: tuple[int, ...], dtype: str = "float64"
    ) -> None:
        self.path, self.shape, self.dtype = require_writable(path), tuple(shape), np.dtype(dtype)
        head = json.dumps({"run": run, "dtype": self.dtype.str, "shape": list(self.shape)})
        self._head = head.encode() + b"\n"
        self._row_bytes = self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))
        if not self.path.exists() or not self.path.stat().st_size:
            self.path.write_bytes(self._head)
        self._require_own_file()

    def _require_own_file(self) -> None:
        try:
            with self.path.open("rb") as file:
                head_on_disk = file.readline()
        except OSError as error:
            raise InputError(f"{self.path} can no longer be read ({error.strerror}).") from None
        if head_on_disk != self._head:
            raise InputError(
                f"{self.path} holds rows of another run, shape or dtype: delete it, or store this run "
                "elsewhere."
            )

    def __len__(self) -> int:
        """Whole rows."""
        return (self.path.stat().st_size - len(self._head)) // self._row_bytes

    def truncate(self, rows: int) -> None:
        """Keep the first rows only, as a run does that goes on from an earlier step."""
        if rows > len(self):
            raise InputError(
                f"{self.path} has {len(self)} rows, not {rows}: it was cut short, so delete it."
            )
        size = len(self._head) + rows * self._row_bytes
        if size < self.path.stat().st_size:
            with self.path.open("r+b") as file:
                file.truncate(size)

    def require_room(self, rows: int) -> None:
        """Refuse before anything is computed if the disk cannot take so many rows more."""
        needed, free = rows * self._row_bytes, shutil.disk_usage(self.path.parent).free
        if needed > free:
            raise InputError(
                f"{rows} rows more need {needed / 1e9:.3g} GB at {self.path}, where {free / 1e9:.3g} GB are "
                "free: make room, take fewer steps, or store this run elsewhere."
            )

    def append(self, row: Tensor | np.ndarray) -> None:
        """Add one row, of `shape`."""
        values = _on_host(row)
        if values.shape != self.shape:
            raise InputError(f"A row of shape {self.shape} is needed, not {values.shape}.")
        self.extend(values[None])

    def extend(self, rows: Tensor | np.ndarray) -> None:
        """Add several rows, (n, *shape)."""
        values = _on_host(rows)
        if values.shape[1:] != self.shape or not values.ndim:
            raise InputError(f"Rows of shape {self.shape} are needed, not {values.shape[1:]}.")
        try:
            self.truncate(len(self))
            with self.path.open("ab") as file:
                file.write(np.ascontiguousarray(values, self.dtype).data)
                _release(file)
        except OSError as error:
            raise OSError(
                f"{self.path} could not be written ({error}). The rows before are whole."
            ) from error

    def flush(self) -> None:
        """Return when all rows are on the disk, as before a checkpoint that counts on them."""
        with self.path.open("rb") as file:
            os.fsync(file.fileno())

    def rows(self) -> np.ndarray:
        """All whole rows, (n, *shape), mapped from the file and read-only."""
        self._require_own_file()
        count = len(self)
        if not count:
            return np.empty((0, *self.shape), self.dtype)
        return np.memmap(
            self.path, self.dtype, "r", offset=len(self._head), shape=(count, *self.shape)
        )


def _release(file: BufferedWriter) -> None:
    """Let the system write what is before the last rows, and take its memory for the next.

    Else all of a long run stays in memory, new pages of which take several times as long as used ones.
    """
    behind = file.tell() - CACHED
    if behind > 0 and hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, behind, os.POSIX_FADV_DONTNEED)


def _on_host(values: Tensor | np.ndarray) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)

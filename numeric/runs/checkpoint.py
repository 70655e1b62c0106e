"""A run in the middle, as one file: whole under its own name, and refused by any other run."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.serialization import default_restore_location

from numeric.inputs import InputError, require_writable


def write(path: Path, key: str, state: dict[str, Any]) -> None:
    require_writable(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    whole = io.BytesIO()
    torch.save({"key": key, **state}, whole)  # to a full disk it would not say what is wrong
    try:
        with part.open("wb") as file:
            file.write(whole.getbuffer())
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


def read(path: Path, key: str, device: torch.device) -> dict[str, Any] | None:
    """What was written under this key, or None where there is no file."""
    if not path.exists():
        return None
    try:
        with zipfile.ZipFile(path) as file:
            if damaged := file.testzip():  # torch checks no sums
                raise zipfile.BadZipFile(f"bad {damaged}")
        state = torch.load(path, map_location=partial(_location, device), weights_only=True)
        found = state["key"]
    except PermissionError:
        raise InputError(f"{path} may not be read: change its permissions.") from None
    except Exception as error:  # damaged bytes raise almost anything
        what = type(error).__name__
        raise InputError(f"{path} holds no checkpoint, but {what}: delete it.") from None
    if found != key:
        raise InputError(
            f"{path} was written by a run of another model, optimiser, data, batch, seed, device, torch or "
            "`key`: delete it, or keep this run elsewhere."
        )
    return state


def _location(device: torch.device, storage: Any, written: str) -> Any:
    """What was on the host stays there: a step count of Adam on a device would make each update wait."""
    return storage if written == "cpu" else default_restore_location(storage, str(device))


def fingerprint(settings: Any, tensors: Iterable[Tensor]) -> str:
    """Settings, whose words must not differ between processes, torch's version and tensors, as a hash."""
    digest = hashlib.sha256(repr((settings, torch.__version__)).encode())
    for tensor in tensors:
        digest.update(repr((tensor.shape, tensor.dtype)).encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()

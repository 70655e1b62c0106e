"""A run in the middle, as one file: whole under its own name, and refused by any other run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from analytic.domain import InputError


def write(path: Path, key: str, state: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            torch.save({"key": key, **state}, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read(path: Path, key: str, device: torch.device) -> dict[str, Any] | None:
    """What was written under this key, or None where there is no file."""
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location=device, weights_only=True)
        found = state["key"]
    except Exception as error:  # damaged bytes raise almost anything
        what = type(error).__name__
        raise InputError(f"{path} holds no checkpoint, but {what}: delete it.") from None
    if found != key:
        raise InputError(
            f"{path} was written by a run of another model, loss, optimiser, data, batch, seed or device: "
            "delete it, or keep this run elsewhere."
        )
    return state


def fingerprint(settings: Any, tensors: Iterable[Tensor]) -> str:
    """Whatever decides the course of a run, in 64 letters."""
    digest = hashlib.sha256(repr((settings, torch.__version__)).encode())
    for tensor in tensors:
        digest.update(repr((tensor.shape, tensor.dtype)).encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()

"""Runs kept in files: a file under its own name is always whole, and belongs to one run only."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import torch

from numeric.inputs import InputError


def fingerprint(*settings: Any) -> str:
    """Of whatever decides a run; tensors by their values, kinds and places."""
    told = [
        (part.tolist(), str(part.dtype), part.device.type) if torch.is_tensor(part) else part
        for part in settings
    ]
    return hashlib.sha256(repr((told, torch.__version__)).encode()).hexdigest()


def keep(path: Path, run: str, fields: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        torch.save({"run": run, "fields": fields}, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def recall(path: Path, run: str) -> dict[str, Any] | None:
    """What was kept, or None."""
    if not path.exists():
        return None
    try:
        found = torch.load(path, weights_only=True)
        owner, fields = found["run"], found["fields"]
    except Exception as error:  # damaged bytes raise almost anything
        what = type(error).__name__
        raise InputError(f"{path} holds no run, but {what}: delete it.") from None
    if owner != run:
        raise InputError(
            f"{path} holds a run with other settings: delete it, or keep this elsewhere."
        )
    return fields

"""Estimates kept in files: a file under its own name is always whole."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from numeric.estimate import Estimate
from numeric.inputs import InputError


def keep(estimate: Estimate, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    fields = {"mean": estimate.mean, "spread": estimate.spread, "count": estimate.count}
    try:
        torch.save(fields, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def recall(path: Path) -> Estimate | None:
    """What was kept, or None."""
    if not path.exists():
        return None
    try:
        return Estimate(**torch.load(path, weights_only=True))
    except Exception as error:  # damaged bytes raise almost anything
        what = type(error).__name__
        raise InputError(f"{path} holds no estimate, but {what}: delete it.") from None

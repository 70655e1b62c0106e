"""Where tensors live: one place that decides what "auto" means."""

from __future__ import annotations

import torch

from analytic.expressions.arguments import InputError


def resolve(device: str | torch.device) -> torch.device:
    """The device itself, or for "auto" the first accelerator there is, else the CPU."""
    if device == "auto":
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f'device = {device!r} is not to be had here ({reason}): try "auto".'
        ) from None

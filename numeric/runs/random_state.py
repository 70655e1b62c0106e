"""Torch's global random state, which dropout draws from: seeded for a run, and restored afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["borrowed", "restore", "state"]


@contextmanager
def borrowed(device: torch.device, seed: int) -> Iterator[None]:
    """Seed the global random state of the CPU and of a device, and restore it afterwards."""
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices, device_type=device.type):
        torch.manual_seed(seed)
        yield


def state(device: torch.device) -> list[Tensor]:
    """The random state of the CPU and, if the run is elsewhere, of its device."""
    here = [torch.get_rng_state()]
    if device.type != "cpu":
        here.append(torch.get_device_module(device).get_rng_state(device))
    return here


def restore(saved: list[Tensor], device: torch.device) -> None:
    """Go on from a random state of `state`."""
    torch.set_rng_state(saved[0].cpu())
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(saved[1].cpu(), device)

"""Torch's global random numbers, which dropout draws from: lent to a run, and given back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def borrowed(device: torch.device, seed: int) -> Iterator[None]:
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices, device_type=device.type):
        torch.manual_seed(seed)
        yield


def state(device: torch.device) -> list[Tensor]:
    """Of the CPU, and of another device if that is where the run is."""
    here = [torch.get_rng_state()]
    if device.type != "cpu":
        here.append(torch.get_device_module(device).get_rng_state(device))
    return here


def restore(saved: list[Tensor], device: torch.device) -> None:
    torch.set_rng_state(saved[0].cpu())
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(saved[1].cpu(), device)

"""What tests of devices share: inputs anywhere, and a call made on the CPU and twice on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from trial_device import TRAFFIC  # which registers the device, before any test runs

Device = torch.device
Call = Callable[[Device, int], Any]  # where, and how large
CPU = torch.device("cpu")
F64 = {"dtype": torch.float64}


def named(device: Device) -> str:
    """As a user names it: "auto" finds the accelerator."""
    return "cpu" if device == CPU else "auto"


def normal(device: Device, *shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, **F64).to(device)


def network(device: Device, *widths: int, phi: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    parts: list[nn.Module] = []
    for k, (d, n) in enumerate(pairwise(widths)):
        layer = nn.Linear(d, n, **F64)
        layer.weight.data, layer.bias.data = normal(CPU, n, d, seed=k), normal(CPU, n, seed=k) / 3
        parts += [layer, phi()]
    return nn.Sequential(*parts).to(device)


def check(
    call: Call,
    device: Device,
    *,
    host: bool = False,
    drawn: bool = False,
    more: int = 0,
    solver: bool = False,
) -> None:
    """Numbers as on the CPU, results on the device, and no more copies for twice the problem.

    Unless results are for the `host`; numbers were `drawn` by the device, and differ from one accelerator
    to the next; or the larger problem makes so many `more` copies, each with a reason. Steps of a `solver`
    hang on rounding: there, half as many copies again are allowed, where one in a loop would make it twice.
    """
    expected = list(flat(call(CPU, 1)))
    TRAFFIC.clear()
    results = list(flat(call(device, 1)))
    small = TRAFFIC.copies.copy()
    TRAFFIC.clear()
    call(device, 2)
    large = TRAFFIC.copies.copy()
    for one, other in zip(results, expected, strict=True):
        if isinstance(other, Tensor):
            assert one.device.type == ("cpu" if host else device.type)
            assert one.dtype == other.dtype
        if not drawn or device.type == "trial":
            result = one.cpu() if isinstance(one, Tensor) else one
            torch.testing.assert_close(result, other, rtol=1e-10, atol=1e-12)
    allowed = more + (small.total() // 2 if solver else 0)
    assert large.total() - small.total() <= allowed, large - small


def flat(result: Any) -> Iterator[Tensor | float]:
    """All tensors and numbers of a result."""
    if isinstance(result, Tensor | float | int):
        yield result
    elif is_dataclass(result):
        yield from flat([getattr(result, field.name) for field in fields(result)])
    elif isinstance(result, Mapping | tuple | list):
        for part in result.values() if isinstance(result, Mapping) else result:
            yield from flat(part)

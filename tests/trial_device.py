"""A device to try accelerator code on where there is none: `trial:0`, with the tensors of `trial_tensor`.

torch registers it as a backend of its own, so that autograd, `torch.func`, modules and optimisers treat it
as they treat CUDA. Only `torch.utils.checkpoint` cannot run on it, which no call uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import backend_registration as registration

from trial_tensor import DEVICE, TRAFFIC, TrialTensor, run, to_device

NAME, KEY = "trial", "PrivateUse1"
# Those that torch makes empty and then resizes.
FACTORIES = [getattr(torch.ops.aten, n) for n in ("arange", "eye", "tril_indices", "triu_indices")]


class _Module:
    """What torch asks of `torch.trial`; the device draws from the host's generator."""

    present = False

    def is_available(self) -> bool:
        return self.present

    is_initialized = is_available

    def device_count(self) -> int:
        return int(self.present)

    def current_device(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        del seed

    def get_rng_state(self, device: Any = None) -> Tensor:
        del device
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        del device
        torch.set_rng_state(state)


class _Hook(registration._DummyPrivateUse1Hook):
    def is_available(self) -> bool:
        return MODULE.present


class _Generator(torch.Generator):
    """A generator of the host that says it belongs to the device: backends of Python have none."""

    def __new__(cls, device: Any = "cpu") -> _Generator:
        generator = torch._C.Generator.__new__(cls, device="cpu")
        generator.home = torch.device(device)
        return generator

    @property
    def device(self) -> torch.device:
        return DEVICE if self.home.type == DEVICE.type else self.home


MODULE = _Module()


def _register() -> tuple[torch.library.Library, ...]:
    """Once a process, before torch's first backward pass, which starts a thread for each device.

    Kernels last as long as what is returned. `present` stays off, so that "auto" means what it meant.
    """
    registration._setup_privateuseone_for_python_backend(NAME, MODULE, _Hook())
    others, library = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    others.fallback(_run, KEY)
    library.impl("_copy_from", _copy_from, KEY)
    library.impl("_efficientzerotensor", _zeros, KEY)
    for factory in FACTORIES:
        for name in factory.overloads():
            if not name.endswith("out"):
                op = getattr(factory, name)
                library.impl(op, partial(_run, op), KEY)
    return others, library


def _run(op: Any, *args: Any, **kwargs: Any) -> Any:
    return run(op, args, kwargs)


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    del non_blocking
    return run(torch.ops.aten.copy_.default, (target, source), {})


def _zeros(size: Any, *, dtype: Any = None, **_: Any) -> Tensor:
    return TrialTensor(torch.zeros(size, dtype=dtype))


LIBRARIES = _register()


@contextmanager
def present(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """The device, for as long as it is there; backward passes run on this thread where torch lets them."""
    monkeypatch.setattr(MODULE, "present", True)
    monkeypatch.setattr(torch, "Generator", _Generator)
    TRAFFIC.clear()
    readable = torch.serialization.safe_globals([to_device])
    with readable, torch.autograd.set_multithreading_enabled(False):
        yield DEVICE

"""A device to try accelerator code on where there is none: its tensors keep their numbers on the host.

torch registers it as a backend of its own, `trial:0`, so that autograd, `torch.func` and modules treat it
as they treat CUDA: a product of a trial tensor and one of the CPU is refused, unless the latter has no
dimensions; `.numpy()` is refused; whatever brings numbers to the host is counted, with the line that asked.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import backend_registration as registration
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_flatten, tree_map

NAME = "trial"
HOST = torch.device("cpu")
ROOT = Path(__file__).resolve().parents[1]

aten = torch.ops.aten
MOVES = {aten.copy_.default, aten._to_copy.default}
# What CUDA can only answer after it has finished: sizes that depend on numbers, and checks of success.
WAITS = {
    aten.nonzero.default, aten.masked_select.default, aten.equal.default, aten._unique2.default,
    aten.unique_dim.default, aten.unique_consecutive.default, aten.repeat_interleave.Tensor,
    aten._linalg_check_errors.default, aten.linalg_eigh.default,
}  # fmt: skip
FACTORIES = ("arange", "eye", "tril_indices", "triu_indices")  # torch makes these empty, and resizes
INDEXED = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
}


@dataclass
class Traffic:
    """How often numbers came to the host, and the host waited for the device, by the line that asked."""

    copies: Counter[str] = field(default_factory=Counter)  # tensors and single numbers
    waits: Counter[str] = field(default_factory=Counter)

    def clear(self) -> None:
        self.copies.clear()
        self.waits.clear()


TRAFFIC = Traffic()


class TrialTensor(torch.Tensor):
    """A tensor that lives on `trial:0`; `held` has its numbers, and shares memory as the device would."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> TrialTensor:
        return torch.Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(),
            dtype=held.dtype, device=DEVICE,
        )  # fmt: skip

    def __init__(self, held: Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(op, args, kwargs or {})

    # torch refuses these to subclasses, but not to a device
    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 else str(self)

    def __repr__(self, **_: Any) -> str:
        return f"{self.cpu()!r} on {self.device}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copy = self.detach().clone().requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy.detach(), self.requires_grad)
        memo[id(self)] = copy
        return copy

    def __reduce_ex__(self, protocol: int) -> Any:
        del protocol
        return _to_device, (self.detach().cpu(),)


def _to_device(numbers: Tensor) -> Tensor:
    return numbers.to(DEVICE)


def _run(op: Any, args: Any, kwargs: Any) -> Any:
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
    _refuse_mixture(op, tensors)
    _count(op, args, kwargs)
    results = op(*tree_map(_held, args), **tree_map(_held, kwargs))
    if kwargs.get("device") == HOST:
        return results
    if torch.Tag.inplace_view in op.tags:  # squeeze_ and its like: the wrapper's shape too
        with no_dispatch():
            op(*args, **kwargs)
    return _wrapped(op, args, kwargs, results)


def _held(leaf: Any) -> Any:
    if isinstance(leaf, torch.device):
        return HOST
    return leaf.held if isinstance(leaf, TrialTensor) else leaf


def _wrapped(op: Any, args: Any, kwargs: Any, results: Any) -> Any:
    """New tensors live on the device; an argument that was written to is returned itself."""
    written = {}
    for place, argument in enumerate(op._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = kwargs.get(argument.name, args[place] if place < len(args) else None)
            for one in given if isinstance(given, list | tuple) else [given]:
                written[id(_held(one))] = one

    def wrap(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if id(leaf) not in written:
            return TrialTensor(leaf)
        same = written[id(leaf)]
        if same.shape != leaf.shape:
            raise NotImplementedError(f"{op} resized a tensor of the trial device.")
        return same

    return tree_map(wrap, results)


def _refuse_mixture(op: Any, tensors: list[Tensor]) -> None:
    """As CUDA does: numbers without dimensions may come from the CPU, and so may indices."""
    strangers = [t for t in tensors if not isinstance(t, TrialTensor) and t.ndim]
    if op in INDEXED:
        strangers = [t for t in strangers if t.dtype not in (torch.int64, torch.int32)]
    if strangers and op not in MOVES and any(isinstance(t, TrialTensor) for t in tensors):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but {op} met {DEVICE} and "
            f"{strangers[0].device}."
        )


def _count(op: Any, args: Any, kwargs: Any) -> None:
    copied = (
        op is aten._local_scalar_dense.default
        or (op is aten._to_copy.default and kwargs.get("device") == HOST)
        or (op is aten.copy_.default and not isinstance(args[0], TrialTensor))
    )
    if copied:
        TRAFFIC.copies[_line()] += 1
    elif op in WAITS or (op in INDEXED and _masked(*args[:3])):
        TRAFFIC.waits[_line()] += 1


def _masked(_: Tensor, indices: list[Tensor | None], values: Tensor | None = None) -> bool:
    """Whether a mask picks entries; writing a single number under a mask is a plain kernel."""
    if isinstance(values, Tensor) and values.numel() == 1:
        return False
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


def _line() -> str:
    """The innermost line of the product that is running, else of the caller."""
    frame = sys._getframe(2)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        own = path.is_relative_to(ROOT / "numeric") or path.is_relative_to(ROOT / "analytic")
        if own and path.name != "composed.py":  # whose mode every operation passes through
            return f"{path.relative_to(ROOT)}:{frame.f_lineno}"
        frame = frame.f_back
    return "outside"


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
        return DEVICE if self.home.type == NAME else self.home


MODULE = _Module()


def _register() -> None:
    """Once a process; `present` stays off, so that "auto" means what it meant."""
    registration._setup_privateuseone_for_python_backend(NAME, MODULE, _Hook())
    _LIBRARIES[0].fallback(_run_boxed, "PrivateUse1")
    _LIBRARIES[1].impl("_copy_from", _copy_from, "PrivateUse1")
    _LIBRARIES[1].impl("_efficientzerotensor", _zeros, "PrivateUse1")
    for name in FACTORIES:
        op = getattr(aten, name)
        for overload in op.overloads():
            if not overload.endswith("out"):
                made = partial(_run_boxed, getattr(op, overload))
                _LIBRARIES[1].impl(getattr(op, overload), made, "PrivateUse1")


def _run_boxed(op: Any, *args: Any, **kwargs: Any) -> Any:
    return _run(op, args, kwargs)


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    del non_blocking
    return _run(aten.copy_.default, (target, source), {})


def _zeros(size: Any, *, dtype: Any = None, **_: Any) -> Tensor:
    return TrialTensor(torch.zeros(size, dtype=dtype))


_LIBRARIES = (torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL"))
_register()
DEVICE = torch.device(NAME, 0)


@contextmanager
def present(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """The device, for as long as it is there; backward passes run on this thread, where they are traced."""
    monkeypatch.setattr(MODULE, "present", True)
    monkeypatch.setattr(torch, "Generator", _Generator)
    TRAFFIC.clear()
    readable = torch.serialization.safe_globals([_to_device])
    with readable, torch.autograd.set_multithreading_enabled(False):
        yield DEVICE

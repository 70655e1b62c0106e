"""Tensors that keep their numbers on the host, say that they live elsewhere, and count what comes back.

As with CUDA, a product with a tensor of the CPU is refused, unless that has no dimensions, and so is
`.numpy()`; whatever brings numbers to the host is counted by the line that asked.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._mode_utils import no_dispatch

HOST = torch.device("cpu")
DEVICE = torch.device("privateuseone", 0)  # torch's name for a backend of one's own
ROOT = f"{Path(__file__).resolve().parents[1]}/"
PRODUCT = (f"{ROOT}numeric/", f"{ROOT}analytic/")

aten = torch.ops.aten
MOVES = {aten.copy_.default, aten._to_copy.default}
# What CUDA can only answer after it has finished: sizes that depend on numbers, and checks of success.
WAITS = {
    aten.nonzero.default, aten.masked_select.default, aten.equal.default, aten._unique2.default,
    aten.unique_dim.default, aten.unique_consecutive.default, aten.repeat_interleave.Tensor,
    aten._linalg_check_errors.default, aten.linalg_eigh.default,
}  # fmt: skip
INDEXED = {
    aten.index.Tensor, aten.index_put.default, aten.index_put_.default,
    aten._index_put_impl_.default,
}  # fmt: skip


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
        return run(op, args, kwargs or {})

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
        return to_device, (self.detach().cpu(),)


def to_device(numbers: Tensor) -> Tensor:
    return numbers.to(DEVICE)


def run(op: Any, args: Any, kwargs: Any) -> Any:
    """The operation on the host's numbers, as the device would have it."""
    here, strangers, on_host = [], [], {}

    def held(leaf: Any) -> Any:
        if isinstance(leaf, TrialTensor):
            here.append(leaf)
            on_host[id(leaf.held)] = leaf
            return leaf.held
        if isinstance(leaf, Tensor):
            strangers.append(leaf)
            on_host[id(leaf)] = leaf
        return HOST if isinstance(leaf, torch.device) and leaf.type == DEVICE.type else leaf

    def wrapped(leaf: Any) -> Any:
        """An argument that was written to is returned itself."""
        if not isinstance(leaf, Tensor):
            return leaf
        same = on_host.get(id(leaf))
        if same is not None and same.shape != leaf.shape:
            raise NotImplementedError(f"{op} resized a tensor of the trial device.")
        return TrialTensor(leaf) if same is None else same

    numbers, options = each(held, args), each(held, kwargs)
    if here and strangers and op not in MOVES:
        _refuse_mixture(op, strangers)
    _count(op, args, kwargs)
    results = op(*numbers, **options)
    if (kwargs.get("device") or DEVICE).type != DEVICE.type:
        return results
    if torch.Tag.inplace_view in op.tags:  # squeeze_ and its like: the wrapper's shape too
        with no_dispatch():
            op(*args, **kwargs)
    return each(wrapped, results)


def each(change: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([each(change, part) for part in value])
    if isinstance(value, dict):
        return {name: each(change, part) for name, part in value.items()}
    return change(value)


def _refuse_mixture(op: Any, strangers: list[Tensor]) -> None:
    """As CUDA does: numbers without dimensions may come from the CPU, and so may indices."""
    welcome = (torch.int64, torch.int32) if op in INDEXED else ()
    for stranger in strangers:
        if stranger.ndim and stranger.dtype not in welcome:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but {op} met {DEVICE} and "
                f"{stranger.device}."
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
        path = frame.f_code.co_filename
        if path.startswith(PRODUCT) and not path.endswith(
            "composed.py"
        ):  # a mode around all others
            return f"{path.removeprefix(ROOT)}:{frame.f_lineno}"
        frame = frame.f_back
    return "outside"

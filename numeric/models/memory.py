"""Memory: reused from one chunk of points to the next, and the peak of a piece of torch code, measured."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["GIGABYTE", "Meter", "keep_memory"]

GIGABYTE = 2**30
LARGEST = 2**25 - 2**13  # bytes; glibc ignores blocks larger than 32 MB


@cache
def keep_memory() -> None:
    """Make glibc keep freed arrays: mapping their pages anew takes longer than filling them.

    When a large block is freed, glibc raises the threshold below which it keeps memory to that size. No page
    of the block allocated here is ever touched.
    """
    torch.empty(LARGEST, dtype=torch.uint8)


class Meter(TorchDispatchMode):
    """Measure the peak of the bytes of all tensors created inside that are alive at the same time.

    Temporary memory inside torch's kernels is not counted.

    >>> with Meter() as meter:
    ...     total = torch.ones(1000, dtype=torch.float64).sum()
    >>> meter.peak
    8008
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = self._now = 0
        self._live: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        old = {storage._cdata for storage in _storages((args, kwargs))}
        for storage in _storages(out):
            key = storage._cdata
            if key not in old and key not in self._live:
                self._live[key] = storage.nbytes()
                self._now += storage.nbytes()
                self.peak = max(self.peak, self._now)
                weakref.finalize(storage, self._free, key)
        return out

    def _free(self, key: int) -> None:
        self._now -= self._live.pop(key)


def _storages(tree: Any) -> Iterator[torch.UntypedStorage]:
    return (leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))

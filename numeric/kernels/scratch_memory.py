"""Reusable memory for tiles: allocating pages anew would cost more than the computation."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["USUAL", "NoScratch", "Scratch"]

USUAL = 6  # tiles that a layer of a tangent kernel needs


class Scratch:
    """A growing pool of tiles of one shape; `scratch[k]` is the k-th free one."""

    def __init__(self, cells: int, like: Tensor) -> None:
        self._memory, self._wanted = like.new_empty(0, cells), USUAL

    def begin(self, rows: int, columns: int) -> None:
        """Mark all tiles as free, and give them this shape."""
        cells = self._memory.shape[1]
        if self._wanted > len(self._memory):
            self._memory = self._memory.new_empty(self._wanted, cells)
        tiles = self._memory.as_strided((self._wanted, rows, columns), (cells, columns, 1))
        self._tiles = list(tiles.unbind())
        self._free = self._tiles.copy()

    def keep(self, *tiles: Tensor | None) -> None:
        """Mark all tiles as free except these."""
        held = set(map(id, tiles))
        self._free = [tile for tile in self._tiles if id(tile) not in held]

    def __getitem__(self, k: int) -> Tensor:
        while k >= len(self._free):
            self._free.append(torch.empty_like(self._tiles[0]))
            self._tiles.append(self._free[-1])
            self._wanted = len(self._tiles)
        return self._free[k]


class NoScratch:
    """The same interface without a pool: torch allocates, as autograd and other devices need."""

    def begin(self, rows: int, columns: int) -> None:
        pass

    def keep(self, *tiles: Tensor | None) -> None:
        pass

    def __getitem__(self, k: int) -> None:
        return None

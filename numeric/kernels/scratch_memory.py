"""Memory for tiles that is used again: pages that went back to the system cost more than the work."""

from __future__ import annotations

import torch
from torch import Tensor

USUAL = 6  # tiles for a layer of a tangent kernel


class Scratch:
    """Tiles of one shape at a time, as many as are asked for; `scratch[k]` is a free one."""

    def __init__(self, cells: int, like: Tensor) -> None:
        self._memory, self._wanted = like.new_empty(0, cells), USUAL

    def begin(self, shape: tuple[int, int]) -> None:
        """All is free, for tiles of this shape."""
        cells = self._memory.shape[1]
        if self._wanted > len(self._memory):
            self._memory = self._memory.new_empty(self._wanted, cells)
        tiles = self._memory.as_strided((self._wanted, *shape), (cells, shape[1], 1))
        self._tiles = list(tiles.unbind())
        self._free = self._tiles.copy()

    def keep(self, *tiles: Tensor | None) -> None:
        """All but these is free."""
        held = set(map(id, tiles))
        self._free = [tile for tile in self._tiles if id(tile) not in held]

    def __getitem__(self, k: int) -> Tensor:
        while k >= len(self._free):
            self._free.append(torch.empty_like(self._tiles[0]))
            self._tiles.append(self._free[-1])
            self._wanted = len(self._tiles)
        return self._free[k]


class Fresh:
    """Memory that torch finds by itself, as it must for a graph, and knows how to on other devices."""

    def begin(self, shape: tuple[int, int]) -> None:
        pass

    def keep(self, *tiles: Tensor | None) -> None:
        pass

    def __getitem__(self, k: int) -> None:
        return None

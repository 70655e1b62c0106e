r"""Motions of the pixel grid: translations with the rotations and mirror images that keep it, as p4 and p4m.

A pixel (row, column) at (a, b) from the centre goes to (-b, a) by a quarter turn, which is `torch.rot90`. A
lifted signal has a value for each element of the point group and each pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from numeric.infinite.groups.constructions import cyclic, dihedral
from numeric.infinite.groups.group import Group, require_element
from numeric.inputs import InputError

__all__ = ["RotoTranslations", "p4", "p4m"]


@dataclass(frozen=True)
class RotoTranslations:
    """Translations of the pixel grid with rotations by 360/n degrees, and with mirror images if `mirrored`.

    The grid has rotations with n = 1, 2 and 4 only; others are refused, and so are images that are not
    square, where n is 4. `act` moves images (n, channels, height, width) by elements of the point group.

    >>> image = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> RotoTranslations(4).act(1, image).tolist()
    [[[[2.0, 4.0], [1.0, 3.0]]]]
    """

    n: int
    mirrored: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or isinstance(self.n, bool) or self.n not in (1, 2, 4):
            raise InputError(
                f"The pixel grid has rotations by 360/n degrees for n = 1, 2 and 4, not for n = {self.n!r}."
            )

    @property
    def order(self) -> int:
        """The number of elements of the point group."""
        return self.n * (2 if self.mirrored else 1)

    @property
    def point_group(self) -> Group:
        return _point_group(self.n, self.mirrored)

    def act(self, g: int, x: Tensor) -> Tensor:
        """rho(g) x of images (n, channels, height, width); what is no element or does not fit is refused."""
        require_element(g, self.order, self)
        if x.ndim != 4:
            raise InputError(
                f"{self} moves images (n, channels, height, width), but shape {tuple(x.shape)} was given."
            )
        self.require_space(tuple(x.shape[-2:]))
        return self.turn(g, x)

    def turn(self, g: int, x: Tensor) -> Tensor:
        """rho(g) on the last two axes of a tensor; turns come first, then those of the mirror image."""
        mirror, turns = divmod(int(g), self.n)
        x = x.flip(-1) if mirror else x
        return torch.rot90(x, turns * (4 // self.n), (-2, -1))

    def sources(self, space: tuple[int, int]) -> Tensor:
        """The pixel, numbered in rows, from which rho(g) takes each value: (order, pixels)."""
        numbers = torch.arange(space[0] * space[1]).reshape(space)
        return torch.stack([self.turn(g, numbers).flatten() for g in range(self.order)])

    def require_space(self, space: tuple[int, ...]) -> None:
        """Refuse grids that the group does not map to themselves."""
        if len(space) != 2:
            raise InputError(f"{self} acts on images, but the signal has positions {space}.")
        if self.n == 4 and space[0] != space[1]:
            raise InputError(
                f"Quarter turns need square images, but {space[0]} x {space[1]} was given: crop them."
            )


@lru_cache
def _point_group(n: int, mirrored: bool) -> Group:
    return dihedral(n) if mirrored else cyclic(n)


p4 = RotoTranslations(4)
p4m = RotoTranslations(4, mirrored=True)

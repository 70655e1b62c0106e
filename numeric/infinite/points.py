"""Inputs of an infinite network, with the variances that each layer assigns to them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from numeric.infinite.layers import Rows

__all__ = ["PointSubset", "Points"]


@dataclass(frozen=True)
class Points:
    x: Tensor  # (n, d)
    variances: Tensor  # (layers + 1, n): for each hidden layer and the readout
    squares: Tensor  # E[phi^2], (layers, n)
    rows: tuple[Rows, ...]  # for each layer what `Layer.rows` returned for these points
    diagonal: Tensor  # of the Gram matrix, (n,)
    always_zero: (
        Tensor  # (n,): where all hidden layers are 0 for all weights, as at x = 0 without biases
    )

    @property
    def d(self) -> int:
        return self.x.shape[1]

    @cached_property
    def most(self) -> list[float]:
        """The largest variance of each layer."""
        return self.variances.amax(1).tolist()

    def __getitem__(self, index: slice | Tensor) -> PointSubset:
        return PointSubset(self, index)


class PointSubset:
    """A selection of points with the attributes of `Points`, each indexed when it is first read."""

    x: Tensor
    variances: Tensor
    squares: Tensor
    rows: tuple[Rows, ...]
    diagonal: Tensor
    always_zero: Tensor

    def __init__(self, whole: Points | PointSubset, index: slice | Tensor) -> None:
        self._whole, self._index = whole, index
        self.d, self.most = whole.d, whole.most

    def __getitem__(self, index: slice | Tensor) -> PointSubset:
        return PointSubset(self, index)

    def __getattr__(self, name: str) -> Tensor | tuple[Rows, ...]:
        whole = getattr(self._whole, name)
        if isinstance(whole, tuple):
            cut = tuple(part[self._index] for part in whole)
        else:  # the points are the first axis of x, and the last axis of every other tensor
            cut = whole[self._index] if name == "x" else whole[..., self._index]
        setattr(self, name, cut)
        return cut

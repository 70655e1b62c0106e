r"""Means over windows or all positions: $K' = \frac1{|S|^2}\sum_{y,y'\in S} K_{t+y,\,t'+y'}$."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw, Function
from numeric.infinite.composition.layer import NeededCovariances
from numeric.infinite.composition.signal import Scales, Signal
from numeric.infinite.groups import Action
from numeric.infinite.spheres import RotationGrid
from numeric.inputs import InputError, whole

__all__ = ["AveragePool", "GlobalPool", "GroupPool"]

POOLS = {1: F.avg_pool1d, 2: F.avg_pool2d}


@dataclass(frozen=True)
class AveragePool:
    r"""Means over windows of `size` positions along each axis, side by side.

    $K'_{s,s'} = \frac1{|S|^2}\sum_{y,y'\in S} K_{s+y,\,s'+y'}$ with s and s' the corners of windows S.

    Parameters: `size`, at least 1. Refused are signals with other than one or two axes or on a finite group,
    and grids that windows of this size do not fill.

    >>> AveragePool(2).after(Signal((8, 8), 3)).space
    (4, 4)
    """

    size: int = 2

    def __post_init__(self) -> None:
        whole("size", self.size)

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances(pairs=True)

    def after(self, signal: Signal) -> Signal:
        if len(signal.space) not in POOLS or isinstance(signal.over, Action):
            raise InputError(
                f"AveragePool takes signals on one or two axes, but it gets positions {signal.space}."
            )
        if any(length % self.size for length in signal.space):
            raise InputError(
                f"windows of {self.size} do not fill {signal.space} positions: choose a size that divides "
                "them."
            )
        return replace(signal, space=tuple(length // self.size for length in signal.space))

    def advance(self, state: Covariance, rows: None, columns: None, scales: Scales) -> Covariance:
        axes = (*state.row_axes, *state.column_axes)

        def mean(k: Tensor) -> Tensor:
            for axis in (
                axes
            ):  # outer axes first, whose sums are of long rows; torch's means of few are slow
                parts = k.unflatten(axis, (-1, self.size)).unbind(axis + 1)
                k = reduce(torch.add, parts[1:], parts[0])
            return k.contiguous().div_(self.size ** len(axes)) if self.size > 1 else k

        return state.map(mean, self.after(state.signal))

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        axes = len(signal.space)

        def pool(h: Tensor) -> Tensor:  # (n, c, *space), lifted (n, c, order, *space)
            return POOLS[axes](h.flatten(0, -axes - 2), self.size).unflatten(
                0, h.shape[: -axes - 1]
            )

        return Function(pool)


@dataclass(frozen=True)
class GlobalPool:
    r"""The mean over all positions, and over all elements of a group after Lift.

    $K' = \frac1{p^2}\sum_{t,t'} K_{t,t'}$ over p positions. Refused are signals without any.

    >>> GlobalPool().after(Signal((8, 8), 3)).space
    ()
    """

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances(pairs=True)

    def after(self, signal: Signal) -> Signal:
        if signal.flat:
            raise InputError("a pool needs positions, but the signal has none: leave it out.")
        return replace(signal, space=(), over=None)

    def advance(self, state: Covariance, rows: None, columns: None, scales: Scales) -> Covariance:
        n, m, p, over = state.n, state.m, state.signal.positions, state.signal.over

        def mean(k: Tensor) -> Tensor:
            if isinstance(over, RotationGrid):
                return over.mean(k)[None]
            return k.reshape(-1, n, p, m, p).mean((0, 2, 4)).reshape(1, n, m)

        return state.map(mean, self.after(state.signal), pairs=False)

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        over = signal.over
        if isinstance(over, RotationGrid):
            return Function(lambda h: over.mean(h.movedim(2, 0)))
        return Function(lambda h: h.flatten(2).mean(2))


@dataclass(frozen=True)
class GroupPool:
    r"""The mean over all elements of a group after Lift or S2Convolution: the network is then invariant.

    $K' = \frac1{|G|^2}\sum_{g,h} K_{g,h}$, an integral over Haar's measure for rotations. Refused are signals
    that are not on a group.

    >>> from numeric.infinite.groups import p4
    >>> GroupPool().after(Signal((8, 8), None, over=p4)).over is None
    True
    """

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances(pairs=True)

    def after(self, signal: Signal) -> Signal:
        if signal.over is None:
            raise InputError(
                "GroupPool needs a signal on a group: put Lift or S2Convolution before it."
            )
        return GlobalPool().after(signal)

    def advance(self, state: Covariance, rows: None, columns: None, scales: Scales) -> Covariance:
        return GlobalPool().advance(state, rows, columns, scales)

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        return GlobalPool().finite(signal, inputs, outputs, draw)

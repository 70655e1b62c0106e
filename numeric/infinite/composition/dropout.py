r"""Dropout: masks raise the variance by $1/(1 - \text{rate})$, not covariances of two masks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn

from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw
from numeric.infinite.composition.layer import NeededCovariances
from numeric.infinite.composition.signal import Scales, Signal
from numeric.infinite.spheres import RotationGrid
from numeric.inputs import InputError, fraction

__all__ = ["Dropout"]


@dataclass(frozen=True)
class Dropout:
    r"""Each number is 0 with probability `rate`, and else divided by 1 - rate, at random for each signal.

    $K'(x, y) = K(x, y)$, but variances, which the next activation averages over, are $V/(1 - \text{rate})$.
    Kernels are those of two passes with masks of their own, also at x = y: of the network averaged over
    masks.

    Parameters: `rate`, at least 0 and below 1; others are refused, and so are signals on rotations, and an
    activation before weights follow.

    >>> Dropout(0.1).after(Signal((), None, centred=True)).centred
    False
    """

    rate: float

    def __post_init__(self) -> None:
        fraction("rate", self.rate, zero=True)

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances()

    def after(self, signal: Signal) -> Signal:
        if isinstance(signal.over, RotationGrid):
            raise InputError(
                "masks of single rotations have no limit as their grid grows: put Dropout after GroupPool."
            )
        return replace(signal, centred=False)

    def advance(self, state: Covariance, rows: None, columns: None, scales: Scales) -> Covariance:
        after = replace(state, signal=self.after(state.signal))
        if not (state.own and state.same):
            return after
        if not state.pairs:
            state.k.div_(1 - self.rate)
            return after
        p = state.signal.positions
        state.k[0].view(state.n, p, p).diagonal(dim1=1, dim2=2).div_(1 - self.rate)
        return after

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        return nn.Dropout(self.rate)

r"""Layer normalisation over channels: $K' = K/\sqrt{(V_x+\epsilon)(V_y+\epsilon)}$, and $\Theta$ the same."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw, Function
from numeric.infinite.composition.layer import NeededCovariances
from numeric.infinite.composition.signal import Scales, Signal, require_centred
from numeric.inputs import positive

__all__ = ["LayerNorm"]


@dataclass(frozen=True)
class LayerNorm:
    r"""Channels less their mean, divided by their standard deviation at each position, without weights.

    $K' = K/\sqrt{(V_x+\epsilon)(V_y+\epsilon)}$, and $\Theta$ the same: in the limit channels have mean 0 and
    the variance V of the Gaussian signals.

    Parameters: `epsilon`, at least 0, is added to the variance. Refused are signals that do not come from
    weights, and other epsilons.

    >>> LayerNorm().after(Signal((8,), None, centred=True)).space
    (8,)
    """

    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon, zero=True)

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances(own=True)

    def after(self, signal: Signal) -> Signal:
        require_centred(signal, "LayerNorm")
        return signal

    def observe(self, own: Covariance, tangent: bool, scales: Scales) -> Tensor:
        return (own.variances() + self.epsilon).rsqrt()

    def advance(
        self, state: Covariance, rows: Tensor, columns: Tensor, scales: Scales
    ) -> Covariance:
        x, y = state.row_values(rows), state.column_values(columns)

        def divide(k: Tensor) -> Tensor:
            state.matrices(k).mul_(x).mul_(y)
            return k

        return state.map(divide, state.signal)

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        def normalise(h: Tensor) -> Tensor:
            centred = h - h.mean(1, keepdim=True)
            return centred * torch.rsqrt(centred.square().mean(1, keepdim=True) + self.epsilon)

        return Function(normalise)

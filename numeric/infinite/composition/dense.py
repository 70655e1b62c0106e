r"""Dense layers: $K' = \sigma_w^2 K + \sigma_b^2$ on signals without positions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw, Function, Weights
from numeric.infinite.composition.layer import NeededCovariances
from numeric.infinite.composition.signal import Scales, Signal, require_flat, require_scales

__all__ = ["Dense", "Flatten"]


@dataclass(frozen=True)
class Dense:
    r"""Weights from all inputs to all outputs, $K' = \sigma_w^2 K + \sigma_b^2$.

    Parameters: `sigma_w` and `sigma_b` are the network's unless given here. Refused are signals with
    positions: Flatten or pool them first.

    >>> Dense(sigma_w=1.0).after(Signal((), 3)).channels is None
    True
    """

    sigma_w: float | None = None
    sigma_b: float | None = None

    def __post_init__(self) -> None:
        require_scales(self.sigma_w, self.sigma_b)

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances()

    def after(self, signal: Signal) -> Signal:
        require_flat(signal, "Dense")
        return signal.weighted()

    def advance(self, state: Covariance, rows: None, columns: None, scales: Scales) -> Covariance:
        sums = state.map(lambda k: k, self.after(state.signal))
        return state.weighted(sums, scales.of(self.sigma_w, self.sigma_b), numbers=1)

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        draw = draw.with_scales(self.sigma_w, self.sigma_b)
        return Weights(draw, inputs * signal.copies, outputs, (), lambda h, w: h @ w.T)


@dataclass(frozen=True)
class Flatten:
    """All positions become inputs of the next layer, whose covariance is their mean: of equal ones alone.

    >>> Flatten().after(Signal((8, 8), 3)).copies
    64
    """

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances()

    def after(self, signal: Signal) -> Signal:
        copies = signal.copies * signal.positions * signal.orbit
        return replace(signal, space=(), copies=copies, over=None)

    def advance(self, state: Covariance, rows: None, columns: None, scales: Scales) -> Covariance:
        state = state.equal_positions()

        def mean(k: Tensor) -> Tensor:
            return k.flatten(1, -3).mean(1) if k.ndim > 3 else k

        return state.map(mean, self.after(state.signal))

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        return Function(lambda h: h.flatten(1))

r"""Convolutions: $K'_{t,t'} = \frac{\sigma_w^2}{|S|}\sum_{y\in S} K_{t+y,\,t'+y} + \sigma_b^2$."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw, Weights
from numeric.infinite.composition.layer import NeededCovariances
from numeric.infinite.composition.padding import CIRCULAR, SAME, VALID, Padding, filter_sum
from numeric.infinite.composition.signal import Scales, Signal, require_scales
from numeric.inputs import InputError, whole

__all__ = ["Convolution", "filter_sums", "require_padding"]

PLAIN = {1: F.conv1d, 2: F.conv2d}


@dataclass(frozen=True)
class Convolution:
    r"""A filter of `size` taps along each of one or two axes.

    $K'_{t,t'} = \frac{\sigma_w^2}{|S|}\sum_{y\in S} K_{t+y,\,t'+y} + \sigma_b^2$ over the taps S.

    Parameters: `stride` between outputs; `padding` SAME, VALID or CIRCULAR says what is beyond the border;
    `sigma_w` and `sigma_b` are the network's unless given here. A filter of even size sees one position more
    after the centre than before it. Refused are signals with other axes, and filters that do not fit.

    >>> Convolution(3, padding=VALID).after(Signal((8, 8), 3)).space
    (6, 6)
    """

    size: int
    stride: int = 1
    padding: Padding = SAME
    sigma_w: float | None = None
    sigma_b: float | None = None

    def __post_init__(self) -> None:
        whole("size", self.size)
        whole("stride", self.stride)
        require_padding(self.padding)
        require_scales(self.sigma_w, self.sigma_b)

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances()

    def after(self, signal: Signal) -> Signal:
        if len(signal.space) not in PLAIN or signal.over is not None:
            kind = "a lifted signal" if signal.over is not None else f"positions {signal.space}"
            raise InputError(
                f"Convolution takes signals on one or two axes, but it gets {kind}: use Dense, or "
                "GroupConvolution after Lift."
            )
        sizes = (self.padding.size(length, self.size, self.stride) for length in signal.space)
        return signal.weighted(space=tuple(sizes))

    def advance(self, state: Covariance, rows: None, columns: None, scales: Scales) -> Covariance:
        numbers = self.size ** len(state.signal.space)
        total = partial(filter_sums, state, self.size, self.stride, self.padding)
        sums = state.map(total, self.after(state.signal))
        return state.weighted(sums, scales.of(self.sigma_w, self.sigma_b), numbers)

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        axes, draw = len(signal.space), draw.with_scales(self.sigma_w, self.sigma_b)

        def contract(h: Tensor, weight: Tensor) -> Tensor:
            padded = self.padding.pad(h, self.size, self.stride)
            return PLAIN[axes](padded, weight, stride=self.stride)

        return Weights(draw, inputs, outputs, (self.size,) * axes, contract)


def filter_sums(
    state: Covariance,
    size: int,
    stride: int,
    padding: Padding,
    k: Tensor,
    out: Tensor | None = None,
) -> Tensor:
    """Sums of k over the taps of a filter, along all axes of positions of the state."""
    axes = state.row_axes
    others = state.column_axes if state.pairs else (None,) * len(axes)

    def total(part: Tensor, into: Tensor | None) -> Tensor:
        for axis, other in zip(axes, others, strict=True):
            last = into if axis == axes[-1] else None
            part = filter_sum(part, axis, other, size, stride, padding, last)
        return part

    if not state.pairs:
        return total(k, out)
    if out is None:
        shape = [
            padding.size(length, size, stride) if axis in (*axes, *others) else length
            for axis, length in enumerate(k.shape)
        ]
        out = k.new_empty(shape)
    for g in range(len(k)):
        for i in range(k.shape[1]):  # one signal of x at a time stays near the processor
            total(k[g : g + 1, i : i + 1], out[g : g + 1, i : i + 1])
    return out


def require_padding(padding: Padding) -> None:
    """Refuse what is no padding."""
    if padding not in (SAME, VALID, CIRCULAR):
        raise InputError(f"padding must be SAME, VALID or CIRCULAR, not {padding!r}.")

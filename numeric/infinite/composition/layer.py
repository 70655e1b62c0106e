"""What a layer of a composed network knows: its shapes, its kernel recursion, and its finite twin.

A layer of one's own is a frozen dataclass with the attributes and methods of `Layer`, in a file like those
beside this one: `dense` shows one with weights, `pooling` some without, `layer_norm` one that observes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import nn

from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw
from numeric.infinite.composition.signal import Scales, Signal

__all__ = ["Layer", "NeededCovariances", "Observed", "Observer"]

Observed = (
    Any  # what a layer keeps of single signals, indexed by signals like a tensor; None for nothing
)


@dataclass(frozen=True)
class NeededCovariances:
    """Which covariances a layer asks for, beside those of x and y at equal positions.

    `pairs`: those of different positions; `own`: those of each signal with itself, which it observes;
    `own_pairs`: the same at different positions.
    """

    pairs: bool = False
    own: bool = False
    own_pairs: bool = False


@runtime_checkable
class Layer(Protocol):
    """A layer; see the module. One that `needs` covariances of its own has `observe` too, see `Observer`."""

    @property
    def needs(self) -> NeededCovariances: ...

    def after(self, signal: Signal) -> Signal:
        """The shape of its outputs; refuses inputs that do not fit by an InputError."""
        ...

    def advance(
        self, state: Covariance, rows: Observed, columns: Observed, scales: Scales
    ) -> Covariance:
        """Covariance and tangent kernel after the layer; those before it may be overwritten."""
        ...

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        """A module from so many input channels (n, inputs, *space) to so many outputs."""
        ...


@runtime_checkable
class Observer(Protocol):
    """What a layer with `needs.own` has beside `Layer`."""

    def observe(self, own: Covariance, tangent: bool, scales: Scales) -> Observed:
        """What `advance` needs to know of each signal, from its covariance with itself."""
        ...

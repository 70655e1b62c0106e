"""How signals and covariances pass a sequence of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from torch import nn

from analytic.activations.activation import Activation
from numeric.infinite import layers as averages
from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.dense import Flatten
from numeric.infinite.composition.finite import Draw
from numeric.infinite.composition.layer import Layer, Observed, Observer
from numeric.infinite.composition.nonlinearity import Nonlinearity
from numeric.infinite.composition.pooling import AveragePool, GlobalPool, GroupPool
from numeric.infinite.composition.signal import Scales, Signal
from numeric.inputs import InputError, shown

__all__ = [
    "Branches", "advance", "as_layers", "cross_pairs", "finite", "last_reader", "name", "observe",
    "observed_layers", "own_pairs", "pairs_needed", "select", "signals",
]  # fmt: skip


MEANS = AveragePool, GlobalPool, GroupPool, Flatten  # which treat k and theta alike


@dataclass(frozen=True, eq=False)
class Branches:
    """What the layers of several branches observed, indexed by signals like a tensor."""

    parts: tuple[tuple[Observed, ...], ...]

    def __getitem__(self, index: slice) -> Branches:
        return Branches(tuple(select(part, index) for part in self.parts))


def as_layers(parts: Sequence[object]) -> tuple[Layer, ...]:
    """Layers, with activations made into them; anything else is refused by its position."""
    layers: list[Layer] = []
    for k, part in enumerate(parts):
        if isinstance(part, Activation):
            layers.append(_nonlinearity(part))
        elif isinstance(part, type) or not isinstance(part, Layer):
            raise InputError(
                f"Layer {k} is {shown(part)}, but a layer such as Dense() or an activation of `analytic`, "
                "with a two-point kernel, is needed: Activation.of(expression) makes one."
            )
        else:
            layers.append(part)
    return tuple(layers)


@lru_cache  # what is compiled for an activation serves all networks
def _nonlinearity(activation: Activation) -> Nonlinearity:
    return Nonlinearity(averages.Layer(activation))


def signals(layers: Sequence[Layer], signal: Signal) -> tuple[Signal, ...]:
    """The shapes before each layer and after the last; a refusal names the layer by its position."""
    all_signals = [signal]
    for k, layer in enumerate(layers):
        try:
            all_signals.append(layer.after(all_signals[-1]))
        except InputError as refusal:
            raise InputError(f"Layer {k}, {name(layer)}: {refusal}") from None
    return tuple(all_signals)


def name(layer: Layer) -> str:
    return layer.layer.activation.name if isinstance(layer, Nonlinearity) else type(layer).__name__


def pairs_needed(needs: Sequence[bool]) -> list[bool]:
    """For each layer whether it or a later one needs pairs of positions, given what each does itself."""
    needed: list[bool] = []
    for need in reversed(needs):
        needed.append(need or (bool(needed) and needed[-1]))
    return needed[::-1]


def cross_pairs(layers: Sequence[Layer]) -> list[bool]:
    """For each layer whether covariances of x and y must hold all pairs of positions."""
    return pairs_needed([layer.needs.pairs for layer in layers])


def observed_layers(layers: Sequence[Layer]) -> Sequence[Layer]:
    """The layers up to the last that observes: all that matters of a signal alone, but for the diagonal."""
    return layers[: 1 + max((k for k, layer in enumerate(layers) if layer.needs.own), default=-1)]


def own_pairs(layers: Sequence[Layer], to_the_end: bool) -> list[bool]:
    """The same for the covariance of a signal with itself, for what is observed later or for the output."""
    last = len(layers) - (
        not to_the_end
    )  # what the last one makes of its input matters for an output alone
    needs = [layer.needs for layer in layers]
    return pairs_needed([(k < last and n.pairs) or n.own_pairs for k, n in enumerate(needs)])


def last_reader(layers: Sequence[Layer]) -> int:
    """The layer after which no other reads k to make the tangent kernel; -1 if the last one may do."""
    for k in reversed(range(len(layers))):
        if isinstance(layers[k], Nonlinearity):
            return k
        if not isinstance(layers[k], MEANS):
            break
    return -1


def observe(
    layers: Sequence[Layer],
    own: Covariance,
    tangent: bool,
    scales: Scales,
    pairs: Sequence[bool] | None = None,
    last_reader: int = -1,
) -> tuple[tuple[Observed, ...], Covariance]:
    """What each layer observes, and the covariance after the last; with all pairs where None is given.

    No layer after number `last_reader` reads k.
    """
    observed: list[Observed] = []
    for k, layer in enumerate(layers):
        if k == last_reader:
            own = replace(own, theta_only=True)
        if pairs is not None and not pairs[k]:
            own = own.equal_positions()
        by_layer = layer.observe(own, tangent, scales) if isinstance(layer, Observer) else None
        observed.append(by_layer)
        own = layer.advance(own, by_layer, by_layer, scales)
    return tuple(observed), own


def advance(
    layers: Sequence[Layer],
    state: Covariance,
    rows: Sequence[Observed],
    columns: Sequence[Observed],
    scales: Scales,
    pairs: Sequence[bool] | None = None,
    last_reader: int = -1,
) -> Covariance:
    """The covariance after the last layer; all pairs of positions are kept where None is given.

    No layer after number `last_reader` reads k.
    """
    for k, layer in enumerate(layers):
        if k == last_reader:
            state = replace(state, theta_only=True)
        if pairs is not None and not pairs[k]:
            state = state.equal_positions()
        state = layer.advance(state, rows[k], columns[k], scales)
    return state


def select(observed: Sequence[Observed], index: slice) -> tuple[Observed, ...]:
    """What was observed of some signals."""
    return tuple(None if part is None else part[index] for part in observed)


def finite(
    layers: Sequence[Layer], signal: Signal, inputs: int, outputs: int, draw: Draw
) -> nn.Sequential:
    """The layers as modules; the last one with weights has so many outputs, all others the width.

    Where an activation or a norm follows it, that one has the width too, and so has the output.
    """
    shapes = signals(layers, signal)
    weighted = [
        layer.after(replace(before, fresh=False)).fresh
        for layer, before in zip(layers, shapes, strict=False)
    ]
    last = max((k for k, has in enumerate(weighted) if has), default=-1)
    narrow = last >= 0 and not any(layer.needs.own for layer in layers[last + 1 :])
    narrow = narrow and not hasattr(layers[last], "branches")  # one may be the signal itself
    modules: list[nn.Module] = []
    for k, (layer, before) in enumerate(zip(layers, shapes, strict=False)):
        width = outputs if k == last and narrow else draw.width
        modules.append(layer.finite(before, inputs, width, draw))
        inputs = width if weighted[k] else inputs
    return nn.Sequential(*modules)

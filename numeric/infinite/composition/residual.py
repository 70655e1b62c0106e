r"""Sums of branches: $K' = \sum_i K_i$ and $\Theta' = \sum_i\Theta_i$, as their weights are independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from torch import nn

from numeric.infinite.composition import propagation
from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw, Sum
from numeric.infinite.composition.layer import Layer, NeededCovariances
from numeric.infinite.composition.signal import Scales, Signal
from numeric.inputs import InputError

__all__ = ["Residual"]


@dataclass(frozen=True)
class Residual:
    """The sum of branches, each a sequence of layers; an empty one is the signal itself.

    Refused are branches whose outputs differ in shape, and two that are correlated, because they do not end
    in weights of their own.

    >>> from numeric.infinite.composition import Dense
    >>> Residual([Dense()], []).after(Signal((), None, centred=True)).centred
    True
    """

    branches: tuple[tuple[Layer, ...], ...]

    def __init__(self, *branches: Sequence[object]) -> None:
        if not branches or not all(isinstance(branch, Sequence) for branch in branches):
            raise InputError(
                "Residual takes lists of layers, one for each branch: Residual([...], [])."
            )
        object.__setattr__(self, "branches", tuple(map(propagation.as_layers, branches)))

    @property
    def needs(self) -> NeededCovariances:
        parts = [layer.needs for branch in self.branches for layer in branch]
        pairs, own = any(part.pairs for part in parts), any(part.own for part in parts)
        return NeededCovariances(
            pairs, own, any(part.own_pairs for part in parts) or (pairs and own)
        )

    def after(self, signal: Signal) -> Signal:
        start = replace(signal, fresh=False)
        ends = [propagation.signals(branch, start)[-1] for branch in self.branches]
        shapes = {(end.space, end.channels, end.copies, end.over) for end in ends}
        if len(shapes) > 1:
            listing = " and ".join(f"{e.space} with {e.channels or 'width'} channels" for e in ends)
            raise InputError(
                f"branches end in signals of different shapes, {listing}: make them agree."
            )
        independent = [end.centred and end.fresh for end in ends]
        if sum(independent) < len(ends) - 1:
            raise InputError(
                "two branches do not end in weights of their own, so that they are correlated: end all but "
                "one by Dense, Convolution or GroupConvolution."
            )
        centred = all(end.centred for end in ends)
        return replace(ends[0], centred=centred, fresh=signal.fresh or any(e.fresh for e in ends))

    def observe(self, own: Covariance, tangent: bool, scales: Scales) -> propagation.Branches:
        observed = [
            propagation.observe(branch, own.clone(), tangent, scales) for branch in self.branches
        ]
        return propagation.Branches(tuple(by_branch for by_branch, _ in observed))

    def advance(
        self,
        state: Covariance,
        rows: propagation.Branches,
        columns: propagation.Branches,
        scales: Scales,
    ) -> Covariance:
        nothing = propagation.Branches(tuple((None,) * len(branch) for branch in self.branches))
        rows, columns = rows or nothing, columns or nothing
        ends = [
            propagation.advance(branch, state.clone(), of_rows, of_columns, scales)
            for branch, of_rows, of_columns in zip(
                self.branches, rows.parts, columns.parts, strict=True
            )
        ]
        if not all(end.pairs for end in ends):
            ends = [end.equal_positions() for end in ends]
        thetas = [end.theta for end in ends if end.theta is not None]
        return replace(
            ends[0],
            k=reduce(lambda a, b: a + b, (end.k for end in ends)),
            theta=reduce(lambda a, b: a + b, thetas) if thetas else None,
            signal=self.after(state.signal),
        )

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        return Sum(
            [propagation.finite(branch, signal, inputs, outputs, draw) for branch in self.branches]
        )

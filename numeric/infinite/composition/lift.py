r"""Layers on groups: $K'_{g,g'} = \frac{\sigma_w^2}{|S|}\sum_{y\in S}K_{gy,g'y} + \sigma_b^2$.

For a finite group these are sums over its table. For motions of the pixel grid, with windows that the point
group keeps, $K_{(r,t),(r',t')}(f, f') = K^{CNN}_{t,\,st'}(f, \rho(s)f')$ with $s = r r'^{-1}$: kernels of a
convolutional network at f and the rotated f', one for each s, stand for the whole tensor. Where kernels of
the public code differ from these, entry equivariant-ntk/12 of the ledger says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from numeric.infinite.composition.convolution import filter_sums, require_padding
from numeric.infinite.composition.covariance import Covariance
from numeric.infinite.composition.finite import Draw, Weights
from numeric.infinite.composition.layer import NeededCovariances
from numeric.infinite.composition.padding import SAME, Padding
from numeric.infinite.composition.signal import Scales, Signal, require_scales
from numeric.infinite.groups import Action, RotoTranslations
from numeric.infinite.spheres import RotationGrid
from numeric.inputs import InputError, whole

__all__ = ["GroupConvolution", "Lift", "Window"]


@dataclass(frozen=True)
class Window:
    """The support of a filter on the pixel grid: a square of odd size, which rotations keep, and its border.

    >>> Window(3).size
    3
    """

    size: int
    padding: Padding = SAME

    def __post_init__(self) -> None:
        if whole("size", self.size) % 2 == 0:
            raise InputError(
                f"size = {self.size} was given, but a window that rotations keep has an odd size."
            )
        require_padding(self.padding)

    def after(self, space: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self.padding.size(length, self.size, 1) for length in space)

    def sums(self, state: Covariance, k: Tensor, out: Tensor | None = None) -> Tensor:
        return filter_sums(state, self.size, 1, self.padding, k, out)

    def convolve(self, h: Tensor, weight: Tensor) -> Tensor:
        return F.conv2d(self.padding.pad(h, self.size, 1), weight)


Support = (
    Window | Sequence[int] | None
)  # on the pixel grid; positions or elements of a finite group; all


@dataclass(frozen=True)
class Lift:
    r"""From a signal to one on a group, $N(g) = \frac{1}{\sqrt{n|S|}}\sum_{y\in S}\kappa(y) f(gy)$.

    Parameters: `group` is an Action on the positions, or motions of the pixel grid such as p4; `support` is
    where the filter is not 0: for an Action some of the positions, or None for all, and for the pixel grid
    a Window. `sigma_w` and `sigma_b` are the network's unless given here. Refused are signals on which the
    group cannot act, and supports that do not fit.

    >>> from numeric.infinite.groups import p4
    >>> Lift(p4, Window(3)).after(Signal((8, 8), 3)).orbit
    4
    """

    group: Action | RotoTranslations
    support: Support = None
    sigma_w: float | None = None
    sigma_b: float | None = None

    def __post_init__(self) -> None:
        require_scales(self.sigma_w, self.sigma_b)
        if isinstance(self.group, RotoTranslations):
            _require_window(self.support)
        elif isinstance(self.group, Action):
            _require_members(self.support, self.group.positions, "positions")
        else:
            raise InputError(
                f"Lift takes an Action or motions of the pixel grid such as p4, not {self.group!r}."
            )

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances()

    def after(self, signal: Signal) -> Signal:
        if signal.over is not None:
            raise InputError("the signal is lifted already: use GroupConvolution.")
        if isinstance(self.group, Action):
            if signal.positions != self.group.positions or not signal.space:
                raise InputError(
                    f"{self.group} cannot act on a signal with positions {signal.space}: give it one with "
                    f"{self.group.positions}."
                )
            return signal.weighted(space=(self.group.order,), over=self.group)
        self.group.require_space(signal.space)
        return signal.weighted(
            space=_require_window(self.support).after(signal.space), over=self.group
        )

    def advance(self, state: Covariance, rows: None, columns: None, scales: Scales) -> Covariance:
        after, scales = self.after(state.signal), scales.of(self.sigma_w, self.sigma_b)
        if isinstance(self.group, Action):
            support = _members(self.support, self.group.positions)
            sums = state.map(partial(_table_sums, state, self.group.moves[:, support]), after)
            return state.weighted(sums, scales, len(support))
        window, group = _require_window(self.support), self.group

        def total(k: Tensor) -> Tensor:
            first = window.sums(state, k)
            if not state.pairs:
                return first
            sums = first.new_empty(group.order, *first.shape[1:])
            sums[:1] = first
            for g in range(1, group.order):
                window.sums(state, group.turn(g, k), sums[g : g + 1])
            return sums

        return state.weighted(state.map(total, after), scales, window.size**2)

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        draw, group = draw.with_scales(self.sigma_w, self.sigma_b), self.group
        if isinstance(group, Action):
            support = _members(self.support, group.positions)
            return _table_weights(draw, inputs, outputs, group.moves[:, support])
        window, turn, order = _require_window(self.support), group.turn, group.order

        def contract(h: Tensor, weight: Tensor) -> Tensor:
            return torch.stack([window.convolve(h, turn(g, weight)) for g in range(order)], 2)

        return Weights(draw, inputs, outputs, (window.size, window.size), contract)


@dataclass(frozen=True)
class GroupConvolution:
    r"""On a lifted signal, $N'(g) = \frac{1}{\sqrt{n|S|}}\sum_{h\in S}\kappa(h) N(gh)$.

    Parameters: `support` is where the filter is not 0: some elements of a finite group, or None for all; a
    Window on the pixel grid, where filters have all elements of the point group, on which the kernel does
    not depend. `sigma_w` and `sigma_b` are the network's unless given here. Refused are signals that are
    not on a group, and supports that do not fit.

    >>> from numeric.infinite.groups import Action, cyclic
    >>> GroupConvolution([0, 1]).after(Signal((5,), None, over=Action(cyclic(5)))).space
    (5,)
    """

    support: Support = None
    sigma_w: float | None = None
    sigma_b: float | None = None

    def __post_init__(self) -> None:
        require_scales(self.sigma_w, self.sigma_b)

    @property
    def needs(self) -> NeededCovariances:
        return NeededCovariances()

    def after(self, signal: Signal) -> Signal:
        if isinstance(signal.over, Action):
            _require_members(self.support, signal.over.order, "elements")
            return signal.weighted()
        if isinstance(signal.over, RotoTranslations):
            return signal.weighted(space=_require_window(self.support).after(signal.space))
        if isinstance(signal.over, RotationGrid):
            raise InputError("on rotations use SO3Convolution.")
        raise InputError("GroupConvolution needs a signal on a group: put Lift before it.")

    def advance(self, state: Covariance, rows: None, columns: None, scales: Scales) -> Covariance:
        after, scales = self.after(state.signal), scales.of(self.sigma_w, self.sigma_b)
        over = state.signal.over
        if isinstance(over, Action):
            support = _members(self.support, over.order)
            total = partial(_table_sums, state, over.group.products[:, support])
            return state.weighted(state.map(total, after), scales, len(support))
        window = _require_window(self.support)
        sums = state.map(partial(window.sums, state), after)
        return state.weighted(sums, scales, window.size**2, copies=state.signal.orbit)

    def finite(self, signal: Signal, inputs: int, outputs: int, draw: Draw) -> nn.Module:
        draw, over = draw.with_scales(self.sigma_w, self.sigma_b), signal.over
        if isinstance(over, Action):
            support = _members(self.support, over.order)
            return _table_weights(draw, inputs, outputs, over.group.products[:, support])
        window = _require_window(self.support)
        if not isinstance(over, RotoTranslations):
            raise InputError("GroupConvolution needs a signal on a group: put Lift before it.")
        group, back = over.point_group, over.point_group.inverses

        def contract(h: Tensor, weight: Tensor) -> Tensor:  # (n, in, order, *space)
            parts = []
            for g in range(over.order):
                turned = over.turn(
                    g, weight[:, :, group.products[back[g]]]
                )  # kappa(g^-1 h, g^-1 y)
                parts.append(window.convolve(h.flatten(1, 2), turned.flatten(1, 2)))
            return torch.stack(parts, 2)

        return Weights(draw, inputs, outputs, (over.order, window.size, window.size), contract)


def _table_sums(state: Covariance, sources: Tensor, k: Tensor) -> Tensor:
    """Sums over the columns of `sources` (order, |S|), positions that the values at an element come from."""
    sources = sources.to(k.device)
    order = len(sources)
    n, m, p = state.n, state.m, state.signal.positions
    if not state.pairs:
        return k.reshape(p, n, m)[sources].sum(1).reshape(1, order, n, m)
    total = k.new_zeros(n, order, m, order)
    k = k.reshape(n, p, m, p)
    for at in sources.T:
        total += k[:, at][..., at]
    return total.reshape(1, n, order, m, order)


def _table_weights(draw: Draw, inputs: int, outputs: int, sources: Tensor) -> Weights:
    def contract(h: Tensor, weight: Tensor) -> Tensor:
        return torch.einsum("ncgs,ocs->nog", h.flatten(2)[:, :, sources.to(h.device)], weight)

    return Weights(draw, inputs, outputs, (sources.shape[1],), contract)


def _members(support: Support, count: int) -> Tensor:
    if support is None:
        return torch.arange(count, device="cpu")
    return torch.tensor(_require_members(support, count, "elements"), device="cpu")


def _require_members(support: Support, count: int, what: str) -> list[int]:
    """Numbers of positions or elements, none of them twice."""
    if support is None:
        return list(range(count))
    if isinstance(support, Window | str) or not isinstance(support, Sequence):
        raise InputError(f"support must list some of the {count} {what}, not {support!r}.")
    numbers = [whole("support", number, least=0) for number in support]
    if not numbers or len(set(numbers)) < len(numbers) or max(numbers) >= count:
        raise InputError(
            f"support must list some of the {count} {what}, each once, not {support!r}."
        )
    return numbers


def _require_window(support: Support) -> Window:
    if not isinstance(support, Window):
        raise InputError(
            f"On the pixel grid support must be a Window such as Window(3), not {support!r}."
        )
    return support

r"""Actions of finite groups on signals, $(\rho(g) f)(p) = f(g^{-1}p)$, and averages over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from numeric.infinite.groups.group import Group, Table, require_element, whole_matrix
from numeric.inputs import ArrayLike, InputError, require_instance, require_signals
from numeric.kernels import Kernel

__all__ = ["Action", "ActsOnSignals", "Averaged", "OnSignals", "orbit", "require_acts"]


class ActsOnSignals(Protocol):
    """What averages and checks ask of a group: how many elements it has, and what each does to signals."""

    @property
    def order(self) -> int: ...

    def act(self, g: int, x: Tensor) -> Tensor:
        """rho(g) x of signals (n, channels, ...)."""
        ...


@dataclass(frozen=True, eq=False)
class Action:
    """A group that permutes positions, and so the signals on them.

    Parameters: `permutations` (order, positions) holds at [g, p] the position g p; by default the group
    acts on itself, g p being their product. Signals are (n, channels, ...) with as many positions, in any
    shape. Refused are lists that are no permutations, or that do not compose as the group does.

    >>> from numeric.infinite.groups import cyclic
    >>> shift = Action(cyclic(3))
    >>> shift.act(1, torch.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[3.0, 1.0, 2.0]]]
    """

    group: Group
    permutations: Table | None = None  # (order, positions)

    def __post_init__(self) -> None:
        require_instance("group", self.group, Group, "cyclic(4)")
        table = self.group.products
        if self.permutations is None:
            object.__setattr__(self, "permutations", table)
            return
        moves = whole_matrix("permutations", self.permutations)
        places = torch.arange(moves.shape[1])
        if len(moves) != self.group.order or not moves.shape[1]:
            raise InputError(
                f"{self.group.name} has {self.group.order} elements, but permutations has shape "
                f"{tuple(moves.shape)}: give one row for each element."
            )
        if any(not torch.equal(move.sort().values, places) for move in moves):
            raise InputError("Each row of permutations must hold every position once.")
        if any(not torch.equal(moves[table[g]], moves[g][moves]) for g in range(len(moves))):
            raise InputError(
                f"The permutations do not compose as {self.group.name} does: row g h must be row g "
                "after row h."
            )
        object.__setattr__(self, "permutations", moves)

    def __repr__(self) -> str:
        return f"Action({self.group.name} on {self.positions} positions)"

    @property
    def order(self) -> int:
        return self.group.order

    @cached_property
    def moves(self) -> Tensor:
        """The permutations as a tensor, (order, positions)."""
        return torch.as_tensor(self.permutations)

    @property
    def positions(self) -> int:
        return self.moves.shape[1]

    def act(self, g: int, x: Tensor) -> Tensor:
        """rho(g) x of signals (n, channels, ...); what is no element or does not fit is refused."""
        g, space = require_element(g, self.order, self), x.shape[2:]
        if x.ndim < 3 or space.numel() != self.positions:
            raise InputError(
                f"{self} cannot move a signal of shape {tuple(x.shape)}: it takes (n, channels, "
                f"{self.positions}), or positions in any other shape."
            )
        back = self.moves[self.group.inverses[g]].to(x.device)
        return x.flatten(2)[:, :, back].unflatten(2, space)


@dataclass(frozen=True, eq=False)
class Averaged(Kernel):
    r"""The Haar average of a kernel, $k_G(x, y) = \frac1{|G|}\sum_g k(x, \rho(g)y)$.

    It is invariant under the group in y, and in x and symmetric if k(gx, gy) = k(x, y). Signals are
    (n, channels, ...); what is no Kernel, and signals on which the group cannot act, are refused.

    >>> from numeric.infinite.groups import cyclic
    >>> from numeric.kernels import FunctionKernel
    >>> flat = FunctionKernel(lambda x, y: x @ y.T)
    >>> Averaged(OnSignals(flat), Action(cyclic(2)))([[[1.0, 3.0]]]).item()
    8.0
    """

    kernel: Kernel
    group: ActsOnSignals

    def __post_init__(self) -> None:
        require_instance("kernel", self.kernel, Kernel, "infinite.Network(layers).ntk")
        require_acts(self.group)

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        rows, other = require_signals(x, y)
        columns = rows if other is None else other
        total = rows.new_zeros(len(rows), len(columns))
        for g in range(self.group.order):
            total += self.kernel(rows, self.group.act(g, columns))
        return total / self.group.order

    def diagonal(self, x: ArrayLike) -> Tensor:
        return torch.cat([self(one[None]).flatten() for one in require_signals(x)[0]])


def orbit(group: ActsOnSignals, x: ArrayLike) -> Tensor:
    """Data augmentation: signals moved by every element, (n, channels, ...) -> (order * n, channels, ...).

    The signal x[i] moved by g has the number g * n + i. Refused are signals on which the group cannot act.

    >>> from numeric.infinite.groups import cyclic
    >>> orbit(Action(cyclic(2)), [[[1.0, 3.0]]]).tolist()
    [[[1.0, 3.0]], [[3.0, 1.0]]]
    """
    require_acts(group)
    signals, _ = require_signals(x)
    return torch.cat([group.act(g, signals) for g in range(group.order)])


@dataclass(frozen=True, eq=False)
class OnSignals(Kernel):
    """A kernel on points (n, d) as one on signals (n, channels, ...), whose numbers are the coordinates.

    >>> from numeric.kernels import FunctionKernel
    >>> OnSignals(FunctionKernel(lambda x, y: x @ y.T))([[[1.0, 3.0]]]).item()
    10.0
    """

    kernel: Kernel

    def __post_init__(self) -> None:
        require_instance("kernel", self.kernel, Kernel, "FunctionKernel(function)")

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        rows, columns = require_signals(x, y)
        return self.kernel(rows.flatten(1), None if columns is None else columns.flatten(1))

    def diagonal(self, x: ArrayLike) -> Tensor:
        return self.kernel.diagonal(require_signals(x)[0].flatten(1))


def require_acts(group: ActsOnSignals) -> None:
    """Refuse what does not act on signals."""
    if not (callable(getattr(group, "act", None)) and hasattr(group, "order")):
        raise InputError(
            f"group must act on signals, as Action(cyclic(4)) or p4 do, not {group!r}."
        )

r"""Gradients by one parameter in factored form: outer products, rows of tables, dense, and inner products.

A weight $W$ (o, a) that takes $A_p$ to $W A_p$ at positions p has, for a signal $S$ that comes back to its
output, the gradient $\sum_p S_p A_p^T$. Two such gradients have the inner product
$\sum_{pq} (S_p \cdot S'_q)(A_p \cdot A'_q)$, for which neither needs to be formed. n are points, c signals of
each, g groups of a convolution, P positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

__all__ = [
    "Dense", "Factor", "Outer", "TableRows", "concatenated", "merged", "nothing", "outer_products",
]  # fmt: skip

CACHED = 2**18  # numbers of a block that stays in the cache


@dataclass(frozen=True, eq=False)
class Outer:
    """Sums over positions of signals times inputs; with a bias, one more input that is 1."""

    signals: Tensor  # (n, c, g, P, o)
    inputs: Tensor  # (n, g, P, a)
    shape: torch.Size  # of the weight, g o a numbers
    bias: bool  # whether the gradient by the bias, the sum of the signals, belongs to it

    @property
    def counts(self) -> tuple[int, int]:
        """n, c."""
        return self.signals.shape[0], self.signals.shape[1]

    @property
    def groups(self) -> int:
        return self.signals.shape[2]

    @property
    def positions(self) -> int:
        return self.signals.shape[3]

    @property
    def is_single(self) -> bool:
        """Whether there is one position: a gradient is one outer product."""
        return self.positions == self.groups == 1

    @property
    def like(self) -> Tensor:
        """A tensor of its dtype and device."""
        return self.signals

    @property
    def bytes(self) -> int:
        return self.bytes_with(self.counts[1])

    def bytes_with(self, signals: int) -> int:
        """The memory that as many points take with another number of signals."""
        return signals * self.signals.nbytes // self.counts[1] + self.inputs.nbytes

    def signals_as_entries(self) -> Outer:
        """One signal with the entries of all: its inner products are sums over them."""
        entries = self.signals.permute(0, 2, 3, 1, 4).flatten(3)[:, None]
        shape = torch.Size((self.counts[1], *self.shape))
        return replace(self, signals=entries, shape=shape)

    def __getitem__(self, rows: slice) -> Outer:
        return replace(self, signals=self.signals[rows], inputs=self.inputs[rows])

    def dense(self) -> Dense:
        (n, c), size = self.counts, math.prod(self.shape)
        biases = self.groups * self.signals.shape[4] if self.bias else 0
        # Signals first in memory, as inner products take them; some points at a time stay in the cache.
        values = self.like.new_empty(c, n, size + biases).transpose(0, 1)
        numbers = c * self.groups * self.positions * self.signals.shape[4] + c * size
        step = max(1, CACHED // max(1, numbers))
        for k in range(0, n, step):
            rows = slice(k, k + step)
            products = outer_products(self.signals[rows], self.inputs[rows])
            values[rows, :, :size] = products.flatten(2)
        if self.bias:
            values[:, :, size:] = self._bias_gradient()
        return Dense(values, self.shape, self.bias)

    def _bias_gradient(self) -> Tensor:
        return self.signals.sum(3).flatten(2)  # (n, c, g o)

    def sum(self) -> Dense:
        """The sum over all points, as the gradient of one."""
        signals = self.signals.permute(2, 1, 4, 0, 3).flatten(3).flatten(1, 2)  # (g, c o, n P)
        inputs = self.inputs.transpose(0, 1).flatten(1, 2)  # (g, n P, a)
        c = self.signals.shape[1]
        weight = (signals @ inputs).unflatten(1, (c, -1)).transpose(0, 1).flatten(1)
        if self.bias:
            weight = torch.cat([weight, self.signals.sum((0, 3)).flatten(1)], 1)
        return Dense(weight[None], self.shape, self.bias)

    def along(self, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Inner products with directions of the weight (r, *shape) and of the bias (r, g o): (n, c, r)."""
        _, c, g, positions, o = self.signals.shape
        total = self.signals.new_zeros(())
        if weight is not None:
            r, a = len(weight), self.inputs.shape[3]
            if positions * r * (a + c) <= c * a * (positions + r):
                directions = weight.reshape(r, g, o, a)
                moved = torch.einsum("ngpa,rgoa->ngpro", self.inputs, directions)
                total = total + torch.einsum("ncgpo,ngpro->ncr", self.signals, moved)
            else:
                total = total + self.dense().along(weight, None)
        if bias is not None:
            total = total + self._bias_gradient() @ bias.flatten(1).T
        return total


@dataclass(frozen=True, eq=False)
class TableRows:
    """Signals that go to rows of a table, as those of an embedding: sums of e_index signal^T."""

    index: Tensor  # (n, P)
    signals: Tensor  # (n, c, P, d)
    shape: torch.Size  # of the table, (rows, d)
    bias: bool = False  # an embedding has none

    @property
    def counts(self) -> tuple[int, int]:
        """n, c."""
        return self.signals.shape[0], self.signals.shape[1]

    @property
    def positions(self) -> int:
        return self.signals.shape[2]

    @property
    def like(self) -> Tensor:
        return self.signals

    @property
    def bytes(self) -> int:
        return self.bytes_with(self.counts[1])

    def bytes_with(self, signals: int) -> int:
        return signals * self.signals.nbytes // self.counts[1] + self.index.nbytes

    def signals_as_entries(self) -> TableRows:
        entries = self.signals.transpose(1, 2).flatten(2)[:, None]
        return replace(self, signals=entries, shape=torch.Size((self.shape[0], entries.shape[3])))

    def __getitem__(self, rows: slice) -> TableRows:
        return replace(self, index=self.index[rows], signals=self.signals[rows])

    def dense(self) -> Dense:
        n, c, _, d = self.signals.shape
        table = self.signals.new_zeros(n, c, *self.shape)
        places = self.index[:, None, :, None].expand(n, c, -1, d)
        table.scatter_add_(2, places, self.signals)
        return Dense(table.flatten(2), self.shape, bias=False)

    def sum(self) -> Dense:
        c = self.signals.shape[1]
        table = self.signals.new_zeros(c, *self.shape)
        table.index_add_(1, self.index.flatten(), self.signals.transpose(0, 1).flatten(1, 2))
        return Dense(table.flatten(1)[None], self.shape, bias=False)

    def along(self, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Inner products with directions (r, rows, d): (n, c, r); there is no bias."""
        if weight is None:
            return self.signals.new_zeros(())
        return torch.einsum("ncpd,rnpd->ncr", self.signals, weight[:, self.index])


@dataclass(frozen=True, eq=False)
class Dense:
    """The gradients themselves, by the weight and behind it by the bias."""

    values: Tensor  # (n, c, size)
    shape: torch.Size  # of the weight
    bias: bool

    @property
    def counts(self) -> tuple[int, int]:
        """n, c."""
        return self.values.shape[0], self.values.shape[1]

    @property
    def positions(self) -> int:
        return 1

    @property
    def like(self) -> Tensor:
        return self.values

    @property
    def bytes(self) -> int:
        return self.values.nbytes

    def bytes_with(self, signals: int) -> int:
        return signals * self.values.nbytes // self.counts[1]

    def signals_as_entries(self) -> Dense:
        entries = self.values.flatten(1)[:, None]
        return Dense(entries, entries.shape[2:], bias=False)

    def __getitem__(self, rows: slice) -> Dense:
        return replace(self, values=self.values[rows])

    @property
    def weight(self) -> Tensor:
        """(n, c, *shape)."""
        return self.values[:, :, : math.prod(self.shape)].unflatten(2, self.shape)

    @property
    def bias_gradient(self) -> Tensor:
        """(n, c, o)."""
        return self.values[:, :, math.prod(self.shape) :]

    def dense(self) -> Dense:
        return self

    def sum(self) -> Dense:
        return replace(self, values=self.values.sum(0, keepdim=True))

    def along(self, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Inner products with directions of the weight (r, *shape) and of the bias: (n, c, r)."""
        total = self.values.new_zeros(())
        if weight is not None:
            total = total + self.weight.flatten(2) @ weight.flatten(1).T
        if bias is not None:
            total = total + self.bias_gradient @ bias.flatten(1).T
        return total


Factor = Outer | TableRows | Dense


def outer_products(signals: Tensor, inputs: Tensor) -> Tensor:
    """The sums over positions of (n, c, g, P, o) times (n, g, P, a): (n, c, g, o, a).

    All signals of a point share its inputs, and their products are one.
    """
    if inputs.shape[2] == 1:
        return signals.mT * inputs[:, None]
    joined = signals.permute(0, 2, 1, 4, 3).flatten(2, 3)  # (n, g, c o, P)
    return (joined @ inputs).unflatten(2, signals.shape[1:5:3]).transpose(1, 2)


def nothing(shape: torch.Size, bias: int | None, counts: torch.Size, like: Tensor) -> Outer:
    """The gradients by a parameter that is not used: a sum over no positions."""
    o = bias or 1
    inputs = like.new_zeros(counts[0], 1, 0, math.prod(shape) // o)
    return Outer(like.new_zeros(*counts, 1, 0, o), inputs, shape, bias is not None)


def merged(terms: Sequence[Factor]) -> tuple[Factor, ...]:
    """The same sum in as few terms as there are kinds: positions of several uses become those of one."""
    outer = [term for term in terms if isinstance(term, Outer)]
    picked = [term for term in terms if isinstance(term, TableRows)]
    if len({term.groups for term in outer}) > 1 or len(outer) + len(picked) < len(terms):
        if len(terms) == 1:
            return tuple(terms)
        dense = [term.dense() for term in terms]
        return (replace(dense[0], values=torch.stack([term.values for term in dense]).sum(0)),)
    if len(outer) > 1:
        signals = torch.cat([term.signals for term in outer], 3)
        inputs = torch.cat([term.inputs for term in outer], 2)
        outer = [replace(outer[0], signals=signals, inputs=inputs)]
    if len(picked) > 1:
        signals = torch.cat([term.signals for term in picked], 2)
        index = torch.cat([term.index for term in picked], 1)
        picked = [replace(picked[0], signals=signals, index=index)]
    if not picked and outer[0].positions > outer[0].inputs.shape[3]:
        return (outer[0].dense(),)  # smaller than its factors
    return (*outer, *picked)


def concatenated(chunks: Sequence[Factor]) -> Factor:
    """The gradients at the points of all parts, which are of one kind, one part after the other."""
    outer = [chunk for chunk in chunks if isinstance(chunk, Outer)]
    picked = [chunk for chunk in chunks if isinstance(chunk, TableRows)]
    if outer:
        signals = torch.cat([chunk.signals for chunk in outer])
        inputs = torch.cat([chunk.inputs for chunk in outer])
        return replace(outer[0], signals=signals, inputs=inputs)
    if picked:
        signals = torch.cat([chunk.signals for chunk in picked])
        index = torch.cat([chunk.index for chunk in picked])
        return replace(picked[0], signals=signals, index=index)
    dense = [chunk.dense() for chunk in chunks]
    return replace(dense[0], values=torch.cat([chunk.values for chunk in dense]))

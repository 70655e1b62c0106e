r"""Gradients of a model's outputs by its parameters, at many points, in factored form layer by layer.

One pass forwards keeps the input of each layer, one pass backwards brings every signal to each layer's
output. `Gradients` holds both; inner products, products with directions and sums are taken from them, and a
gradient is formed only where that is cheaper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import torch
from torch import Tensor

from numeric.inputs import InputError, require_instance, shown
from numeric.models.memory import GIGABYTE
from numeric.tangents import contraction, factors
from numeric.tangents.factors import Dense, Factor

__all__ = ["Gradients", "ParameterGradient", "concatenated", "formed", "sum_of"]


@dataclass(frozen=True, eq=False)
class ParameterGradient:
    """The gradients by one parameter, or by a weight and its bias together."""

    weight: str
    bias: str | None
    factors: tuple[Factor, ...]  # whose sum they are

    @property
    def names(self) -> tuple[str, ...]:
        return (self.weight,) if self.bias is None else (self.weight, self.bias)

    def __getitem__(self, rows: slice) -> ParameterGradient:
        return ParameterGradient(
            self.weight, self.bias, tuple(factor[rows] for factor in self.factors)
        )

    def along(self, directions: Mapping[str, Tensor]) -> Tensor:
        """(n, c, r), for those directions that are named."""
        weight = directions.get(self.weight)
        bias = None if self.bias is None else directions.get(self.bias)
        return sum_of(
            factor.along(weight, bias if factor.bias else None) for factor in self.factors
        )

    def dense(self) -> dict[str, Tensor]:
        """(n, c, *shape) by name."""
        return self._by_name([factor.dense() for factor in self.factors])

    def sum(self) -> dict[str, Tensor]:
        """(1, c, *shape) by name."""
        return self._by_name([factor.sum() for factor in self.factors])

    def _by_name(self, terms: Sequence[Dense]) -> dict[str, Tensor]:
        named = {self.weight: sum_of(term.weight for term in terms)}
        if self.bias is not None:
            named[self.bias] = sum_of(term.bias_gradient for term in terms if term.bias)
        return named


def formed(name: str, values: Tensor) -> ParameterGradient:
    """The gradients by one parameter from values (n, c, *shape)."""
    return ParameterGradient(name, None, (Dense(values.flatten(2), values.shape[2:], bias=False),))


def sum_of(terms: Iterable[Tensor]) -> Tensor:
    """The sum of tensors, of which there is one at least."""
    total, *others = terms
    for other in others:
        total = total + other
    return total


@dataclass(frozen=True, eq=False)
class Gradients:
    r"""The gradients of $v_{ic} \cdot f(x_i)$ by the parameters, for points i and signals c; see `gradients`.

    `parts` holds them layer by layer, and `fallbacks` names the parameters whose gradients are dense because
    a use of theirs has no rule.
    """

    parts: tuple[ParameterGradient, ...] = field(repr=False)
    points: int  # n
    signals: int  # c
    fallbacks: tuple[str, ...]
    shapes: Mapping[str, torch.Size] = field(repr=False)  # of the parameters

    def __len__(self) -> int:
        return self.points

    def __getitem__(self, rows: slice) -> Gradients:
        """The gradients at some of the points."""
        parts = tuple(part[rows] for part in self.parts)
        points = len(range(self.points)[rows])
        return Gradients(parts, points, self.signals, self.fallbacks, self.shapes)

    def inner(self, other: Gradients, memory: int = 2 * GIGABYTE) -> Tensor:
        """Inner products with other gradients by the same parameters: (n, c, m, c').

        The two may be at other points and at other values of the parameters.
        """
        return contraction.inner(self._pairs(other), memory)

    def trace(self, other: Gradients, memory: int = 2 * GIGABYTE) -> Tensor:
        """The sums over equal signals of the inner products, (n, m)."""
        return contraction.trace(self._pairs(other), memory)

    def squares(self, memory: int = 2 * GIGABYTE) -> Tensor:
        """The sums over signals of the squared lengths, (n,)."""
        return contraction.squares(self._pairs(self), memory)

    def along(self, directions: Mapping[str, Tensor]) -> Tensor:
        """Inner products with r directions by name, each (r, *shape): (n, c, r); one not named is 0."""
        r = self._count_directions(directions)
        zero = next(iter(directions.values())).new_zeros(self.points, self.signals, r)
        named = [part for part in self.parts if set(part.names) & set(directions)]
        return sum_of([zero, *(part.along(directions) for part in named)])

    @property
    def bytes(self) -> int:
        """The memory that they take."""
        return sum(factor.bytes for part in self.parts for factor in part.factors)

    def dense(self) -> dict[str, Tensor]:
        """The gradients themselves, by name: (n, c, *shape)."""
        named = {name: value for part in self.parts for name, value in part.dense().items()}
        return {name: named[name] for name in self.shapes}

    def sum(self) -> dict[str, Tensor]:
        """Their sums over the points, by name: (c, *shape)."""
        named = {name: value[0] for part in self.parts for name, value in part.sum().items()}
        return {name: named[name] for name in self.shapes}

    def _pairs(self, other: Gradients) -> list[contraction.Pair]:
        """Factors of both sides whose inner products are to be added."""
        require_instance("other", other, Gradients, "tangents.gradients(model, x)")
        if dict(self.shapes) != dict(other.shapes):
            raise InputError(
                f"The gradients are by {', '.join(self.shapes)} and by {', '.join(other.shapes)}: take "
                "both of the same model and modules."
            )
        one, two = self.parts, other.parts
        if [part.names for part in one] != [part.names for part in two]:
            one, two = ([formed(name, g) for name, g in s.dense().items()] for s in (self, other))
        return [
            (a, b) for p, q in zip(one, two, strict=True) for a, b in product(p.factors, q.factors)
        ]

    def _count_directions(self, directions: Mapping[str, Tensor]) -> int:
        if not isinstance(directions, Mapping) or not directions:
            raise InputError(
                f"directions = {shown(directions)} was given, but tensors (r, *shape) by the names of "
                "parameters are needed."
            )
        for name, value in directions.items():
            if name not in self.shapes:
                raise InputError(
                    f"There are no gradients by {name!r}, only by {', '.join(self.shapes)}."
                )
            if not isinstance(value, Tensor) or value.shape[1:] != self.shapes[name]:
                raise InputError(
                    f"The directions of {name!r} must be a tensor of shape (r, *{tuple(self.shapes[name])}), "
                    f"not {tuple(value.shape) if isinstance(value, Tensor) else shown(value)}."
                )
        counts = {len(value) for value in directions.values()}
        if len(counts) > 1:
            raise InputError(f"{sorted(counts)} directions were given: give as many of each name.")
        return counts.pop()


def concatenated(chunks: Sequence[Gradients]) -> Gradients:
    """The gradients at the points of all parts, one part after the other."""
    first, *others = chunks
    if not others:
        return first
    names = [part.names for part in first.parts]
    if any([part.names for part in other.parts] != names for other in others):
        dense = [
            replace(one, parts=tuple(formed(k, g) for k, g in one.dense().items()))
            for one in chunks
        ]
        without = {name for one in chunks for name in one.fallbacks}
        named = tuple(name for name in first.shapes if name in without)
        return replace(concatenated(dense), fallbacks=named)
    parts = tuple(
        ParameterGradient(
            part.weight,
            part.bias,
            tuple(
                factors.concatenated([chunk.parts[p].factors[k] for chunk in chunks])
                for k in range(len(part.factors))
            ),
        )
        for p, part in enumerate(first.parts)
    )
    return replace(first, parts=parts, points=sum(chunk.points for chunk in chunks))

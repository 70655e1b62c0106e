"""Finite groups by their multiplication tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from numeric.inputs import InputError, as_numbers, shown, whole

__all__ = ["Group", "Table", "require_element", "whole_matrix"]

Table = Tensor | np.ndarray | Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class Group:
    """A finite group, its elements numbered from 0 and multiplied by a table.

    Parameters: `table` (order, order) holds at [g, h] the number of the product g h, and element 0 is the
    identity; `name` is what messages call it. Refused are tables that are no group: other shapes, numbers
    that name no element, a wrong identity, elements without an inverse, products that are not associative.

    >>> two = Group([[0, 1], [1, 0]], "Z2")
    >>> two.order, two.inverses.tolist(), two.abelian
    (2, [0, 1], True)
    """

    table: Table  # (order, order) of whole numbers; a tensor of int64 on the host once made
    name: str = "a group"

    def __post_init__(self) -> None:
        table = whole_matrix("table", self.table)
        order = len(table)
        if table.shape != (order, order) or not order:
            raise InputError(
                f"A table of a group has as many columns as rows, but {tuple(table.shape)} was given."
            )
        elements = torch.arange(order)
        if table.min() < 0 or table.max() >= order:
            raise InputError(
                f"A table of {order} elements names them 0 to {order - 1}: others occur."
            )
        if not (torch.equal(table[0], elements) and torch.equal(table[:, 0], elements)):
            raise InputError("Element 0 of the table is not the identity: number the elements so.")
        if not all(torch.equal(part.sort().values, elements) for part in (*table, *table.T)):
            raise InputError(
                "The table is no group: in some row or column an element occurs twice."
            )
        for g in elements:  # a plane at a time: order^3 products at once need not fit
            if not torch.equal(table[table[g]], table[g][table]):
                raise InputError("The table is no group: its products are not associative.")
        object.__setattr__(self, "table", table)

    def __repr__(self) -> str:
        return f"Group({self.name})"

    @property
    def order(self) -> int:
        return len(self.table)

    @cached_property
    def products(self) -> Tensor:
        """The table as a tensor, (order, order)."""
        return torch.as_tensor(self.table)

    @cached_property
    def inverses(self) -> Tensor:
        """The inverse of each element, (order,)."""
        return (self.products == 0).to(torch.int64).argmax(1)

    @cached_property
    def abelian(self) -> bool:
        return torch.equal(self.products, self.products.T)


def whole_matrix(name: str, values: Table) -> Tensor:
    """Whole numbers of shape (n, m) on the host."""
    numbers = as_numbers(name, values, "(n, m)").detach().cpu()
    if numbers.ndim != 2 or not torch.equal(numbers, numbers.round()):
        raise InputError(f"{name} must be a matrix of whole numbers, not {shown(values)}.")
    return numbers.to(torch.int64)


def require_element(g: int | Tensor, order: int, group: object) -> int:
    """The number of an element of a group of this order, perhaps in a tensor; others are refused."""
    number = whole("g", g.item() if isinstance(g, Tensor) and not g.ndim else g, least=0)
    if number >= order:
        raise InputError(
            f"g = {number} was given, but the elements of {group} are 0 to {order - 1}."
        )
    return number

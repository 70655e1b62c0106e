"""Finite groups by their multiplication tables: cyclic, symmetric and dihedral ones, and products.

They are written a second time in `numeric.infinite.groups`, on purpose: these are tuples of Python's whole
numbers, tried on all triples and so of at most 200 elements; those are tensors of thousands. A test holds
either to the other, and so the kernels that are made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from itertools import product as tuples

from analytic.expressions.arguments import InputError, listed, whole

__all__ = [
    "Group", "cyclic", "dihedral", "product", "require_group", "semidirect", "symmetric",
]  # fmt: skip

LARGEST = 200  # associativity is tried on all triples, in Python


@dataclass(frozen=True)
class Group:
    """A finite group; its elements are numbered from 0, and `table[g][h]` is the number of g h.

    table: as many rows as columns, at most 200, of whole numbers; any element may be the identity.

    A table that is no group is refused with an InputError that says which law it breaks.

    >>> two = Group([[0, 1], [1, 0]])
    >>> two.order, two.identity, two.inverses, two.abelian
    (2, 0, (0, 1), True)
    """

    table: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        rows = listed("table", self.table, "a list of rows")
        table = tuple(tuple(whole("table", k, 0) for k in listed("table", row)) for row in rows)
        object.__setattr__(self, "table", table)
        everything = set(range(len(table)))
        if not 1 <= len(table) <= LARGEST or any(len(row) != len(table) for row in table):
            raise InputError(
                f"A table of {len(table)} rows of {sorted({len(row) for row in table})} entries was given: "
                f"a group of n elements has n rows of n, and n is 1 to {LARGEST}."
            )
        if any(set(line) != everything for line in (*table, *zip(*table, strict=True))):
            raise InputError(
                "The table is no group: each row and column must name every element once, from 0."
            )
        if not any(self._is_identity(e) for e in everything):
            raise InputError("The table is no group: none of its elements is an identity.")
        for g, h in tuples(everything, repeat=2):
            left = table[table[g][h]]
            if any(left[k] != table[g][table[h][k]] for k in everything):
                raise InputError(
                    f"The table is no group: ({g} {h}) k and {g} ({h} k) differ for some k."
                )

    def _is_identity(self, e: int) -> bool:
        return all(self.table[e][g] == g == self.table[g][e] for g in range(len(self.table)))

    @staticmethod
    def of(elements: Iterable[Hashable], multiply: Callable[..., Hashable]) -> Group:
        """The group of any elements, numbered in their order, under a product of two of them.

        Products that are no elements, and what is no group, are refused with an InputError.

        >>> Group.of((1, 2, 4), lambda a, b: a * b % 7) == cyclic(3)
        True
        """
        if isinstance(elements, str) or not isinstance(elements, Iterable):
            raise InputError(f"elements = {elements!r} was given, but elements must be a list.")
        listed_elements = tuple(elements)
        numbers = {element: k for k, element in enumerate(listed_elements)}
        products = [[multiply(a, b) for b in listed_elements] for a in listed_elements]
        if stray := {c for row in products for c in row} - numbers.keys():
            raise InputError(
                f"The product {min(stray, key=str)} is no element: list all elements of the group."
            )
        return Group([[numbers[c] for c in row] for row in products])

    @property
    def order(self) -> int:
        """The number of elements."""
        return len(self.table)

    @property
    def elements(self) -> range:
        """The numbers of all elements."""
        return range(self.order)

    @cached_property
    def identity(self) -> int:
        return next(e for e in self.elements if self._is_identity(e))

    @cached_property
    def inverses(self) -> tuple[int, ...]:
        """The inverse of each element."""
        return tuple(row.index(self.identity) for row in self.table)

    @property
    def abelian(self) -> bool:
        return self.table == tuple(zip(*self.table, strict=True))


def cyclic(n: int) -> Group:
    """The rotations of a regular n-gon, Z_n: g h is g + h modulo n.

    n: a whole number at least 1; others are refused with an InputError.

    >>> cyclic(3).table
    ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    """
    n = whole("n", n, 1)
    return Group.of(range(n), lambda g, h: (g + h) % n)


def symmetric(n: int) -> Group:
    """The permutations of n points in lexicographic order, S_n: (g h)(x) = g(h(x)).

    n: 1 to 5; others are refused with an InputError.

    >>> symmetric(3).order, symmetric(3).abelian
    (6, False)
    """
    n = whole("n", n, 1)
    if n > 5:
        raise InputError(f"n = {n} was given, but S_n of more than 5 points is too large a table.")
    return Group.of(permutations(range(n)), lambda g, h: tuple(g[x] for x in h))


def dihedral(n: int) -> Group:
    """The rotations and mirror images of a regular n-gon, D_n of order 2 n: a mirror inverts rotations.

    n: a whole number at least 1; others are refused with an InputError.

    >>> dihedral(4).order, dihedral(3).abelian
    (8, False)
    """
    rotations = cyclic(n)
    return semidirect(rotations, cyclic(2), (rotations.elements, rotations.inverses))


def product(one: Group, other: Group) -> Group:
    """Pairs multiplied entry by entry; (a, b) has the number a * other.order + b.

    What is no Group is refused with an InputError.

    >>> product(cyclic(2), cyclic(2)).inverses
    (0, 1, 2, 3)
    """
    one, other = require_group("one", one), require_group("other", other)
    return Group.of(
        tuples(one.elements, other.elements),
        lambda g, h: (one.table[g[0]][h[0]], other.table[g[1]][h[1]]),
    )


def semidirect(normal: Group, acting: Group, automorphisms: Sequence[Sequence[int]]) -> Group:
    """Pairs with (a, g)(b, h) = (a g(b), g h); (a, g) has the number a * acting.order + g.

    automorphisms: `automorphisms[g][b]` is the element g(b) of the normal group.

    Maps that are no automorphisms, or do not compose as the acting group does, are refused with an
    InputError.

    >>> semidirect(cyclic(3), cyclic(2), [[0, 1, 2], [0, 2, 1]]).abelian
    False
    """
    normal, acting = require_group("normal", normal), require_group("acting", acting)
    maps = [tuple(listed("automorphisms", m)) for m in listed("automorphisms", automorphisms)]
    everything = set(normal.elements)
    if len(maps) != acting.order or any(set(m) != everything for m in maps):
        raise InputError(
            f"automorphisms must be {acting.order} rearrangements of the {normal.order} elements of the "
            "normal group, one for each element that acts."
        )
    a, g = normal.table, acting.table
    if any(m[a[b][c]] != a[m[b]][m[c]] for m in maps for b in everything for c in everything):
        raise InputError("automorphisms must keep the products of the normal group.")
    pairs = tuples(acting.elements, repeat=2)
    if any(maps[g[h][k]] != tuple(maps[h][b] for b in maps[k]) for h, k in pairs):
        raise InputError("automorphisms must compose as the elements that act do.")
    return Group.of(
        tuples(normal.elements, acting.elements),
        lambda x, y: (a[x[0]][maps[x[1]][y[0]]], g[x[1]][y[1]]),
    )


def require_group(name: str, value: object) -> Group:
    """Refuse what is no Group."""
    if not isinstance(value, Group):
        raise InputError(f"{name} = {value!r} was given, but {name} must be a Group, as cyclic(4).")
    return value

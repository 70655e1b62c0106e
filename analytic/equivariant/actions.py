r"""Groups that move the points of a signal: $(\rho(g)f)(x) = f(g^{-1}x)$."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import sympy as sp

from analytic.activations.activation import parameter
from analytic.equivariant.groups import (
    Group,
    cyclic,
    product,
    require_group,
    semidirect,
    symmetric,
)
from analytic.expressions.arguments import InputError, RealNumber, listed, whole

__all__ = [
    "Action", "Signal", "exact_number", "exact_signal", "natural", "regular", "require_action",
    "rototranslations", "trivial",
]  # fmt: skip

Signal = Sequence[RealNumber] | Sequence[Sequence[RealNumber]]  # (points,) or (channels, points)


@dataclass(frozen=True)
class Action:
    """A group and where it moves points: `moves[g][x]` is the number of the point g x.

    moves: for each element of the group a rearrangement of the points.

    Moves that do not compose as the group multiplies, (g h) x = g (h x), are refused with an InputError.

    >>> from analytic.equivariant import cyclic
    >>> swap = Action(cyclic(2), [[0, 1, 2], [1, 0, 2]])
    >>> swap.act(1, [5, 6, 7])
    ((6, 5, 7),)
    """

    group: Group
    moves: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        group = require_group("group", self.group)
        moves = tuple(
            tuple(whole("moves", x, 0) for x in listed("moves", row))
            for row in listed("moves", self.moves, "a list of rearrangements")
        )
        object.__setattr__(self, "moves", moves)
        points = set(range(len(moves[0]))) if moves else set()
        rearranged = all(len(m) == len(points) and set(m) == points for m in moves)
        if len(moves) != group.order or not points or not rearranged:
            raise InputError(
                f"moves must be {group.order} rearrangements of the same points, one for each element."
            )
        for g, first in enumerate(moves):
            for h, second in enumerate(moves):
                if moves[group.table[g][h]] != tuple(first[x] for x in second):
                    raise InputError(
                        f"The moves do not compose as the group does: see elements {g} and {h}."
                    )

    @property
    def points(self) -> int:
        """The number of points."""
        return len(self.moves[0])

    def act(self, g: int, f: Signal) -> tuple[tuple[sp.Expr, ...], ...]:
        r"""$\rho(g)f$, whose value at g x is that of f at x.

        g: the number of an element. f: values at the points, (points,) or (channels, points), exact.
        Returned are (channels, points). Other elements and shapes are refused with an InputError.

        >>> from analytic.equivariant import cyclic, regular
        >>> regular(cyclic(4)).act(1, [1, 2, 3, "1/2"])
        ((1/2, 1, 2, 3),)
        """
        if whole("g", g, 0) >= self.group.order:
            raise InputError(f"g = {g} was given, but elements are 0 to {self.group.order - 1}.")
        back = self.moves[self.group.inverses[g]]
        return tuple(tuple(row[x] for x in back) for row in exact_signal("f", f, self.points))

    def orbit(self, f: Signal) -> tuple[tuple[tuple[sp.Expr, ...], ...], ...]:
        r"""$\rho(g)f$ for every element g, as a training set is augmented; signals may occur twice.

        >>> from analytic.equivariant import cyclic, regular
        >>> len(regular(cyclic(4)).orbit([1, 0, 1, 0]))
        4
        """
        return tuple(self.act(g, f) for g in self.group.elements)


def exact_signal(name: str, f: Signal, points: int) -> tuple[tuple[sp.Expr, ...], ...]:
    """A signal as (channels, points) of exact numbers or expressions; other shapes are refused."""
    rows = listed(name, f, f"{points} values, or a list of channels of {points} values")
    several = bool(rows) and all(isinstance(row, list | tuple) for row in rows)
    channels = rows if several else [rows]
    signal = tuple(
        tuple(exact_number(name, value) for value in listed(name, row)) for row in channels
    )
    if any(len(row) != points for row in signal):
        raise InputError(
            f"{name} has channels of {sorted({len(row) for row in signal})} values, but the group moves "
            f"{points} points: give a value for each."
        )
    return signal


def exact_number(name: str, value: RealNumber) -> sp.Expr:
    """A real number, where a float is the fraction that it stores, or an expression."""
    number = parameter(name, value, "a real number, or an expression")
    return sp.Rational(number) if number.is_Float else number


def regular(group: Group) -> Action:
    """A group that moves its own elements, x to g x.

    What is no Group is refused with an InputError.

    >>> from analytic.equivariant import cyclic
    >>> regular(cyclic(2)).moves
    ((0, 1), (1, 0))
    """
    return Action(group, require_group("group", group).table)


def natural(n: int) -> Action:
    """S_n on n points, n = 1 to 5; another n is refused with an InputError.

    >>> natural(3).group.order, natural(3).points
    (6, 3)
    """
    return Action(symmetric(n), tuple(permutations(range(n))))


def trivial(points: int) -> Action:
    """The group of one element, which moves no point: under it a group-convolutional network is an MLP.

    points: a whole number at least 1; others are refused with an InputError.

    >>> trivial(2).moves
    ((0, 1),)
    """
    return Action(cyclic(1), (range(whole("points", points, 1)),))


def rototranslations(size: int, turns: bool = True) -> Action:
    """Translations of a size x size grid that closes on itself, with quarter turns: C4 |x Z_size^2.

    size: 1 to 7; others are refused with an InputError. turns: whether to rotate too. Pixels are numbered
    in rows; a quarter turn moves (a, b) to (-b, a). The translation t and r turns have the number 4 t + r.

    >>> rototranslations(3).group.order, rototranslations(3, turns=False).group.order
    (36, 9)
    """
    size = whole("size", size, 1)
    if size > 7:
        raise InputError(f"size = {size} was given, but grids beyond 7 have too large a table.")
    line = cyclic(size)
    shifts = product(line, line)  # its elements are numbered as the pixels are
    if not turns:
        return regular(shifts)
    quarter = tuple(line.inverses[b] * size + a for a in line.elements for b in line.elements)
    maps = [tuple(shifts.elements)]
    for _ in range(3):
        maps.append(tuple(quarter[x] for x in maps[-1]))
    group = semidirect(shifts, cyclic(4), maps)
    return Action(group, [[shifts.table[t][x] for x in m] for t in shifts.elements for m in maps])


def require_action(name: str, value: object) -> Action:
    """Refuse what is no Action."""
    if not isinstance(value, Action):
        raise InputError(
            f"{name} = {value!r} was given, but {name} must be an Action, as regular(cyclic(4))."
        )
    return value

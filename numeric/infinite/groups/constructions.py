"""Groups made from numbers, permutations and other groups.

Semidirect products number their elements by the acting element first, those of `analytic.equivariant` last.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from itertools import product as pairs

import torch
from torch import Tensor

from numeric.infinite.groups.action import Action
from numeric.infinite.groups.group import Group, Table, whole_matrix
from numeric.inputs import InputError, require_instance, whole

__all__ = ["cyclic", "dihedral", "from_generators", "product", "semidirect", "symmetric", "torus"]

LARGEST = 5040  # elements of a group from generators: a table of 200 MB


def cyclic(n: int) -> Group:
    """Z_n, the rotations of n points on a circle; g h is g + h modulo n.

    n: a whole number at least 1; others are refused.

    >>> cyclic(5).products[3, 4].item()
    2
    """
    k = torch.arange(whole("n", n))
    return Group((k[:, None] + k) % n, f"Z{n}")


def dihedral(n: int) -> Group:
    """D_n, rotations and mirror images of n points on a circle: 2 n elements, rotations first.

    n: a whole number at least 1; others are refused.

    >>> dihedral(3).abelian
    False
    """
    rotations = cyclic(n)
    inversion = torch.stack([torch.arange(n), rotations.inverses])
    return Group(semidirect(rotations, cyclic(2), inversion).products, f"D{n}")


def symmetric(n: int) -> Group:
    """S_n, all permutations of n points, in lexicographic order; (g h)(p) = g(h(p)).

    n: 1 to 7; others are refused, as the table has (n!)^2 entries.

    >>> symmetric(3).order
    6
    """
    if whole("n", n) > 7:
        raise InputError(f"S_{n} has more than {LARGEST} elements: choose n at most 7.")
    return _of_permutations(list(permutations(range(n))), f"S{n}")


def from_generators(generators: Table, name: str = "a group") -> Action:
    """The group that permutations generate, with its action on the points they permute.

    Parameters: `generators` (k, points), each a list of where the points go. Returned is an Action, whose
    `group` is the group. Refused are lists that are no permutations, and groups of more than 5040 elements.

    >>> quarter_turn = [3, 0, 1, 2]
    >>> from_generators([quarter_turn]).group.order
    4
    """
    moves = whole_matrix("generators", generators)
    points = torch.arange(moves.shape[1])
    if not moves.numel() or any(not torch.equal(move.sort().values, points) for move in moves):
        raise InputError(
            "generators must be permutations of 0, 1, ...: one list of images for each."
        )
    identity = tuple(range(len(points)))
    elements, at = [identity], 0
    known = {identity}
    while at < len(elements):
        for move in moves.tolist():
            image = tuple(move[p] for p in elements[at])
            if image not in known:
                known.add(image)
                elements.append(image)
        at += 1
        if len(elements) > LARGEST:
            raise InputError(
                f"The generators make more than {LARGEST} elements: give ones of a smaller group."
            )
    return Action(_of_permutations(elements, name), torch.tensor(elements))


def product(one: Group, other: Group) -> Group:
    """The direct product, (a, b)(c, d) = (a c, b d); (a, b) has the number a * other.order + b.

    What is no Group is refused.

    >>> product(cyclic(2), cyclic(3)).abelian
    True
    """
    require_instance("other", other, Group, "cyclic(2)")
    require_instance("one", one, Group, "cyclic(2)")
    table = one.products[:, None, :, None] * other.order + other.products[:, None, :]
    order = one.order * other.order
    return Group(table.reshape(order, order), f"{one.name} x {other.name}")


def semidirect(normal: Group, acting: Group, automorphisms: Table) -> Group:
    """The semidirect product, (a, h)(b, k) = (a h(b), h k); (a, h) has the number h * normal.order + a.

    Parameters: `automorphisms` (acting.order, normal.order) holds at [h, b] the element h(b) of `normal`.
    Refused are maps that are no automorphisms, or that do not compose as `acting` does.

    >>> semidirect(cyclic(3), cyclic(2), [[0, 1, 2], [0, 2, 1]]).order
    6
    """
    require_instance("normal", normal, Group, "cyclic(3)")
    maps = Action(require_instance("acting", acting, Group, "cyclic(2)"), automorphisms).moves
    table, n, q = normal.products, normal.order, acting.order
    if maps.shape[1] != n or any(not torch.equal(m[table], table[m][:, m]) for m in maps):
        raise InputError(f"automorphisms must map {normal.name} onto itself and keep its products.")
    # [h, a, k, b] -> (h k) n + a h(b)
    first = table[torch.arange(n)[None, :, None], maps[:, None, :]]  # (q, n, n): a h(b)
    whole_table = acting.products[:, None, :, None] * n + first[:, :, None, :]
    return Group(whole_table.reshape(q * n, q * n), f"{acting.name} |x {normal.name}")


def torus(size: int, point_group: Group | None = None, turns: Table | None = None) -> Action:
    """Translations of a size x size grid that closes on itself, and quarter turns: C4 |x Z_size^2.

    Parameters: `size`, a whole number at least 1; `point_group`, without which there are translations alone;
    `turns` (point_group.order, size^2), where each of its elements moves the pixels, by default quarter turns
    for a group of four elements. Returned is the Action on the pixels, in rows. The translation by (a, b) and
    the turn h have the number h * size^2 + a * size + b, and move p to t + h p. Refused are a point group of
    another order without turns, and turns that are no automorphisms of the translations.

    >>> torus(3).group.order, torus(3, cyclic(4)).group.order
    (9, 36)
    """
    size = whole("size", size)
    translations = product(cyclic(size), cyclic(size))
    shifts = translations.products  # pixels are numbered as translations are
    if point_group is None:
        return Action(Group(translations.products, f"Z{size}^2"), shifts)
    require_instance("point_group", point_group, Group, "cyclic(4)")
    if turns is None and point_group.order != 4:
        raise InputError("turns must say where each element of the point group moves the pixels.")
    maps = _quarter_turns(size) if turns is None else whole_matrix("turns", turns)
    group = semidirect(translations, point_group, maps)
    moves = shifts[:, maps]  # (t, h, p) -> t + h p
    return Action(group, moves.transpose(0, 1).reshape(group.order, -1))


def _quarter_turns(size: int) -> Tensor:
    """Where the four rotations about the pixel (0, 0) move the pixels, (4, size^2); (a, b) -> (-b, a)."""
    place = torch.arange(size)
    quarter = ((-place[None, :]) % size * size + place[:, None]).flatten()
    turns = [torch.arange(size**2)]
    for _ in range(3):
        turns.append(quarter[turns[-1]])
    return torch.stack(turns)


def _of_permutations(elements: Sequence[tuple[int, ...]], name: str) -> Group:
    """The group of permutations, the identity first, with (g h)(p) = g(h(p))."""
    numbers = {element: k for k, element in enumerate(elements)}
    table = [numbers[tuple(g[p] for p in h)] for g, h in pairs(elements, elements)]
    return Group(torch.tensor(table).reshape(len(elements), -1), name)

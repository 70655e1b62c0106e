"""Groups as objects: tables, products, actions on signals, motions of the pixel grid, averages, checks."""

from numeric.infinite.groups.action import Action, Averaged, orbit
from numeric.infinite.groups.constructions import (
    cyclic,
    dihedral,
    from_generators,
    product,
    semidirect,
    symmetric,
    torus,
)
from numeric.infinite.groups.group import Group
from numeric.infinite.groups.laws import assert_equivariant, assert_invariant
from numeric.infinite.groups.pixels import RotoTranslations, p4, p4m

__all__ = [
    "Action", "Averaged", "Group", "RotoTranslations", "assert_equivariant", "assert_invariant", "cyclic",
    "dihedral", "from_generators", "orbit", "p4", "p4m", "product", "semidirect", "symmetric", "torus",
]  # fmt: skip

"""Signals on the sphere, rotations that act on them, quadrature on both, and problems to learn."""

from numeric.infinite.spheres.charges import charges_on_a_sphere
from numeric.infinite.spheres.harmonics import SphereGrid, harmonics
from numeric.infinite.spheres.molecules import (
    Molecule,
    SphericalProblem,
    SumOverAtoms,
    molecule_signals,
    read_qm9,
)
from numeric.infinite.spheres.rotations import RotationGrid, Rotations
from numeric.infinite.spheres.wigner import wigner

__all__ = [
    "Molecule", "RotationGrid", "Rotations", "SphereGrid", "SphericalProblem", "SumOverAtoms",
    "charges_on_a_sphere", "harmonics", "molecule_signals", "read_qm9", "wigner",
]  # fmt: skip

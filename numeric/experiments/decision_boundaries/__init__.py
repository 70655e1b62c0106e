"""Classification of points in the plane, and what it does to a network's geometry near the boundary."""

from numeric.experiments.decision_boundaries.contrast import Comparison, Zones
from numeric.experiments.decision_boundaries.curves import Disc, Lattice, distance
from numeric.experiments.decision_boundaries.evidence import Curve, Evidence
from numeric.experiments.decision_boundaries.hypothesis import Hypothesis
from numeric.experiments.decision_boundaries.plane_geometry import (
    GeometryMap,
    geometry_map,
    geometry_maps,
    margin,
)
from numeric.experiments.decision_boundaries.tasks import Recipe, Task, shuffled, sinusoid, xor
from numeric.models.perceptron import ParallelNetworks, cross_entropies, perceptron

__all__ = [
    "Comparison", "Curve", "Disc", "Evidence", "GeometryMap", "Hypothesis", "Lattice", "ParallelNetworks",
    "Recipe", "Task", "Zones", "cross_entropies", "distance", "geometry_map", "geometry_maps", "margin",
    "perceptron", "shuffled", "sinusoid", "xor",
]  # fmt: skip

"""Classification of points in the plane, and what it does to a network's geometry near the boundary."""

from numeric.boundary.contrast import Comparison, Zones
from numeric.boundary.curves import Disc, Lattice, distance
from numeric.boundary.evidence import Curve, Evidence
from numeric.boundary.fields import Field, field, fields, margin
from numeric.boundary.hypothesis import Hypothesis
from numeric.boundary.networks import Together, cross_entropies, perceptron
from numeric.boundary.tasks import Recipe, Task, shuffled, sinusoid, xor

__all__ = [
    "Comparison", "Curve", "Disc", "Evidence", "Field", "Hypothesis", "Lattice", "Recipe", "Task", "Together",
    "Zones", "cross_entropies", "distance", "field", "fields", "margin", "perceptron", "shuffled",
    "sinusoid", "xor",
]  # fmt: skip

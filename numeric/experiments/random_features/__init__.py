"""Networks of finitely many random ReLU units on a line, and how they approach the kernel interpolant."""

from numeric.experiments.random_features.network import (
    Independent,
    RandomFeatureNetwork,
    RandomFeatures,
    Stratified,
)
from numeric.experiments.random_features.sweep import DenseInterpolant, Errors, FeatureSweep

__all__ = [
    "DenseInterpolant", "Errors", "FeatureSweep", "Independent", "RandomFeatureNetwork", "RandomFeatures",
    "Stratified",
]  # fmt: skip

"""Kernels that learn from data, as estimators: section III and appendix F of the curvature paper."""

from numeric.kernels.two_point import Volume
from numeric.learned.amari_wu import AmariWuClassifier, Conformal
from numeric.learned.feature_machine import FeatureMachine
from numeric.learned.kernels import (
    Gaussian,
    Laplace,
    Mahalanobis,
    Polynomial,
    SmoothedLaplace,
)
from numeric.learned.self_supervised import SelfSupervisedKernel

__all__ = [
    "AmariWuClassifier", "Conformal", "FeatureMachine", "Gaussian", "Laplace", "Mahalanobis",
    "Polynomial", "SelfSupervisedKernel", "SmoothedLaplace", "Volume",
]  # fmt: skip

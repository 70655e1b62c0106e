"""Estimators: kernels that learn (curvature paper, section III, appendix F), and regression with any.

Networks that learn from two views of each image (section VI C) are steps of the one training loop:
step = learned.TwoViews(learned.barlow_twins, *learned.paper_views())     # for numeric.runs.train(step=...)
probe = learned.linear_probe(features, labels)                            # what the features know of labels
"""

from numeric.kernels.two_point import Volume
from numeric.learned.amari_wu import AmariWuClassifier, Conformal
from numeric.learned.augmentations import paper_views
from numeric.learned.feature_machine import FeatureMachine
from numeric.learned.gaussian_process import KernelClassifier, KernelRegressor
from numeric.learned.kernels import (
    Gaussian,
    Laplace,
    Mahalanobis,
    Polynomial,
    SmoothedLaplace,
)
from numeric.learned.self_supervised import SelfSupervisedKernel
from numeric.learned.two_views import (
    OnSphere,
    TwoViews,
    barlow_twins,
    linear_probe,
    projector,
    simclr,
    with_readout,
)

__all__ = [
    "AmariWuClassifier", "Conformal", "FeatureMachine", "Gaussian", "KernelClassifier", "KernelRegressor",
    "Laplace", "Mahalanobis", "OnSphere", "Polynomial", "SelfSupervisedKernel", "SmoothedLaplace",
    "TwoViews", "Volume", "barlow_twins", "linear_probe", "paper_views", "projector", "simclr",
    "with_readout",
]  # fmt: skip

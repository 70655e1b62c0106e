"""Numerical experiments with random or trained networks, each imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytic import lazy

if TYPE_CHECKING:
    from numeric.experiments import autodiff_curvature as autodiff_curvature
    from numeric.experiments import bayes as bayes
    from numeric.experiments import class_changes as class_changes
    from numeric.experiments import decision_boundaries as decision_boundaries
    from numeric.experiments import deep_width as deep_width
    from numeric.experiments import ensembles as ensembles
    from numeric.experiments import images as images
    from numeric.experiments import knots as knots
    from numeric.experiments import random_features as random_features
    from numeric.experiments import width as width

MODULES = (
    "autodiff_curvature", "bayes", "class_changes", "decision_boundaries", "deep_width", "ensembles",
    "images", "knots", "random_features", "width",
)  # fmt: skip
__getattr__, __dir__, __all__ = lazy.names(
    __name__, {name: f"{__name__}.{name}" for name in MODULES}
)

"""Bayesian networks of large finite width: how the data change their metric."""

from numeric.experiments.bayes.coefficients import Coefficients
from numeric.experiments.bayes.dataset import Problem
from numeric.experiments.bayes.posterior import (
    FewEffectiveDraws,
    PosteriorVolume,
    Weighted,
    at_infinite_width,
)

__all__ = [
    "Coefficients", "FewEffectiveDraws", "PosteriorVolume", "Problem", "Weighted", "at_infinite_width",
]  # fmt: skip

"""Bayesian networks of large finite width: what their data do to their metric."""

from numeric.bayes.dataset import Problem
from numeric.bayes.posterior import FewEffectiveDraws, PosteriorVolume, Weighted, at_infinite_width
from numeric.bayes.tally import Coefficients

__all__ = [
    "Coefficients", "FewEffectiveDraws", "PosteriorVolume", "Problem", "Weighted", "at_infinite_width",
]  # fmt: skip

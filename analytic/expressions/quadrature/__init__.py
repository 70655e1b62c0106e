"""Gaussian expectations by quadrature, independent of every closed form."""

from analytic.expressions.quadrature.arrays import Estimated, moment_array, pair_array
from analytic.expressions.quadrature.exact import moment, pair

__all__ = ["Estimated", "moment", "moment_array", "pair", "pair_array"]

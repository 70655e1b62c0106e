"""Oracles for tangent kernels and for depth, which share no step but the textbook curvature.

The nested metrics differentiate a composed kernel itself, by differences in its coordinates. The
layered and the weighted ones never see a two-point function: they average phi and its derivatives.
Each takes a network and a point, and returns the Jet of a metric; `at_radius` makes it a route.
"""

from analytic.checks.kernel_oracles.composed_kernel import Network, at_radius
from analytic.checks.kernel_oracles.differences import nested, nested_nngp, nested_ntk
from analytic.checks.kernel_oracles.layer_averages import layered_nngp, layered_ntk
from analytic.checks.kernel_oracles.weight_average import weighted_ntk

__all__ = [
    "Network", "at_radius", "layered_nngp", "layered_ntk", "nested", "nested_nngp", "nested_ntk",
    "weighted_ntk",
]  # fmt: skip

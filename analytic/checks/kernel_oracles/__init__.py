"""Oracles for the metrics of tangent kernels and of deep networks, in three independent ways.

`..._by_differences` differentiates the kernel, composed layer by layer, by central differences in
its coordinates. `..._by_layer_averages` and `..._by_weight_average` use no two-point function: they
average phi and its derivatives. Each takes a network and a point and returns the `MetricJet` there;
`oracle_at_radius` turns it into the oracle of a `Claim`. All share the textbook curvature only.
"""

from analytic.checks.kernel_oracles.composed_kernel import WideNetwork, oracle_at_radius
from analytic.checks.kernel_oracles.differences import (
    metric_by_differences,
    nngp_by_differences,
    ntk_by_differences,
)
from analytic.checks.kernel_oracles.layer_averages import (
    nngp_by_layer_averages,
    ntk_by_layer_averages,
    ntk_by_weight_average,
)

__all__ = [
    "WideNetwork", "metric_by_differences", "nngp_by_differences", "nngp_by_layer_averages",
    "ntk_by_differences", "ntk_by_layer_averages", "ntk_by_weight_average", "oracle_at_radius",
]  # fmt: skip

"""How the neurons of a univariate ReLU network move: canonical parameters, invariants, rays, limits."""

from analytic.relu_dynamics.boost import along, boosted, descended
from analytic.relu_dynamics.field import Field, Kind
from analytic.relu_dynamics.measure import moments, rates, residuals
from analytic.relu_dynamics.metric import (
    adaptive_limit,
    angular_rate,
    c_squared,
    change_of_metric,
    kernel_limit,
    radial_rate,
)
from analytic.relu_dynamics.neuron import Canonical, Neuron, jacobian
from analytic.relu_dynamics.regions import Arc, Ray, Samples
from analytic.relu_dynamics.variation import (
    affine_cost,
    penalty,
    total_variation,
    weighted_curvature,
)

__all__ = [
    "Arc", "Canonical", "Field", "Kind", "Neuron", "Ray", "Samples", "adaptive_limit", "affine_cost",
    "along", "angular_rate", "boosted", "c_squared", "change_of_metric", "descended", "jacobian",
    "kernel_limit", "moments", "penalty", "radial_rate", "rates", "residuals", "total_variation",
    "weighted_curvature",
]  # fmt: skip

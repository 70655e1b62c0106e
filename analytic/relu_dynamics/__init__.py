"""Gradient flow of the neurons of a univariate ReLU network: canonical parameters, invariants, limits."""

from analytic.relu_dynamics.boost import descent_step, lorentz_boost, project_to_ray
from analytic.relu_dynamics.measure import arc_moments, residual_rates, residuals
from analytic.relu_dynamics.metric import (
    adaptive_limit,
    angular_rate,
    c_squared,
    change_of_metric,
    kernel_limit,
    radial_rate,
)
from analytic.relu_dynamics.neuron import CanonicalNeuron, Neuron, jacobian
from analytic.relu_dynamics.regions import Arc, Ray, Samples
from analytic.relu_dynamics.variation import (
    affine_cost,
    penalty,
    total_variation,
    weighted_curvature,
)
from analytic.relu_dynamics.velocity_field import RayKind, VelocityField

__all__ = [
    "Arc", "CanonicalNeuron", "Neuron", "Ray", "RayKind", "Samples", "VelocityField", "adaptive_limit",
    "affine_cost", "angular_rate", "arc_moments", "c_squared", "change_of_metric", "descent_step",
    "jacobian", "kernel_limit", "lorentz_boost", "penalty", "project_to_ray", "radial_rate",
    "residual_rates", "residuals", "total_variation", "weighted_curvature",
]  # fmt: skip

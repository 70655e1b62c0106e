"""Flows of a model's outputs under training: from gradient descent to straight lines, exactly."""

from analytic.output_flow.classes import ClassSplit
from analytic.output_flow.fields import (
    kernel_on_training_set,
    metric,
    output_field,
    parameter_field,
    preconditioner,
)
from analytic.output_flow.inverses import pseudoinverse, range_projector
from analytic.output_flow.kernels import kernel, kernel_from_tangents
from analytic.output_flow.rank_loss import ProjectorPath, propagator
from analytic.output_flow.straight_line import elapsed, remaining, straight_line, time

__all__ = [
    "ClassSplit", "ProjectorPath", "elapsed", "kernel", "kernel_from_tangents", "kernel_on_training_set",
    "metric", "output_field", "parameter_field", "preconditioner", "propagator", "pseudoinverse",
    "range_projector", "remaining", "straight_line", "time",
]  # fmt: skip

"""Training of shallow ReLU networks on a line, from kernel to adaptive."""

from numeric.relu_dynamics.descent import Descent, Divergence, Moves
from numeric.relu_dynamics.flow import Flow
from numeric.relu_dynamics.mean_field import MeanField
from numeric.relu_dynamics.neurons import Neurons
from numeric.relu_dynamics.total_variation import Variation, variation
from numeric.relu_dynamics.trajectory import Event, EventKind, Trajectory

__all__ = [
    "Descent", "Divergence", "Event", "EventKind", "Flow", "MeanField", "Moves", "Neurons",
    "Trajectory", "Variation", "variation",
]  # fmt: skip

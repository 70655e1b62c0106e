"""Training of shallow ReLU networks on a line, from kernel to adaptive."""

from numeric.relu_dynamics.descent import Descent, Divergence, TrainedLayers
from numeric.relu_dynamics.flow import Flow
from numeric.relu_dynamics.mean_field import MeanField
from numeric.relu_dynamics.neurons import Neurons
from numeric.relu_dynamics.total_variation import Variation, variation
from numeric.relu_dynamics.trajectory import Event, EventKind, Trajectory

__all__ = [
    "Descent", "Divergence", "Event", "EventKind", "Flow", "MeanField", "Neurons", "TrainedLayers",
    "Trajectory", "Variation", "variation",
]  # fmt: skip

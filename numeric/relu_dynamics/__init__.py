"""Training of shallow ReLU networks on a line, from kernel to adaptive."""

from numeric.relu_dynamics.flow import Flow
from numeric.relu_dynamics.gradient import Samples, gradient
from numeric.relu_dynamics.neurons import Neurons
from numeric.relu_dynamics.trajectory import Event, Kind, Trajectory

__all__ = ["Event", "Flow", "Kind", "Neurons", "Samples", "Trajectory", "gradient"]

"""What depth does to a signal: fixed points, depth scales, and the phases of infinitely wide networks.

Conventions: z <- sigma W phi(z) + zeta b in every hidden layer, V_1 = sigma^2 |x|^2 + zeta^2. Theory:
Poole et al. 2016 (arXiv:1606.05340), Schoenholz et al. 2017 (arXiv:1611.01232).
"""

from analytic.signal_propagation.critical import critical_line, critical_sigma
from analytic.signal_propagation.diagram import PhaseDiagram, phase_diagram
from analytic.signal_propagation.signal import Signal
from analytic.signal_propagation.trajectory import Trajectory, trajectory
from analytic.signal_propagation.variance import FixedPoint

__all__ = [
    "FixedPoint", "PhaseDiagram", "Signal", "Trajectory", "critical_line", "critical_sigma",
    "phase_diagram", "trajectory",
]  # fmt: skip

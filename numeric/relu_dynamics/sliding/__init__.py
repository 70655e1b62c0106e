r"""Training of a and b alone, which is delta = +infinity, solved exactly from change to change.

While the samples that each neuron sees stay the same, residuals and neurons move linearly. A knot that
reaches a sample crosses it, or is held there for a while: then the neuron slides along a ray, and the
system is still linear. Where this leaves a choice, `numeric.relu_dynamics.sliding.state` tells which is made.
"""

from numeric.relu_dynamics.sliding.integrator import integrate
from numeric.relu_dynamics.sliding.solution import Solution

__all__ = ["Solution", "integrate"]

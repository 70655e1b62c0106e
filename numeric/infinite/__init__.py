"""Networks of infinite width: kernels on data, and what they predict."""

from numeric.infinite.evidence import log_marginal_likelihood
from numeric.infinite.network import FullyConnected
from numeric.infinite.parametrisation import NTK, Standard
from numeric.infinite.prediction import RandomInitial, ZeroInitial, gradient_flow, posterior

__all__ = [
    "NTK", "FullyConnected", "RandomInitial", "Standard", "ZeroInitial", "gradient_flow",
    "log_marginal_likelihood", "posterior",
]  # fmt: skip

"""Networks of infinite width: kernels on data, and what they predict."""

from numeric.infinite import groups, spheres
from numeric.infinite.composition import (
    CIRCULAR,
    SAME,
    VALID,
    AveragePool,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    GlobalPool,
    GroupConvolution,
    GroupPool,
    LayerNorm,
    Lift,
    Network,
    Residual,
    S2Convolution,
    SelfAttention,
    SO3Convolution,
    Window,
)
from numeric.infinite.evidence import log_marginal_likelihood
from numeric.infinite.groups import assert_equivariant, assert_invariant
from numeric.infinite.network import FullyConnected
from numeric.infinite.parametrisation import NTK, Standard
from numeric.infinite.prediction import RandomInitial, ZeroInitial, gradient_flow, posterior

__all__ = [
    "CIRCULAR", "NTK", "SAME", "VALID", "AveragePool", "Convolution", "Dense", "Dropout", "Flatten",
    "FullyConnected", "GlobalPool", "GroupConvolution", "GroupPool", "LayerNorm", "Lift", "Network",
    "RandomInitial", "Residual", "S2Convolution", "SO3Convolution", "SelfAttention", "Standard", "Window",
    "ZeroInitial", "assert_equivariant", "assert_invariant", "gradient_flow", "groups",
    "log_marginal_likelihood", "posterior", "spheres",
]  # fmt: skip

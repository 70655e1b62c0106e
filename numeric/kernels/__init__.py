"""Kernels: callables (x, y=None) -> (n, m), and what works on any of them."""

from numeric.kernels.conditional import PointwiseGaussian, conditional
from numeric.kernels.jets import Jet
from numeric.kernels.kernel import Combined, FunctionKernel, Kernel, Scaled, Tiled
from numeric.kernels.laws import assert_kernel
from numeric.kernels.spectrum import GramSpectrum, SingularGram

__all__ = [
    "Combined", "FunctionKernel", "GramSpectrum", "Jet", "Kernel", "PointwiseGaussian", "Scaled",
    "SingularGram", "Tiled", "assert_kernel", "conditional",
]  # fmt: skip

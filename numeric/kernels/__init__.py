"""Kernels: callables (x, y=None) -> (n, m), and what works on any of them."""

from numeric.kernels.kernel import FunctionKernel, Kernel, Product, Scaled, Sum, Tiled
from numeric.kernels.laws import assert_kernel
from numeric.kernels.spectrum import GramSpectrum, SingularGram

__all__ = [
    "FunctionKernel",
    "GramSpectrum",
    "Kernel",
    "Product",
    "Scaled",
    "SingularGram",
    "Sum",
    "Tiled",
    "assert_kernel",
]  # fmt: skip

"""Interpolants of univariate ReLU networks in the kernel regime, in time linear in the data."""

from numeric.splines.interpolant import SplineInterpolant
from numeric.splines.kernel import SplineKernel

__all__ = ["SplineInterpolant", "SplineKernel"]

"""Metric, volume and curvature: of any symbolic metric, and of shallow and deep kernels."""

__all__ = ["deep", "kernel_jet", "layer_moments", "nngp", "ntk", "radial", "riemann"]

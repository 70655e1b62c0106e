"""Metric, volume and curvature: of any symbolic metric, and of shallow and deep kernels."""

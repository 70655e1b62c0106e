"""Shallow networks of finite width in symbols: appendices A and B of the curvature paper."""

__all__ = ["bumps", "erf3", "forms", "units"]

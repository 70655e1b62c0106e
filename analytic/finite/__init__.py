"""Shallow networks of finite width in symbols: appendices A and B of the curvature paper."""

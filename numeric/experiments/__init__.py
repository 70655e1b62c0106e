"""Numerical experiments with random or trained networks; nothing else depends on them."""

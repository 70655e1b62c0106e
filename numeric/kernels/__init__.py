"""Kernels: callables (x, y=None) -> (n, m), and what works on any of them."""

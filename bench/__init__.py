"""Benchmarks: ratios measured in one run, against a named rival or a physical limit."""

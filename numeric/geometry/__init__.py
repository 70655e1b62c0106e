"""Geometry that any feature map pulls back to its inputs: metric, volume, spectrum and curvature.

Convention: the unit d-sphere has R = +d(d-1); condition numbers are of the Jacobian, the roots of
those of the metric.
"""

from numeric.geometry.feature_map import FeatureMap
from numeric.geometry.probes import ricci_estimate
from numeric.geometry.ricci import Ricci, metric, ricci_scalar
from numeric.geometry.volume import LogVolume, Spectrum, log_volume, spectrum

__all__ = [
    "FeatureMap", "LogVolume", "Ricci", "Spectrum", "log_volume", "metric", "ricci_estimate",
    "ricci_scalar", "spectrum",
]  # fmt: skip

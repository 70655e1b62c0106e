"""Geometry that any feature map pulls back to its inputs: metric, volume, spectrum and curvature.

Convention: the unit d-sphere has R = +d(d-1); condition numbers are of the Jacobian, the roots of
those of the metric.

Cost in points, width, features and inputs d, as slopes of log CPU time against log size:

    ricci_scalar, hidden layer by frames    points^1.1  width^1.2     d^2.1
    ricci_scalar, any map                   points^0.9  features^0.7  d^1.8
    log_volume, hidden layer                points^1.1  width^1.0     d^1.7

Each is fitted to four sizes, one of which doubles while the others stay, by the least of three runs on one
thread of an x86-64 core; those of curvature are sure to 0.1, and in d to 0.3. Curvature: 500 to 4000 points
at 128 units and d = 2, 256 to 2048 units at 200 points, 4 to 32 inputs at 20 points of 256 units. Volume: 1
to 8 points of 2000 units and d = 400, 2000 to 16000 units, 200 to 1600 inputs at 4000 units. `make bench`
prints them. Counted rather than measured, a point costs O(width d^3) for curvature and O(width d^2) for a
volume; a map with p features that is no hidden layer takes min(p, d) passes for a volume, d (d + 3)/2 for
curvature, and d + 3 probes for its estimate.
"""

from numeric.geometry.random_directions import ricci_estimate
from numeric.geometry.ricci import Ricci, metric, ricci_scalar
from numeric.geometry.volume import LogVolume, MetricSpectrum, log_volume, spectrum
from numeric.geometry.volume_estimate import LogVolumeEstimate, log_volume_estimate

__all__ = [
    "LogVolume", "LogVolumeEstimate", "MetricSpectrum", "Ricci", "log_volume", "log_volume_estimate",
    "metric", "ricci_estimate", "ricci_scalar", "spectrum",
]  # fmt: skip

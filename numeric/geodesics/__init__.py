"""Geodesics and distances in the geometry that a feature map pulls back to its inputs.

    path = geodesics.between(network, p, q)     # .length, .error, .at(t), .log, .minimum
    geodesics.distances(network, points)        # (n, n)
    geodesics.shoot(network, p, v).end          # the exponential map
    geodesics.mean(network, points).point       # the Riemannian mean

Lengths are those of `geometry.metric`, g = J^T J. For smooth maps geodesics are accurate to the last digits.
Networks with kinks, such as those of ReLUs, are flat between them; their shortest paths are found by
relaxation.
"""

from numeric.geodesics.geodesic import Geodesic
from numeric.geodesics.means import Mean, mean
from numeric.geodesics.pairs import between, distance, distances, relax, several
from numeric.geodesics.refinement import NotConverged
from numeric.geodesics.search import Search
from numeric.geodesics.shooting import Ray, shoot

__all__ = [
    "Geodesic", "Mean", "NotConverged", "Ray", "Search", "between", "distance", "distances", "mean",
    "relax", "several", "shoot",
]  # fmt: skip

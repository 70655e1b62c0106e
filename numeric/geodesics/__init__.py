"""Geodesics and distances in the geometry that a feature map pulls back to its inputs.

    path = geodesics.between(network, p, q)     # .length, .error, .at(t), .log, .minimum
    geodesics.distances(network, points)        # (n, n)
    geodesics.shoot(network, p, v).end          # the exponential map
    geodesics.mean(network, points).point       # the Riemannian mean

Lengths are those of `geometry.metric`, g = J^T J. Smooth maps get geodesics to the last digits;
networks with creases, such as those of ReLUs, are flat between them, and get shortest paths by
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

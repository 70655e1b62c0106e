"""Do knots of univariate ReLU networks gather at the samples?"""

from numeric.experiments.knots.clusters import Clustering, Share, clustering
from numeric.experiments.knots.gathering import Gathering, Shares

__all__ = ["Clustering", "Gathering", "Share", "Shares", "clustering"]

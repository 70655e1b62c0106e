"""What learning one datum does to the volume element, to first order in one over the width."""

from analytic.perturbation.factors import chi, fluctuation, magnification
from analytic.perturbation.polynomials import exact_chi, exact_fluctuation, polynomial

__all__ = [
    "chi", "exact_chi", "exact_fluctuation", "fluctuation", "magnification", "polynomial",
]  # fmt: skip

"""Kernels of univariate ReLU networks whose hidden layer is drawn at random, and their norms."""

from analytic.splines.initialisation import INITIALISATIONS, Initialisation

__all__ = ["INITIALISATIONS", "Initialisation"]

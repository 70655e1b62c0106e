"""Closed forms of neural kernels and their geometry: derived, compiled, and tried against routes."""

from analytic.activation import Activation
from analytic.catalogue import catalogue
from analytic.domain import InputError
from analytic.formula import Formula

__all__ = ["Activation", "Formula", "InputError", "catalogue"]

"""Closed forms of neural kernels and their geometry: derived, compiled, and tried against routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytic import lazy
from analytic.activations.activation import Activation
from analytic.catalogue import catalogue
from analytic.expressions.arguments import InputError
from analytic.expressions.formula import Formula

if TYPE_CHECKING:
    from analytic import activations as activations
    from analytic.expressions import quadrature as quadrature
    from analytic.expressions import symbols as symbols
    from analytic.geometry import deep as deep
    from analytic.geometry import nngp as nngp
    from analytic.geometry import ntk as ntk
    from analytic.geometry import riemann as riemann

__getattr__, __dir__, _modules = lazy.names(
    __name__,
    {
        "activations": "analytic.activations",
        "deep": "analytic.geometry.deep",
        "nngp": "analytic.geometry.nngp",
        "ntk": "analytic.geometry.ntk",
        "quadrature": "analytic.expressions.quadrature",
        "riemann": "analytic.geometry.riemann",
        "symbols": "analytic.expressions.symbols",
    },
)
__all__ = ["Activation", "Formula", "InputError", "catalogue", *_modules]

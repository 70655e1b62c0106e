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
    from analytic import equivariant as equivariant
    from analytic import finite as finite
    from analytic import geometry as geometry
    from analytic import ledger as ledger
    from analytic import output_flow as output_flow
    from analytic import perturbation as perturbation
    from analytic import relu_dynamics as relu_dynamics
    from analytic import signal_propagation as signal_propagation
    from analytic import splines as splines
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
        "equivariant": "analytic.equivariant",
        "finite": "analytic.finite",
        "geometry": "analytic.geometry",
        "ledger": "analytic.ledger",
        "nngp": "analytic.geometry.nngp",
        "ntk": "analytic.geometry.ntk",
        "output_flow": "analytic.output_flow",
        "perturbation": "analytic.perturbation",
        "quadrature": "analytic.expressions.quadrature",
        "relu_dynamics": "analytic.relu_dynamics",
        "riemann": "analytic.geometry.riemann",
        "signal_propagation": "analytic.signal_propagation",
        "splines": "analytic.splines",
        "symbols": "analytic.expressions.symbols",
    },
)
__all__ = ["Activation", "Formula", "InputError", "catalogue", *_modules]

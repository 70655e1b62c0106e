r"""Activations with closed-form Gaussian moments: the only closed forms typed by hand in the suite.

Convention: `erf` is erf(z/sqrt 2), `monomial(q)` is z^q/sqrt((2q-1)!!), `relu_power(q)` is
max(0, z)^q, `gelu` is exact, z Phi(z). A pair (textbook, stable) is one function in two forms, the
second for floats. `ACTIVATIONS` are those of the catalogue, `FURTHER` holds one of each other kind,
and the module `smooth` those without closed forms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analytic import lazy

if TYPE_CHECKING:
    from analytic.activations.activation import Activation as Activation
    from analytic.activations.activation import affine as affine
    from analytic.activations.further_table import FURTHER as FURTHER
    from analytic.activations.hermite_polynomials import hermite as hermite
    from analytic.activations.normal import elu as elu
    from analytic.activations.normal import erf as erf
    from analytic.activations.normal import gaussian as gaussian
    from analytic.activations.normal import gelu as gelu
    from analytic.activations.powers import monomial as monomial
    from analytic.activations.powers import polynomial as polynomial
    from analytic.activations.powers import relu as relu
    from analytic.activations.powers import relu_power as relu_power
    from analytic.activations.slopes import absolute as absolute
    from analytic.activations.slopes import leaky_relu as leaky_relu
    from analytic.activations.slopes import sign as sign
    from analytic.activations.slopes import step as step
    from analytic.activations.slopes import two_slope as two_slope
    from analytic.activations.smooth import sigmoid as sigmoid
    from analytic.activations.smooth import silu as silu
    from analytic.activations.smooth import softplus as softplus
    from analytic.activations.smooth import tanh as tanh
    from analytic.activations.table import ACTIVATIONS as ACTIVATIONS
    from analytic.activations.waves import cosine as cosine
    from analytic.activations.waves import exponential as exponential
    from analytic.activations.waves import gabor as gabor
    from analytic.activations.waves import rbf as rbf
    from analytic.activations.waves import sine as sine
    from analytic.activations.waves import snake as snake

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "Activation": "analytic.activations.activation",
        "ACTIVATIONS": "analytic.activations.table",
        "FURTHER": "analytic.activations.further_table",
        "absolute": "analytic.activations.slopes",
        "affine": "analytic.activations.activation",
        "cosine": "analytic.activations.waves",
        "elu": "analytic.activations.normal",
        "erf": "analytic.activations.normal",
        "exponential": "analytic.activations.waves",
        "gabor": "analytic.activations.waves",
        "gaussian": "analytic.activations.normal",
        "gelu": "analytic.activations.normal",
        "hermite": "analytic.activations.hermite_polynomials",
        "leaky_relu": "analytic.activations.slopes",
        "monomial": "analytic.activations.powers",
        "polynomial": "analytic.activations.powers",
        "rbf": "analytic.activations.waves",
        "relu": "analytic.activations.powers",
        "relu_power": "analytic.activations.powers",
        "sigmoid": "analytic.activations.smooth",
        "sign": "analytic.activations.slopes",
        "silu": "analytic.activations.smooth",
        "sine": "analytic.activations.waves",
        "snake": "analytic.activations.waves",
        "softplus": "analytic.activations.smooth",
        "step": "analytic.activations.slopes",
        "tanh": "analytic.activations.smooth",
        "two_slope": "analytic.activations.slopes",
    },
)

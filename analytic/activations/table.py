"""Activations by name: those of the catalogue, and one of each other kind."""

from __future__ import annotations

from sympy import Rational

from analytic.activations.activation import Activation
from analytic.activations.hermite_polynomials import hermite
from analytic.activations.normal import elu, erf, gaussian, gelu
from analytic.activations.powers import monomial, relu_power
from analytic.activations.slopes import absolute, leaky_relu, sign, step
from analytic.activations.smooth import sigmoid, silu, softplus, tanh
from analytic.activations.waves import cosine, exponential, gabor, rbf, sine, snake

__all__ = ["ACTIVATIONS", "FURTHER"]

ACTIVATIONS: dict[str, Activation] = {
    one.name: one
    for one in (
        erf, monomial(), relu_power(), sine(), cosine(), exponential(), gaussian, gelu, elu, snake(),
    )
}  # fmt: skip

FURTHER: dict[str, Activation] = {
    one.name: one
    for one in (
        leaky_relu(Rational(1, 10)), absolute, sign, step,
        sine(Rational(13, 10), phase=Rational(2, 5)), rbf(Rational(7, 10)), gabor, hermite(3),
        tanh, sigmoid, softplus, silu,
    )
}  # fmt: skip

"""Activations by name: one of each kind beyond the catalogue."""

from __future__ import annotations

from sympy import Rational

from analytic.activations.activation import Activation
from analytic.activations.hermite_polynomials import hermite
from analytic.activations.slopes import absolute, leaky_relu, sign, step
from analytic.activations.smooth import sigmoid, silu, softplus, tanh
from analytic.activations.waves import gabor, rbf, sine

__all__ = ["FURTHER"]

FURTHER: dict[str, Activation] = {
    one.name: one
    for one in (
        leaky_relu(Rational(1, 10)), absolute, sign, step,
        sine(Rational(13, 10), phase=Rational(2, 5)), rbf(Rational(7, 10)), gabor, hermite(3),
        tanh, sigmoid, softplus, silu,
    )
}  # fmt: skip

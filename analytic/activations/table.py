"""Activations by name: those of the catalogue."""

from __future__ import annotations

from analytic.activations.activation import Activation
from analytic.activations.normal import elu, erf, gaussian, gelu
from analytic.activations.powers import monomial, relu_power
from analytic.activations.waves import cosine, exponential, sine, snake

__all__ = ["ACTIVATIONS"]

ACTIVATIONS: dict[str, Activation] = {
    one.name: one
    for one in (
        erf, monomial(), relu_power(), sine(), cosine(), exponential(), gaussian, gelu, elu, snake(),
    )
}  # fmt: skip

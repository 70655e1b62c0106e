r"""Activations with closed-form Gaussian moments: the only closed forms typed by hand in the suite.

Convention: `erf` is erf(z/sqrt 2), `monomial(q)` is z^q/sqrt((2q-1)!!), `relu_power(q)` is
max(0, z)^q, `gelu` is exact, z Phi(z). A pair (textbook, stable) gives both faces.
"""

from analytic.activation import Activation
from analytic.activations.normal import elu, erf, gaussian, gelu
from analytic.activations.powers import monomial, polynomial, relu, relu_power
from analytic.activations.waves import cosine, exponential, sine, snake

ACTIVATIONS: dict[str, Activation] = {
    one.name: one
    for one in (
        erf, monomial(), relu_power(), sine(), cosine(), exponential(), gaussian, gelu, elu, snake(),
    )
}  # fmt: skip


__all__ = [
    "ACTIVATIONS", "cosine", "elu", "erf", "exponential", "gaussian", "gelu", "monomial",
    "polynomial", "relu", "relu_power", "sine", "snake",
]  # fmt: skip

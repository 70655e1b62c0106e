r"""How a layer's weights are trained: the rates at which they move enter the tangent kernel.

A layer $\Theta \leftarrow \text{weights}\cdot k + \text{biases} + \sigma_w^2\,\dot k\,\Theta$ has rates
of its weights and biases.
"""

from __future__ import annotations

from dataclasses import dataclass

from numeric.inputs import whole

__all__ = ["NTK", "Parametrisation", "Standard"]


@dataclass(frozen=True)
class NTK:
    r"""$z = \frac{\sigma_w}{\sqrt n} W x + \sigma_b b$ with W, b standard normal and trained.

    >>> NTK().rates(None, 1.5, 0.5)
    (2.25, 0.25)
    """

    def rates(self, fan_in: int | None, sigma_w: float, sigma_b: float) -> tuple[float, float]:
        """The rates of weights and biases, factors of E[phi phi] and 1; fan_in is None in a hidden layer."""
        return sigma_w**2, sigma_b**2


@dataclass(frozen=True)
class Standard:
    r"""$z = W x + b$ with $W \sim N(0, \sigma_w^2/n)$, $b \sim N(0, \sigma_b^2)$ trained themselves.

    The tangent kernel grows with the width n of the hidden layers, so it must be given; what is
    returned is exact to leading order in it. A layer with sigma_b = 0 has no biases. A width that is no whole
    number above 0 is refused.

    >>> Standard(width=512).rates(None, 1.5, 0.5)
    (512.0, 1.0)
    """

    width: int

    def __post_init__(self) -> None:
        whole("width", self.width)

    def rates(self, fan_in: int | None, sigma_w: float, sigma_b: float) -> tuple[float, float]:
        """The rates of weights and biases; fan_in is None in a hidden layer, whose fan-in is the width."""
        return float(fan_in or self.width), float(sigma_b > 0)


Parametrisation = NTK | Standard

r"""Fully connected networks of infinite width: their Gram matrices, NNGP and NTK.

$$\Sigma_1 = \tfrac{\sigma_w^2}{d} x\cdot y + \sigma_b^2,\quad k = E[\phi\phi](\Sigma),\quad
  \Sigma \leftarrow \sigma_w^2 k + \sigma_b^2,\quad
  \Theta \leftarrow \text{rates}\cdot(k, 1) + \sigma_w^2 E[\phi'\phi'](\Sigma)\,\Theta.$$
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral

from torch import Tensor

from analytic.activations.activation import Activation
from numeric.infinite import gram
from numeric.infinite.layers import Layer
from numeric.infinite.parametrisation import NTK, Parametrisation
from numeric.inputs import InputError
from numeric.kernels import Kernel


@dataclass(frozen=True)
class FullyConnected:
    """Hidden layers of infinite width, then a linear readout.

    `activation` is one for all hidden layers or a sequence of `depth` of them; `sigma_w` and
    `sigma_b` are one number for all layers or one for each of the depth + 1. Gram matrices have no
    gradient by the points.
    """

    activation: Activation | Sequence[Activation]
    depth: int = 3
    sigma_w: float | Sequence[float] = 1.5
    sigma_b: float | Sequence[float] = 0.1
    parametrisation: Parametrisation = field(default_factory=NTK)

    def __post_init__(self) -> None:
        whole = isinstance(self.depth, Integral) and not isinstance(self.depth, bool)
        if not whole or self.depth < 1:
            raise InputError(f"depth must be a whole number at least 1, not {self.depth!r}.")
        object.__setattr__(self, "depth", int(self.depth))
        object.__setattr__(self, "sigma_w", self._scales("sigma_w", positive=True))
        object.__setattr__(self, "sigma_b", self._scales("sigma_b", positive=False))
        if not isinstance(self.parametrisation, Parametrisation):
            raise InputError(
                f"parametrisation must be NTK() or Standard(width), not {self.parametrisation!r}."
            )
        _ = self.layers

    def _scales(self, name: str, positive: bool) -> tuple[float, ...]:
        given = getattr(self, name)
        many = (
            hasattr(given, "__len__") and not isinstance(given, str) and getattr(given, "ndim", 1)
        )
        values = tuple(given) if many else (given,) * (self.depth + 1)
        if len(values) != self.depth + 1:
            raise InputError(
                f"{name} has {len(values)} entries, but depth {self.depth} and the readout need "
                f"{self.depth + 1}: give one number, or one for each layer."
            )
        need = "above 0" if positive else "at least 0"
        try:
            if any(isinstance(value, str | bool) for value in values):
                raise TypeError
            numbers = tuple(map(float, values))
        except (TypeError, ValueError):
            raise InputError(
                f"{name} must be one number {need}, or a list of them, not {given!r}."
            ) from None
        if not all(math.isfinite(v) and (v > 0 or (v == 0 and not positive)) for v in numbers):
            raise InputError(f"{name} must be finite and {need}, not {given!r}.")
        return numbers

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The hidden layers."""
        given = self.activation
        many = isinstance(given, Sequence) and not isinstance(given, str)
        if many and len(given) != self.depth:
            raise InputError(
                f"{len(given)} activations were given for depth {self.depth}: give one, or one for each."
            )
        chosen = tuple(given) if many else (given,) * self.depth
        made = {id(act): Layer(act) for act in chosen}
        return tuple(made[id(act)] for act in chosen)

    @property
    def activations(self) -> tuple[Activation, ...]:
        return tuple(layer.activation for layer in self.layers)

    @property
    def nngp(self) -> NNGPKernel:
        """The covariance of outputs at initialisation, a Kernel: (n, d), (m, d) -> (n, m)."""
        return NNGPKernel(self)

    @property
    def ntk(self) -> TangentKernel:
        """The tangent kernel, a Kernel: (n, d), (m, d) -> (n, m)."""
        return TangentKernel(self)

    def nngp_gradient(self, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """d/d(sigma_w, sigma_b) of sum(weights * nngp(x)), tile by tile: (depth + 1), (depth + 1)."""
        return gram.gradient(self, x, weights)


@dataclass(frozen=True)
class NNGPKernel(Kernel):
    """The covariance of a network's outputs at initialisation."""

    network: FullyConnected

    def __call__(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return gram.matrix(self.network, x, y, tangent=False)

    def diagonal(self, x: Tensor) -> Tensor:
        return gram.diagonal(self.network, x, tangent=False)


@dataclass(frozen=True)
class TangentKernel(Kernel):
    """The neural tangent kernel of a network; refused where an activation's slope has no variance."""

    network: FullyConnected

    def __post_init__(self) -> None:
        for act in self.network.activations:
            act.require("slope")

    def __call__(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return gram.matrix(self.network, x, y, tangent=True)

    def diagonal(self, x: Tensor) -> Tensor:
        return gram.diagonal(self.network, x, tangent=True)

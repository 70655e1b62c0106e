r"""Fully connected networks of infinite width: their Gram matrices, NNGP and NTK.

$$\Sigma_1 = \tfrac{\sigma_w^2}{d} x\cdot y + \sigma_b^2,\quad k = E[\phi\phi](\Sigma),\quad
  \Sigma \leftarrow \sigma_w^2 k + \sigma_b^2,\quad
  \Theta \leftarrow \text{rates}\cdot(k, 1) + \sigma_w^2 E[\phi'\phi'](\Sigma)\,\Theta.$$
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from analytic.activations.activation import Activation
from numeric.infinite import gram
from numeric.infinite.composition import Dense, Network
from numeric.infinite.layers import Layer
from numeric.infinite.parametrisation import NTK, Parametrisation
from numeric.inputs import ArrayLike, InputError, require_instance, whole
from numeric.kernels import Kernel
from numeric.kernels.jets import Jet

__all__ = ["FullyConnected", "NNGPKernel", "TangentKernel"]

Scales = float | Sequence[float] | np.ndarray | Tensor  # one number, or one for each layer
DEFAULT_PARAMETRISATION = NTK()


@dataclass(frozen=True, init=False)
class FullyConnected:
    """Hidden layers of infinite width, then a linear readout.

    Parameters: `activation` is one for all hidden layers, or a sequence with one for each; `depth` is the
    number of hidden layers, 3 where one activation is given, and else as many as there are; `sigma_w` and
    `sigma_b`, standard deviations of weights (over the root of the fan-in) and biases, are one number
    for all layers or one for each of the depth + 1; `parametrisation` says how fast each parameter is
    trained, NTK() or Standard(width).

    `nngp` and `ntk` are Kernels on points (n, d), float32 or float64 on any device, with a metric in closed
    form, but no other gradient by the points. Refused are other activations than those of `analytic`, scales
    that are negative or not finite, and counts that do not fit.

    >>> import torch
    >>> from analytic.activations import gelu, relu
    >>> net = FullyConnected([relu, gelu], sigma_w=1.5, sigma_b=0.1)
    >>> net.depth
    2
    >>> x = torch.eye(3, dtype=torch.float64)
    >>> net.ntk(x).shape
    torch.Size([3, 3])
    """

    activation: Activation | Sequence[Activation]
    depth: int
    sigma_w: tuple[float, ...]  # (depth + 1,)
    sigma_b: tuple[float, ...]  # (depth + 1,)
    parametrisation: Parametrisation

    def __init__(
        self,
        activation: Activation | Sequence[Activation],
        depth: int | None = None,
        sigma_w: Scales = 1.5,
        sigma_b: Scales = 0.1,
        parametrisation: Parametrisation = DEFAULT_PARAMETRISATION,
    ) -> None:
        many = isinstance(activation, Sequence) and not isinstance(activation, str)
        depth = whole("depth", (len(activation) if many else 3) if depth is None else depth)
        fields = {
            "activation": activation,
            "depth": depth,
            "sigma_w": _scales("sigma_w", sigma_w, depth, positive=True),
            "sigma_b": _scales("sigma_b", sigma_b, depth, positive=False),
            "parametrisation": parametrisation,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        if not isinstance(parametrisation, Parametrisation):
            raise InputError(
                f"parametrisation must be NTK() or Standard(width), not {parametrisation!r}."
            )
        _ = self.layers

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The hidden layers."""
        phi = self.activation
        many = isinstance(phi, Sequence) and not isinstance(phi, str)
        chosen = tuple(phi) if many else (phi,) * self.depth
        if len(chosen) != self.depth:
            raise InputError(
                f"{len(chosen)} activations were given for depth {self.depth}: give one, or one for each."
            )
        layers = {id(act): Layer(act) for act in chosen}
        return tuple(layers[id(act)] for act in chosen)

    @property
    def activations(self) -> tuple[Activation, ...]:
        """Those of the hidden layers."""
        return tuple(layer.activation for layer in self.layers)

    @property
    def nngp(self) -> NNGPKernel:
        """The covariance of outputs at initialisation, a Kernel: (n, d), (m, d) -> (n, m)."""
        return NNGPKernel(self)

    @property
    def ntk(self) -> TangentKernel:
        """The tangent kernel, a Kernel: (n, d), (m, d) -> (n, m); refused where E[phi'^2] diverges."""
        return TangentKernel(self)

    def finite(
        self,
        width: int = 512,
        seed: int = 0,
        *,
        d: int,
        outputs: int = 1,
        dtype: torch.dtype = torch.float64,
        device: str | torch.device = "cpu",
    ) -> nn.Sequential:
        """A random network of finite width, whose empirical kernels converge to `nngp` and `ntk`.

        Parameters: `width` units in every hidden layer; `d` is the dimension of the points. Returned is a
        module (n, d) -> (n, outputs), with one submodule for each layer, and parameters as the
        parametrisation says. Refused are counts that are no whole numbers above 0.

        >>> import torch
        >>> from analytic.activations import relu
        >>> FullyConnected(relu, 2).finite(width=64, seed=1, d=3)(torch.ones(5, 3).double()).shape
        torch.Size([5, 1])
        """
        dense = [Dense(*scales) for scales in zip(self.sigma_w, self.sigma_b, strict=True)]
        hidden = zip(dense, self.activations, strict=False)
        layers = [*(part for pair in hidden for part in pair), dense[-1]]
        composed = Network(layers, parametrisation=self.parametrisation)
        return composed.finite(
            width, seed, shape=(whole("d", d),), outputs=outputs, dtype=dtype, device=device
        )

    def nngp_gradient(self, x: ArrayLike, weights: ArrayLike) -> tuple[Tensor, Tensor]:
        """d/d(sigma_w, sigma_b) of sum(weights * nngp(x)), tile by tile.

        Points (n, d) and weights (n, n) of the same dtype give two tensors of shape (depth + 1,). Weights of
        another shape or dtype are refused.

        >>> from analytic.activations import erf
        >>> by_w, by_b = FullyConnected(erf, 2).nngp_gradient([[1.0], [2.0]], [[1.0, 0.0], [0.0, 1.0]])
        >>> by_w.shape, by_b.shape
        (torch.Size([3]), torch.Size([3]))
        """
        return gram.gradient(self, x, weights)


@dataclass(frozen=True)
class NNGPKernel(Kernel):
    r"""The covariance of a network's outputs at initialisation, $\sigma_w^2 E[\phi\phi] + \sigma_b^2$.

    Called as (n, d), (m, d) -> (n, m), with y = x where y is None; `metric` is in closed form. Refused are
    points that are NaN, infinite, or too large for their dtype.

    >>> from analytic.activations import relu
    >>> kernel = FullyConnected(relu, 2).nngp
    >>> kernel([[1.0, 0.0], [0.0, 1.0]]).shape, kernel.metric([[1.0, 0.0]]).shape
    (torch.Size([2, 2]), torch.Size([1, 2, 2]))
    """

    network: FullyConnected

    def __post_init__(self) -> None:
        require_instance("network", self.network, FullyConnected, "FullyConnected(relu)")

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        return gram.matrix(self.network, x, y, tangent=False)

    def diagonal(self, x: ArrayLike) -> Tensor:
        return gram.diagonal(self.network, x, tangent=False)

    def jet(self, x: ArrayLike) -> Jet:
        return gram.jet(self.network, x, tangent=False)


@dataclass(frozen=True)
class TangentKernel(Kernel):
    r"""The neural tangent kernel, $\Theta \leftarrow \text{rates}\cdot(k, 1) + \sigma_w^2 \dot k\,\Theta$.

    Called as (n, d), (m, d) -> (n, m), with y = x where y is None; `metric` is in closed form. Refused are
    activations whose slope has no variance, such as a sign, and metrics where phi' jumps, as that of ReLU.

    >>> from analytic.activations import erf
    >>> kernel = FullyConnected(erf, 2).ntk
    >>> kernel.diagonal([[1.0, 0.0], [0.0, 1.0]]).shape, kernel.metric([[1.0, 0.0]]).shape
    (torch.Size([2]), torch.Size([1, 2, 2]))
    """

    network: FullyConnected

    def __post_init__(self) -> None:
        require_instance("network", self.network, FullyConnected, "FullyConnected(erf)")
        for act in self.network.activations:
            act.require("slope")

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        return gram.matrix(self.network, x, y, tangent=True)

    def diagonal(self, x: ArrayLike) -> Tensor:
        return gram.diagonal(self.network, x, tangent=True)

    def jet(self, x: ArrayLike) -> Jet:
        return gram.jet(self.network, x, tangent=True)


def _scales(name: str, scales: Scales, depth: int, *, positive: bool) -> tuple[float, ...]:
    """One number for each layer and the readout, (depth + 1,), from as many, or from one for all."""
    if isinstance(scales, Tensor | np.ndarray) and scales.ndim == 0:
        values = (scales,) * (depth + 1)
    elif isinstance(scales, Collection) and not isinstance(scales, str):
        values = tuple(scales)
    else:
        values = (scales,) * (depth + 1)
    if len(values) != depth + 1:
        raise InputError(
            f"{name} has {len(values)} entries, but depth {depth} and the readout need "
            f"{depth + 1}: give one number, or one for each layer."
        )
    need = "above 0" if positive else "at least 0"
    try:
        if any(isinstance(value, str | bool) for value in values):
            raise TypeError
        numbers = tuple(map(float, values))
    except (TypeError, ValueError):
        raise InputError(
            f"{name} must be one number {need}, or a list of them, not {scales!r}."
        ) from None
    if not all(math.isfinite(v) and (v > 0 or (v == 0 and not positive)) for v in numbers):
        raise InputError(f"{name} must be finite and {need}, not {scales!r}.")
    return numbers

r"""Random networks of finite width as torch modules, and their empirical kernels.

A dense layer $z = a W h + c\,b$ has the Jacobian $a\,\delta\otimes h$ by its weights, with
$\delta = \partial f/\partial z$, so that a layer adds to the tangent kernel
$(a^2 h h'^T + c^2) \circ \delta\delta'^T$: Gram matrices of points, and no Jacobian is ever stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, reduce

import torch
from torch import Tensor, nn

from analytic.activations.activation import Activation
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import z
from numeric.infinite.network import FullyConnected
from numeric.inputs import InputError, whole

__all__ = ["FiniteNetwork", "ScaledLinear"]


class ScaledLinear(nn.Module):
    r"""$z = a W h + c\,b$, or independent ones along leading axes; a layer without biases has c = 0."""

    def __init__(self, weight: Tensor, bias: Tensor | None, a: float, c: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)  # (..., out, in)
        self.bias = None if bias is None else nn.Parameter(bias)  # (..., out)
        self.a, self.c = a, c

    def forward(self, h: Tensor) -> Tensor:
        """(..., m, in) -> (..., m, out)."""
        out = self.a * (h @ self.weight.mT)
        return out if self.bias is None else out + self.c * self.bias[..., None, :]

    def gram(self, h: Tensor, other: Tensor) -> Tensor:
        """(..., m, in), (..., k, in) -> (..., m, k): Gram matrix of derivatives by one unit's parameters."""
        return self.a**2 * (h @ other.mT) + self.c**2

    def backward(self, delta: Tensor) -> Tensor:
        """Derivatives by outputs (..., m, out) to derivatives by inputs (..., m, in)."""
        return self.a * (delta @ self.weight)


class FiniteNetwork(nn.Module):
    """Hidden layers of one width and a linear readout with one output, or a stack of such networks.

    The parametrisation is the description's, with every fan-in the actual one. Layers are drawn on
    the generator's device.
    """

    def __init__(
        self,
        description: FullyConnected,
        width: int,
        d: int,
        *,
        generator: torch.Generator,
        stack: int | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        sizes = {"width": width, "d": d, "stack": 1 if stack is None else stack}
        for name, size in sizes.items():
            whole(name, size)
        self.description, self.d = description, d
        fans = (d, *[width] * description.depth, 1)
        batch = () if stack is None else (stack,)

        def normal(std: float, *shape: int) -> Tensor:
            # Rounding the draws to 24 bits is far below any standard error, and 4 times as fast.
            kind = {"device": generator.device, "dtype": torch.float32}
            draws = torch.randn(*batch, *shape, generator=generator, **kind)
            return draws.to(dtype).mul_(std)

        layers = []
        scales = zip(description.sigma_w, description.sigma_b, strict=True)
        for (sigma_w, sigma_b), fan_in, fan_out in zip(scales, fans, fans[1:], strict=False):
            weights, biases = description.parametrisation.rates(fan_in, sigma_w, sigma_b)
            a, c = math.sqrt(weights / fan_in), math.sqrt(biases)
            weight = normal(sigma_w / math.sqrt(weights), fan_out, fan_in)
            layers.append(ScaledLinear(weight, normal(sigma_b / c, fan_out) if c else None, a, c))
        self.layers = nn.ModuleList(layers)
        self.phis = [act.phi.torch for act in description.activations]
        self.slopes = [_slope(act) for act in description.activations]

    @property
    def _dense(self) -> list[ScaledLinear]:
        """The layers: a ModuleList does not say of which class its modules are."""
        return [layer for layer in self.layers if isinstance(layer, ScaledLinear)]

    def forward(self, x: Tensor) -> Tensor:
        """(m, d) -> (..., m)."""
        hidden, _ = self._forward(x)
        return self.layers[-1](hidden[-1]).squeeze(-1)

    def nngp(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        r"""(m, d), (k, d) -> (..., m, k): the covariance of outputs given the hidden layers.

        Over the readout alone it is exactly $\frac{\sigma_w^2}{n}\phi\phi^T + \sigma_b^2$, and so has
        the mean of f(x) f(y) with less noise.
        """
        left = self._forward(_require_finite(x))[0][-1]
        right = left if y is None else self._forward(_require_finite(y))[0][-1]
        sigma_w, sigma_b = self.description.sigma_w[-1], self.description.sigma_b[-1]
        return sigma_w**2 / left.shape[-1] * (left @ right.mT) + sigma_b**2

    def ntk(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        """(m, d), (k, d) -> (..., m, k): the empirical tangent kernel of this network."""
        left = self._tangents(x)
        right = left if y is None else self._tangents(y)
        parts = (
            layer.gram(h, g) * (delta @ eps.mT)
            for layer, (h, delta), (g, eps) in zip(self._dense, left, right, strict=True)
        )
        return reduce(torch.add, parts)

    def _tangents(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """For each layer its input and the derivative of the output by its preactivation."""
        hidden, preactivations = self._forward(_require_finite(x))
        delta = torch.ones_like(hidden[-1][..., :1])
        deltas, layers = [delta], self._dense
        for k in range(len(preactivations) - 1, -1, -1):
            delta = layers[k + 1].backward(delta) * self.slopes[k](preactivations[k])
            deltas.append(delta)
        return list(zip(hidden, reversed(deltas), strict=True))

    def _forward(self, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The inputs of all layers, and the preactivations of the hidden ones."""
        if x.ndim != 2 or x.shape[1] != self.d:
            raise InputError(f"x must have shape (m, {self.d}), but {tuple(x.shape)} was given.")
        if x.dtype != (kind := self.layers[0].weight.dtype):
            raise InputError(f"x is {x.dtype}, but the network is {kind}: convert one of them.")
        hidden, preactivations = [x], []
        for layer, phi in zip(self.layers, self.phis, strict=False):
            preactivations.append(layer(hidden[-1]))
            hidden.append(phi(preactivations[-1]))
        return hidden, preactivations


def _require_finite(x: Tensor) -> Tensor:
    if not torch.isfinite(x).all():
        raise InputError("x and y have entries that are NaN or infinite: remove those points.")
    return x


@lru_cache  # networks are drawn by the thousand, and compiling takes longer than drawing one
def _slope(act: Activation) -> Callable[[Tensor], Tensor]:
    return Formula(f"{act.name}'", (z,), act.derivative()).torch

r"""Geometry of shallow networks $\Phi_j = n^{-1/2}\phi(w_j\cdot x + b_j)$, from moments of their units.

With $g = L L^T$ and whitened weights $\tilde w = L^{-1} w$, the metric's derivative is
$T = \frac2n\sum_j \phi'_j\phi''_j\,\tilde w_j^{\otimes 3}$, and since it is totally symmetric
$R = \frac14(\|T\|^2 - \|\mathrm{tr}\,T\|^2)$: O(n d^3) a point, no sum over pairs or triples of units. The
error grows with the square of the Jacobian's condition number; that of `geometry.ricci_scalar` does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from analytic.activations.activation import Activation
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import z
from numeric.inputs import (
    ArrayLike,
    InputError,
    as_numbers,
    positive,
    require_float_dtype,
    require_instance,
    whole,
)

__all__ = ["MomentForm", "ShallowNetwork", "mean_power", "moment_form"]


@dataclass(frozen=True, eq=False)
class ShallowNetwork:
    """One hidden layer of n units on d inputs, or a stack of independent ones along leading axes.

    Weights (..., n, d) and biases (..., n) are tensors, arrays or lists of one dtype and device; the
    activation is one of `analytic.activations` without open parameters. Anything else is refused.

    >>> from analytic.activations import erf
    >>> net = ShallowNetwork(erf, [[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    >>> (torch.pi * net.metric([[0.0, 0.0]])).round(decimals=6).tolist()  # of phi'(0)^2 = 2/pi the mean
    [[[1.0, 0.0], [0.0, 1.0]]]
    """

    activation: Activation
    weights: Tensor  # (..., n, d)
    biases: Tensor  # (..., n)

    def __post_init__(self) -> None:
        for name in ("weights", "biases"):
            tensor = as_numbers(name, getattr(self, name))
            require_float_dtype(tensor.dtype)
            object.__setattr__(self, name, tensor)
        if not isinstance(self.activation, Activation):
            raise InputError(
                f"activation = {self.activation!r} was given, but one of analytic.activations is needed."
            )
        if self.activation.parameters:
            names = ", ".join(map(str, self.activation.parameters))
            raise InputError(
                f"{self.activation.name} leaves {names} open: fix it, as in monomial(2)."
            )
        if self.weights.ndim < 2 or self.biases.shape != self.weights.shape[:-1]:
            raise InputError(
                f"weights of shape (..., n, d) need biases of shape (..., n), but "
                f"{tuple(self.weights.shape)} and {tuple(self.biases.shape)} were given."
            )

    @classmethod
    def gaussian(
        cls,
        activation: Activation,
        width: int,
        d: int,
        sigma: float,
        zeta: float,
        *,
        generator: torch.Generator,
        stack: int | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> ShallowNetwork:
        """Weights N(0, sigma^2), biases N(0, zeta^2), on the generator's device; one, or a stack.

        A stack is drawn network by network, so that its size does not change the draws. Refused are sizes
        that are no whole numbers above 0, sigma not above 0, zeta below 0, and a dtype that is not real.

        >>> from analytic.activations import erf
        >>> generator = torch.Generator().manual_seed(0)
        >>> ShallowNetwork.gaussian(erf, 5, 2, 1.0, 0.5, generator=generator, stack=3).weights.shape
        torch.Size([3, 5, 2])
        """
        require_instance(
            "generator", generator, torch.Generator, "torch.Generator().manual_seed(0)"
        )
        require_float_dtype(dtype)
        for name, size in {"width": width, "d": d, "stack": 1 if stack is None else stack}.items():
            whole(name, size)
        sigma, zeta = positive("sigma", sigma), positive("zeta", zeta, zero=True)
        kind = {"generator": generator, "device": generator.device, "dtype": dtype}
        draws = torch.stack([torch.randn(width, d + 1, **kind) for _ in range(stack or 1)])
        weights, biases = sigma * draws[..., :d], zeta * draws[..., d]
        return cls(activation, weights, biases) if stack else cls(activation, weights[0], biases[0])

    @cached_property
    def slopes(self) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        """phi' and phi''."""
        first, second = (
            Formula("slope", (z,), self.activation.derivative(k)).torch for k in (1, 2)
        )
        return first, second

    def preactivations(self, x: ArrayLike) -> Tensor:
        """w_j.x + b_j: (m, d) -> (..., m, n); points of another shape or dtype, or NaN, are refused."""
        x = as_numbers("x", x)
        if x.ndim != 2 or x.shape[1] != self.weights.shape[-1]:
            need = self.weights.shape[-1]
            raise InputError(f"x must have shape (m, {need}), but {tuple(x.shape)} was given.")
        if x.dtype != self.weights.dtype:
            raise InputError(
                f"x is {x.dtype}, but the network is {self.weights.dtype}: convert one of them."
            )
        if not torch.isfinite(x).all():
            raise InputError("x has entries that are NaN or infinite: remove those points.")
        return self._affine(x)

    def _affine(self, x: Tensor) -> Tensor:
        return x @ self.weights.mT + self.biases[..., None, :]

    def __call__(self, x: Tensor) -> Tensor:
        """The features: (m, d) -> (..., m, n), under any of torch's transforms."""
        return self.activation.phi.torch(self._affine(x)) / math.sqrt(self.weights.shape[-2])

    def metric(self, x: ArrayLike) -> Tensor:
        r"""$g = n^{-1}\sum_j \phi'^2_j w_j w_j^T$: (m, d) -> (..., m, d, d)."""
        slope = self.slopes[0](self.preactivations(x))
        return mean_power(slope**2, self.weights, 2)

    def magnification(self, x: ArrayLike) -> Tensor:
        """sqrt(det g): (m, d) -> (..., m); refused where the metric is singular."""
        factor = self._cholesky(self.metric(x))
        return factor.diagonal(dim1=-2, dim2=-1).prod(-1)

    def ricci_scalar(self, x: ArrayLike) -> Tensor:
        """(m, d) -> (..., m), of the sign that spheres have R > 0.

        Refused are activations whose slope jumps anywhere but at 0, where the metric's derivative has more
        terms, and points where the metric is singular.
        """
        if any(self.activation.kinks):
            raise InputError(
                f"{self.activation.name} has kinks at {self.activation.kinks}, where the metric of a finite "
                "network jumps: use a smooth activation, or one with its kink at 0."
            )
        at = self.preactivations(x)
        first, second = self.slopes
        form = moment_form(first(at), second(at), self.weights)
        self._cholesky(form.metric)
        return form.value

    @staticmethod
    def _cholesky(metric: Tensor) -> Tensor:
        factor, info = torch.linalg.cholesky_ex(metric)
        if info.any():
            raise InputError(
                f"The metric is singular at {int((info > 0).sum())} of {info.numel()} points: there are "
                "fewer units than input dimensions, or all are saturated: widen the network or move x."
            )
        return factor


@dataclass(frozen=True, eq=False)
class MomentForm:
    """The metric, the Ricci scalar, and the size of the terms whose difference it is."""

    metric: Tensor  # (..., m, d, d)
    value: Tensor  # (..., m); NaN where the metric is singular up to rounding
    size: Tensor  # (..., m)


def moment_form(slope: Tensor, bend: Tensor, weights: Tensor) -> MomentForm:
    """From phi' and phi'' of the units: twice (..., m, n), and (..., n, d)."""
    metric = mean_power(slope**2, weights, 2)
    factor, info = torch.linalg.cholesky_ex(metric)
    T = mean_power(slope * bend, weights, 3)
    for _ in range(3):  # whiten one index, then rotate to the next
        flat = T.flatten(-2)
        T = torch.linalg.solve_triangular(factor, flat, upper=False).unflatten(-1, T.shape[-2:])
        T = T.movedim(-3, -1)
    diagonal = T.diagonal(dim1=-3, dim2=-2)  # (..., c, a)
    squares = _between(T.square().sum(-1))
    products, sizes = (_between(part.mT @ part) for part in (diagonal, diagonal.abs()))
    value = torch.where(info == 0, squares - products, torch.nan)
    return MomentForm(metric, value, squares + sizes)


def mean_power(units: Tensor, weights: Tensor, rank: int) -> Tensor:
    """(..., m, n), (..., n, d) -> (..., m, d, ..., d): the mean over units of a factor times w^rank."""
    powers = weights
    for _ in range(rank - 1):
        powers = (powers[..., :, None] * weights[..., None, :]).flatten(-2)
    return (units @ powers).unflatten(-1, (weights.shape[-1],) * rank) / weights.shape[-2]


def _between(matrix: Tensor) -> Tensor:
    """Sum over a != b. The terms a = b are equal in both parts of R, and would only add rounding."""
    return 2 * matrix.triu(1).sum((-2, -1))

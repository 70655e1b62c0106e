"""Calculus of two-point functions: Gram matrices, gradients of predictors, jets on the diagonal, volumes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from numeric.inputs import InputError
from numeric.kernels.jets import Jet, derivative, outer
from numeric.kernels.kernel import Kernel

__all__ = [
    "CHUNK", "EPSILON", "AnyKernel", "Calculus", "InnerProduct", "OfDistance", "OfInnerProduct",
    "SquaredDistance", "Volume", "squared_distances", "symmetric_root", "volume_of_jacobian",
    "volume_of_metric",
]  # fmt: skip

CHUNK = 2**22  # numbers held at once, 32 MB
CLOSE = 1e-3  # relative to the squared norm: below it |x|^2 + |y|^2 - 2 x.y loses three digits
EPSILON = torch.finfo(torch.float64).eps
NEGATIVE = 1e-9  # relative; an eigenvalue below 0 by less is rounding


@dataclass(frozen=True, eq=False)
class Volume:
    """The log of the volume element along the directions that are not flattened, and their number."""

    log: Tensor  # (n,); 0 where the rank is 0
    rank: Tensor  # (n,)

    @property
    def magnification(self) -> Tensor:
        """sqrt(det g); on the quotient by the null directions where g is degenerate."""
        return self.log.exp()


def volume_of_metric(metric: Tensor) -> Volume:
    """(n, d, d) -> the root of the product of the nonzero eigenvalues."""
    values = torch.linalg.eigvalsh(metric)
    if (values[..., 0] < -NEGATIVE * values.abs().amax(-1)).any():
        raise InputError(
            f"The metric has the eigenvalue {values[..., 0].min():.3g}, but no length is imaginary: "
            "the kernel is not positive semi-definite, so that it has no features."
        )
    keep = values > values.shape[-1] * EPSILON * values[..., -1:].clamp(min=0)
    return Volume(torch.where(keep, values, 1.0).log().sum(-1) / 2, keep.sum(-1))


def volume_of_jacobian(jacobian: Tensor) -> Volume:
    """(n, p, d) -> the product of the nonzero singular values, which resolve twice the digits."""
    values = torch.linalg.svdvals(jacobian)
    keep = values > max(jacobian.shape[-2:]) * EPSILON * values[..., :1]
    return Volume(torch.where(keep, values, 1.0).log().sum(-1), keep.sum(-1))


def symmetric_root(matrix: Tensor) -> Tensor:
    """The positive root of a symmetric matrix; eigenvalues that rounding put below 0 count as 0."""
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values.clamp(min=0).sqrt()) @ vectors.T


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """(n, d), (m, d) -> (n, m) by one matrix product; pairs too close for it by their difference."""
    middle = y.mean(0)
    x, y = x - middle, y - middle
    size = x.square().sum(1)[:, None]
    t = torch.addmm(y.square().sum(1)[None], x, y.T, alpha=-2).add_(size)
    pairs = (t < CLOSE * size).nonzero()
    for chunk in pairs.split(max(1, CHUNK // x.shape[1])):
        i, j = chunk.unbind(1)
        t[i, j] = (x[i] - y[j]).square().sum(1)
    return t


class OfDistance(Protocol):
    """h(t) of a squared distance t, and its derivative."""

    def value(self, t: Tensor) -> Tensor: ...

    def slope(self, t: Tensor) -> Tensor: ...

    def slope_at_zero(self) -> float: ...


class OfInnerProduct(Protocol):
    """h(t) of an inner product t, and its first two derivatives."""

    def value(self, t: Tensor) -> Tensor: ...

    def slope(self, t: Tensor) -> Tensor: ...

    def second_derivative(self, t: Tensor) -> Tensor: ...


class Calculus(Protocol):
    """What a two-point function k answers at points x (n, d) and y (m, d)."""

    def diagonal(self, x: Tensor) -> Tensor:
        """k(x, x), (n,)."""
        ...

    def gram(self, x: Tensor, y: Tensor) -> Tensor:
        """k(x, y), (n, m)."""
        ...

    def gradient(self, x: Tensor, centres: Tensor, weights: Tensor) -> Tensor:
        """The gradient of sum_b w_bo k(c_b, x) by x: (n, d), (m, d), (m, o) -> (n, o, d)."""
        ...

    def jet(self, x: Tensor) -> Jet:
        """k and its first derivatives at y = x."""
        ...


@dataclass(frozen=True)
class SquaredDistance:
    """k(x, y) = h(|x - y|^2)."""

    h: OfDistance

    def diagonal(self, x: Tensor) -> Tensor:
        return self.h.value(x.new_zeros(len(x)))

    def gram(self, x: Tensor, y: Tensor) -> Tensor:
        return self.h.value(squared_distances(x, y))

    def gradient(self, x: Tensor, centres: Tensor, weights: Tensor) -> Tensor:
        """2 sum_b w_b h'(t_b) (x - c_b), with x and c_b apart, so that it is a matrix product."""
        middle = centres.mean(0)
        x, centres = x - middle, centres - middle
        slope = self.h.slope(squared_distances(x, centres))
        pull = _products(slope, weights, centres)
        return 2 * ((slope @ weights)[..., None] * x[:, None, :] - pull)

    def jet(self, x: Tensor) -> Jet:
        n, d = x.shape
        size = self.h.value(x.new_zeros(())).expand(n)
        metric = (-2 * self.h.slope_at_zero() * _unit(x)).expand(n, d, d)
        return Jet(size, torch.zeros_like(x), metric)


@dataclass(frozen=True)
class InnerProduct:
    """k(x, y) = h(x.y)."""

    h: OfInnerProduct

    def diagonal(self, x: Tensor) -> Tensor:
        return self.h.value(x.square().sum(1))

    def gram(self, x: Tensor, y: Tensor) -> Tensor:
        return self.h.value(x @ y.T)

    def gradient(self, x: Tensor, centres: Tensor, weights: Tensor) -> Tensor:
        return _products(self.h.slope(x @ centres.T), weights, centres)

    def jet(self, x: Tensor) -> Jet:
        s = x.square().sum(1)[:, None, None]
        slope = self.h.slope(s)
        metric = slope * _unit(x) + self.h.second_derivative(s) * outer(x, x)
        return Jet(self.h.value(s).flatten(), slope[..., 0] * x, metric)


@dataclass(frozen=True)
class AnyKernel:
    """Any Kernel h; torch differentiates it, unless it knows its jet."""

    h: Kernel

    def diagonal(self, x: Tensor) -> Tensor:
        return self.h.diagonal(x)

    def gram(self, x: Tensor, y: Tensor) -> Tensor:
        return self.h(x, y)

    def gradient(self, x: Tensor, centres: Tensor, weights: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            each = (self.h(x, centres) @ weights).sum(0)
            return torch.stack([derivative(f, x) for f in each], 1).detach()

    def jet(self, x: Tensor) -> Jet:
        return self.h.jet(x)


def _products(slope: Tensor, weights: Tensor, centres: Tensor) -> Tensor:
    """sum_b slope_ab w_bo c_b: (n, m), (m, o), (m, d) -> (n, o, d)."""
    return (slope[:, None, :] * weights.T) @ centres


def _unit(x: Tensor) -> Tensor:
    return torch.eye(x.shape[1], dtype=x.dtype, device=x.device)

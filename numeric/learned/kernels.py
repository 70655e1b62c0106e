r"""Kernels with a Mahalanobis matrix, $k_M(x, y) = k(M^{1/2}x, M^{1/2}y)$ (F.8), and the metrics they induce.

The base kernel is a function of the squared distance, which gives (F.1), or of the inner product,
or any function of two points, which torch then differentiates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from numeric.inputs import InputError, points, positive, whole
from numeric.kernels import FunctionKernel, Kernel
from numeric.kernels.jets import Jet
from numeric.kernels.two_point import (
    CHUNK,
    EPSILON,
    Autograd,
    InnerProduct,
    SquaredDistance,
    Volume,
    squared_distances,
    symmetric_root,
    volume_of_metric,
)


@dataclass(frozen=True)
class Laplace:
    """exp(-|x - y| / bandwidth); at y = x, where it has a cone, its slope is taken to be 0."""

    bandwidth: float = 10.0
    calculus: ClassVar = SquaredDistance
    kinked: ClassVar = True

    def __post_init__(self) -> None:
        positive("bandwidth", self.bandwidth)

    def value(self, t: Tensor) -> Tensor:
        return t.sqrt().div_(-self.bandwidth).exp_()

    def slope(self, t: Tensor) -> Tensor:
        r = t.sqrt()
        slope = (r / -self.bandwidth).exp_().div_(r).mul_(-0.5 / self.bandwidth)
        return slope.masked_fill_(r == 0, 0.0)

    def slope_at_zero(self) -> float:
        raise InputError(
            "The Laplace kernel induces no metric: as a function h of the squared distance it has "
            "h'(0) = -infinity, and (F.7) needs h'(0): use SmoothedLaplace(bandwidth, smoothing)."
        )


@dataclass(frozen=True)
class SmoothedLaplace:
    """exp(-(sqrt(|x - y|^2 + e^2) - e) / bandwidth), smooth at y = x; e is the smoothing."""

    bandwidth: float = 10.0
    smoothing: float = 0.1
    calculus: ClassVar = SquaredDistance
    kinked: ClassVar = False

    def __post_init__(self) -> None:
        positive("bandwidth", self.bandwidth)
        positive("smoothing", self.smoothing)

    def value(self, t: Tensor) -> Tensor:
        e = self.smoothing  # sqrt(t + e^2) - e without its cancellation
        return (-t / (self.bandwidth * ((t + e**2).sqrt() + e))).exp()

    def slope(self, t: Tensor) -> Tensor:
        return self.value(t) / (-2 * self.bandwidth * (t + self.smoothing**2).sqrt())

    def slope_at_zero(self) -> float:
        return -1 / (2 * self.bandwidth * self.smoothing)


@dataclass(frozen=True)
class Gaussian:
    """exp(-|x - y|^2 / (2 bandwidth^2))."""

    bandwidth: float = 1.0
    calculus: ClassVar = SquaredDistance
    kinked: ClassVar = False

    def __post_init__(self) -> None:
        positive("bandwidth", self.bandwidth)

    def value(self, t: Tensor) -> Tensor:
        return (t * self.slope_at_zero()).exp_()

    def slope(self, t: Tensor) -> Tensor:
        return self.value(t) * self.slope_at_zero()

    def slope_at_zero(self) -> float:
        return -0.5 / self.bandwidth**2


@dataclass(frozen=True)
class Polynomial:
    """(x.y + offset)^degree."""

    degree: int = 2
    offset: float = 1.0
    calculus: ClassVar = InnerProduct
    kinked: ClassVar = False

    def __post_init__(self) -> None:
        whole("degree", self.degree, 1)
        positive("offset", self.offset, zero=True)

    def value(self, t: Tensor) -> Tensor:
        return (t + self.offset) ** self.degree

    def slope(self, t: Tensor) -> Tensor:
        return self.degree * (t + self.offset) ** (self.degree - 1)

    def bend(self, t: Tensor) -> Tensor:
        q = self.degree
        return q * (q - 1) * (t + self.offset) ** max(q - 2, 0)


@dataclass(frozen=True)
class Own:
    """Any symmetric function of points, (n, d), (m, d) -> (n, m), in torch operations."""

    function: Callable[[Tensor, Tensor], Tensor]
    calculus: ClassVar = Autograd
    kinked: ClassVar = False

    def value(self, x: Tensor, y: Tensor) -> Tensor:
        return FunctionKernel(self.function)(x, y)


Base = Laplace | SmoothedLaplace | Gaussian | Polynomial | Own


@dataclass(frozen=True, eq=False)
class Mahalanobis(Kernel):
    """A base kernel after the linear map M^(1/2): k(M^(1/2) x, M^(1/2) y); without a matrix, M = 1."""

    base: Base
    matrix: Tensor | None = None  # (d, d)

    def __post_init__(self) -> None:
        if not isinstance(self.base, Base):
            raise InputError(
                f"{self.base!r} is no kernel: give Laplace(10.0), SmoothedLaplace(10.0, 0.1), "
                "Gaussian(1.0), Polynomial(2) or Own(function)."
            )
        if self.matrix is None:
            return
        M = points(self.matrix, name="M")
        bound = len(M) * EPSILON * M.abs().max()
        if M.shape[0] != M.shape[1] or (M - M.T).abs().max() > bound:
            raise InputError(f"M must be square and symmetric, but shape {tuple(M.shape)} is not.")
        if (least := torch.linalg.eigvalsh(M)[0]) < -bound:
            raise InputError(
                f"M must be positive semi-definite, but has the eigenvalue {least:.3g}."
            )
        object.__setattr__(self, "matrix", (M + M.T) / 2)

    @cached_property
    def root(self) -> Tensor | None:
        """M^(1/2), symmetric."""
        return None if self.matrix is None else symmetric_root(self.matrix)

    def __call__(self, x: Any, y: Any = None) -> Tensor:
        """(n, d), (m, d) -> (n, m); y is x if it is not given."""
        x = self._transformed(x)
        return self.base.calculus.gram(self.base, x, x if y is None else self._transformed(y))

    def diagonal(self, x: Any) -> Tensor:
        return self.base.calculus.diagonal(self.base, self._transformed(x))

    def gradient(self, x: Any, centres: Any, weights: Tensor) -> Tensor:
        """The gradient of f_o(x) = sum_b w_bo k(c_b, x): (n, d), (m, d), (m, o) -> (n, o, d), in chunks.

        A kink at c_b = x contributes 0, the mean of its subgradients.
        """
        centres, rows = self._transformed(centres), max(1, CHUNK // weights.numel())
        take = self.base.calculus.gradient
        parts = [
            take(self.base, some, centres, weights) for some in self._transformed(x).split(rows)
        ]
        slopes = torch.cat(parts)
        return slopes if self.root is None else slopes @ self.root

    def jet(self, x: Any) -> Jet:
        """Its metric is -2 h'(0) M (F.7), or M^(1/2) g(M^(1/2) x) M^(1/2) (F.10)."""
        jet = self.base.calculus.jet(self.base, self._transformed(x))
        if self.root is None:
            return jet
        # One metric for all points, as of a squared distance, is one matrix expanded: products of its
        # copies might round differently, and a flat metric would not look flat.
        each = jet.metric[:1] if jet.metric.stride(0) == 0 else jet.metric
        metric = (self.root @ each @ self.root).expand_as(jet.metric)
        return Jet(jet.value, jet.drift @ self.root, metric)

    def volume(self, x: Any) -> Volume:
        """sqrt(det g) in logs; at full rank sqrt(det M) times the base kernel's at M^(1/2) x (F.11)."""
        return volume_of_metric(self.metric(x))

    def require_no_kink(self, x: Any, centres: Any) -> None:
        """Refuse x that coincide with a centre of a kernel with a cone there: no derivative exists."""
        if (
            self.base.kinked
            and not squared_distances(self._transformed(x), self._transformed(centres)).all()
        ):
            raise InputError(
                f"{self.base} has a cone at each training point, and some x are training points: "
                "use SmoothedLaplace(bandwidth, smoothing), or move x."
            )

    def _transformed(self, x: Any) -> Tensor:
        """The points after the linear map M^(1/2)."""
        if self.root is None:
            return points(x)
        return points(x, self.root.device, len(self.root)) @ self.root


def framed(kernel: Base | Mahalanobis | None) -> Mahalanobis:
    """The kernel with a Mahalanobis matrix, which is 1 for a base kernel; None is Gaussian(1.0)."""
    kernel = Gaussian(1.0) if kernel is None else kernel
    return kernel if isinstance(kernel, Mahalanobis) else Mahalanobis(kernel)

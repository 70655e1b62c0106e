r"""Kernels with a Mahalanobis matrix, $k_M(x, y) = k(M^{1/2}x, M^{1/2}y)$ (F.8), and the metrics they induce.

The base kernel is a function of the squared distance, which gives (F.1), or of the inner product, or any
Kernel, which torch differentiates unless it knows its own derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, as_numbers, points, positive, whole
from numeric.kernels import Jet, Kernel
from numeric.kernels.two_point import (
    CHUNK,
    EPSILON,
    AnyKernel,
    Calculus,
    InnerProduct,
    SquaredDistance,
    Volume,
    squared_distances,
    symmetric_root,
    volume_of_metric,
)

__all__ = [
    "Base", "Gaussian", "Laplace", "Mahalanobis", "Polynomial", "SmoothedLaplace", "as_mahalanobis",
    "like_input",
]  # fmt: skip


@dataclass(frozen=True)
class Laplace:
    """exp(-|x - y| / bandwidth); at y = x, where it has a cone, its slope is taken to be 0.

    The bandwidth is a number above 0; others are refused, and so is the metric, which a cone does not have.

    >>> Mahalanobis(Laplace(2.0))([[0.0], [2.0]]).round(decimals=4).tolist()
    [[1.0, 0.3679], [0.3679, 1.0]]
    """

    bandwidth: float = 10.0

    def __post_init__(self) -> None:
        positive("bandwidth", self.bandwidth)

    def value(self, t: Tensor) -> Tensor:
        """h(t) = exp(-sqrt(t) / bandwidth) of squared distances."""
        return t.sqrt().div_(-self.bandwidth).exp_()

    def slope(self, t: Tensor) -> Tensor:
        """h'(t), and 0 at t = 0."""
        r = t.sqrt()
        slope = (r / -self.bandwidth).exp_().div_(r).mul_(-0.5 / self.bandwidth)
        return slope.masked_fill_(r == 0, 0.0)

    def slope_at_zero(self) -> float:
        """Refused: h'(0) is infinite."""
        raise InputError(
            "The Laplace kernel induces no metric: as a function h of the squared distance it has "
            "h'(0) = -infinity, and (F.7) needs h'(0): use SmoothedLaplace(bandwidth, smoothing)."
        )


@dataclass(frozen=True)
class SmoothedLaplace:
    """exp(-(sqrt(|x - y|^2 + e^2) - e) / bandwidth), smooth at y = x; e is the smoothing.

    Both are numbers above 0, and others are refused.

    >>> Mahalanobis(SmoothedLaplace(2.0, 0.5)).metric([[0.0]]).tolist()
    [[[1.0]]]
    """

    bandwidth: float = 10.0
    smoothing: float = 0.1

    def __post_init__(self) -> None:
        positive("bandwidth", self.bandwidth)
        positive("smoothing", self.smoothing)

    def value(self, t: Tensor) -> Tensor:
        """h(t) of squared distances."""
        e = self.smoothing  # sqrt(t + e^2) - e without its cancellation
        return (-t / (self.bandwidth * ((t + e**2).sqrt() + e))).exp()

    def slope(self, t: Tensor) -> Tensor:
        """h'(t)."""
        return self.value(t) / (-2 * self.bandwidth * (t + self.smoothing**2).sqrt())

    def slope_at_zero(self) -> float:
        """h'(0)."""
        return -1 / (2 * self.bandwidth * self.smoothing)


@dataclass(frozen=True)
class Gaussian:
    """exp(-|x - y|^2 / (2 bandwidth^2)), with a bandwidth above 0; others are refused.

    >>> Mahalanobis(Gaussian(0.5)).metric([[0.0, 0.0]]).tolist()
    [[[4.0, 0.0], [0.0, 4.0]]]
    """

    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        positive("bandwidth", self.bandwidth)

    def value(self, t: Tensor) -> Tensor:
        """h(t) = exp(-t / (2 bandwidth^2)) of squared distances."""
        return (t * self.slope_at_zero()).exp_()

    def slope(self, t: Tensor) -> Tensor:
        """h'(t)."""
        return self.value(t) * self.slope_at_zero()

    def slope_at_zero(self) -> float:
        """h'(0)."""
        return -0.5 / self.bandwidth**2


@dataclass(frozen=True)
class Polynomial:
    """(x.y + offset)^degree, with a whole degree at least 1 and an offset at least 0; others are refused.

    >>> Mahalanobis(Polynomial(2, 1.0))([[1.0], [2.0]]).tolist()
    [[4.0, 9.0], [9.0, 25.0]]
    """

    degree: int = 2
    offset: float = 1.0

    def __post_init__(self) -> None:
        whole("degree", self.degree, 1)
        positive("offset", self.offset, zero=True)

    def value(self, t: Tensor) -> Tensor:
        """h(t) = (t + offset)^degree of inner products."""
        return (t + self.offset) ** self.degree

    def slope(self, t: Tensor) -> Tensor:
        """h'(t)."""
        return self.degree * (t + self.offset) ** (self.degree - 1)

    def second_derivative(self, t: Tensor) -> Tensor:
        """h''(t)."""
        q = self.degree
        return q * (q - 1) * (t + self.offset) ** max(q - 2, 0)


Base = Laplace | SmoothedLaplace | Gaussian | Polynomial | Kernel


@dataclass(frozen=True, eq=False, init=False)
class Mahalanobis(Kernel):
    r"""A base kernel after a linear map of the points, $k(M^{1/2} x, M^{1/2} y)$ (F.8).

    `base` is Laplace(10.0), SmoothedLaplace(10.0, 0.1), Gaussian(1.0), Polynomial(2), or any Kernel such as
    FunctionKernel(function); `matrix` is M, symmetric and positive semidefinite (d, d), or None for the
    identity. Everything is computed in float64, and returned with the dtype and device of a tensor x. Other
    bases and matrices are refused, and points of another dimension than M.

    >>> kernel = Mahalanobis(Gaussian(1.0), [[4.0, 0.0], [0.0, 0.0]])
    >>> kernel([[0.0, 0.0]], [[0.0, 9.0]]).tolist()
    [[1.0]]
    >>> kernel.volume([[0.0, 0.0]]).rank.tolist()
    [1]
    """

    base: Base
    matrix: Tensor | None  # (d, d)

    def __init__(self, base: Base, matrix: ArrayLike | None = None) -> None:
        if not isinstance(base, Base):
            raise InputError(
                f"{base!r} is no kernel: give Laplace(10.0), SmoothedLaplace(10.0, 0.1), "
                "Gaussian(1.0), Polynomial(2) or FunctionKernel(function)."
            )
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "matrix", None if matrix is None else _positive_matrix(matrix))

    @cached_property
    def root(self) -> Tensor | None:
        """M^(1/2), symmetric (d, d); None for the identity."""
        return None if self.matrix is None else symmetric_root(self.matrix)

    @property
    def _calculus(self) -> Calculus:
        if isinstance(self.base, Kernel):
            return AnyKernel(self.base)
        if isinstance(self.base, Polynomial):
            return InnerProduct(self.base)
        return SquaredDistance(self.base)

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        """(n, d), (m, d) -> (n, m); y is x if it is not given."""
        left, right = self._pair(x, y)
        return like_input(self._calculus.gram(left, right), x)

    def diagonal(self, x: ArrayLike) -> Tensor:
        """k(x, x), (n, d) -> (n,)."""
        return like_input(self._calculus.diagonal(self._transformed("x", x)), x)

    def gradient(self, x: ArrayLike, centres: ArrayLike, weights: ArrayLike) -> Tensor:
        """The gradient of f_o(x) = sum_b w_bo k(c_b, x): (n, d), (m, d), (m, o) -> (n, o, d), in chunks.

        A kink at c_b = x contributes 0, the mean of its subgradients. Weights of another shape are refused.
        """
        left, right = self._pair(x, centres, "centres")
        weights = as_numbers("weights", weights, f"({len(right)}, outputs)").to(left)
        if weights.ndim != 2 or len(weights) != len(right):
            raise InputError(
                f"weights must have shape ({len(right)}, outputs), but {tuple(weights.shape)} was given."
            )
        rows, take = max(1, CHUNK // max(1, weights.numel())), self._calculus.gradient
        slopes = torch.cat([take(chunk, right, weights) for chunk in left.split(rows)])
        return like_input(slopes if self.root is None else slopes @ self.root.to(left), x)

    def jet(self, x: ArrayLike) -> Jet:
        """k, its derivative and the metric, -2 h'(0) M (F.7) or M^(1/2) g(M^(1/2) x) M^(1/2) (F.10)."""
        jet = self._calculus.jet(self._transformed("x", x))
        if self.root is not None:
            root = self.root.to(jet.metric)
            # One metric for all points, as of a squared distance, is one matrix expanded: products of its
            # copies might round differently, and a flat metric would not look flat.
            each = jet.metric[:1] if jet.metric.stride(0) == 0 else jet.metric
            metric = (root @ each @ root).expand_as(jet.metric)
            jet = Jet(jet.value, jet.drift @ root, metric)
        return Jet(*(like_input(part, x) for part in (jet.value, jet.drift, jet.metric)))

    def volume(self, x: ArrayLike) -> Volume:
        """sqrt(det g) in logs; at full rank sqrt(det M) times the base kernel's at M^(1/2) x (F.11).

        Along directions that g flattens it is left out, and `rank` counts the others: (n, d) -> (n,), (n,).
        """
        return volume_of_metric(self.metric(points(x)))

    def require_no_kink(self, x: ArrayLike, centres: ArrayLike) -> None:
        """Refuse x that coincide with a centre of a kernel with a cone there: no derivative exists."""
        if isinstance(self.base, Laplace) and not squared_distances(*self._pair(x, centres)).all():
            raise InputError(
                f"{self.base} has a cone at each training point, and some x are training points: "
                "use SmoothedLaplace(bandwidth, smoothing), or move x."
            )

    def _pair(self, x: ArrayLike, y: ArrayLike | None, name: str = "y") -> tuple[Tensor, Tensor]:
        left = self._transformed("x", x)
        return left, left if y is None else self._transformed(name, y, left)

    def _transformed(self, name: str, x: ArrayLike, like: Tensor | None = None) -> Tensor:
        """The points after the linear map M^(1/2), in float64; on the device of `like`, if given."""
        d = None if like is None else like.shape[1]
        d = d if self.root is None else len(self.root)
        x = points(x, "auto" if like is None else like.device, d, name)
        return x if self.root is None else x @ self.root.to(x)


def _positive_matrix(matrix: ArrayLike) -> Tensor:
    """M in float64, exactly symmetric; refused is what is not symmetric and positive semidefinite."""
    M = points(matrix, name="M")
    bound = len(M) * EPSILON * M.abs().max()
    if M.shape[0] != M.shape[1] or (M - M.T).abs().max() > bound:
        raise InputError(f"M must be square and symmetric, but shape {tuple(M.shape)} is not.")
    if (least := torch.linalg.eigvalsh(M)[0]) < -bound:
        raise InputError(f"M must be positive semi-definite, but has the eigenvalue {least:.3g}.")
    return (M + M.T) / 2


def like_input(result: Tensor, x: ArrayLike) -> Tensor:
    """A result in float64 with the dtype and device of the points, if they were a tensor of floats."""
    if not isinstance(x, Tensor):
        return result
    return result.to(x.device, x.dtype if x.is_floating_point() else result.dtype)


def as_mahalanobis(kernel: Base | Mahalanobis | None) -> Mahalanobis:
    """The kernel with a Mahalanobis matrix, which is 1 for a base kernel; None is Gaussian(1.0)."""
    kernel = Gaussian(1.0) if kernel is None else kernel
    return kernel if isinstance(kernel, Mahalanobis) else Mahalanobis(kernel)

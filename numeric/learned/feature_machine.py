r"""The recursive feature machine of Radhakrishnan et al.: kernel regression that learns its own metric.

Kernel ridge regression (F.3) takes turns with $M = \frac1p\sum_a \nabla f(x_a)\nabla f(x_a)^T$ (F.4).
M is then scaled to trace d, as M = 1 has: distances of isotropic data keep their mean square, and the
bandwidth its meaning.
"""

from __future__ import annotations

import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, points, positive, resolve, whole
from numeric.kernels.two_point import EPSILON
from numeric.learned.estimator_inputs import (
    Array,
    as_input_type,
    fitted_points,
    gram_in_chunks,
    require_targets,
    validated,
)
from numeric.learned.kernels import Base, Laplace, Mahalanobis
from numeric.progress import progress_bar

__all__ = ["FeatureMachine", "outer_product", "solve"]


class FeatureMachine(RegressorMixin, BaseEstimator):
    r"""Kernel ridge regression that learns M of $k(M^{1/2}x, M^{1/2}y)$ from the gradients of its predictor.

    `kernel` is the base kernel k, Laplace(10.0) by default, or any Kernel that torch differentiates; `ridge`,
    at least 0, is added to the Gram matrix, and with 0 the machine interpolates, as (F.3) does; `iterations`
    counts the updates of M, and a last fit follows them: with 0 of them it is plain kernel ridge regression.
    After `fit`, `kernel_` holds the last M and `matrices_` all of them, (iterations + 1, d, d). Refused are
    numbers out of range, kernels that hold an M already, and Gram matrices that are singular to rounding.

    >>> x = [[0.0, 1.0], [1.0, 0.0], [2.0, 5.0], [3.0, 1.0]]
    >>> machine = FeatureMachine(iterations=2, device="cpu").fit(x, [0.0, 1.0, 2.0, 3.0])
    >>> machine.predict(x).shape, machine.matrices_.shape
    ((4,), torch.Size([3, 2, 2]))
    """

    def __init__(
        self,
        kernel: Base | None = None,  # Laplace(10.0)
        *,
        ridge: float = 1e-3,
        iterations: int = 5,
        device: str = "auto",
        progress: bool = True,
    ) -> None:
        self.kernel = kernel
        self.ridge = ridge
        self.iterations = iterations
        self.device = device
        self.progress = progress

    def fit(self, X: ArrayLike, y: ArrayLike) -> FeatureMachine:
        """(n, d) points and (n,) or (n, o) targets."""
        ridge = positive("ridge", self.ridge, zero=True)
        turns = whole("iterations", self.iterations, 0)
        if isinstance(self.kernel, Mahalanobis):
            raise InputError("The machine learns M by itself: give it a base kernel without one.")
        require_targets(self, y)
        X, y = validated(self, X, y, multi_output=True, y_numeric=True, ensure_min_samples=2)
        if y.dtype.kind not in "biuf":
            raise InputError(
                f"y holds {y.dtype} values such as {y.flat[0]!r}, but targets are numbers."
            )
        x = points(X, resolve(self.device))
        targets = torch.tensor(y, dtype=x.dtype, device=x.device)
        base = Laplace(10.0) if self.kernel is None else self.kernel
        kernel = Mahalanobis(base, torch.eye(x.shape[1], dtype=x.dtype, device=x.device))
        matrices, weights = [_matrix(kernel, x)], solve(kernel, x, targets, ridge)
        for _ in progress_bar(range(turns), of="updates of M", show=self.progress):
            kernel = Mahalanobis(base, outer_product(kernel, x, weights))
            matrices.append(_matrix(kernel, x))
            weights = solve(kernel, x, targets, ridge)
        self.kernel_, self.points_, self.weights_ = kernel, x, weights
        self.matrices_ = torch.stack(matrices)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """(m, d) -> (m,) or (m, o), an array or a tensor as X is."""
        x = fitted_points(self, X)
        return as_input_type(gram_in_chunks(self.kernel_, x, self.points_, self.weights_), X)

    def gradient(self, X: ArrayLike) -> Array:
        """The gradient of the predictor: (m, d) -> (m, d), or (m, o, d) for several targets."""
        x = fitted_points(self, X)
        weights = self.weights_.reshape(len(self.weights_), -1)
        slopes = self.kernel_.gradient(x, self.points_, weights)
        return as_input_type(slopes if self.weights_.ndim > 1 else slopes[:, 0], X)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def solve(kernel: Mahalanobis, x: Tensor, targets: Tensor, ridge: float) -> Tensor:
    """The weights (K + ridge)^-1 y of (F.3): (n, d), (n, ...) -> (n, ...)."""
    gram = kernel(x)
    gram.diagonal().add_(ridge)
    factor, info = torch.linalg.cholesky_ex(gram)
    pivots = factor.diagonal()
    if info or pivots.min() ** 2 <= len(x) * EPSILON * pivots.max() ** 2:
        raise InputError(
            f"The Gram matrix of {len(x)} points with ridge = {ridge} is singular to rounding, as it is "
            f"with repeated points or a very smooth kernel: raise ridge, say to 1e-6, or drop repeats."
        )
    return torch.cholesky_solve(targets.reshape(len(x), -1), factor).reshape(targets.shape)


def outer_product(kernel: Mahalanobis, x: Tensor, weights: Tensor) -> Tensor:
    """The mean of grad f grad f^T over the points (F.4), with trace d; the old M if f is constant."""
    slopes = kernel.gradient(x, x, weights.reshape(len(x), -1)).flatten(0, 1)
    size = slopes.abs().max()
    if not size > 0:
        return _matrix(kernel, x)
    slopes = slopes / size  # so that squares neither overflow nor underflow
    M = slopes.T @ slopes
    return M * (len(M) / M.trace())


def _matrix(kernel: Mahalanobis, x: Tensor) -> Tensor:
    """M (d, d), which is 1 where a kernel has none."""
    if kernel.matrix is None:
        return torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    return kernel.matrix

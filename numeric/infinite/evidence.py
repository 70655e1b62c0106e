"""The log marginal likelihood of targets under an infinitely wide network, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from numeric.infinite.prediction import HasNNGP, OneKernel, Regression, as_network
from numeric.inputs import ArrayLike, InputError, positive
from numeric.kernels import Kernel
from numeric.kernels.spectrum import GramSpectrum, require_finite

__all__ = ["EvidenceGradient", "LogEvidence", "ScaledNetwork", "log_marginal_likelihood"]


class ScaledNetwork(HasNNGP, Protocol):
    """A network with an NNGP kernel, and derivatives of sum(weights * nngp(x)) by its layers' scales."""

    def nngp_gradient(self, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True, eq=False)
class EvidenceGradient:
    """Derivatives of the log marginal likelihood."""

    sigma_w: Tensor  # (depth + 1,)
    sigma_b: Tensor  # (depth + 1,)
    noise: float


@dataclass(frozen=True, eq=False)
class LogEvidence:
    """log p(y), summed over the outputs; the gradient is computed when first asked for."""

    value: float
    condition: float  # of the covariance of y, in the 1-norm
    _gradient: Callable[[], EvidenceGradient] = field(repr=False)

    @cached_property
    def gradient(self) -> EvidenceGradient:
        return self._gradient()


def log_marginal_likelihood(
    net: ScaledNetwork | Kernel, x: ArrayLike, y: ArrayLike, noise: float
) -> LogEvidence:
    r"""The log density of targets (n,) or (n, k) under $N(0, C)$, $C = K + s I$, noise variance s.

    $\log p = -\frac12\mathrm{tr}(y^T C^{-1} y) - \frac k2\log\det C - \frac{nk}2\log 2\pi$, and its
    derivative by any entry of C is that of $W = \frac12(\alpha\alpha^T - k\,C^{-1})$,
    $\alpha = C^{-1} y$, whose rounding, $\epsilon|\alpha|^2$, is what the gradient can lose. Three
    n x n matrices are held at most, besides those of the network.

    Parameters: `net` has nngp(x, y), as a FullyConnected has, or is a Kernel; `x` (n, ...); `y` (n,) or
    (n, k); `noise` s at least 0. Returned is a LogEvidence with `value`, `condition`, and when asked for the
    `gradient` by scales and noise, which a Kernel alone does not have. A covariance that is singular to
    rounding has no density, and is refused, as are other shapes, NaN and numbers out of range.

    >>> from numeric.kernels import FunctionKernel
    >>> linear = FunctionKernel(lambda x, y: x @ y.T)
    >>> round(log_marginal_likelihood(linear, [[1.0]], [0.0], noise=1.0).value, 4)
    -1.2655
    """
    network = as_network(net, "nngp")
    data, noise = Regression.of(x, y), positive("noise", noise, zero=True)
    (n, k), covariance = data.y.shape, require_finite(network.nngp(data.x)).clone()
    covariance.diagonal().add_(noise)
    factor, failed = torch.linalg.cholesky_ex(covariance)
    if failed:
        raise _no_density(GramSpectrum.of(network.nngp(data.x), noise))
    inverse = torch.cholesky_inverse(factor)
    condition = (_norm(covariance) * _norm(inverse)).item()
    del covariance
    if (
        condition * n * torch.finfo(data.x.dtype).eps >= 1
    ):  # the 1-norm bounds the eigenvalues' ratio
        spectrum = GramSpectrum.of(network.nngp(data.x), noise)
        if spectrum.rank < n:
            raise _no_density(spectrum)
    alpha = torch.cholesky_solve(data.y, factor)
    log_det = 2 * factor.diagonal().log().sum()
    value = -((data.y * alpha).sum() + k * log_det + n * k * math.log(2 * math.pi)) / 2
    weights = inverse.mul_(-k / 2).addmm_(alpha, alpha.mT, alpha=0.5)

    def gradient() -> EvidenceGradient:
        if isinstance(network, OneKernel) or not hasattr(network, "nngp_gradient"):
            raise InputError(
                "Only a FullyConnected is differentiated by its scales: compare values of other networks."
            )
        by_weights, by_biases = network.nngp_gradient(data.x, weights)
        return EvidenceGradient(by_weights, by_biases, weights.trace().item())

    return LogEvidence(value.item(), condition, gradient)


def _norm(matrix: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(matrix, 1)


def _no_density(spectrum: GramSpectrum) -> InputError:
    return InputError(
        f"With noise = {spectrum.ridge:g} the targets have no density: their covariance is singular "
        f"({spectrum.account}); take noise = {spectrum.remedy:.1g} or more."
    )

"""Gaussian processes of several outputs, conditioned on data and described point by point."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from numeric.estimate import Estimate
from numeric.inputs import (
    ArrayLike,
    InputError,
    as_numbers,
    generator_for,
    positive,
    require_finite,
    whole,
)
from numeric.kernels.spectrum import GramSpectrum

__all__ = ["PointwiseGaussian", "conditional"]


@dataclass(frozen=True, eq=False)
class PointwiseGaussian:
    """A normal distribution of the k outputs at each of n points; points are described one by one.

    >>> one = PointwiseGaussian(torch.zeros(1, 2), torch.eye(2)[None])
    >>> one.std.tolist(), one.softmax(100, seed=0).mean.shape
    ([[1.0, 1.0]], torch.Size([1, 2]))
    """

    mean: Tensor  # (n, k)
    covariance: Tensor  # (n, k, k)

    @property
    def std(self) -> Tensor:
        """(n, k)."""
        return self.covariance.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()

    @cached_property
    def _root(self) -> Tensor:
        """L with L L^T the covariance; what rounding made negative is 0."""
        values, vectors = torch.linalg.eigh(self.covariance)
        return vectors * values.clamp(min=0).sqrt()[:, None]

    def sample(self, draws: int, seed: int) -> Tensor:
        """Draws of the outputs, (draws, n, k)."""
        whole("draws", draws)
        n, k = self.mean.shape
        generator = generator_for("pointwise gaussian", seed)
        noise = torch.randn(draws, n, k, 1, generator=generator, dtype=torch.float64).to(self.mean)
        return self.mean + (self._root @ noise)[..., 0]

    def softmax(self, draws: int, seed: int) -> Estimate:
        """Mean and spread over draws of the probabilities softmax(f), (n, k), by Monte Carlo."""
        return Estimate.of(self.sample(draws, seed).softmax(2))


def conditional(
    gram: ArrayLike, residual: ArrayLike, cross: ArrayLike, own: ArrayLike, jitter: float = 0.0
) -> PointwiseGaussian:
    r"""A Gaussian process at points, given its values at others, less its prior mean everywhere.

    $$m_a = K_a (K + jI)^{-1} r, \qquad C_a = K_{aa} - K_a (K + jI)^{-1} K_a^T$$

    gram: (m, m), covariances of the values that are given. residual: (m,), these values less their prior
        mean. cross: (n, k, m), covariances of the k outputs at each of n points with them. own: (n, k, k),
        of each point's outputs. jitter: a variance on the diagonal, in units of its mean.

    Returned is a PointwiseGaussian without the prior mean. Refused are other shapes, parts of different
    dtype or device, and a Gram matrix that is singular to rounding, unless there is jitter enough.

    >>> gram, cross, own = torch.eye(2), torch.ones(1, 1, 2), torch.full((1, 1, 1), 3.0)
    >>> conditional(gram, torch.tensor([1.0, 2.0]), cross, own).covariance.item()
    1.0
    """
    positive("jitter", jitter, zero=True)
    gram, residual, cross, own = _require_blocks(gram, residual, cross, own)
    unit = float(gram.diagonal().mean()) or 1.0  # a kernel that is 0 has no unit
    spectrum = GramSpectrum.of((gram + gram.mT) / 2, jitter * unit)
    if spectrum.rank < len(gram):
        raise InputError(
            f"With jitter = {jitter:g} the Gram matrix of the training points is singular "
            f"({spectrum.account}): give jitter = {spectrum.remedy / unit:.1g} or more."
        )
    onto = (cross @ spectrum.vectors) / spectrum.shifted.sqrt()
    mean = onto @ ((spectrum.vectors.mT @ residual) / spectrum.shifted.sqrt())
    return PointwiseGaussian(mean, own - onto @ onto.mT)


def _require_blocks(
    gram: ArrayLike, residual: ArrayLike, cross: ArrayLike, own: ArrayLike
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The parts of `conditional` as tensors that fit together."""
    given = {"gram": gram, "residual": residual, "cross": cross, "own": own}
    needed = "(m, m)", "(m,)", "(n, k, m)", "(n, k, k)"
    parts = [as_numbers(*one) for one in zip(given, given.values(), needed, strict=True)]
    shapes = [tuple(part.shape) for part in parts]
    n, k, m = shapes[2] if len(shapes[2]) == 3 else (0, 0, 0)
    if not m or shapes != [(m, m), (m,), (n, k, m), (n, k, k)]:
        raise InputError(
            f"gram, residual, cross and own must have shapes {', '.join(needed)}, not "
            f"{', '.join(map(str, shapes))}."
        )
    kinds = {(part.dtype, part.device) for part in parts}
    if len(kinds) > 1 or not parts[0].is_floating_point():
        kinds = ", ".join(f"{part.dtype} on {part.device}" for part in parts)
        raise InputError(
            f"gram, residual, cross and own are {kinds}: convert them to one dtype of floats on one device."
        )
    for name, part in zip(given, parts, strict=True):
        require_finite(name, part)
    return parts[0], parts[1], parts[2], parts[3]

"""Eigendecomposition of a Gram matrix, and which of its eigenvalues are above the rounding error."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from numeric.inputs import ArrayLike, InputError, positive, require_points

__all__ = ["GramSpectrum", "SingularGram", "require_finite", "root"]


class SingularGram(UserWarning):
    """A training Gram matrix is singular as far as rounding can tell, and nothing regularises it."""


@dataclass(frozen=True, eq=False)
class GramSpectrum:
    r"""$G = U \lambda U^T$, to be used as $G + r I$.

    An eigenvalue of $G + rI$ counts only above `floor`, the larger of $n\,\epsilon\,\lambda_{\max}$
    and twice the most negative eigenvalue, which a Gram matrix can owe to rounding alone. Made by
    `GramSpectrum.of(gram, ridge)`.

    >>> spectrum = GramSpectrum.of([[2.0, 0.0], [0.0, 0.0]], ridge=1.0)
    >>> spectrum.shifted.tolist(), spectrum.rank
    ([1.0, 3.0], 2)
    """

    values: Tensor  # (n,), ascending, at least 0, without the ridge
    vectors: Tensor  # (n, n)
    floor: float
    ridge: float
    condition: float  # of G + rI, as rounding left it

    @classmethod
    def of(cls, gram: ArrayLike, ridge: float = 0.0) -> GramSpectrum:
        """The spectrum of a symmetric matrix (n, n), to be used with a ridge r at least 0 on its diagonal.

        Refused are other shapes, NaN and infinite entries, and eigenvalues below 0 by more than rounding.
        """
        ridge = positive("ridge", ridge, zero=True)
        gram, _ = require_points(gram)
        if gram.shape[0] != gram.shape[1]:
            raise InputError(f"A Gram matrix is square, but shape {tuple(gram.shape)} was given.")
        values, vectors = torch.linalg.eigh(require_finite(gram))
        least, most = values[0].item(), values[-1].item()
        eps = torch.finfo(gram.dtype).eps
        if least < -(eps**0.5) * most:
            raise InputError(
                f"A Gram matrix has no negative eigenvalues, but this one has {least:.3g} beside "
                f"{most:.3g}: look for a mistake in the kernel."
            )
        floor = max(len(values) * eps * most, -2 * least, torch.finfo(gram.dtype).tiny)
        smallest = (values + ridge).abs().min().item()
        condition = (most + ridge) / smallest if smallest > 0 else math.inf
        return cls(values.clamp(min=0), vectors, floor, ridge, condition)

    @cached_property
    def shifted(self) -> Tensor:
        """The eigenvalues of G + rI, (n,)."""
        return self.values + self.ridge

    @cached_property
    def resolved(self) -> Tensor:
        """Which eigenvalues are above the rounding error."""
        return self.shifted > self.floor

    @property
    def rank(self) -> int:
        """How many eigenvalues are above the rounding error."""
        return int(self.resolved.sum())

    @property
    def account(self) -> str:
        """How singular the matrix is, in words."""
        n, kind = len(self.values), str(self.values.dtype).removeprefix("torch.")
        return (
            f"condition number {self.condition:.2g}, {n - self.rank} of {n} eigenvalues at or below "
            f"{self.floor:.2g} and so lost in {kind}"
        )

    @property
    def remedy(self) -> float:
        """A ridge that lifts every eigenvalue above the floor."""
        return 2 * self.floor

    def filters(self, t: Tensor) -> Tensor:
        r"""$(1 - e^{-t\lambda})/\lambda$ for every time and eigenvalue $\lambda + r$: (..., n).

        A lost eigenvalue may be anything from 0 to `floor`. Up to t = 1/floor that matters little;
        later it decides, and the direction is given up: its filter is 0, which at t = infinity is
        the pseudo-inverse.
        """
        time, rate = t[..., None], self.shifted
        known = torch.where(rate > 0, rate, 1)
        grown = torch.where(rate > 0, -torch.expm1(-time * known) / known, time)
        return torch.where(self.resolved | self.early(time), grown, 0)

    def early(self, t: Tensor) -> Tensor:
        """Whether a time is so early that eigenvalues below the floor matter little."""
        return t * self.floor <= 1

    def excludes(self, targets: Tensor) -> bool:
        """Whether targets (n, k) have more in the lost directions than a draw of N(0, G) can have."""
        lost = (self.vectors.mT @ targets)[~self.resolved]
        return bool((lost.abs() > 5 * self.floor**0.5).any())  # five standard deviations

    def warn(self, kernel: str, knob: str) -> None:
        """Warn that the matrix is singular to rounding, if it is."""
        if self.rank < len(self.values):
            text = (
                f"The {kernel} of the training set is singular ({self.account}): the prediction leaves "
                f"those directions as they were; {knob} = {self.remedy:.1g} or more would keep them all."
            )
            warnings.warn(text, SingularGram, stacklevel=3)


def root(gram: Tensor) -> Tensor:
    """L with L L^T = gram: of Cholesky where that succeeds, else of the eigenvalues."""
    factor, failed = torch.linalg.cholesky_ex(require_finite(gram))
    if not failed:
        return factor
    spectrum = GramSpectrum.of(gram)
    return spectrum.vectors * spectrum.values.sqrt()


def require_finite(gram: Tensor) -> Tensor:
    """The matrix itself, if it has no NaN or infinite entries."""
    if not torch.isfinite(gram).all():
        raise InputError("The Gram matrix has entries that are NaN or infinite: scale x down.")
    return gram

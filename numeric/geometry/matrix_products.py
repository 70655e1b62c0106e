r"""Singular values of products of square matrices $A\,\mathrm{diag}(e^h)\,B$ with well conditioned A and B.

With the scales h descending and $B Z = L U$, no entry of $\mathrm{diag}(e^h) L\,\mathrm{diag}(e^{-h})$ is
large, so the QR of its product with A is accurate. Each factor thus maps an orthonormal basis Z to the next
one times a triangle, and a product of triangles keeps the relative accuracy of each row. Scales are kept as
logarithms throughout.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.geometry.scaled_qr import LARGEST, unit_columns, upper

ROUNDS = 8  # of power iteration
GROWTH = 1e6  # largest entry allowed in L, U and the product; relative errors grow by as much


@dataclass(frozen=True, eq=False)
class Factor:
    """A diag(e^h) B."""

    left: Tensor  # (k, k)
    scales: Tensor  # (k,)
    right: Tensor  # (k, k)

    @property
    def transposed(self) -> Factor:
        """The transpose."""
        return Factor(self.right.mT, self.scales, self.left.mT)

    @property
    def inverse(self) -> Factor:
        return Factor(torch.linalg.inv(self.right), -self.scales, torch.linalg.inv(self.left))

    @property
    def log_volume(self) -> float:
        sides = (torch.linalg.slogdet(side).logabsdet for side in (self.left, self.right))
        return (self.scales.sum() + sum(sides)).item()

    def times(self, v: Tensor) -> tuple[float, Tensor]:
        """Log of the length, and direction, of the product with a vector."""
        v = self.right @ v
        logs = self.scales + v.abs().log()
        top = logs.amax()
        v = self.left @ ((logs - top).exp() * v.sign())
        length = v.norm()
        return (top + length.log()).item(), v / length


@dataclass(frozen=True, eq=False)
class MatrixProduct:
    """A product of factors, of which the first is applied first."""

    factors: tuple[Factor, ...]

    @property
    def rank(self) -> int:
        return len(self.factors[0].scales)

    @property
    def log_volume(self) -> float:
        return sum(factor.log_volume for factor in self.factors)

    def log_condition(self) -> float:
        """Log of the condition number, by power iteration with the product and with its inverse."""
        inverse = [factor.inverse for factor in reversed(self.factors)]
        return _log_norm(self.factors) + _log_norm(inverse)

    def log_singular(self) -> Tensor | None:
        """(k,), descending; None where the orders of the factors' scales differ too much for accuracy."""
        basis = torch.eye(len(self.factors[0].scales)).to(self.factors[0].scales)
        logs, rows = basis.new_zeros(len(basis)), basis  # the product is diag(e^logs) rows so far
        for factor in self.factors:
            h, order = factor.scales.sort(descending=True)
            lower, high = _eliminated((factor.right @ basis)[order])
            basis, triangle = torch.linalg.qr(factor.left[:, order] @ (lower * _ratio(h).mT))
            triangle = (triangle * _ratio(h)) @ high
            diagonal = triangle.diagonal()
            rows = (triangle / diagonal.abs()[:, None] * _ratio(logs)) @ rows
            logs = logs + h + diagonal.abs().log()
            largest = torch.stack([lower, high, rows]).abs().amax()
            if not largest < GROWTH:
                return None
        return unit_columns(logs, upper(rows.mT)).log_singular


def _log_norm(factors: list[Factor] | tuple[Factor, ...]) -> float:
    v = torch.ones_like(factors[0].scales)
    v, total = v / v.norm(), 0.0
    for _ in range(ROUNDS):
        total = 0.0
        for factor in (*factors, *(factor.transposed for factor in reversed(factors))):
            log, v = factor.times(v)
            total += log
    return total / 2


def _ratio(logs: Tensor) -> Tensor:
    """e^(l_j - l_i), row i and column j."""
    return (logs - logs[:, None]).clamp(max=LARGEST).exp()


def _eliminated(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """L and U without pivoting: the rows are already in the order of the scales."""
    lower, high = torch.eye(len(matrix)).to(matrix), matrix.clone()
    for k in range(len(matrix) - 1):
        lower[k + 1 :, k] = high[k + 1 :, k] / high[k, k]
        high[k + 1 :] -= lower[k + 1 :, k : k + 1] * high[k]
        high[k + 1 :, k] = 0
    return lower, high

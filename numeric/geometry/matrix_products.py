r"""Singular values of products of square matrices $A\,\mathrm{diag}(e^h)\,B$ with well conditioned A and B.

With the scales h descending and $B Z = L U$, no entry of $\mathrm{diag}(e^h) L\,\mathrm{diag}(e^{-h})$ is
large, and its product with A has a QR as harmless as any. So each factor turns an orthonormal basis Z into
the next one times a triangle, and a product of triangles keeps the digits of each row. Scales stay logs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.geometry.scaled_qr import LARGEST, unit_columns, upper

ROUNDS = 8  # of power iteration
GROWTH = 1e6  # of entries in L, U and the product, which comes off the digits


@dataclass(frozen=True, eq=False)
class Link:
    """A diag(e^h) B."""

    left: Tensor  # (k, k)
    scales: Tensor  # (k,)
    right: Tensor  # (k, k)

    @property
    def turned(self) -> Link:
        """The transpose."""
        return Link(self.right.mT, self.scales, self.left.mT)

    @property
    def inverse(self) -> Link:
        return Link(torch.linalg.inv(self.right), -self.scales, torch.linalg.inv(self.left))

    @property
    def log_volume(self) -> float:
        sides = (torch.linalg.slogdet(side).logabsdet for side in (self.left, self.right))
        return (self.scales.sum() + sum(sides)).item()

    def times(self, v: Tensor) -> tuple[float, Tensor]:
        """The log of the length of what becomes of a vector, and its direction."""
        v = self.right @ v
        logs = self.scales + v.abs().log()
        top = logs.amax()
        v = self.left @ ((logs - top).exp() * v.sign())
        length = v.norm()
        return (top + length.log()).item(), v / length


@dataclass(frozen=True, eq=False)
class Linked:
    """The product of links, the first of which is applied first."""

    links: tuple[Link, ...]

    @property
    def rank(self) -> int:
        return len(self.links[0].scales)

    @property
    def log_volume(self) -> float:
        return sum(link.log_volume for link in self.links)

    def log_condition(self) -> float:
        """By power iteration with the product, and with its inverse."""
        inverse = [link.inverse for link in reversed(self.links)]
        return _log_norm(self.links) + _log_norm(inverse)

    def log_singular(self) -> Tensor | None:
        """(k,), descending; None where the scales of links come in too different an order."""
        basis = torch.eye(len(self.links[0].scales)).to(self.links[0].scales)
        logs, rows = basis.new_zeros(len(basis)), basis  # the product is diag(e^logs) rows so far
        for link in self.links:
            h, order = link.scales.sort(descending=True)
            lower, high = _eliminated((link.right @ basis)[order])
            basis, triangle = torch.linalg.qr(link.left[:, order] @ (lower * _ratio(h).mT))
            triangle = (triangle * _ratio(h)) @ high
            own = triangle.diagonal()
            rows = (triangle / own.abs()[:, None] * _ratio(logs)) @ rows
            logs = logs + h + own.abs().log()
            largest = torch.stack([lower, high, rows]).abs().amax()
            if not largest < GROWTH:
                return None
        return unit_columns(logs, upper(rows.mT)).log_singular


def _log_norm(links: list[Link] | tuple[Link, ...]) -> float:
    v = torch.ones_like(links[0].scales)
    v, total = v / v.norm(), 0.0
    for _ in range(ROUNDS):
        total = 0.0
        for link in (*links, *(link.turned for link in reversed(links))):
            log, v = link.times(v)
            total += log
    return total / 2


def _ratio(logs: Tensor) -> Tensor:
    """e^(l_j - l_i), row i and column j."""
    return (logs - logs[:, None]).clamp(max=LARGEST).exp()


def _eliminated(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """L and U without pivots, as the order of rows is given."""
    lower, high = torch.eye(len(matrix)).to(matrix), matrix.clone()
    for k in range(len(matrix) - 1):
        lower[k + 1 :, k] = high[k + 1 :, k] / high[k, k]
        high[k + 1 :] -= lower[k + 1 :, k : k + 1] * high[k]
        high[k + 1 :, k] = 0
    return lower, high

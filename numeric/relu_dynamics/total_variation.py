r"""The least total variation of a measure on the circle that makes a given function, in closed form.

Neurons are signed masses $\nu$ at angles, and $\int|r|d\mu$ is at least $\|\nu\|$. Opposite angles share
a knot u, where their masses add up to $f''\sqrt{1+u^2}$ and by how much they differ decides the rest,
$f = \frac12\int f''(u)|x-u|du + \ell_1x + \ell_0$. By duality the least is $\int|f''|\sqrt{1+u^2}\,du$
with the largest of $2\langle\lambda, \ell\rangle - \int|f''(u)||\lambda_1 - \lambda_2u|du$ over
$|\lambda|\le1$, $|\lambda_2|\le\frac12$, for a mass at $\theta = \frac\pi2$ is a constant without a partner.
That affine part is 0 where slope and level can be shared out among the knots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.relu_dynamics.neurons import Neurons, require_neurons

__all__ = ["Variation", "variation"]


@dataclass(frozen=True)
class Variation:
    """Total variation of the neurons, and the two parts of the least that makes the same function."""

    spent: float  # the mean of |r|
    bending: float  # the integral of |f''| sqrt(1 + x^2)
    affine: float  # what slope and level cost beyond that

    @property
    def least(self) -> float:
        return self.bending + self.affine


def variation(neurons: Neurons) -> Variation:
    """The total variation of neurons, and the least of any neurons that make the same function.

    >>> import torch
    >>> one = torch.ones(1, dtype=torch.float64)
    >>> result = variation(Neurons(one, 0 * one, 2 * one, 1.0))  # 2 [x]_+
    >>> result.spent, result.least
    (2.0, 2.0)
    """
    knots, bends = _bends(require_neurons(neurons))
    bending = (bends * torch.hypot(knots, torch.ones_like(knots))).sum()
    return Variation(neurons.r.abs().mean().item(), bending.item(), _affine(neurons, knots, bends))


def _bends(neurons: Neurons) -> tuple[Tensor, Tensor]:
    """The sorted knots, and the absolute values of the point masses of f'' there."""
    moving = neurons.a != 0
    places, index = torch.unique(neurons.knots[moving], return_inverse=True)
    jumps = (neurons.c * neurons.a.abs())[moving] / neurons.alpha
    return places, torch.zeros_like(places).index_add(0, index, jumps).abs()


def _affine(neurons: Neurons, knots: Tensor, bends: Tensor) -> float:
    """The dual is linear between two kinks, so that its largest value is at one or at one vector's own.

    Kinks are where lambda is along (u, 1); with the first k knots on one side, the integral is <lambda, z_k>.
    """
    level = torch.where(neurons.a == 0, 2 * torch.relu(-neurons.b), -neurons.b)
    pull = torch.stack([neurons.c @ neurons.a, neurons.c @ level]) / neurons.alpha  # 2 l
    parts = torch.stack([bends, -bends * knots])
    below = torch.cat([parts.new_zeros(2, 1), parts.cumsum(1)], 1)  # (2, K + 1)
    sums = 2 * below - below[:, -1:]
    kinks = _unit(torch.stack([knots, torch.ones_like(knots)]))
    kinks = kinks / (2 * kinks[1]).clamp(min=1)
    own = _largest(torch.cat([pull[:, None] - sums, pull[:, None] + sums], 1))
    at = torch.cat([own, kinks, -kinks], 1)
    k = torch.searchsorted(knots, at[0] / (at[1] + 0.0))
    upper = torch.where(at[1] < 0, -1.0, 1.0)
    values = pull @ at - upper * (at * sums[:, k]).sum(0)
    return max(values.max().item(), 0.0)


def _largest(vectors: Tensor) -> Tensor:
    """(2, n) -> (2, n): where each one's product with lambda is largest."""
    unit = _unit(vectors)
    corner = torch.stack([math.sqrt(0.75) * unit[0].sign(), unit[1].sign() / 2])
    return torch.where(unit[1].abs() <= 0.5, unit, corner)


def _unit(vectors: Tensor) -> Tensor:
    return vectors / torch.hypot(*vectors).clamp(min=torch.finfo(vectors.dtype).tiny)

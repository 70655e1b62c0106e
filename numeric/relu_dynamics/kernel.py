r"""The tangent kernel of neurons at the samples, and residuals under a constant kernel.

$K_{jk} = \frac1{\alpha^2}\tilde x_j^T\bigl(\sum_i w_iw_i^T + c_i^2\bigr)\tilde x_k$ over the neurons active
at both, by prefix sums over patterns; where a neuron slides, $c^2$ counts along its ray only.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.relu_dynamics.boosts import NeuronState
from numeric.relu_dynamics.rays import Rays

__all__ = ["KernelModes", "kernel"]


@dataclass(frozen=True, eq=False)
class KernelModes:
    r"""The solution of $\rho' = -K\rho$ with given initial residuals, by eigenvectors of K."""

    residuals: Tensor  # (s,)
    rates: Tensor  # (s,)
    vectors: Tensor  # (s, s), in columns, each as long as its share of the residuals

    @classmethod
    def of(cls, kernel: Tensor, residuals: Tensor) -> KernelModes:
        rates, vectors = torch.linalg.eigh(kernel)
        return cls(residuals, rates.clamp(min=0), vectors * (residuals @ vectors))

    def impulse(self, time: float) -> Tensor:
        """(s,): the integral of the residuals."""
        part = self.rates * time
        return self.vectors @ (time * torch.where(part > 0, -torch.expm1(-part) / part, 1.0))


def kernel(rays: Rays, state: NeuronState) -> Tensor:
    """(s, s): two samples share the patterns after the later and up to s beyond the earlier."""
    s, x = rays.count // 2, rays.samples.x
    parts = torch.stack([state.a**2, state.a * state.d, state.d**2, state.c**2])
    bins = torch.zeros(4, 2 * rays.count, dtype=x.dtype, device=x.device)
    bins.scatter_add_(1, state.mode.expand_as(parts), parts)
    moments = bins[:3] + bins[3] * rays.freedom
    sums = torch.zeros(3, rays.count + 1, dtype=x.dtype, device=x.device)
    sums[:, 1:].index_add_(1, rays.pattern, moments)
    sums = sums.cumsum(1)
    number = rays.number[:s]
    later, earlier = torch.maximum(number, number[:, None]), torch.minimum(number, number[:, None])
    aa, ad, dd = sums[:, earlier + s + 1] - sums[:, later + 1]
    return (aa * x * x[:, None] + ad * (x + x[:, None]) + dd) / rays.alpha**2

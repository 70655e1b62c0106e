r"""Training of c alone, which is delta = -infinity, in closed form at any time.

The features are constant, so that with $\Phi/\alpha = USV^T$ over samples and neurons the residuals are
$\rho(t) = \rho_0 - U(1 - e^{-S^2t})U^T\rho_0$ and $c(t) = c_0 - V\frac{1 - e^{-S^2t}}{S}U^T\rho_0$. What no
feature reaches stays, whatever the rank, and t may be infinite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from numeric.relu_dynamics.neurons import Neurons

__all__ = ["Readout"]

POINTS = 200  # times at which residuals are listed


@dataclass(frozen=True, eq=False)
class Readout:
    """Initial neurons, and the k eigenvectors of their tangent kernel with nonzero eigenvalues."""

    neurons: Neurons
    start: Tensor  # (s,): residuals
    samples: Tensor  # (s, k): U
    sizes: Tensor  # (k,): S
    readouts: Tensor  # (k, m): V^T

    @classmethod
    def of(cls, neurons: Neurons, x: Tensor, y: Tensor) -> Readout:
        features = torch.relu(x[:, None] * neurons.a - neurons.b) / neurons.alpha
        u, s, vt = torch.linalg.svd(features, full_matrices=False)
        nonzero = s > torch.finfo(s.dtype).eps * max(features.shape) * s[:1]
        return cls(neurons, features @ neurons.c - y, u[:, nonzero], s[nonzero], vt[nonzero])

    def residuals(self, times: Tensor) -> Tensor:
        """(k,) -> (k, s)."""
        share = self._share(times.to(self.start))
        return self.start - (share * self._weights) @ self.samples.T

    def __call__(self, time: float) -> Neurons:
        share = self._share(torch.tensor([time], dtype=self.start.dtype, device=self.start.device))
        moved = (share[0] * self._weights / self.sizes) @ self.readouts
        return replace(self.neurons, c=self.neurons.c - moved)

    def times(self, end: float) -> Tensor:
        """Times from a thousandth of the fastest mode's up to the end, equally spaced in their logarithms."""
        if not len(self.sizes):
            return torch.tensor([0.0, end], dtype=torch.float64)
        first, last = 1e-3 / self.sizes[0] ** 2, 50 / self.sizes[-1] ** 2
        last = min(last.item(), end)
        first = min(first.item(), last / 2)
        grid = torch.logspace(0, 1, POINTS, base=last / first, dtype=torch.float64) * first
        tail = torch.tensor([end], dtype=torch.float64)
        return torch.cat([torch.zeros_like(tail), grid[grid < end], tail])

    @property
    def _weights(self) -> Tensor:
        return self.start @ self.samples

    def _share(self, times: Tensor) -> Tensor:
        """(k, modes): the fraction of each mode that has decayed; 1 at infinity."""
        return -torch.expm1(-(self.sizes**2) * times[:, None])

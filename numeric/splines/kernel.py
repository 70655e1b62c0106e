"""Kernels of univariate ReLU networks, for laws of hidden units with closed forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from analytic.splines import Initialisation
from numeric.inputs import ArrayLike, InputError, positive, require_points
from numeric.kernels import Kernel
from numeric.splines.law import FilledLaw, filled

__all__ = ["SplineKernel"]


@dataclass(frozen=True, eq=False)
class SplineKernel(Kernel):
    """The kernel of random features where `readout` = E[c^2] is 0, else the tangent kernel.

    Points are tensors (n, 1); the closed forms are computed in float64 on the host. `values` has a number for
    each parameter of the law. Refused are other laws, and values that are missing or impossible.

    >>> import torch
    >>> from analytic.splines import INITIALISATIONS
    >>> kernel = SplineKernel(INITIALISATIONS["signs"], {"B": 1.0})
    >>> kernel(torch.tensor([[0.0], [0.5]], dtype=torch.float64)).shape
    torch.Size([2, 2])
    """

    initialisation: Initialisation
    values: Mapping[str, float] = field(default_factory=dict)
    readout: float = 0.0

    def __post_init__(self) -> None:
        positive("readout", self.readout, zero=True)
        _ = self.law

    @cached_property
    def law(self) -> FilledLaw:
        return filled(self.initialisation, self.values)

    def __call__(self, x: ArrayLike, y: ArrayLike | None = None) -> Tensor:
        rows, columns = require_points(x, y)
        return self._evaluated(
            _on_a_line(rows)[:, None], _on_a_line(rows if columns is None else columns)
        )

    def diagonal(self, x: ArrayLike) -> Tensor:
        points = _on_a_line(require_points(x)[0])
        return self._evaluated(points, points)

    def _evaluated(self, x: Tensor, y: Tensor) -> Tensor:
        left, right = (part.detach().cpu().numpy() for part in (x, y))
        values = self.law.kernel(left, right, self.readout)
        return torch.as_tensor(values, dtype=x.dtype, device=x.device)


def _on_a_line(points: Tensor) -> Tensor:
    """(n, 1) -> (n,)."""
    if points.shape[1] != 1:
        shape = tuple(points.shape)
        raise InputError(f"These kernels take points of a line, (n, 1), but {shape} was given.")
    return points[:, 0]

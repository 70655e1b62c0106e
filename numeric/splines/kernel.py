"""Kernels of univariate ReLU networks, for laws of hidden units with closed forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from analytic.splines import Initialisation
from numeric.inputs import InputError, positive
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

    def __call__(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        x, y = self._places("x", x), self._places("y", x if y is None else y)
        return self._evaluated(x, y[:, 0])

    def diagonal(self, x: Tensor) -> Tensor:
        x = self._places("x", x)[:, 0]
        return self._evaluated(x, x)

    def _evaluated(self, x: Tensor, y: Tensor) -> Tensor:
        left, right = (part.detach().cpu().numpy() for part in (x, y))
        values = self.law.kernel(left, right, self.readout)
        return torch.as_tensor(values, dtype=x.dtype, device=x.device)

    @staticmethod
    def _places(name: str, x: Tensor) -> Tensor:
        if not isinstance(x, Tensor) or x.ndim != 2 or x.shape[1] != 1:
            shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise InputError(f"{name} must be a tensor of points (n, 1), but {shape} was given.")
        return x

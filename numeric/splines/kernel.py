"""Kernels of univariate ReLU networks, for laws of hidden units with closed forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from analytic.splines import Initialisation
from numeric.inputs import ArrayLike, InputError, positive, require_finite, require_points
from numeric.kernels import Kernel
from numeric.kernels.jets import Jet
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

    def jet(self, x: ArrayLike) -> Jet:
        r"""$k(x,x)$, $E[a(ax-b)_+]$ and the metric $E[a^2 1(ax>b)]$ of the random-feature kernel.

        Where E[c^2] is not 0, the tangent kernel has $E[c^2](1+xy)P(ax>b,\ ay>b)$ beside it, which has a kink
        at y = x wherever there are knots b/a; points there are refused, as the metric is infinite.
        """
        points = _on_a_line(require_points(x)[0])
        require_finite("x", points)
        law, at = self.law, points.detach().cpu().double().numpy()
        active = np.zeros_like(at)
        if self.readout:
            if (kinked := law.density(at) > 0).any():
                raise InputError(
                    f"The kernel of {law.initialisation.name} has a kink at y = x = {at[kinked][0]:g}, "
                    "where there are knots, and so no metric: take readout = 0, or points without knots."
                )
            active = self.readout * law.initialisation.both.numpy(x=at, y=at, **law.values)
        drift, metric = (
            formula.numpy(x=at, **law.values)
            for formula in (law.initialisation.drift, law.initialisation.metric)
        )
        value, drift, metric = (
            torch.as_tensor(part, dtype=points.dtype, device=points.device)
            for part in (law.kernel(at, at, self.readout), drift + active * at, metric + active)
        )
        return Jet(value, drift[:, None], metric[:, None, None])

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

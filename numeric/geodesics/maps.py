"""What geodesics need of a feature map: values and derivatives, by torch or in closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import jvp, vjp

from numeric.geometry.derivatives import along, along_two
from numeric.geometry.hidden import HiddenLayer

Map = Callable[[Tensor], Tensor]  # (m, d) -> (m, p)


@dataclass(frozen=True, eq=False)
class Smooth:
    """Any map, by forward mode on copies of the points, one for each axis."""

    features: Map

    def push(self, x: Tensor, v: Tensor) -> Tensor:
        """J v: (m, d), (m, d) -> (m, p)."""
        return along(self.features, x, v)

    def bend(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """J and H(v, .): (m, d), (m, d) -> twice (m, p, d)."""
        d = x.shape[1]
        many, axes = _copies(x)
        J, H = along_two(self.features, many, v.repeat_interleave(d, 0), axes)
        return J.unflatten(0, x.shape).mT, H.unflatten(0, x.shape).mT

    def contract(self, x: Tensor, c: Tensor) -> Tensor:
        """The sum of c_k H_k over features: (m, d), (m, p) -> (m, d, d)."""
        many, axes = _copies(x)
        c = c.repeat_interleave(x.shape[1], 0)
        return jvp(lambda at: self.pull(at)[1](c), (many,), (axes,))[1].unflatten(0, x.shape)

    def pull(self, x: Tensor) -> tuple[Tensor, Map]:
        """Features (m, p), and what takes c to J^T c: (m, p) -> (m, d)."""
        value, back = vjp(self.features, x)
        return value, lambda c: back(c)[0]


@dataclass(frozen=True, eq=False)
class Shallow:
    """One hidden layer, in closed form and float64."""

    features: Map
    layer: HiddenLayer

    def push(self, x: Tensor, v: Tensor) -> Tensor:
        slope, _ = self._slopes(x)
        return slope * (v.double() @ self.layer.weights.T)

    def bend(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        slope, bend = self._slopes(x)
        w = self.layer.weights
        return slope[:, :, None] * w, (bend * (v.double() @ w.T))[:, :, None] * w

    def contract(self, x: Tensor, c: Tensor) -> Tensor:
        w = self.layer.weights
        return (w.T * (c * self._slopes(x)[1])[:, None]) @ w

    def pull(self, x: Tensor) -> tuple[Tensor, Map]:
        slope, _ = self._slopes(x)
        return self.features(x).double(), lambda c: (slope * c) @ self.layer.weights

    def _slopes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """phi' and phi'', (m, p)."""
        log_scale, slope, bend = self.layer.derivatives(x)
        scale = log_scale.exp()
        return scale * slope, scale * bend


def _copies(x: Tensor) -> tuple[Tensor, Tensor]:
    """Each point once for every axis, and the axes: twice (m d, d)."""
    m, d = x.shape
    return x.repeat_interleave(d, 0), torch.eye(d, dtype=x.dtype, device=x.device).repeat(m, 1)

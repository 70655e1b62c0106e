"""What geodesics need of a feature map: values and derivatives, by torch or in closed form.

A derivative along v takes two passes back: J^T c is linear in c, and its pullback takes v to J v. That
costs a fraction of torch's forward mode, whose rules are Python, at the few points of a path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.inputs import InputError
from numeric.models.hidden_layers import HiddenLayer

Map = Callable[[Tensor], Tensor]  # (m, d) -> (m, p)


@dataclass(frozen=True, eq=False)
class Smooth:
    """Any map that torch differentiates twice, on copies of the points, one for each axis."""

    features: Map

    def push(self, x: Tensor, v: Tensor) -> Tensor:
        """J v: (m, d), (m, d) -> (m, p)."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return _along(self.features(x), x, v, False)

    def bend(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """J and H(v, .): (m, d), (m, d) -> twice (m, p, d)."""
        many, axes = _copies(x)
        with torch.enable_grad():
            J = _along(self.features(many), many, axes, True)
            H = _along(J, many, v.repeat_interleave(x.shape[1], 0), False)
        return J.detach().unflatten(0, x.shape).mT, H.unflatten(0, x.shape).mT

    def contract(self, x: Tensor, c: Tensor) -> Tensor:
        """The sum of c_k H_k over features: (m, d), (m, p) -> (m, d, d)."""
        many, axes = _copies(x)
        with torch.enable_grad():
            slope = _back(self.features(many), many, c.repeat_interleave(x.shape[1], 0), True)
            return _back(slope, many, axes, False).unflatten(0, x.shape)

    def pull(self, x: Tensor) -> tuple[Tensor, Map]:
        """Features (m, p), and what takes c to J^T c: (m, p) -> (m, d)."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            value = self.features(x)
        return value.detach(), lambda c: _back(value, x, c, False)


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
    """Each point once for every axis, to be differentiated, and the axes: twice (m d, d)."""
    m, d = x.shape
    many = x.detach().repeat_interleave(d, 0).requires_grad_()
    return many, torch.eye(d, dtype=x.dtype, device=x.device).repeat(m, 1)


def _along(y: Tensor, x: Tensor, v: Tensor, again: bool) -> Tensor:
    """The derivative of y along v, to be differentiated again or not; in the shape of y."""
    c = torch.zeros_like(y, requires_grad=True)
    return _back(_back(y, x, c, True), c, v, again)


def _back(y: Tensor, x: Tensor, c: Tensor, again: bool) -> Tensor:
    """The derivative of c.y by x, in the shape of x."""
    if not y.requires_grad:  # y is constant
        return torch.zeros_like(x)
    try:
        return torch.autograd.grad(y, x, c, create_graph=again, materialize_grads=True)[0]
    except (RuntimeError, NotImplementedError) as error:
        raise InputError(
            f"torch cannot differentiate the map twice ({str(error).splitlines()[0]}): write it with "
            "differentiable torch operations, without numpy or gradients of one's own."
        ) from error

"""Values and derivatives of a feature map for geodesics, by torch or in closed form.

A derivative along v takes two backward passes: J^T c is linear in c, and its own vector-Jacobian product with
v is J v. At the few points of a path this is much faster than torch's forward mode, whose rules are Python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.inputs import InputError
from numeric.models.hidden_layers import HiddenLayer

__all__ = ["AutodiffMap", "HiddenLayerMap", "Map"]

Map = Callable[[Tensor], Tensor]  # (m, d) -> (m, p)


@dataclass(frozen=True, eq=False)
class AutodiffMap:
    """Any map, differentiated twice by torch on copies of the points, one for each axis."""

    features: Map

    def jvp(self, x: Tensor, v: Tensor) -> Tensor:
        """J v: (m, d), (m, d) -> (m, p)."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return _jvp(self.features(x), x, v, False)

    def jacobian_and_hessian(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """J and H(v, .): (m, d), (m, d) -> twice (m, p, d)."""
        copies, axes = _copies(x)
        with torch.enable_grad():
            J = _jvp(self.features(copies), copies, axes, True)
            H = _jvp(J, copies, v.repeat_interleave(x.shape[1], 0), False)
        return J.detach().unflatten(0, x.shape).mT, H.unflatten(0, x.shape).mT

    def contract_hessian(self, x: Tensor, c: Tensor) -> Tensor:
        """The sum of c_k H_k over features: (m, d), (m, p) -> (m, d, d)."""
        copies, axes = _copies(x)
        with torch.enable_grad():
            slope = _vjp(self.features(copies), copies, c.repeat_interleave(x.shape[1], 0), True)
            return _vjp(slope, copies, axes, False).unflatten(0, x.shape)

    def vjp(self, x: Tensor) -> tuple[Tensor, Map]:
        """Features (m, p), and the function from c to J^T c: (m, p) -> (m, d)."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            value = self.features(x)
        return value.detach(), lambda c: _vjp(value, x, c, False)


@dataclass(frozen=True, eq=False)
class HiddenLayerMap:
    """One hidden layer, in closed form and float64."""

    features: Map
    layer: HiddenLayer

    def jvp(self, x: Tensor, v: Tensor) -> Tensor:
        slope, _ = self._slopes(x)
        return slope * (v.double() @ self.layer.weights.T)

    def jacobian_and_hessian(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        slope, bend = self._slopes(x)
        w = self.layer.weights
        return slope[:, :, None] * w, (bend * (v.double() @ w.T))[:, :, None] * w

    def contract_hessian(self, x: Tensor, c: Tensor) -> Tensor:
        w = self.layer.weights
        return (w.T * (c * self._slopes(x)[1])[:, None]) @ w

    def vjp(self, x: Tensor) -> tuple[Tensor, Map]:
        slope, _ = self._slopes(x)
        return self.features(x).double(), lambda c: (slope * c) @ self.layer.weights

    def _slopes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """phi' and phi'', (m, p)."""
        log_scale, slope, bend = self.layer.derivatives(x)
        scale = log_scale.exp()
        return scale * slope, scale * bend


def _copies(x: Tensor) -> tuple[Tensor, Tensor]:
    """Each point repeated for every axis, requiring gradients, and the axes: (m d, d) each."""
    m, d = x.shape
    copies = x.detach().repeat_interleave(d, 0).requires_grad_()
    return copies, torch.eye(d, dtype=x.dtype, device=x.device).repeat(m, 1)


def _jvp(y: Tensor, x: Tensor, v: Tensor, create_graph: bool) -> Tensor:
    """The derivative of y along v, in the shape of y; `create_graph` if it is differentiated again."""
    c = torch.zeros_like(y, requires_grad=True)
    return _vjp(_vjp(y, x, c, True), c, v, create_graph)


def _vjp(y: Tensor, x: Tensor, c: Tensor, create_graph: bool) -> Tensor:
    """The derivative of c.y by x, in the shape of x."""
    if not y.requires_grad:  # y is constant
        return torch.zeros_like(x)
    try:
        return torch.autograd.grad(y, x, c, create_graph=create_graph, materialize_grads=True)[0]
    except RuntimeError as error:
        raise InputError(
            f"torch cannot differentiate the map twice ({str(error).splitlines()[0]}): write it with "
            "differentiable torch operations, without numpy or gradients of one's own."
        ) from error

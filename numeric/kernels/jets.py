r"""The jet of a kernel on the diagonal, which holds its metric: by rules, or by automatic differentiation.

The jet of k at x is $k(x,x)$, $\partial_y k(x,y)|_{y=x}$ and the metric
$g = \partial_x\partial_y k(x,y)|_{y=x}$, which is (F.5) of the curvature paper for a symmetric kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.inputs import InputError

__all__ = ["Jet", "derivative", "jet_by_autograd", "outer"]

SYMMETRIC = 1e-9  # relative; rounding of a user's function stays far below
ROWS = 64  # points that torch differentiates at once
KINK = 1e-6  # relative to the slope: smaller changes are rounding
STEP = 2.0**-26  # of the size of the points: a kink is seen, and a smooth kernel is still flat

TwoPoint = Callable[[Tensor, Tensor], Tensor]  # (n, d), (m, d) -> (n, m)


@dataclass(frozen=True, eq=False)
class Jet:
    """A kernel and its first derivatives at y = x; sums and products of kernels are those of their jets."""

    value: Tensor  # (n,), k(x, x)
    drift: Tensor  # (n, d), the derivative by y
    metric: Tensor  # (n, d, d), the derivative by x and y

    def __add__(self, other: Jet) -> Jet:
        return Jet(self.value + other.value, self.drift + other.drift, self.metric + other.metric)

    def __mul__(self, other: Jet) -> Jet:
        value, factor = self.value[:, None], other.value[:, None]
        cross = outer(self.drift, other.drift)
        return Jet(
            self.value * other.value,
            factor * self.drift + value * other.drift,
            factor[..., None] * self.metric + value[..., None] * other.metric + cross + cross.mT,
        )

    def scaled(self, factor: float) -> Jet:
        """The jet of the kernel times a number."""
        return Jet(factor * self.value, factor * self.drift, factor * self.metric)

    def plus_constant(self, constant: float) -> Jet:
        """The jet of the kernel plus a number."""
        return Jet(self.value + constant, self.drift, self.metric)

    @staticmethod
    def cat(parts: list[Jet]) -> Jet:
        """The jet at all points, from those at some of them."""
        return Jet(
            torch.cat([part.value for part in parts]),
            torch.cat([part.drift for part in parts]),
            torch.cat([part.metric for part in parts]),
        )


def outer(u: Tensor, v: Tensor) -> Tensor:
    """u v^T at each point: (n, d), (n, d) -> (n, d, d)."""
    return u[:, :, None] * v[:, None, :]


def jet_by_autograd(k: TwoPoint, x: Tensor) -> Jet:
    """The jet of any k(x, y) that torch differentiates twice; row i of k(x, y) must depend on x_i alone.

    Refused are a k that is not symmetric and one with a kink at y = x, where torch returns the slope 0 or
    NaN.
    """
    jet = Jet.cat([_derivatives(k, chunk) for chunk in x.detach().split(ROWS)])
    kinked = any(_has_kink(k, chunk) for chunk in x.detach().split(ROWS))
    if kinked or not (jet.metric.isfinite().all() and jet.drift.isfinite().all()):
        raise InputError(
            "The kernel has no metric at some points: its derivatives at y = x jump, or are NaN or "
            "infinite there: smooth it, as SmoothedLaplace does."
        )
    return jet


def _has_kink(k: TwoPoint, x: Tensor) -> bool:
    """Whether the slope in y jumps at y = x: its change then does not shrink with the step."""
    way = torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device).sin()
    step = STEP * x.abs().max().clamp_min(torch.finfo(x.dtype).tiny) * way

    def slope(shift: Tensor) -> Tensor:
        y = (x + shift).requires_grad_()
        with torch.enable_grad():
            return derivative(k(x, y).diagonal().sum(), y).detach()

    wide, narrow = ((slope(c * step) - slope(-c * step)).norm(dim=1) for c in (16, 1))
    size = slope(step).norm(dim=1)
    return bool(((narrow > wide / 4) & (narrow > KINK * size)).any())


def _derivatives(k: TwoPoint, x: Tensor) -> Jet:
    left, right = x.clone().requires_grad_(), x.clone().requires_grad_()
    with torch.enable_grad():
        gram = k(left, right)
        if (gram - gram.T).abs().max() > SYMMETRIC * gram.abs().max():
            raise InputError("The kernel is not symmetric: k(x, y) and k(y, x) must be equal.")
        value = gram.diagonal()
        slopes = derivative(value.sum(), left)
        mixed = torch.stack([derivative(column, right) for column in slopes.sum(0)], 1)
        drift, metric = derivative(value.sum(), right), (mixed + mixed.mT) / 2
    return Jet(value.detach(), drift.detach(), metric.detach())


def derivative(f: Tensor, x: Tensor) -> Tensor:
    """The gradient of a number f by x, to be differentiated again; refused where torch has none."""
    if not f.requires_grad:
        raise InputError(
            "torch finds no way from the kernel's value back to the points: write the function "
            "with torch operations, without detach or numpy."
        )
    try:
        return torch.autograd.grad(f, x, create_graph=True, materialize_grads=True)[0]
    except NotImplementedError as error:
        raise InputError(f"torch cannot differentiate the kernel twice: {error}") from None

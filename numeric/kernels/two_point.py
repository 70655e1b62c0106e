r"""Calculus of two-point functions: Gram matrices, gradients of predictors, jets on the diagonal, volumes.

The jet of k at x is $k(x,x)$, $\partial_y k(x,y)|_{y=x}$ and the metric
$g = \partial_x\partial_y k(x,y)|_{y=x}$, which is (F.5) for a symmetric kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from numeric.inputs import InputError
from numeric.kernels.kernel import Kernel

CHUNK = 2**22  # numbers held at once, 32 MB
CLOSE = 1e-3  # relative to the squared norm: below it |x|^2 + |y|^2 - 2 x.y loses three digits
EPSILON = torch.finfo(torch.float64).eps
SYMMETRIC = 1e-9  # relative; rounding of a user's function stays far below
NEGATIVE = 1e-9  # relative; an eigenvalue below 0 by less is rounding
ROWS = 64  # points that torch differentiates at once
KINK = 1e-6  # relative to the slope: smaller changes are rounding
STEP = (
    2.0**-26
)  # of the size of the points: where a kink is seen, and a smooth kernel is still flat

Jet = tuple[Tensor, Tensor, Tensor]  # (n,), (n, d), (n, d, d)


@dataclass(frozen=True, eq=False)
class Volume:
    """The log of the volume element along the directions that are not flattened, and their number."""

    log: Tensor  # (n,); 0 where the rank is 0
    rank: Tensor  # (n,)

    @property
    def magnification(self) -> Tensor:
        """sqrt(det g); on the quotient by the null directions where g is degenerate."""
        return self.log.exp()


def volume_of_metric(metric: Tensor) -> Volume:
    """(n, d, d) -> the root of the product of the nonzero eigenvalues."""
    values = torch.linalg.eigvalsh(metric)
    if (values[..., 0] < -NEGATIVE * values.abs().amax(-1)).any():
        raise InputError(
            f"The metric has the eigenvalue {values[..., 0].min():.3g}, but no length is imaginary: "
            "the kernel is not positive semi-definite, so that it has no features."
        )
    keep = values > values.shape[-1] * EPSILON * values[..., -1:].clamp(min=0)
    return Volume(torch.where(keep, values, 1.0).log().sum(-1) / 2, keep.sum(-1))


def volume_of_jacobian(jacobian: Tensor) -> Volume:
    """(n, p, d) -> the product of the nonzero singular values, which resolve twice the digits."""
    values = torch.linalg.svdvals(jacobian)
    keep = values > max(jacobian.shape[-2:]) * EPSILON * values[..., :1]
    return Volume(torch.where(keep, values, 1.0).log().sum(-1), keep.sum(-1))


def symmetric_root(matrix: Tensor) -> Tensor:
    """The positive root of a symmetric matrix; eigenvalues that rounding put below 0 count as 0."""
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values.clamp(min=0).sqrt()) @ vectors.T


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """(n, d), (m, d) -> (n, m) by one matrix product; pairs too close for it by their difference."""
    middle = y.mean(0)
    x, y = x - middle, y - middle
    size = x.square().sum(1)[:, None]
    t = torch.addmm(y.square().sum(1)[None], x, y.T, alpha=-2).add_(size)
    pairs = (t < CLOSE * size).nonzero()
    for some in pairs.split(max(1, CHUNK // x.shape[1])):
        i, j = some.unbind(1)
        t[i, j] = (x[i] - y[j]).square().sum(1)
    return t


class SquaredDistance:
    """k(x, y) = h(|x - y|^2)."""

    @staticmethod
    def diagonal(h: Any, x: Tensor) -> Tensor:
        return h.value(x.new_zeros(len(x)))

    @staticmethod
    def gram(h: Any, x: Tensor, y: Tensor) -> Tensor:
        return h.value(squared_distances(x, y))

    @staticmethod
    def gradient(h: Any, x: Tensor, centres: Tensor, weights: Tensor) -> Tensor:
        """2 sum_b w_b h'(t_b) (x - c_b), with x and c_b apart, so that it is a matrix product."""
        middle = centres.mean(0)
        x, centres = x - middle, centres - middle
        slope = h.slope(squared_distances(x, centres))
        pull = _products(slope, weights, centres)
        return 2 * ((slope @ weights)[..., None] * x[:, None, :] - pull)

    @staticmethod
    def jet(h: Any, x: Tensor) -> Jet:
        n, d = x.shape
        size = h.value(x.new_zeros(())).expand(n)
        return size, torch.zeros_like(x), (-2 * h.slope_at_zero() * _unit(x)).expand(n, d, d)


class InnerProduct:
    """k(x, y) = h(x.y)."""

    @staticmethod
    def diagonal(h: Any, x: Tensor) -> Tensor:
        return h.value(x.square().sum(1))

    @staticmethod
    def gram(h: Any, x: Tensor, y: Tensor) -> Tensor:
        return h.value(x @ y.T)

    @staticmethod
    def gradient(h: Any, x: Tensor, centres: Tensor, weights: Tensor) -> Tensor:
        return _products(h.slope(x @ centres.T), weights, centres)

    @staticmethod
    def jet(h: Any, x: Tensor) -> Jet:
        s = x.square().sum(1)[:, None, None]
        slope, outer = h.slope(s), x[:, :, None] * x[:, None, :]
        return h.value(s).flatten(), slope[..., 0] * x, slope * _unit(x) + h.bend(s) * outer


class Autograd:
    """Any k(x, y) that torch can differentiate; row i of a Gram matrix must depend on x_i alone."""

    @staticmethod
    def diagonal(h: Any, x: Tensor) -> Tensor:
        return torch.cat([h.value(point[None], point[None]).flatten() for point in x])

    @staticmethod
    def gram(h: Any, x: Tensor, y: Tensor) -> Tensor:
        return h.value(x, y)

    @staticmethod
    def gradient(h: Any, x: Tensor, centres: Tensor, weights: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            each = (h.value(x, centres) @ weights).sum(0)
            return torch.stack([_slope(f, x) for f in each], 1).detach()

    @staticmethod
    def jet(h: Any, x: Tensor) -> Jet:
        """Refuse a kink at y = x, where torch returns the slope 0 or NaN."""
        parts = [Autograd._jet(h, some) for some in x.detach().split(ROWS)]
        size, drift, metric = (torch.cat(part).detach() for part in zip(*parts, strict=True))
        kinked = any(Autograd._kinked(h, some) for some in x.detach().split(ROWS))
        if kinked or not (metric.isfinite().all() and drift.isfinite().all()):
            raise InputError(
                "The kernel has no metric at some points: its derivatives at y = x jump, or are NaN or "
                "infinite there: smooth it, as SmoothedLaplace does."
            )
        return size, drift, metric

    @staticmethod
    def _kinked(h: Any, x: Tensor) -> bool:
        """Whether the slope in y jumps at y = x: its change then does not shrink with the step."""
        way = torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device).sin()
        step = STEP * x.abs().max().clamp_min(torch.finfo(x.dtype).tiny) * way

        def slope(shift: Tensor) -> Tensor:
            y = (x + shift).requires_grad_()
            with torch.enable_grad():
                return _slope(h.value(x, y).diagonal().sum(), y).detach()

        wide, narrow = ((slope(k * step) - slope(-k * step)).norm(dim=1) for k in (16, 1))
        size = slope(step).norm(dim=1)
        return bool(((narrow > wide / 4) & (narrow > KINK * size)).any())

    @staticmethod
    def _jet(h: Any, x: Tensor) -> Jet:
        left, right = x.clone().requires_grad_(), x.clone().requires_grad_()
        with torch.enable_grad():
            gram = h.value(left, right)
            if (gram - gram.T).abs().max() > SYMMETRIC * gram.abs().max():
                raise InputError("The kernel is not symmetric: k(x, y) and k(y, x) must be equal.")
            size = gram.diagonal()
            slopes = _slope(size.sum(), left)
            mixed = torch.stack([_slope(column, right) for column in slopes.sum(0)], 1)
            return size, _slope(size.sum(), right), (mixed + mixed.mT) / 2


@dataclass(frozen=True)
class _Value:
    """A kernel under the attribute name that `Autograd` calls."""

    value: Kernel


def metric_of_kernel(kernel: Kernel, x: Tensor) -> Tensor:
    """(n, d) -> (n, d, d): the kernel's own `metric` if it has one, else by automatic differentiation."""
    known = getattr(kernel, "metric", None)
    return known(x) if known is not None else Autograd.jet(_Value(kernel), x)[2]


def _products(slope: Tensor, weights: Tensor, centres: Tensor) -> Tensor:
    """sum_b slope_ab w_bo c_b: (n, m), (m, o), (m, d) -> (n, o, d)."""
    return (slope[:, None, :] * weights.T) @ centres


def _unit(x: Tensor) -> Tensor:
    return torch.eye(x.shape[1], dtype=x.dtype, device=x.device)


def _slope(f: Tensor, x: Tensor) -> Tensor:
    if not f.requires_grad:
        raise InputError(
            "torch finds no way from the kernel's value back to the points: write the function "
            "with torch operations, without detach or numpy."
        )
    try:
        return torch.autograd.grad(f, x, create_graph=True, materialize_grads=True)[0]
    except NotImplementedError as error:
        raise InputError(f"torch cannot differentiate the kernel twice: {error}") from None

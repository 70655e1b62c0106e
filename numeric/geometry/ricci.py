r"""Metric and Ricci scalar of any feature map, in closed form where it is one hidden layer.

    metric(features, x)         # g = J^T J
    ricci_scalar(features, x)   # .value, .condition, .rank

Accuracy, relative to 40-digit values: one hidden layer 1e-13 at any condition number of its Jacobian J
(`closed`); any other map at worst about 1e-15 times that condition number, which coordinates that are as
badly chosen lose, and no more than the closed form where saturated units are the reason (`surviving`).
Where R is small against the second fundamental form, that form is what errors are relative to (`gauss`).

Cost, from slopes that `make bench` prints: proportional to the points and, nearly, to width or features;
like d^2 between 4 and 32 inputs, on the way to the d^3 of a product of matrices. 1600 points of d = 2 take
0.02 to 0.05 s of CPU time at width 500, and 0.05 s at 100 features of any map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from analytic.domain import InputError
from numeric.geometry.closed import curvature
from numeric.geometry.composed import Composed
from numeric.geometry.creases import creased_layers, piecewise_affine, refuse_creases
from numeric.geometry.derivatives import (
    HELD,
    bent_chunks,
    chunks,
    jacobian,
    jacobian_and_hessian,
    told,
)
from numeric.geometry.feature_map import FeatureMap, Opened
from numeric.geometry.frame import Picked, pick, whiten
from numeric.geometry.gauss import Curved, pairs, scalar, unknown
from numeric.geometry.hidden import HiddenLayer
from numeric.geometry.surviving import SURVIVING

MOST = 2**27  # second derivatives at one point, 1 GB


@dataclass(frozen=True, eq=False)
class Ricci:
    """The Ricci scalar at each point, and how well the metric determines it."""

    value: Tensor  # (n,); the unit d-sphere has d (d - 1)
    condition: Tensor  # (n,), of the Jacobian
    rank: Tensor  # (n,), of the Jacobian
    stderr: Tensor | None = None  # (n,), of an estimate


@dataclass(frozen=True, eq=False)
class Framed:
    """Axes along which the metric is close to the unit matrix."""

    picked: Picked
    axes: Tensor  # (m, d, d), the rows
    condition: Tensor  # (m,)


def metric(features: Any, x: Tensor, layer: str | None = None, progress: bool = True) -> Tensor:
    """g = J^T J: points (n, ...) of d coordinates in all -> (n, d, d), of the dtype of x."""
    chosen = FeatureMap.of(features, layer)
    hidden = HiddenLayer.at(chosen, x)
    if hidden is None:
        with chosen.on(x) as f, Composed(SURVIVING):
            held = chunks(f, f.count * f.points.shape[1])
            parts = [_gram(jacobian(f, some)) for some in told(held, progress)]
    else:
        held = chosen.checked(x).split(max(1, HELD // hidden.weights.numel()))
        parts = [_gram(hidden.jacobian(some)) for some in held]
    return torch.cat(parts).to(x.dtype)


def _gram(J: Tensor) -> Tensor:
    return J @ J.mT


def ricci_scalar(
    features: Any, x: Tensor, layer: str | None = None, progress: bool = True
) -> Ricci:
    """At points (n, ...); refused where the metric is degenerate, and for maps with creases."""
    chosen = FeatureMap.of(features, layer)
    hidden = HiddenLayer.at(chosen, x)
    if hidden is None:
        with chosen.on(x) as f, Composed(SURVIVING):
            refuse_creases(creased_layers(f, chosen.module))
            enough(f.count, f.points.shape[1])
            value, condition, rank = _generic(f, progress)
    else:
        points = chosen.checked(x)
        refuse_creases([hidden.name] if hidden.jumps() else [])
        enough(*hidden.weights.shape)
        _few(*hidden.weights.shape)
        value, condition, rank = curvature(hidden, points)
    immersed(rank, x)
    within_range(value)
    return Ricci(value.to(x.dtype), condition.to(x.dtype), rank)


def _generic(f: Opened, progress: bool) -> Curved:
    d = f.points.shape[1]
    held = bent_chunks(f, _few(f.count, d))
    found = [_embedded(f, x) for x in told(held, progress)]
    if d > 1 and not any(bent for _, bent in found) and piecewise_affine(f):
        refuse_creases(["slopes that jump where second derivatives are 0"])
    return tuple(torch.cat(part) for part in zip(*(curved for curved, _ in found), strict=True))


def _embedded(f: Opened, x: Tensor) -> tuple[Curved, bool]:
    """At points (m, d), and whether any second derivative is not 0.

    Second derivatives are taken along a frame in which the metric is the unit matrix: to take them along
    the axes of x and turn them afterwards would lose the square of the condition number.
    """
    framed = in_frame(f, x)
    if (framed.picked.rank < x.shape[1]).any():
        return unknown(framed.picked.rank), True
    J, H = jacobian_and_hessian(f, x, framed.axes)
    inverse = torch.linalg.inv(torch.linalg.cholesky(J @ J.mT))  # close to the unit matrix
    value, _ = scalar(inverse @ J, _turned(H, inverse), framed.picked.rows)
    return (value, framed.condition, framed.picked.rank), bool(H.any())


def in_frame(f: Opened, x: Tensor) -> Framed:
    """At points (m, d); axes are of no use where the rank is below d."""
    J = jacobian(f, x)
    m, d, p = J.shape
    ones, largest = J.new_ones(m, p), J.square().sum(1).amax(1, keepdim=True).sqrt()
    picked = pick(J, ones, max(p, d) * f.epsilon * largest)
    if (picked.rank < d).any():
        return Framed(picked, picked.axes, J.new_full((m,), torch.nan))
    # Unit vectors of size 0 come along, and tell the frame in the coordinates of x.
    unit = torch.eye(d, dtype=J.dtype, device=J.device).expand(m, d, d)
    parts = picked.axes @ torch.cat([J, unit], 2)
    frame = whiten(parts, torch.cat([ones, J.new_zeros(m, d)], 1), picked.rows)
    return Framed(picked, frame.vectors[:, :, p:], frame.condition)


def _turned(H: Tensor, axes: Tensor) -> Tensor:
    """Packed H(u_a, u_b) for the rows u of axes (m, d, d)."""
    d = axes.shape[1]
    first, second = (index.to(H.device) for index in pairs(d))
    place = torch.empty(d, d, dtype=torch.long, device=H.device)
    place[first, second] = place[second, first] = torch.arange(len(first), device=H.device)
    half = axes @ H[:, place.flatten()].unflatten(1, (d, d)).flatten(2)
    return (axes[:, None] @ half.unflatten(2, (d, -1)))[:, first, second]


def _few(features: int, inputs: int) -> int:
    """The number of second derivatives at a point, if they can be held."""
    size = features * inputs * (inputs + 1) // 2
    if size > MOST:
        raise InputError(
            f"{features} features of {inputs} inputs have {size} second derivatives at a point: use "
            "ricci_estimate, which needs none of them one by one."
        )
    return size


def within_range(value: Tensor) -> None:
    """Refuses values that float64 does not hold."""
    if not torch.isfinite(value).all():
        raise InputError(
            f"The Ricci scalar leaves the range of float64 at {int((~value.isfinite()).sum())} points: "
            "slopes there are too small, so move the points or rescale the features."
        )


def enough(features: int, inputs: int) -> None:
    """Refuses maps into fewer dimensions."""
    if features < inputs:
        raise InputError(
            f"{inputs} inputs and {features} features: the metric is degenerate, and a degenerate metric "
            "has no Ricci scalar. Take a wider layer; metric, log_volume and spectrum exist."
        )


def immersed(rank: Tensor, x: Tensor) -> None:
    """Refuses points where the Jacobian is of less than full rank."""
    d = x[0].numel()
    if (bad := (rank < d).nonzero()[:, 0]).numel():
        raise InputError(
            f"The Jacobian has rank {int(rank[bad[0]])} of {d} at point {int(bad[0])} and less than full "
            f"rank at {len(bad)} of {len(x)} points: the metric is degenerate there and has no Ricci scalar. "
            "Units are saturated, or their weights do not span the inputs: move or leave out these points."
        )

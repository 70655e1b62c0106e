r"""Metric and Ricci scalar of any feature map, in closed form where it is one hidden layer.

    metric(features, x)         # g = J^T J
    ricci_scalar(features, x)   # .value, .condition, .rank, .error

Accuracy, relative to 40-digit values: one hidden layer 1e-13 at any condition number of its Jacobian J
(`closed`); any other map at worst about 1e-15 times that condition number, which coordinates that are as
badly chosen lose, and no more than the closed form where saturated units are the reason (`surviving`).
Where R is small against the second fundamental form, that form is what errors are relative to (`gauss`).
That takes a map whose own operations lose no digits. A softmax of one's own that subtracts a detached
maximum does: its slopes differ by more than rounding from one set of axes to another. `error` is an
estimate that sees this, and where it leaves R no digit the point is refused.

Cost, from slopes that `make bench` prints: proportional to the points and, nearly, to width or features;
like d^2 between 4 and 32 inputs, on the way to the d^3 of a product of matrices. 1600 points of d = 2 take
0.02 to 0.05 s of CPU time at width 500, and 0.05 s at 100 features of any map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from numeric.geometry.closed_form import curvature
from numeric.geometry.derivatives import (
    HELD,
    bent_chunks,
    chunks,
    jacobian,
    jacobian_and_hessian,
    told,
)
from numeric.geometry.frames import Picked, pick, whiten
from numeric.geometry.gauss_equation import contracted, norm_squared, normal, pairs, unknown
from numeric.geometry.kinks import creased_layers, piecewise_affine, refuse_creases
from numeric.inputs import InputError
from numeric.kernels import Kernel
from numeric.kernels.two_point import metric_of_kernel
from numeric.models.feature_map import FeatureMap, Opened
from numeric.models.hidden_layers import HiddenLayer
from numeric.models.repaired_operations import Composed
from numeric.models.saturating_activations import SURVIVING

MOST = 2**27  # second derivatives at one point, 1 GB
SAFETY = 8.0  # times the difference of two routes, which may be small by chance
ROUNDED = 4.0  # times epsilon and the condition number: an error that is always reckoned with
TANGENTIAL = 8.0  # times the normal part: second derivatives that are taken again along curves


@dataclass(frozen=True, eq=False)
class Ricci:
    """The Ricci scalar at each point, and how well the metric determines it."""

    value: Tensor  # (n,); the unit d-sphere has d (d - 1)
    condition: Tensor  # (n,), of the Jacobian
    rank: Tensor  # (n,), of the Jacobian
    stderr: Tensor | None = None  # (n,), of an estimate
    error: Tensor | None = None  # (n,), of value by rounding, estimated; None for closed forms


@dataclass(frozen=True, eq=False)
class Framed:
    """Axes along which the metric is close to the unit matrix."""

    picked: Picked
    axes: Tensor  # (m, d, d), the rows
    tangents: Tensor  # (m, d, p), what the Jacobian on the axes of x says of slopes along them
    condition: Tensor  # (m,)


def metric(features: Any, x: Tensor, layer: str | None = None, progress: bool = True) -> Tensor:
    r"""g = J^T J: points (n, ...) of d coordinates in all -> (n, d, d), of the dtype of x.

    Of a Kernel it is $\partial_x\partial_y k(x, y)$ at y = x, in closed form where the kernel knows its
    metric, else by torch's derivatives.
    """
    if isinstance(features, Kernel):
        return metric_of_kernel(features, x)
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
        with chosen.on(x) as f:
            refuse_creases(creased_layers(f, chosen.module))  # those of the map, not of SURVIVING
            enough(f.count, f.points.shape[1])
            with Composed(SURVIVING):
                value, condition, rank, size, error = _generic(f, progress)
    else:
        points = chosen.checked(x)
        refuse_creases([hidden.name] if hidden.jumps() else [])
        enough(*hidden.weights.shape)
        _few(*hidden.weights.shape)
        value, condition, rank = curvature(hidden, points)
    immersed(rank, x)
    within_range(value)
    if hidden is None:
        require_digits(size, error)
        return Ricci(value.to(x.dtype), condition.to(x.dtype), rank, error=error.to(x.dtype))
    return Ricci(value.to(x.dtype), condition.to(x.dtype), rank)


def _generic(f: Opened, progress: bool) -> tuple[Tensor, ...]:
    """Value, condition, rank, squared norm of the second fundamental form, and error: (n,) each."""
    d = f.points.shape[1]
    held = bent_chunks(f, _few(f.count, d))
    found = [_embedded(f, x) for x in told(held, progress)]
    if d > 1 and not any(bent for _, bent in found) and piecewise_affine(f):
        refuse_creases(["slopes that jump where second derivatives are 0"])
    return tuple(torch.cat(part) for part in zip(*(curved for curved, _ in found), strict=True))


def _embedded(f: Opened, x: Tensor) -> tuple[tuple[Tensor, ...], bool]:
    """At points (m, d), and whether any second derivative is not 0.

    Second derivatives are taken along a frame in which the metric is the unit matrix: to take them along
    the axes of x and turn them afterwards would lose the square of the condition number.
    """
    framed = in_frame(f, x)
    if (framed.picked.rank < x.shape[1]).any():
        value, condition, rank = unknown(framed.picked.rank)
        return (value, condition, rank, value, value), True
    J, H = jacobian_and_hessian(f, x, framed.axes)
    noise = f.epsilon + (J - framed.tangents).flatten(1).norm(dim=1)
    noise = _without_tangential(f, x, framed.axes, J, H, noise)
    inverse = torch.linalg.inv(torch.linalg.cholesky(J @ J.mT))  # close to the unit matrix
    form = normal(inverse @ J, _turned(H, inverse), framed.picked.rows)
    value, _ = contracted(form, x.shape[1])
    size = norm_squared(form, x.shape[1])
    error = size * (SAFETY * noise + ROUNDED * f.epsilon * framed.condition)
    return (value, framed.condition, framed.picked.rank, size, error), bool(H.any())


def _without_tangential(
    f: Opened, x: Tensor, axes: Tensor, J: Tensor, H: Tensor, noise: Tensor
) -> Tensor:
    r"""Takes J and H again, in place, where H is mostly tangential; from errors of J to errors of H, (m,).

    Only the normal part counts, but both are rounded alike. The tangential part is that of the coordinates:
    along curves of acceleration $a = -\Gamma(u, v)$ it vanishes before it reaches the features. What they
    lose none the less is seen on other axes, where everything is rounded otherwise.
    """
    share, ratio, _ = _parts(J, H)
    errors = noise * ratio.nan_to_num(1.0).clamp(min=1)  # H may be 0
    large = (ratio > TANGENTIAL).nonzero()[:, 0]
    if len(large):
        x, axes, accelerations = x[large], axes[large], -share[large] @ axes[large]
        slopes, second = jacobian_and_hessian(f, x, axes, accelerations)
        turn = _rotation(axes).expand_as(axes)
        others = jacobian_and_hessian(f, x, turn @ axes, _turned(accelerations, turn))
        _, lower, rest = _parts(slopes, second)
        _, _, other = _parts(turn.mT @ others[0], _turned(others[1], turn.mT))
        gap = (rest - other).flatten(1).norm(dim=1) / rest.flatten(1).norm(dim=1)
        better = lower < ratio[large]
        at = large[better]
        J[at], H[at], errors[at] = slopes[better], second[better], (noise[large] + gap)[better]
    return errors


def _parts(J: Tensor, H: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Combinations of the rows of J in H (m, pairs, d), their size beside the rest (m,), and the rest."""
    share = torch.linalg.solve(J @ J.mT, H @ J.mT, left=False)
    along = share @ J
    rest = H - along
    return share, along.flatten(1).norm(dim=1) / rest.flatten(1).norm(dim=1), rest


def _rotation(like: Tensor) -> Tensor:
    """Orthogonal (d, d) for axes (m, d, d), without a zero."""
    d = like.shape[-1]
    entries = torch.arange(1, d * d + 1, dtype=like.dtype, device=like.device).sin()
    return torch.linalg.qr(entries.view(d, d))[0]


def in_frame(f: Opened, x: Tensor) -> Framed:
    """At points (m, d); axes are of no use where the rank is below d."""
    J = jacobian(f, x)
    m, d, p = J.shape
    ones, largest = J.new_ones(m, p), J.square().sum(1).amax(1, keepdim=True).sqrt()
    picked = pick(J, ones, max(p, d) * f.epsilon * largest)
    if (picked.rank < d).any():
        return Framed(picked, picked.axes, J, J.new_full((m,), torch.nan))
    # Unit vectors of size 0 come along, and tell the frame in the coordinates of x.
    unit = torch.eye(d, dtype=J.dtype, device=J.device).expand(m, d, d)
    parts = picked.axes @ torch.cat([J, unit], 2)
    frame = whiten(parts, torch.cat([ones, J.new_zeros(m, d)], 1), picked.rows)
    return Framed(picked, frame.vectors[:, :, p:], frame.tangents[:, :, :p], frame.condition)


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


def require_digits(size: Tensor, error: Tensor) -> None:
    """Refuses values that rounding may have made."""
    if (bad := (error > size).nonzero()[:, 0]).numel():
        raise InputError(
            f"Rounding leaves the Ricci scalar no digit at {len(bad)} of {len(size)} points: at point "
            f"{int(bad[0])} its error is about {error[bad[0]]:.1g}, and the squares of which it is a sum are "
            f"{size[bad[0]]:.1g} in all. Use float64, move these points, or write the map so that its "
            "slopes lose no digits, such as softmax by torch.softmax."
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

r"""Metric and Ricci scalar of any feature map, in closed form where it is one hidden layer.

    metric(model, x)            # g = J^T J
    ricci_scalar(model, x)      # .value, .condition, .rank, .error

Accuracy, relative to 40-digit values: one hidden layer 1e-13 at any condition number of its Jacobian J
(`closed_form`); any other map at worst about 1e-15 times that condition number if it comes from badly scaled
coordinates, and as the closed form if it comes from saturated units (`saturating_activations`). Where R is
small against the squared second fundamental form, errors are relative to the latter (`gauss_equation`).
This assumes that the map's own operations lose no digits. A hand-written softmax that subtracts a detached
maximum does lose some: its slopes in two sets of axes differ by more than rounding. `error` is an
estimate that includes this, and points where it leaves R no digit are refused.

Cost, from slopes that `make bench` prints: proportional to the points and, nearly, to width or features;
like d^2 between 4 and 32 inputs, on the way to the d^3 of a product of matrices. 1600 points of d = 2 take
0.02 to 0.05 s of CPU time at width 500, and 0.05 s at 100 features of any map.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.geometry.closed_form import curvature
from numeric.geometry.derivatives import (
    CHUNK_SIZE,
    chunks_for_first_derivatives,
    chunks_for_second_derivatives,
    jacobian,
    jacobian_and_hessian,
)
from numeric.geometry.frames import Pivots, select_pivots, whiten
from numeric.geometry.gauss_equation import (
    contract,
    norm_squared,
    normal_part,
    pairs,
    without_curvature,
)
from numeric.geometry.kinks import layers_with_kinks, piecewise_affine, require_no_kinks
from numeric.inputs import ArrayLike, InputError, as_numbers
from numeric.kernels import Kernel
from numeric.models.hidden_layers import HiddenLayer
from numeric.models.model import EvaluatedMap, Model, ModelLike
from numeric.models.repaired_operations import ReplacedOperations
from numeric.models.saturating_activations import SATURATION_SAFE
from numeric.progress import progress_bar

__all__ = [
    "Frame", "Ricci", "check_hessian_fits", "metric", "require_digits", "require_finite",
    "require_full_rank", "require_wide_layer", "ricci_scalar", "whitening_frame",
]  # fmt: skip

MAX_SECOND_DERIVATIVES = 2**27  # at one point: 1 GB
SAFETY = 8.0  # times the difference of two computations, which may be small by chance
ROUNDING = 4.0  # times epsilon and the condition number: the least error assumed
TANGENTIAL = 8.0  # tangential over normal part of H above which H is recomputed along curves


@dataclass(frozen=True, eq=False)
class Ricci:
    """The Ricci scalar at each point, and how well the metric determines it."""

    value: Tensor  # (n,); the unit d-sphere has d (d - 1)
    condition: Tensor  # (n,), of the Jacobian
    rank: Tensor  # (n,), of the Jacobian
    stderr: Tensor | None = None  # (n,), of an estimate
    error: Tensor | None = None  # (n,), of value by rounding, estimated; None for closed forms


@dataclass(frozen=True, eq=False)
class Frame:
    """Axes in which the metric is close to the identity."""

    pivots: Pivots
    axes: Tensor  # (m, d, d), the rows
    tangents: Tensor  # (m, d, p), the Jacobian along them, computed from that along the axes of x
    condition: Tensor  # (m,)


def metric(
    model: ModelLike | Kernel, x: ArrayLike, layer: str | None = None, progress: bool = True
) -> Tensor:
    r"""The metric that a model or a Kernel pulls back to its inputs.

    $g = J^T J$ of a model with Jacobian J, and $\partial_x\partial_y k(x, y)$ at y = x of a Kernel: in closed
    form for one hidden layer and where the kernel knows its metric, else by torch's derivatives.

    The model is a module or a function (m, ...) -> (m, ...), taken up to `layer` if one is named; the
    points x have shape (n, ...), with d coordinates in all. Returned are matrices (n, d, d), in the dtype
    of x. Refused are points that do not fit the model, maps that torch cannot differentiate, and kernels of a
    composed `infinite.Network`, whose layers hand on covariances without derivatives by the points: of an
    activation these meet where correlations are 1, and torch's rules give NaN there. `FullyConnected` has
    jets of its own, and `EmpiricalNTK` of `Network.finite` comes near for any layers.

    >>> metric(lambda x: torch.cat([x, x**2], 1), [[0.0], [1.0]]).flatten().tolist()  # 1 + 4 x^2
    [1.0, 5.0]
    """
    x = as_numbers("x", x)
    if isinstance(model, Kernel):
        if layer is not None:
            raise InputError(
                f"layer = {layer!r} was given, but a kernel has no layers: leave it out."
            )
        Model.of(model).check_points(x)
        return model.metric(x)
    opened = Model.of(model, layer)
    hidden = HiddenLayer.at(opened, x)
    if hidden is None:
        with opened.on(x) as f, ReplacedOperations(SATURATION_SAFE):
            chunks = chunks_for_first_derivatives(f, f.count * f.points.shape[1])
            parts = [
                _gram(jacobian(f, chunk))
                for chunk in progress_bar(chunks, of="chunks of points", show=progress)
            ]
    else:
        chunks = opened.check_points(x).split(max(1, CHUNK_SIZE // hidden.weights.numel()))
        parts = [_gram(hidden.jacobian(chunk)) for chunk in chunks]
    return torch.cat(parts).to(x.dtype)


def _gram(J: Tensor) -> Tensor:
    return J @ J.mT


def ricci_scalar(
    model: ModelLike, x: ArrayLike, layer: str | None = None, progress: bool = True
) -> Ricci:
    r"""The Ricci scalar of a model's metric, by the Gauss equation; no third derivatives are needed.

    $R = \sum_{a\ne b} \langle P H_{aa}, P H_{bb}\rangle - |P H_{ab}|^2$ with P the projection to the normal
    space and H the Hessian in an orthonormal frame; the unit d-sphere has R = d (d - 1).

    The model is a module or a function (m, ...) -> (m, ...), taken up to `layer` if one is named; the
    points x have shape (n, ...). Returned are values, condition numbers and ranks of the Jacobian, and
    estimated errors, (n,) each. Refused are degenerate metrics, maps with kinks, and points where rounding
    leaves no digit.

    >>> sphere = lambda x: torch.cat([2 * x, (x**2).sum(1, True) - 1], 1) / ((x**2).sum(1, True) + 1)
    >>> ricci_scalar(sphere, [[0.3, -0.2], [1.0, 2.0]]).value.round(decimals=6).tolist()
    [2.0, 2.0]
    """
    opened, x = Model.of(model, layer), as_numbers("x", x)
    hidden = HiddenLayer.at(opened, x)
    if hidden is not None:
        points = opened.check_points(x)
        require_no_kinks([hidden.name] if hidden.jumps() else [])
        require_wide_layer(*hidden.weights.shape)
        check_hessian_fits(*hidden.weights.shape)
        value, condition, rank = curvature(hidden, points)
        require_full_rank(rank, x)
        require_finite(value)
        return Ricci(value.to(x.dtype), condition.to(x.dtype), rank)
    with opened.on(x) as f:
        # before SATURATION_SAFE, whose operations would be suspected
        require_no_kinks(layers_with_kinks(f, opened.module))
        require_wide_layer(f.count, f.points.shape[1])
        with ReplacedOperations(SATURATION_SAFE):
            value, condition, rank, size, error = _any_map(f, progress)
    require_full_rank(rank, x)
    require_finite(value)
    require_digits(size, error)
    return Ricci(value.to(x.dtype), condition.to(x.dtype), rank, error=error.to(x.dtype))


def _any_map(f: EvaluatedMap, progress: bool) -> tuple[Tensor, ...]:
    """Value, condition, rank, squared norm of the second fundamental form, and error: (n,) each."""
    d = f.points.shape[1]
    chunks = chunks_for_second_derivatives(f, check_hessian_fits(f.count, d))
    results = [
        _by_gauss_equation(f, x) for x in progress_bar(chunks, of="chunks of points", show=progress)
    ]
    if d > 1 and not any(any_second for _, any_second in results) and piecewise_affine(f):
        require_no_kinks(["slopes that jump where second derivatives are 0"])
    return tuple(
        torch.cat(part) for part in zip(*(curvatures for curvatures, _ in results), strict=True)
    )


def _by_gauss_equation(f: EvaluatedMap, x: Tensor) -> tuple[tuple[Tensor, ...], bool]:
    """The results of `_any_map` at points (m, d), and whether any second derivative is not 0.

    Second derivatives are taken along a frame in which the metric is the identity: taking them along the
    axes of x and transforming afterwards would amplify errors by the squared condition number.
    """
    frame = whitening_frame(f, x)
    if (frame.pivots.rank < x.shape[1]).any():
        value, condition, rank = without_curvature(frame.pivots.rank)
        return (value, condition, rank, value, value), True
    J, H = jacobian_and_hessian(f, x, frame.axes)
    noise = f.epsilon + (J - frame.tangents).flatten(1).norm(dim=1)
    noise = _without_tangential(f, x, frame.axes, J, H, noise)
    inverse = torch.linalg.inv(torch.linalg.cholesky(J @ J.mT))  # close to the identity
    form = normal_part(inverse @ J, _change_axes(H, inverse), frame.pivots.features)
    value, _ = contract(form, x.shape[1])
    size = norm_squared(form, x.shape[1])
    error = size * (SAFETY * noise + ROUNDING * f.epsilon * frame.condition)
    return (value, frame.condition, frame.pivots.rank, size, error), bool(H.any())


def _without_tangential(
    f: EvaluatedMap, x: Tensor, axes: Tensor, J: Tensor, H: Tensor, noise: Tensor
) -> Tensor:
    r"""Recompute J and H in place where H is mostly tangential; return the relative errors of H, (m,).

    Only the normal part enters R, but its rounding is relative to the whole of H. The tangential part depends
    on the coordinates: along curves of acceleration $a = -\Gamma(u, v)$ it is 0 from the start. The error
    that remains is estimated by a second computation in rotated axes, which rounds differently.
    """
    coefficients, ratio, _ = _tangential_and_normal(J, H)
    errors = noise * ratio.nan_to_num(1.0).clamp(min=1)  # H may be 0
    tangential = (ratio > TANGENTIAL).nonzero()[:, 0]
    if len(tangential):
        x, axes = x[tangential], axes[tangential]
        accelerations = -coefficients[tangential] @ axes
        slopes, second = jacobian_and_hessian(f, x, axes, accelerations)
        rotation = _rotation(axes).expand_as(axes)
        others = jacobian_and_hessian(f, x, rotation @ axes, _change_axes(accelerations, rotation))
        _, lower, rest = _tangential_and_normal(slopes, second)
        _, _, other = _tangential_and_normal(
            rotation.mT @ others[0], _change_axes(others[1], rotation.mT)
        )
        difference = (rest - other).flatten(1).norm(dim=1) / rest.flatten(1).norm(dim=1)
        better = lower < ratio[tangential]
        at = tangential[better]
        J[at], H[at] = slopes[better], second[better]
        errors[at] = (noise[tangential] + difference)[better]
    return errors


def _tangential_and_normal(J: Tensor, H: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Tangential coefficients of H (m, pairs, d), ratio of tangential to normal norm (m,), normal part."""
    coefficients = torch.linalg.solve(J @ J.mT, H @ J.mT, left=False)
    along = coefficients @ J
    rest = H - along
    return coefficients, along.flatten(1).norm(dim=1) / rest.flatten(1).norm(dim=1), rest


def _rotation(like: Tensor) -> Tensor:
    """An orthogonal matrix (d, d) without zero entries, for axes (m, d, d)."""
    d = like.shape[-1]
    entries = torch.arange(1, d * d + 1, dtype=like.dtype, device=like.device).sin()
    return torch.linalg.qr(entries.view(d, d))[0]


def whitening_frame(f: EvaluatedMap, x: Tensor) -> Frame:
    """The frame at points (m, d); its axes are meaningless if the rank is below d somewhere."""
    J = jacobian(f, x)
    m, d, p = J.shape
    ones, largest = J.new_ones(m, p), J.square().sum(1).amax(1, keepdim=True).sqrt()
    pivots = select_pivots(J, ones, max(p, d) * f.epsilon * largest)
    if (pivots.rank < d).any():
        return Frame(pivots, pivots.axes, J, J.new_full((m,), torch.nan))
    # Unit vectors of size 0 are transformed along: they become the axes in the coordinates of x.
    unit = torch.eye(d, dtype=J.dtype, device=J.device).expand(m, d, d)
    parts = pivots.axes @ torch.cat([J, unit], 2)
    white = whiten(parts, torch.cat([ones, J.new_zeros(m, d)], 1), pivots.features)
    return Frame(pivots, white.vectors[:, :, p:], white.tangents[:, :, :p], white.condition)


def _change_axes(H: Tensor, axes: Tensor) -> Tensor:
    """Packed H(u_a, u_b) for the rows u of axes (m, d, d)."""
    d = axes.shape[1]
    first, second = (index.to(H.device) for index in pairs(d))
    place = torch.empty(d, d, dtype=torch.long, device=H.device)
    place[first, second] = place[second, first] = torch.arange(len(first), device=H.device)
    half = axes @ H[:, place.flatten()].unflatten(1, (d, d)).flatten(2)
    return (axes[:, None] @ half.unflatten(2, (d, -1)))[:, first, second]


def check_hessian_fits(features: int, inputs: int) -> int:
    """Return the number of second derivatives at a point; refuse more than fit into memory."""
    size = features * inputs * (inputs + 1) // 2
    if size > MAX_SECOND_DERIVATIVES:
        raise InputError(
            f"{features} features of {inputs} inputs have {size} second derivatives at a point: use "
            "ricci_estimate, which needs none of them one by one."
        )
    return size


def require_finite(value: Tensor) -> None:
    """Refuse curvatures that overflow float64."""
    if not torch.isfinite(value).all():
        raise InputError(
            f"The Ricci scalar leaves the range of float64 at {int((~value.isfinite()).sum())} points: "
            "slopes there are too small, so move the points or rescale the features."
        )


def require_digits(size: Tensor, error: Tensor) -> None:
    """Refuse curvatures that may be rounding alone."""
    if (bad := (error > size).nonzero()[:, 0]).numel():
        raise InputError(
            f"Rounding leaves the Ricci scalar no digit at {len(bad)} of {len(size)} points: at point "
            f"{int(bad[0])} its error is about {error[bad[0]]:.1g}, and the squares of which it is a sum are "
            f"{size[bad[0]]:.1g} in all. Use float64, move these points, or write the map so that its "
            "slopes lose no digits, such as softmax by torch.softmax."
        )


def require_wide_layer(features: int, inputs: int) -> None:
    """Refuse maps with fewer features than inputs."""
    if features < inputs:
        raise InputError(
            f"{inputs} inputs and {features} features: the metric is degenerate, and a degenerate metric "
            "has no Ricci scalar. Take a wider layer; metric, log_volume and spectrum exist."
        )


def require_full_rank(rank: Tensor, x: Tensor) -> None:
    """Refuse points where the Jacobian has less than full rank."""
    d = x[0].numel()
    if (bad := (rank < d).nonzero()[:, 0]).numel():
        raise InputError(
            f"The Jacobian has rank {int(rank[bad[0]])} of {d} at point {int(bad[0])} and less than full "
            f"rank at {len(bad)} of {len(x)} points: the metric is degenerate there and has no Ricci scalar. "
            "Units are saturated, or their weights do not span the inputs: move or leave out these points."
        )

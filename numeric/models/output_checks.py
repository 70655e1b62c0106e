"""Checks of a feature map on one or two points before it is used: shape, finiteness, derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from numeric.inputs import InputError

__all__ = [
    "check_first_derivative", "check_outputs", "check_second_derivative", "farthest", "format_point",
    "run_or_explain",
]  # fmt: skip

STEP = 1e-3  # to a second point, if all points are equal
STEPS = (1.0, 1e-2, 1e2)  # of finite differences, in units of the cube root of epsilon
FINE_STEPS = (1.0, 1e-2)  # the same, times the length over which values change by their size
MAX_CHECKED = 16  # points whose derivatives are checked
NEAR_KINKS = 0.1  # share of the features that may have a kink within a finite difference
AGREEMENT = 1e-2  # relative deviation of differences from a derivative; with jumps or detach none is as small

Map = Callable[[Tensor], Tensor]
Along = Callable[[Map, Tensor, Tensor], Tensor]  # f, points, directions -> slopes


def check_outputs(run: Callable[..., Any], points: Tensor, shape: torch.Size) -> Tensor:
    """Check shape, finiteness and independence of the rows of a batch; return the outputs of two, (2, p)."""
    one, two = _two_points(points)
    pair = run_or_explain(run, torch.stack([one, two]).reshape(2, *shape))
    outputs = [run_or_explain(run, point.reshape(1, *shape)) for point in (one, two)]
    _check_shape(pair, 2)
    _check_shape(outputs[0], 1)
    batched, single = pair.flatten(1), torch.cat(outputs).flatten(1)
    if not torch.isfinite(single[0]).all():
        raise InputError(
            f"The map gives NaN or infinity at the point {format_point(one)}: move it, or mend the map."
        )
    size = batched.abs().amax()
    if torch.isfinite(single).all() and not (batched - single).abs().amax() <= _tolerance(size):
        raise InputError(
            "The map gives other features for a point in a batch than for the point alone, or is "
            "random: put batch normalisation and dropout into eval mode, and let rows not mix."
        )
    if batched.device != points.device:
        raise InputError("The map moves its points to another device: keep to that of x.")
    return batched


def run_or_explain(run: Callable[..., Any], x: Tensor) -> Any:
    """run(x), with an error that names the shape of the batch if it fails."""
    try:
        return run(x)
    except InputError:  # says already what is wrong
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if not x.is_floating_point():
            raise InputError(
                f"The map fails on whole numbers of shape {tuple(x.shape)} ({reason}): if it takes real "
                "points, write x.double(); if it takes tokens, give those that it has."
            ) from error
        raise InputError(
            f"The map fails on a batch of shape {tuple(x.shape)} ({reason}): try it there; batch "
            "normalisation inside a function must be put into eval mode by hand."
        ) from error


def check_first_derivative(call: Map, along: Along, points: Tensor) -> None:
    """Compare torch's derivative at the first point with differences, which `detach` does not affect."""
    sample = points[:MAX_CHECKED]
    u = _direction(sample)
    slopes, values = along(call, sample, u), call(sample)
    slope = partial(along, call)
    if not _matches_differences(call, slope, slopes[:1], sample[:1], u[:1]):
        raise InputError(
            f"At the point {format_point(sample[0])} torch's derivative of the map is not that of its "
            "values: use no detach, rounding or gradients of one's own, and no maps with jumps."
        )
    if not slopes.any() and not torch.equal(values, values[:1].expand_as(values)):
        raise InputError(
            "The map differs from point to point, but all of its slopes are 0: it has steps, by rounding "
            "or comparing, or is saturated beyond the last digit."
        )


def check_second_derivative(call: Map, along: Along, points: Tensor) -> None:
    """Compare torch's second derivative with differences of the first; torch gets some wrong."""
    x, u = points[:1], _direction(points[:1])

    def slope(at: Tensor) -> Tensor:
        return along(call, at, u)

    second = partial(along, slope)
    if not _matches_differences(slope, second, second(x, u), x, u):
        raise InputError(
            f"At the point {format_point(x[0])} torch's second derivative of the map is not that of its "
            "slopes: find the operation that it gets wrong, and write it out; in float32, try model.double() "
            "first."
        )


def _matches_differences(
    values: Map, slope_at: Callable[[Tensor, Tensor], Tensor], slope: Tensor, x: Tensor, u: Tensor
) -> bool:
    """Whether a derivative along u agrees with a central difference of some step length.

    A difference averages the slope over its length. So that kinks of a large network, of which some are
    always near, are not held against it, few features may differ by as much as torch's slope changes there.
    """
    if not torch.isfinite(slope).all():
        raise InputError(
            f"The map has no finite slope at the point {format_point(x[0])}: move it, or mend the map."
        )
    epsilon = max(torch.finfo(part.dtype).eps for part in (x, slope))
    for step in _steps(values, slope, x, epsilon ** (1 / 3)):
        ahead, back = values(x + step * u), values(x - step * u)
        noise = 16 * epsilon * ahead.abs().amax() / step
        difference = (ahead - back) / (2 * step)
        larger = torch.maximum(difference.abs(), slope.abs())
        excess = (difference - slope).abs() - AGREEMENT * larger - noise
        differ = excess > 0  # in any feature
        if not differ.any():
            return True
        if differ.double().mean() <= NEAR_KINKS:
            ends = (slope_at(x + step * u, u), slope_at(x - step * u, u))
            change = torch.maximum(*((end - slope).abs() for end in ends))
            if not (excess > change).any():
                return True
    return False


def _steps(values: Map, slope: Tensor, x: Tensor, root: float) -> Iterator[float]:
    """Step lengths, from the length of the point, then from values over slope, which may be shorter."""
    size = max(1.0, torch.linalg.vector_norm(x).item())
    yield from (factor * root * size for factor in STEPS)
    if steepest := slope.abs().amax().item():
        size = values(x).abs().amax().item() / steepest
        yield from (factor * root * size for factor in FINE_STEPS)


def _direction(points: Tensor) -> Tensor:
    """The same unit vector for all points, along no axis."""
    u = torch.arange(1, points.shape[1] + 1, device=points.device).to(points).sin()
    return (u / torch.linalg.vector_norm(u)).repeat(len(points), 1)


def _two_points(points: Tensor) -> tuple[Tensor, Tensor]:
    """The first point and the farthest from it, or if all are equal a neighbour, of tokens the first ones.

    On equal rows a map that mixes the rows of a batch would go unnoticed.
    """
    one, two = farthest(points)
    if not torch.equal(one, two):
        return one, two
    if one.is_floating_point():
        return one, one * (1 + STEP) + STEP
    return one, torch.zeros_like(one)  # whatever takes tokens has a first one


def farthest(points: Tensor) -> tuple[Tensor, Tensor]:
    """The first point and the farthest from it."""
    return points[0], points[(points - points[0]).abs().amax(1).argmax()]


def _tolerance(size: Tensor) -> Tensor:
    """Half of the digits: batches of other sizes are rounded differently, but far less than that."""
    return torch.finfo(size.dtype).eps ** 0.5 * size


def _check_shape(out: Any, rows: int) -> None:
    if not isinstance(out, Tensor):
        raise InputError(
            f"The map returns a {type(out).__name__}, but a tensor of shape (n, ...) is needed: pick a "
            "layer that returns one, or wrap the map in a function."
        )
    if out.ndim < 2 or len(out) != rows or out.numel() == 0:
        raise InputError(
            f"The map takes {rows} points to shape {tuple(out.shape)}, but one row of features for each "
            f"is needed, as ({rows}, p): write it for batches, or pick another layer."
        )
    if not out.dtype.is_floating_point:
        raise InputError(
            f"The map returns {out.dtype}, but features must be real and vary smoothly: take those "
            "before rounding, comparing or picking."
        )


def format_point(point: Tensor) -> str:
    """The first coordinates of a point, for an error message."""
    shown = ", ".join(f"{value:.4g}" for value in point.flatten()[:4].tolist())
    return f"({shown}{', ...' if point.numel() > 4 else ''})"

"""A feature map is tried on one or two points before anything is computed: shape, numbers, slopes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from numeric.inputs import InputError

STEP = 1e-3  # to a second point where all are equal
STEPS = (1.0, 1e-2, 1e2)  # of differences, times the cube root of the machine's epsilon
FINE = (1.0, 1e-2)  # the same, in lengths over which the values change by themselves
SOME = 16  # points whose slopes are looked at
ALIKE = 1e-2  # how well some difference agrees with a slope; a map that is cut or stepped has none that does

Map = Callable[[Tensor], Tensor]
Along = Callable[[Map, Tensor, Tensor], Tensor]  # f, points, directions -> slopes


def tried(run: Callable[..., Any], call: Map, points: Tensor, shape: torch.Size) -> int:
    """The number of features of a map that passes."""
    one, two = _pair(points)
    pair = attempted(run, torch.stack([one, two]).reshape(2, *shape))
    alone = [attempted(run, point.reshape(1, *shape)) for point in (one, two)]
    _check_shape(pair, 2)
    _check_shape(alone[0], 1)
    both, apart = pair.flatten(1), torch.cat(alone).flatten(1)
    if not torch.isfinite(apart[0]).all():
        raise InputError(
            f"The map gives NaN or infinity at the point {_told(one)}: move it, or mend the map."
        )
    size = both.abs().amax()
    if torch.isfinite(apart).all() and not (both - apart).abs().amax() <= _tolerance(size):
        raise InputError(
            "The map gives other features for a point in a batch than for the point alone, or is "
            "random: put batch normalisation and dropout into eval mode, and let rows not mix."
        )
    if call(points[:1]).device != points.device:
        raise InputError("The map moves its points to another device: keep to that of x.")
    return both.shape[1]


def attempted(run: Callable[..., Any], x: Tensor) -> Any:
    """run(x), or an error that says on what it failed."""
    try:
        return run(x)
    except Exception as error:
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"The map fails on a batch of shape {tuple(x.shape)}: {told} Try it there; batch normalisation "
            "inside a function must be put into eval mode by hand."
        ) from error


def check_slope(call: Map, along: Along, points: Tensor) -> None:
    """Compares a slope at the first point with differences, which see what `detach` hides."""
    some = points[:SOME]
    u = _direction(some)
    slopes, values = along(call, some, u), call(some)
    if not _alike(call, slopes[:1], some[:1], u[:1]):
        raise InputError(
            f"At the point {_told(some[0])} torch's derivative of the map is not that of its values: use no "
            "detach, rounding or gradients of one's own, and no maps with jumps."
        )
    if not slopes.any() and not torch.equal(values, values[:1].expand_as(values)):
        raise InputError(
            "The map differs from point to point, but all of its slopes are 0: it has steps, by rounding "
            "or comparing, or is saturated beyond the last digit."
        )


def check_bend(call: Map, along: Along, points: Tensor) -> None:
    """The same for a second derivative, as torch gets some wrong."""
    x, u = points[:1], _direction(points[:1])

    def slope(at: Tensor) -> Tensor:
        return along(call, at, u)

    if not _alike(slope, along(slope, x, u), x, u):
        raise InputError(
            f"At the point {_told(x[0])} torch's second derivative of the map is not that of its slopes: "
            "find the operation that it gets wrong, and write it out; in float32, try model.double() first."
        )


def _alike(values: Map, slope: Tensor, x: Tensor, u: Tensor) -> bool:
    """Whether a slope along u is that of the values, by differences of some length."""
    if not torch.isfinite(slope).all():
        raise InputError(
            f"The map has no finite slope at the point {_told(x[0])}: move it, or mend the map."
        )
    epsilon = max(torch.finfo(part.dtype).eps for part in (x, slope))
    for step in _steps(values, slope, x, epsilon ** (1 / 3)):
        ahead, back = values(x + step * u), values(x - step * u)
        noise = 16 * epsilon * ahead.abs().amax() / step
        difference = (ahead - back) / (2 * step)
        larger = torch.maximum(difference.abs(), slope.abs())
        if not ((difference - slope).abs() > ALIKE * larger + noise).any():  # in any feature
            return True
    return False


def _steps(values: Map, slope: Tensor, x: Tensor, root: float) -> Iterator[float]:
    """Lengths of differences: by the point's own length, and where that is too long, by the slope."""
    size = max(1.0, torch.linalg.vector_norm(x).item())
    yield from (factor * root * size for factor in STEPS)
    if steepest := slope.abs().amax().item():
        size = values(x).abs().amax().item() / steepest
        yield from (factor * root * size for factor in FINE)


def _direction(points: Tensor) -> Tensor:
    """Of unit length, and along no axis."""
    u = torch.arange(1, points.shape[1] + 1, device=points.device).to(points).sin()
    return (u / torch.linalg.vector_norm(u)).repeat(len(points), 1)


def _pair(points: Tensor) -> tuple[Tensor, Tensor]:
    """The first point and the farthest from it, or one close by: equal rows would hide a mean."""
    one, two = farthest(points)
    return (one, one * (1 + STEP) + STEP) if torch.equal(one, two) else (one, two)


def farthest(points: Tensor) -> tuple[Tensor, Tensor]:
    """The first point and the farthest from it."""
    return points[0], points[(points - points[0]).abs().amax(1).argmax()]


def _tolerance(size: Tensor) -> Tensor:
    """Products of matrices of other sizes are rounded otherwise, but not by half of the digits."""
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


def _told(point: Tensor) -> str:
    shown = ", ".join(f"{v:.4g}" for v in point[:4].tolist())
    return f"({shown}{', ...' if len(point) > 4 else ''})"

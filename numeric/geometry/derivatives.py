"""First and second derivatives of a feature map by forward mode, block by block.

A map acts on each point separately, so one pass over k copies of a point differentiates in k directions.
Arrays have the features last and are float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor
from torch.func import jvp

from numeric.geometry.gauss_equation import pairs
from numeric.inputs import InputError
from numeric.models.forward_mode import prepare
from numeric.models.memory import keep_memory
from numeric.models.model import EvaluatedMap
from numeric.models.output_checks import check_first_derivative, check_second_derivative

__all__ = [
    "BLOCK", "CHUNK_SIZE", "Map", "along", "along_curves", "along_two", "chunks_for_first_derivatives",
    "chunks_for_second_derivatives", "jacobian", "jacobian_and_hessian", "prepare", "require_finite",
    "with_slope",
]  # fmt: skip

BLOCK = 2**18  # numbers of features computed in one pass
CHUNK_SIZE = 2**18  # numbers of derivatives in one chunk of points

Map = Callable[[Tensor], Tensor]
Result = TypeVar("Result")  # of one derivative, or of several


def along(f: Map, x: Tensor, u: Tensor) -> Tensor:
    """J u: (m, d), (m, d) -> (m, p)."""
    return _forward(lambda: jvp(f, (x,), (u,))[1])


def with_slope(f: Map, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """The features and J u: (m, d), (m, d) -> twice (m, p)."""
    return _forward(lambda: _pair(jvp(f, (x,), (u,))))


def along_two(f: Map, x: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """J v and H(u, v): three times (m, d) -> twice (m, p)."""
    return _forward(lambda: _pair(jvp(lambda y: jvp(f, (y,), (v,))[1], (x,), (u,))))


def along_curves(f: Map, x: Tensor, u: Tensor, v: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """J v and H(u, v) + J a, derivatives of f(x + s u + t v + s t a): (m, d) each -> (m, p)."""
    return _forward(lambda: _pair(jvp(lambda y, w: jvp(f, (y,), (w,))[1], (x, v), (u, a))))


def chunks_for_first_derivatives(f: EvaluatedMap, per_point: int) -> tuple[Tensor, ...]:
    """Split the points into chunks, after checking torch's first derivatives by differences."""
    keep_memory()
    check_first_derivative(f, along, f.points)
    return f.points.split(max(1, CHUNK_SIZE // per_point))


def chunks_for_second_derivatives(f: EvaluatedMap, per_point: int) -> tuple[Tensor, ...]:
    """Split the points into chunks, after checking torch's first and second derivatives by differences."""
    check_second_derivative(f, along, f.points)
    return chunks_for_first_derivatives(f, per_point)


def jacobian(f: EvaluatedMap, x: Tensor) -> Tensor:
    """(m, d) -> (m, d, p)."""
    m, d = x.shape
    parts = []
    for point, axis in _blocks(f, m, d):
        unit = torch.nn.functional.one_hot(axis, d).to(x.dtype)
        parts.append(along(f, x[point], unit))
    return require_finite(torch.cat(parts).double().unflatten(0, (m, d)))


def jacobian_and_hessian(
    f: EvaluatedMap, x: Tensor, axes: Tensor, accelerations: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Derivatives along the rows of axes (m, d, d): (m, d) -> (m, d, p) and, packed, (m, d (d + 1)/2, p).

    With accelerations a (m, d (d + 1)/2, d) the second output is H + J a, and may be NaN where a overflows.
    """
    m, d = x.shape
    axes = axes.to(x.dtype)
    first, second = (indices.to(x.device) for indices in pairs(d))
    parts = []
    for point, pair in _blocks(f, m, len(first)):
        u, v = axes[point, first[pair]], axes[point, second[pair]]
        if accelerations is None:
            first_and_second = along_two(f, x[point], u, v)
        else:
            first_and_second = along_curves(
                f, x[point], u, v, accelerations[point, pair].to(x.dtype)
            )
        parts.append(torch.stack(first_and_second))
    first_and_second = torch.cat(parts, 1).double().unflatten(1, (m, -1))
    if accelerations is None:
        require_finite(first_and_second)
    return first_and_second[0, :, :d], first_and_second[1]


def _blocks(f: EvaluatedMap, m: int, directions: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Indices of points and directions, in blocks of at most `BLOCK` computed features."""
    pairs = torch.arange(m * directions, device=f.points.device)
    for block in pairs.split(max(1, BLOCK // f.count)):
        yield block // directions, block % directions


def require_finite(derivatives: Tensor) -> Tensor:
    if not torch.isfinite(derivatives).all():
        raise InputError(
            "The map has derivatives that are NaN or infinite at some points: move these points, or mend "
            "the map there."
        )
    return derivatives


def _pair(results: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """The two results of `jvp`, which by its type may have a third."""
    value, slope = results
    return value, slope


def _forward(derivative: Callable[[], Result]) -> Result:
    prepare()
    try:
        return derivative()
    except RuntimeError as error:
        raise InputError(
            f"torch cannot differentiate the map in forward mode ({str(error).splitlines()[0]}): write it "
            "with differentiable torch operations, without numpy, rounding or data-dependent branches."
        ) from error

"""First and second derivatives of a feature map by forward mode, block by block.

A map takes each point by itself, so that one pass over copies of the points takes as many directions.
Arrays have the features last and are float64.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import torch
from torch import Tensor
from torch.func import jvp
from tqdm import tqdm

from numeric.geometry.gauss_equation import pairs
from numeric.inputs import InputError
from numeric.models.feature_map import Opened
from numeric.models.memory import keep_memory
from numeric.models.output_checks import check_bend, check_slope

BLOCK = 2**18  # features computed in one pass
HELD = 2**18  # numbers of derivatives held for one chunk of points
MOMENT = 2.0  # seconds

Map = Callable[[Tensor], Tensor]


def along(f: Map, x: Tensor, u: Tensor) -> Tensor:
    """J u: (m, d), (m, d) -> (m, p)."""
    return _forward(lambda: jvp(f, (x,), (u,))[1])


def with_slope(f: Map, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """The features and J u: (m, d), (m, d) -> twice (m, p)."""
    return _forward(lambda: jvp(f, (x,), (u,)))


def along_two(f: Map, x: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """J v and H(u, v): three times (m, d) -> twice (m, p)."""
    return _forward(lambda: jvp(lambda y: jvp(f, (y,), (v,))[1], (x,), (u,)))


def along_curves(f: Map, x: Tensor, u: Tensor, v: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """J v and H(u, v) + J a, derivatives of f(x + s u + t v + s t a): (m, d) each -> (m, p)."""
    return _forward(lambda: jvp(lambda y, w: jvp(f, (y,), (w,))[1], (x, v), (u, a)))


def chunks(f: Opened, per_point: int) -> tuple[Tensor, ...]:
    """The points, as many at once as HELD allows, if torch's slopes of the map are those of its values."""
    keep_memory()
    check_slope(f, along, f.points)
    return f.points.split(max(1, HELD // per_point))


def bent_chunks(f: Opened, per_point: int) -> tuple[Tensor, ...]:
    """The same, if its second derivatives hold too."""
    check_bend(f, along, f.points)
    return chunks(f, per_point)


def told(held: Sequence[Tensor], progress: bool) -> Iterator[Tensor]:
    """With a bar where it takes more than a moment."""
    return iter(tqdm(held, desc="points", disable=not progress, leave=False, delay=MOMENT))


def jacobian(f: Opened, x: Tensor) -> Tensor:
    """(m, d) -> (m, d, p)."""
    m, d = x.shape
    parts = []
    for point, axis in _blocks(f, m, d):
        unit = torch.nn.functional.one_hot(axis, d).to(x.dtype)
        parts.append(along(f, x[point], unit))
    return _finite(torch.cat(parts).double().unflatten(0, (m, d)))


def jacobian_and_hessian(
    f: Opened, x: Tensor, axes: Tensor, accelerations: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """On axes (m, d, d), which are the rows: (m, d) -> (m, d, p) and, packed, (m, d (d + 1)/2, p).

    With accelerations a (m, d (d + 1)/2, d) the second are H + J a, and may be NaN where a is out of range.
    """
    m, d = x.shape
    axes = axes.to(x.dtype)
    first, second = (indices.to(x.device) for indices in pairs(d))
    parts = []
    for point, pair in _blocks(f, m, len(first)):
        u, v = axes[point, first[pair]], axes[point, second[pair]]
        if accelerations is None:
            both = along_two(f, x[point], u, v)
        else:
            both = along_curves(f, x[point], u, v, accelerations[point, pair].to(x.dtype))
        parts.append(torch.stack(both))
    both = torch.cat(parts, 1).double().unflatten(1, (m, -1))
    if accelerations is None:
        _finite(both)
    return both[0, :, :d], both[1]


def _blocks(f: Opened, m: int, directions: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Which point and which direction: all of them, as many at once as BLOCK allows."""
    every = torch.arange(m * directions, device=f.points.device)
    for some in every.split(max(1, BLOCK // f.count)):
        yield some // directions, some % directions


def _finite(derivatives: Tensor) -> Tensor:
    if not torch.isfinite(derivatives).all():
        raise InputError(
            "The map has derivatives that are NaN or infinite at some points: move these points, or mend "
            "the map there."
        )
    return derivatives


@cache
def prepare() -> None:
    """Torch sets up forward mode at its first use, by means that it calls deprecated itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        one = torch.ones(1, device="cpu")
        jvp(torch.sin, (one,), (one,))


def _forward(derivative: Callable[[], Tensor]) -> Tensor:
    prepare()
    try:
        return derivative()
    except (RuntimeError, NotImplementedError) as error:
        raise InputError(
            f"torch cannot differentiate the map in forward mode ({str(error).splitlines()[0]}): write it "
            "with differentiable torch operations, without numpy, rounding or data-dependent branches."
        ) from error

"""Geodesics between points, their lengths, and all distances in a set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from numeric.geodesics.chart import Chart, array, open_chart, require_single_point, stack_points
from numeric.geodesics.elements import Array
from numeric.geodesics.geodesic import Geodesic
from numeric.geodesics.search import (
    SEGMENTS,
    STANDARD,
    Search,
    find_geodesics,
    relaxed_geodesic,
    require_search,
)
from numeric.inputs import ArrayLike, as_numbers, whole
from numeric.models.model import ModelLike
from numeric.progress import progress_bar

__all__ = ["between", "distance", "distances", "relax", "several"]


def between(
    model: ModelLike,
    p: ArrayLike,
    q: ArrayLike,
    *,
    layer: str | None = None,
    search: Search = STANDARD,
) -> Geodesic:
    """The shortest geodesic found from p to q, in the metric g = J^T J of a model.

    The model is a module or a function (m, ...) -> (m, ...), taken up to `layer` if one is named; p and q
    are one point each, in the shape that it takes without the axis of a batch; `search` says from how many
    curves the search starts. Returned is a `Geodesic`. Refused are batches of points, maps that cannot be
    differentiated twice, and singular metrics; `NotConverged` is raised where no path meets the geodesic
    equation.

    >>> polar = lambda x: x[:, :1] * torch.cat([x[:, 1:].cos(), x[:, 1:].sin()], 1)
    >>> path = between(polar, [1.0, 0.0], [1.0, torch.pi / 3], search=Search(starts=1))
    >>> round(path.length, 6), round(path.at(0.5)[0].item() ** 2, 6)  # a chord of the unit circle
    (1.0, 0.75)
    """
    return several(model, p, q, layer=layer, search=search)[0]


def several(
    model: ModelLike,
    p: ArrayLike,
    q: ArrayLike,
    *,
    layer: str | None = None,
    search: Search = STANDARD,
) -> tuple[Geodesic, ...]:
    """All geodesics found from p to q, shortest first; arguments and refusals are those of `between`.

    They join inputs: if the map takes both to the same features, their distance is still the length of the
    shortest path between them, and not 0.

    >>> paths = several(lambda x: torch.cat([x, x**2], 1), [0.0], [1.0], search=Search(starts=1))
    >>> round(paths[0].length, 6)  # of a parabola
    1.478943
    """
    require_search(search)
    with _open_pair(model, p, q, layer) as (chart, start, end):
        return tuple(find_geodesics(chart, start, end, search))


def distance(
    model: ModelLike,
    p: ArrayLike,
    q: ArrayLike,
    *,
    layer: str | None = None,
    search: Search = STANDARD,
) -> float:
    """The length of the shortest geodesic found; arguments and refusals are those of `between`.

    >>> round(distance(lambda x: torch.cat([3 * x, 4 * x], 1), [0.0], [2.0], search=Search(starts=1)), 6)
    10.0
    """
    return between(model, p, q, layer=layer, search=search).length


def distances(
    model: ModelLike,
    points: ArrayLike,
    *,
    layer: str | None = None,
    search: Search = STANDARD,
    progress: bool = True,
) -> Tensor:
    """Distances between all points (n, ...) of a small set: (n, n), symmetric, each pair solved once.

    The other arguments and what is refused are those of `between`.

    >>> distances(lambda x: 2 * x, [[0.0], [1.0], [3.0]], search=Search(starts=1)).round(decimals=6).tolist()
    [[0.0, 2.0, 6.0], [2.0, 0.0, 4.0], [6.0, 4.0, 0.0]]
    """
    require_search(search)
    points = as_numbers("points", points)
    with open_chart(model, points, layer) as (chart, flat):
        result = torch.zeros(len(flat), len(flat), dtype=flat.dtype, device=flat.device)
        pairs = [(i, j) for i in range(len(flat)) for j in range(i)]
        for i, j in progress_bar(pairs, of="geodesics", show=progress):
            local = chart.recentred(flat[j])
            shortest = find_geodesics(local, points[j], array(flat[i] - flat[j]), search)[0]
            result[i, j] = result[j, i] = shortest.length
    return result


def relax(
    model: ModelLike,
    p: ArrayLike,
    q: ArrayLike,
    *,
    layer: str | None = None,
    segments: int = SEGMENTS,
    search: Search = STANDARD,
) -> Geodesic:
    """A shortest path by relaxation of a polygonal line alone, for maps with kinks too.

    It is the length of a path, so it is at least the distance. The excess is about the square of a segment
    for a smooth map, and about a segment where kinks are crossed. `segments` is their number, at least 4; the
    other arguments and what is refused are those of `between`.

    >>> kinked = lambda x: torch.cat([x, x.relu()], 1)
    >>> path = relax(kinked, [-1.0], [1.0], segments=8, search=Search(starts=1))
    >>> round(path.length, 6)  # 1 + sqrt(2)
    2.414214
    """
    whole("segments", segments, 4)
    require_search(search)
    with _open_pair(model, p, q, layer) as (chart, start, end):
        return relaxed_geodesic(chart, start, end, segments, search)


@contextmanager
def _open_pair(
    model: ModelLike, p: ArrayLike, q: ArrayLike, layer: str | None
) -> Iterator[tuple[Chart, Tensor, Array]]:
    """A chart around p, p itself, and the displacement from it to q, flat."""
    both = stack_points(p=p, q=q)
    require_single_point(model, layer, p=both[0], q=both[1])
    with open_chart(model, both, layer) as (chart, points):
        yield chart, both[0], array(points[1] - points[0])

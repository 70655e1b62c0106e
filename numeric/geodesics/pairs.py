"""Geodesics between points, their lengths, and all distances in a set."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from numeric.geodesics.chart import array, open_chart, require_single_point, stack_points
from numeric.geodesics.geodesic import Geodesic
from numeric.geodesics.search import SEGMENTS, STANDARD, Search, find_geodesics, relaxed_geodesic
from numeric.inputs import whole
from numeric.progress import progress_bar


def between(
    features: Any, p: Tensor, q: Tensor, *, layer: str | None = None, search: Search = STANDARD
) -> Geodesic:
    """The shortest geodesic found from p to q, one point each; batches are refused."""
    return several(features, p, q, layer=layer, search=search)[0]


def several(
    features: Any, p: Tensor, q: Tensor, *, layer: str | None = None, search: Search = STANDARD
) -> tuple[Geodesic, ...]:
    """All geodesics found from p to q, shortest first.

    They join inputs: if the map takes both to the same features, their distance is still the length of the
    shortest path between them, and not 0.
    """
    both = stack_points(p=p, q=q)
    require_single_point(features, layer, p=p, q=q)
    with open_chart(features, both, layer) as (chart, points):
        return tuple(find_geodesics(chart, p, array(points[1] - points[0]), search))


def distance(
    features: Any, p: Tensor, q: Tensor, *, layer: str | None = None, search: Search = STANDARD
) -> float:
    """The length of the shortest geodesic found."""
    return between(features, p, q, layer=layer, search=search).length


def distances(
    features: Any,
    points: Tensor,
    *,
    layer: str | None = None,
    search: Search = STANDARD,
    progress: bool = True,
) -> Tensor:
    """Between all points (n, ...) of a small set: (n, n), symmetric, each pair solved once."""
    with open_chart(features, points, layer) as (chart, flat):
        result = torch.zeros(len(flat), len(flat), dtype=flat.dtype, device=flat.device)
        pairs = [(i, j) for i in range(len(flat)) for j in range(i)]
        for i, j in progress_bar(pairs, of="geodesics", show=progress):
            local = chart.recentred(flat[j])
            shortest = find_geodesics(local, points[j], array(flat[i] - flat[j]), search)[0]
            result[i, j] = result[j, i] = shortest.length
    return result


def relax(
    features: Any,
    p: Tensor,
    q: Tensor,
    *,
    layer: str | None = None,
    segments: int = SEGMENTS,
    search: Search = STANDARD,
) -> Geodesic:
    """A shortest path by relaxation of a polygonal line alone, for maps with kinks too.

    It is the length of a path, so it is at least the distance. The excess is about the square of a segment
    for a smooth map, and about a segment where kinks are crossed.
    """
    whole("segments", segments, 4)
    both = stack_points(p=p, q=q)
    require_single_point(features, layer, p=p, q=q)
    with open_chart(features, both, layer) as (chart, points):
        return relaxed_geodesic(chart, p, array(points[1] - points[0]), segments, search)

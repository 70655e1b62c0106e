"""Geodesics between points, their lengths, and all distances in a set."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from numeric.geodesics.chart import alike, array, charted, refuse_batch
from numeric.geodesics.geodesic import Geodesic
from numeric.geodesics.search import SEGMENTS, STANDARD, Search, drawn, found
from numeric.inputs import whole


def between(
    features: Any, p: Tensor, q: Tensor, *, layer: str | None = None, search: Search = STANDARD
) -> Geodesic:
    """The shortest geodesic that is found from p to q, one point each; batches are refused."""
    return several(features, p, q, layer=layer, search=search)[0]


def several(
    features: Any, p: Tensor, q: Tensor, *, layer: str | None = None, search: Search = STANDARD
) -> tuple[Geodesic, ...]:
    """All geodesics from p to q that are found, shortest first.

    What is joined are inputs. Where the map takes two of them to one place, their distance is that
    of the way between them, and not 0.
    """
    both = alike(p=p, q=q)
    refuse_batch(features, layer, p=p, q=q)
    with charted(features, both, layer) as (chart, points):
        return tuple(found(chart, p, array(points[1] - points[0]), search))


def distance(
    features: Any, p: Tensor, q: Tensor, *, layer: str | None = None, search: Search = STANDARD
) -> float:
    """The length of the shortest geodesic that is found."""
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
    with charted(features, points, layer) as (chart, flat):
        result = torch.zeros(len(flat), len(flat), dtype=flat.dtype, device=flat.device)
        pairs = [(i, j) for i in range(len(flat)) for j in range(i)]
        for i, j in tqdm(pairs, desc="geodesics", disable=not progress, leave=False):
            own = chart.moved(flat[j])
            shortest = found(own, points[j], array(flat[i] - flat[j]), search)[0]
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
    """A shortest path by relaxation of a broken line alone, for maps with kinks too.

    Its length is that of a path, so that it is not below the distance; it is above it by about the
    square of a segment for a smooth map, by a segment where kinks are crossed.
    """
    whole("segments", segments, 4)
    both = alike(p=p, q=q)
    refuse_batch(features, layer, p=p, q=q)
    with charted(features, both, layer) as (chart, points):
        return drawn(chart, p, array(points[1] - points[0]), segments, search)

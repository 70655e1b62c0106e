"""Where torch and scipy meet: a feature map at a few points, told as displacements from one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from numeric.geodesics.elements import Array
from numeric.geodesics.maps import Map, Shallow, Smooth
from numeric.geodesics.transport import Transport
from numeric.geometry.kinks import creased_layers
from numeric.inputs import InputError
from numeric.models.feature_map import FeatureMap
from numeric.models.hidden_layers import HiddenLayer
from numeric.models.output_checks import check_bend, check_slope


@dataclass(frozen=True, eq=False)
class Chart:
    """Displacements from the origin keep their digits when two points are close."""

    features: Smooth | Shallow
    origin: Tensor  # (d,)
    creases: tuple[str, ...]  # layers that make paths break, as ReLU

    @property
    def unit(self) -> float:
        """The rounding unit of the points."""
        return torch.finfo(self.origin.dtype).eps

    def moved(self, origin: Tensor) -> Chart:
        """The same features told from elsewhere."""
        return replace(self, origin=origin)

    def tensor(self, values: Array) -> Tensor:
        """On the device and in the precision of the points."""
        return torch.as_tensor(values, dtype=self.origin.dtype, device=self.origin.device)

    def places(self, y: Array) -> Tensor:
        """(m, d) -> (m, d)."""
        return self.origin + self.tensor(y)

    def transport(self, y: Array, v: Array) -> Transport:
        """(m, d), (m, d)."""
        return Transport.along(self.features, self.places(y), self.tensor(v))

    def refuse_singular(self, y: Array) -> None:
        """An error where the metric at one of the places (m, d) is."""
        self.transport(y, np.zeros_like(y)).refuse_singular(self.places(y))

    def speeds(self, y: Array, v: Array) -> Array:
        """|J v|: (m, d), (m, d) -> (m,)."""
        pushed = self.features.push(self.places(y), self.tensor(v))
        return array(torch.linalg.vector_norm(pushed, dim=1))

    def pull(self, y: Array) -> tuple[Tensor, Map]:
        """Features (m, p), and what takes c to J^T c: (m, p) -> (m, d)."""
        return self.features.pull(self.places(y))


@contextmanager
def charted(features: Any, points: Tensor, layer: str | None) -> Iterator[tuple[Chart, Tensor]]:
    """A chart around the first of points (n, ...), and all of them flat, (n, d)."""
    chosen = FeatureMap.of(features, layer)
    with chosen.on(points) as f:
        d = f.points.shape[1]
        if f.count < d:
            raise InputError(
                f"{d} coordinates and {f.count} features: the metric is singular everywhere, and points "
                "may have distance 0. Take a wider layer."
            )
        hidden = HiddenLayer.at(chosen, points)
        own = Smooth(f) if hidden is None else Shallow(f, hidden)
        creases = creased_layers(f, chosen.module)
        if hidden is not None and hidden.jumps():
            creases = [hidden.name]

        def along(call: Map, x: Tensor, u: Tensor) -> Tensor:
            """What is tried is what is used: J u, and of J u itself H(u, u)."""
            if call is f:
                return own.push(x, u)
            _, H = own.bend(x, u)
            return (H @ u.to(H)[:, :, None])[..., 0]

        check_slope(f, along, f.points)
        if not creases:
            check_bend(f, along, f.points)
        yield Chart(own, f.points[0], tuple(creases)), f.points


def alike(**points: Any) -> Tensor:
    """Points of one kind, stacked."""
    for name, point in points.items():
        if not isinstance(point, Tensor) or point.ndim < 1:
            raise InputError(
                f"{name} = {point!r} was given, but a point is a tensor of at least one coordinate, in "
                "the shape that the map takes, without the first axis of a batch."
            )
    kinds = {(tuple(p.shape), p.dtype, p.device) for p in points.values()}
    if len(kinds) > 1:
        given = ", ".join(
            f"{n} {tuple(p.shape)} {p.dtype} on {p.device}" for n, p in points.items()
        )
        raise InputError(f"Points must be of one shape, type and device, but given were {given}.")
    return torch.stack(list(points.values()))


def refuse_batch(features: Any, layer: str | None, **points: Tensor) -> None:
    """An error where several points are given for one: the map takes each row by itself."""
    name, point = next(iter(points.items()))
    if point.ndim < 2 or len(point) < 2:
        return
    try:
        with FeatureMap.of(features, layer).on(point):
            pass
    except InputError:  # rows are mixed, or no points
        return
    raise InputError(
        f"{' and '.join(points)} of shape {tuple(point.shape)} are batches of {len(point)} points, as the "
        f"map takes each row by itself, but one point is needed: give {name}[0] and so on one by one, or all "
        "points to distances. If all rows are one point, give it flat to a function of x that calls the map "
        f"on x.unflatten(1, {tuple(point.shape)})."
    )


def array(values: Tensor) -> Array:
    """As scipy takes it."""
    return values.detach().cpu().numpy().astype(np.float64)

"""Interface of torch and scipy: a feature map in displacements from one of a few points, as numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from numeric.geodesics.elements import Array
from numeric.geodesics.maps import AutodiffMap, HiddenLayerMap, Map
from numeric.geodesics.transport import Transport
from numeric.geometry.kinks import layers_with_kinks
from numeric.inputs import InputError
from numeric.models.feature_map import FeatureMap
from numeric.models.hidden_layers import HiddenLayer
from numeric.models.output_checks import check_first_derivative, check_second_derivative


@dataclass(frozen=True, eq=False)
class Chart:
    """A feature map in displacements from an origin, which stay accurate when two points are close."""

    features: AutodiffMap | HiddenLayerMap
    origin: Tensor  # (d,)
    kinks: tuple[str, ...]  # layers with kinks, such as ReLU, where paths are refracted

    @property
    def unit(self) -> float:
        """The rounding unit of the points."""
        return torch.finfo(self.origin.dtype).eps

    def recentred(self, origin: Tensor) -> Chart:
        """The same features in displacements from another origin."""
        return replace(self, origin=origin)

    def tensor(self, values: Array) -> Tensor:
        """A tensor on the device and in the precision of the points."""
        return torch.as_tensor(values, dtype=self.origin.dtype, device=self.origin.device)

    def places(self, y: Array) -> Tensor:
        """Points at displacements: (m, d) -> (m, d)."""
        return self.origin + self.tensor(y)

    def transport(self, y: Array, v: Array) -> Transport:
        """The covariant derivative at displacements (m, d) with velocities (m, d)."""
        return Transport.along(self.features, self.places(y), self.tensor(v))

    def require_nonsingular(self, y: Array) -> None:
        """Refuse displacements (m, d) at which the metric is singular."""
        self.transport(y, np.zeros_like(y)).require_nonsingular(self.places(y))

    def speeds(self, y: Array, v: Array) -> Array:
        """|J v|: (m, d), (m, d) -> (m,)."""
        pushed = self.features.jvp(self.places(y), self.tensor(v))
        return array(torch.linalg.vector_norm(pushed, dim=1))

    def vjp(self, y: Array) -> tuple[Tensor, Map]:
        """Features (m, p), and the function from c to J^T c: (m, p) -> (m, d)."""
        return self.features.vjp(self.places(y))


@contextmanager
def open_chart(features: Any, points: Tensor, layer: str | None) -> Iterator[tuple[Chart, Tensor]]:
    """A chart around the first of points (n, ...), and all of them flat, (n, d)."""
    feature_map = FeatureMap.of(features, layer)
    with feature_map.on(points) as f:
        d = f.points.shape[1]
        if f.count < d:
            raise InputError(
                f"{d} coordinates and {f.count} features: the metric is singular everywhere, and points "
                "may have distance 0. Take a wider layer."
            )
        hidden = HiddenLayer.at(feature_map, points)
        differentiable = AutodiffMap(f) if hidden is None else HiddenLayerMap(f, hidden)
        kinks = layers_with_kinks(f, feature_map.module)
        if hidden is not None and hidden.jumps():
            kinks = [hidden.name]

        def along(call: Map, x: Tensor, u: Tensor) -> Tensor:
            """The derivatives that are used later, to be checked: J u, and for J u itself H(u, u)."""
            if call is f:
                return differentiable.jvp(x, u)
            _, H = differentiable.jacobian_and_hessian(x, u)
            return (H @ u.to(H)[:, :, None])[..., 0]

        check_first_derivative(f, along, f.points)
        if not kinks:
            check_second_derivative(f, along, f.points)
        yield Chart(differentiable, f.points[0], tuple(kinks)), f.points


def stack_points(**points: Any) -> Tensor:
    """Stack points; refuse those that differ in shape, dtype or device."""
    for name, point in points.items():
        if not isinstance(point, Tensor) or point.ndim < 1:
            raise InputError(
                f"{name} = {point!r} was given, but a point is a tensor of at least one coordinate, in "
                "the shape that the map takes, without the first axis of a batch."
            )
    kinds = {(tuple(p.shape), p.dtype, p.device) for p in points.values()}
    if len(kinds) > 1:
        listed = ", ".join(
            f"{n} {tuple(p.shape)} {p.dtype} on {p.device}" for n, p in points.items()
        )
        raise InputError(f"Points must be of one shape, type and device, but given were {listed}.")
    return torch.stack(list(points.values()))


def require_single_point(features: Any, layer: str | None, **points: Tensor) -> None:
    """Refuse batches where one point is needed: the map acts on each row separately."""
    name, point = next(iter(points.items()))
    if point.ndim < 2 or len(point) < 2:
        return
    try:
        with FeatureMap.of(features, layer).on(point):
            pass
    except InputError:  # the rows are not separate points of the map
        return
    raise InputError(
        f"{' and '.join(points)} of shape {tuple(point.shape)} are batches of {len(point)} points, as the "
        f"map takes each row by itself, but one point is needed: give {name}[0] and so on one by one, or all "
        "points to distances. If all rows are one point, give it flat to a function of x that calls the map "
        f"on x.unflatten(1, {tuple(point.shape)})."
    )


def array(values: Tensor) -> Array:
    """A float64 numpy array."""
    return values.detach().cpu().numpy().astype(np.float64)

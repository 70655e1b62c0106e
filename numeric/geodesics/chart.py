r"""Interface of torch and scipy: a feature map in displacements from one of a few points, as numpy arrays.

Covariant derivatives along a curve need only first and second derivatives of the map. At a point x with
velocity v let J = QR be the Jacobian and H the Hessian of the features. On the orthonormal axes Q of the
tangent space a field V along the curve has the covariant derivative $DV = R V' + N V$ with
$N = Q^T H(v, \cdot)$, since $\frac{d}{dt}(J V) = J V' + H(v, V)$ has it as its tangent part. So a geodesic
has $R x'' + N x' = 0$: no Christoffel symbols, no derivative of the metric.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from numeric.geodesics.elements import Array
from numeric.geodesics.maps import AutodiffMap, HiddenLayerMap, Map
from numeric.geometry.kinks import layers_with_kinks
from numeric.inputs import ArrayLike, InputError, as_numbers
from numeric.models.hidden_layers import HiddenLayer
from numeric.models.model import Model, ModelLike
from numeric.models.output_checks import (
    check_first_derivative,
    check_second_derivative,
    format_point,
)

__all__ = [
    "Chart", "CovariantDerivative", "array", "as_point", "open_chart", "require_single_point",
    "stack_points",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class CovariantDerivative:
    """The matrices of the covariant derivative at m points with velocities."""

    Q: Tensor  # (m, p, d)
    R: Tensor  # (m, d, d)
    N: Tensor  # (m, d, d), Q^T H(v, .)
    H: Tensor  # (m, p, d), H(v, .)

    @classmethod
    def along(
        cls, features: AutodiffMap | HiddenLayerMap, x: Tensor, v: Tensor
    ) -> CovariantDerivative:
        """From points (m, d) and velocities (m, d)."""
        J, H = features.jacobian_and_hessian(x, v)
        bad = ~(J.isfinite().all(2) & H.isfinite().all(2)).all(1)
        if bad.any():
            raise InputError(
                f"The map or a derivative of it is NaN or infinite at the point {format_point(x[bad][0])}, "
                "which a path came to: mend the map there, or choose points whose path keeps away."
            )
        Q, R = torch.linalg.qr(J)
        return cls(Q, R, Q.mT @ H, H)

    def condition(self) -> Tensor:
        """Condition number of the Jacobian, (m,); infinite where it is singular up to rounding."""
        values = torch.linalg.svdvals(self.R)
        least = max(self.Q.shape[1:]) * torch.finfo(values.dtype).eps * values[:, 0]
        return torch.where(values[:, -1] > least, values[:, 0] / values[:, -1], torch.inf)

    def require_nonsingular(self, x: Tensor) -> None:
        """Refuse points x (m, d) at which the Jacobian is singular."""
        singular = self.condition().isinf()
        if singular.any():
            raise InputError(
                f"The metric is singular at the point {format_point(x[singular][0])}, so that some "
                "directions there have no length: take more features, or points whose path avoids it."
            )

    def acceleration(self, v: Tensor) -> Tensor:
        """x'' of a geodesic, (m, d)."""
        force = self.N @ v.to(self.N)[:, :, None]
        return -torch.linalg.solve_triangular(self.R, force, upper=True)[..., 0]

    def curvature_form(
        self, features: AutodiffMap | HiddenLayerMap, x: Tensor, v: Tensor
    ) -> Tensor:
        r"""$\langle R(V, v)v, V\rangle$ as a form in V, (m, d, d), by the equation of Gauss.

        It is $\langle II(v, v), H(V, V)\rangle - |II(v, V)|^2$, with II the normal part of H.
        """
        normal = self.H - self.Q @ self.N
        second_form = (normal @ v.to(normal)[:, :, None])[..., 0]
        return features.contract_hessian(x, second_form) - normal.mT @ normal


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

    def covariant_derivative(self, y: Array, v: Array) -> CovariantDerivative:
        """The covariant derivative at displacements (m, d) with velocities (m, d)."""
        return CovariantDerivative.along(self.features, self.places(y), self.tensor(v))

    def require_nonsingular(self, y: Array) -> None:
        """Refuse displacements (m, d) at which the metric is singular."""
        self.covariant_derivative(y, np.zeros_like(y)).require_nonsingular(self.places(y))

    def speeds(self, y: Array, v: Array) -> Array:
        """|J v|: (m, d), (m, d) -> (m,)."""
        pushed = self.features.jvp(self.places(y), self.tensor(v))
        return array(torch.linalg.vector_norm(pushed, dim=1))

    def vjp(self, y: Array) -> tuple[Tensor, Map]:
        """Features (m, p), and the function from c to J^T c: (m, p) -> (m, d)."""
        return self.features.vjp(self.places(y))


@contextmanager
def open_chart(
    model: ModelLike, points: Tensor, layer: str | None
) -> Iterator[tuple[Chart, Tensor]]:
    """A chart around the first of points (n, ...), and all of them flat, (n, d)."""
    opened = Model.of(model, layer)
    with opened.on(points) as f:
        d = f.points.shape[1]
        if f.count < d:
            raise InputError(
                f"{d} coordinates and {f.count} features: the metric is singular everywhere, and points "
                "may have distance 0. Take a wider layer."
            )
        hidden = HiddenLayer.at(opened, points)
        differentiable = AutodiffMap(f) if hidden is None else HiddenLayerMap(f, hidden)
        kinks = layers_with_kinks(f, opened.module)
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


def stack_points(**arrays: ArrayLike) -> Tensor:
    """Stack points; refuse those that differ in shape, dtype or device."""
    points = {name: as_point(name, point) for name, point in arrays.items()}
    kinds = {(tuple(p.shape), p.dtype, p.device) for p in points.values()}
    if len(kinds) > 1:
        listed = ", ".join(
            f"{n} {tuple(p.shape)} {p.dtype} on {p.device}" for n, p in points.items()
        )
        raise InputError(f"Points must be of one shape, type and device, not {listed}.")
    return torch.stack(list(points.values()))


def as_point(name: str, values: ArrayLike) -> Tensor:
    """One point as a tensor; refuse what has no coordinates."""
    point = as_numbers(name, values)
    if point.ndim < 1 or not point.numel():
        raise InputError(
            f"{name} = {values!r} was given, but a point has at least one coordinate, in the shape that the "
            "map takes, without the first axis of a batch."
        )
    return point


def require_single_point(model: ModelLike, layer: str | None, **points: Tensor) -> None:
    """Refuse batches where one point is needed: the map acts on each row separately."""
    opened = Model.of(model, layer)
    name, point = next(iter(points.items()))
    if point.ndim < 2 or len(point) < 2:
        return
    try:
        with opened.on(point):
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

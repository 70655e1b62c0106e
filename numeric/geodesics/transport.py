r"""Covariant derivatives along a curve in feature space, from first and second derivatives of the map.

At a point x with velocity v let J = QR be the Jacobian and H the Hessian of the features. On the
orthonormal axes Q of the tangent space a field V along the curve has the covariant derivative
$DV = R V' + N V$ with $N = Q^T H(v, \cdot)$, since $\frac{d}{dt}(J V) = J V' + H(v, V)$ has it as its
tangent part. So a geodesic has $R x'' + N x' = 0$: no Christoffel symbols, no derivative of the metric.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from numeric.geodesics.maps import AutodiffMap, HiddenLayerMap
from numeric.inputs import InputError
from numeric.models.output_checks import format_point


@dataclass(frozen=True, eq=False)
class Transport:
    """The matrices of the covariant derivative at m points with velocities."""

    frame: Tensor  # (m, p, d), Q
    stretch: Tensor  # (m, d, d), R
    drift: Tensor  # (m, d, d), N
    bends: Tensor  # (m, p, d), H(v, .)

    @classmethod
    def along(cls, features: AutodiffMap | HiddenLayerMap, x: Tensor, v: Tensor) -> Transport:
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
        values = torch.linalg.svdvals(self.stretch)
        least = max(self.frame.shape[1:]) * torch.finfo(values.dtype).eps * values[:, 0]
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
        force = self.drift @ v.to(self.drift)[:, :, None]
        return -torch.linalg.solve_triangular(self.stretch, force, upper=True)[..., 0]

    def tide(self, features: AutodiffMap | HiddenLayerMap, x: Tensor, v: Tensor) -> Tensor:
        r"""$\langle R(V, v)v, V\rangle$ as a form in V, (m, d, d), by the equation of Gauss.

        It is $\langle II(v, v), H(V, V)\rangle - |II(v, V)|^2$, with II the normal part of H.
        """
        normal = self.bends - self.frame @ self.drift
        second_form = (normal @ v.to(normal)[:, :, None])[..., 0]
        return features.contract_hessian(x, second_form) - normal.mT @ normal

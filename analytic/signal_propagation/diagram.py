"""The phases of a deep network over weight and bias, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from analytic.activations.activation import Activation
from analytic.expressions.arguments import ArrayLike, InputError, finite_array
from analytic.signal_propagation.exact_inputs import require_fixed_parameters
from analytic.signal_propagation.fixed_point_arrays import limit_correlations, limit_variances
from analytic.signal_propagation.fixed_points import moment_grid

__all__ = ["PhaseDiagram", "phase_diagram"]

Array = np.ndarray


@dataclass(frozen=True)
class PhaseDiagram:
    """Fixed points reached from variance 1, on a grid; arrays have the shape (zetas, sigmas).

    All are NaN where the variance grows without bound. Where the variance vanishes, V = 0, the limit
    of a correlation depends on its start, so c and xi_c are NaN. Within about 1e-6 of chi_1 = 1
    rounding spoils c and xi_c; use `Signal` there.
    """

    sigmas: Array
    zetas: Array
    V: Array
    chi_1: Array
    c: Array
    xi_c: Array


def phase_diagram(act: Activation, sigmas: ArrayLike, zetas: ArrayLike) -> PhaseDiagram:
    """V*, chi_1, c* and the depth scale xi_c for every pair of sigma and zeta.

    act: an activation without open parameters.
    sigmas, zetas: the axes, (m,) numbers above 0 and (n,) numbers at least 0.

    Returned is a `PhaseDiagram`, whose arrays have the shape (n, m). Other numbers are refused with an
    InputError.

    >>> from analytic.activations import erf
    >>> from analytic.signal_propagation import phase_diagram
    >>> diagram = phase_diagram(erf, sigmas=[1.0, 2.0, 3.0], zetas=[0.1, 0.5])
    >>> (diagram.chi_1 > 1).tolist()  # chaotic
    [[False, True, True], [False, True, True]]
    """
    require_fixed_parameters(act, "G", "slope")
    sigmas, zetas = _axis("sigmas", sigmas), _axis("zetas", zetas)
    if not (sigmas > 0).all() or not (zetas >= 0).all():
        raise InputError("sigmas must be above 0 and zetas at least 0: change the axes.")
    V = np.array([limit_variances(act, sigmas**2, np.full_like(sigmas, zeta**2)) for zeta in zetas])
    weights = np.broadcast_to(sigmas**2, V.shape)
    chi, c, slope = (np.full(V.shape, np.nan) for _ in range(3))
    chi[V == 0] = weights[V == 0] * moment_grid(act).G0
    positive = V > 0
    biases = np.broadcast_to(zetas[:, None] ** 2, V.shape)[positive]
    chi[positive] = weights[positive] * act.require("G").numpy(V[positive])
    c[positive], slope[positive] = limit_correlations(act, V[positive], weights[positive], biases)
    with np.errstate(divide="ignore"):
        xi_c = 1 / np.abs(np.log(np.minimum(slope, 1.0)))
    return PhaseDiagram(sigmas, zetas, V, chi, c, xi_c)


def _axis(name: str, values: Any) -> Array:
    axis = finite_array(name, values)
    if axis.ndim != 1 or not axis.size:
        raise InputError(f"{name} must be a list of finite numbers, but {values!r} was given.")
    return axis

"""The phases of a deep network over weight and bias, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError
from analytic.signal_propagation.fixed_point_arrays import correlate, settle
from analytic.signal_propagation.fixed_points import landscape
from analytic.signal_propagation.scales import fixed

Array = np.ndarray


@dataclass(frozen=True)
class PhaseDiagram:
    """Where signals of variance 1 settle; arrays are (zetas, sigmas).

    All are NaN where the variance grows without bound. Where it vanishes, V = 0, correlations keep a
    memory of their start, so c and xi_c are NaN. Within about 1e-6 of chi_1 = 1 floats blur c and
    xi_c; `Signal` does not.
    """

    sigmas: Array
    zetas: Array
    V: Array
    chi_1: Array
    c: Array
    xi_c: Array


def phase_diagram(act: Activation, sigmas: Any, zetas: Any) -> PhaseDiagram:
    fixed(act, "G", "slope")
    sigmas, zetas = _axis("sigmas", sigmas), _axis("zetas", zetas)
    if not (sigmas > 0).all() or not (zetas >= 0).all():
        raise InputError("sigmas must be above 0 and zetas at least 0: change the axes.")
    V = np.array([settle(act, sigmas**2, np.full_like(sigmas, zeta**2)) for zeta in zetas])
    weights = np.broadcast_to(sigmas**2, V.shape)
    chi, c, slope = (np.full(V.shape, np.nan) for _ in range(3))
    chi[V == 0] = weights[V == 0] * landscape(act).G0
    alive = V > 0
    biases = np.broadcast_to(zetas[:, None] ** 2, V.shape)[alive]
    chi[alive] = weights[alive] * act.G.numpy(V[alive])
    c[alive], slope[alive] = correlate(act, V[alive], weights[alive], biases)
    with np.errstate(divide="ignore"):
        xi_c = 1 / np.abs(np.log(np.minimum(slope, 1.0)))
    return PhaseDiagram(sigmas, zetas, V, chi, c, xi_c)


def _axis(name: str, values: Any) -> Array:
    axis = np.asarray(values, dtype=float)
    if axis.ndim != 1 or not axis.size or not np.isfinite(axis).all():
        raise InputError(f"{name} must be a list of finite numbers, but {values!r} was given.")
    return axis

"""Refinement of a curve to a geodesic; pieces with a large residual are halved."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError

from numeric.geodesics.chart import Chart, array
from numeric.geodesics.elements import Array, Curve
from numeric.geodesics.variation import energy, length, minimise_energy
from numeric.inputs import InputError
from numeric.models.output_checks import format_point

__all__ = ["UNKNOWNS", "GeodesicResidual", "NotConverged", "refine_curve"]

EPSILON = np.finfo(float).eps
GAIN = 1e-3  # a halving lowers the residual of a smooth piece at least by this factor
STALLED = 4  # successive partitions that do not halve the residual
GROWN = 3  # growth of the condition number, as pieces shrink, that indicates a singular point
UNKNOWNS = 2000  # largest number, since matrices are dense; or twice that of the first partition
CONVERGED = 1e-5  # relative change of the energy by a partition, if the length has converged


class NotConverged(InputError):
    """No path was found that meets the geodesic equation."""


@dataclass(frozen=True, eq=False)
class GeodesicResidual:
    """The residual of the geodesic equation between the nodes of each piece of a curve."""

    times: Array  # (e, m)
    bends: Array  # (e, m), covariant acceleration times the step, over the length
    noise: Array  # (e,), the part of a piece's residual that may be rounding
    condition: Array  # (e, m), of the Jacobian

    @classmethod
    def of(cls, chart: Chart, curve: Curve) -> GeodesicResidual:
        nodes, d = curve.rule.nodes, curve.values.shape[2]
        middles = (nodes[1:] + nodes[:-1]) / 2
        y, v, a = (curve.inside(middles, order) for order in range(3))
        derivative = chart.covariant_derivative(y.reshape(-1, d), v.reshape(-1, d))
        R, N = (array(part).reshape(*y.shape, d) for part in (derivative.R, derivative.N))
        off = np.linalg.norm((R @ a[..., None] + N @ v[..., None])[..., 0], axis=2)
        size = length(chart, curve)
        widths = np.diff(curve.breaks)
        # Two numerical derivatives magnify the rounding of values, whatever the precision of the features.
        twice = np.abs(curve.slopes @ curve.slopes).sum(2).mean(1)
        values = np.linalg.norm(
            np.abs(R) @ np.abs(curve.values).max(1)[:, None, :, None], axis=(2, 3)
        )
        return cls(
            curve.places(middles),
            off * np.outer(widths, np.diff(nodes)) / 2 / size,
            EPSILON * twice * values.max(1) * widths / size,
            array(derivative.condition()).reshape(off.shape),
        )

    @property
    def residual(self) -> float:
        """The total angle by which the curve turns, 0 for a geodesic."""
        return float(self.bends.sum())

    def unresolved(self, tolerance: float) -> NDArray[np.bool_]:
        """Which pieces to halve next, (e,): above the tolerance, rounding, and `GAIN` times the worst."""
        turns = self.bends.sum(1)
        good = max(tolerance / len(turns), GAIN * turns.max())
        return turns > np.maximum(good, self.noise)


def refine_curve(chart: Chart, curve: Curve, tolerance: float | None) -> tuple[Curve, float]:
    """A geodesic from a curve near it, with its residual.

    The default tolerance is the rounding unit to the power 0.4. It is relaxed where the second derivatives of
    the map jump, as those of ELU do: there the residual decreases slowly, but the length has converged.
    """
    limit = chart.unit**0.4 if tolerance is None else tolerance
    max_unknowns = max(UNKNOWNS, 2 * curve.values.size)
    best, stalled, first, last = math.inf, 0, None, math.inf
    while True:
        try:
            curve, singular = minimise_energy(chart, curve), False
        except LinAlgError:  # |DV|^2 is singular
            singular = True
        residuals, total = GeodesicResidual.of(chart, curve), energy(chart, curve)
        first = first or residuals.condition.max()
        singular = singular or math.isinf(residuals.condition.max())
        unresolved = residuals.unresolved(limit)
        if not singular and not unresolved.any():
            return curve, residuals.residual
        stalled = 0 if residuals.residual < best / 2 else stalled + 1
        best = min(best, residuals.residual)
        full = (len(unresolved) + unresolved.sum()) * curve.values[0].size > max_unknowns
        if singular or full or stalled == STALLED:
            singular = singular or residuals.condition.max() > GROWN * first
            settled = abs(total - last) < CONVERGED * total
            if tolerance is None and settled and not singular:
                return curve, residuals.residual
            raise NotConverged(_failure_message(chart, curve, residuals, singular, limit))
        curve, last = curve.split(unresolved), total


def _failure_message(
    chart: Chart, curve: Curve, residuals: GeodesicResidual, singular: bool, tolerance: float
) -> str:
    which = residuals.condition if singular else residuals.bends
    at = np.unravel_index(which.argmax(), which.shape)
    t = residuals.times[at]
    point = format_point(chart.places(curve.at(np.array([t])))[0])
    why = (
        "the metric is singular there or close by: take more features, or points whose path keeps away"
        if singular
        else "if the map has a kink there, use relax; else raise the tolerance"
    )
    return (
        f"The path does not converge at the point {point}, {t:.3g} of the way along: it turns by "
        f"{residuals.residual:.2g}, a geodesic by 0, up to the tolerance {tolerance:.2g}, and the condition "
        f"number of the Jacobian is {residuals.condition[at]:.2g}; {why}."
    )

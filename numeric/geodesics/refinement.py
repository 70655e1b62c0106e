"""A curve made to meet the geodesic equation, its pieces halved where they do not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from numeric.geodesics.chart import Chart, array
from numeric.geodesics.elements import Array, Curve
from numeric.geodesics.transport import told
from numeric.geodesics.variation import energy, length, settle
from numeric.inputs import InputError

EPSILON = np.finfo(float).eps
GAIN = 1e-3  # how far one halving lowers what a smooth piece turns by, at least
STALLED = 4  # partitions in turn that do not halve the residual
GROWN = 3  # how the condition number grows, if a singular point is close, as pieces shrink
UNKNOWNS = 2000  # for matrices that are kept dense; twice those of the first partition, if more
STILL = 1e-5  # share of the energy that a partition changes where a map is only not very smooth


class NotConverged(InputError):
    """No path was found that meets the geodesic equation."""


@dataclass(frozen=True, eq=False)
class Examination:
    """How a curve meets the geodesic equation between its nodes, by pieces."""

    times: Array  # (e, m)
    bends: Array  # (e, m), covariant acceleration over the length, times the step
    noise: Array  # (e,), what rounding alone may add to the sum of a piece
    condition: Array  # (e, m), of the Jacobian

    @classmethod
    def of(cls, chart: Chart, curve: Curve) -> Examination:
        nodes, d = curve.rule.nodes, curve.values.shape[2]
        middles = (nodes[1:] + nodes[:-1]) / 2
        y, v, a = (curve.inside(middles, order) for order in range(3))
        transport = chart.transport(y.reshape(-1, d), v.reshape(-1, d))
        R, N = (array(part).reshape(*y.shape, d) for part in (transport.stretch, transport.drift))
        off = np.linalg.norm((R @ a[..., None] + N @ v[..., None])[..., 0], axis=2)
        size = length(chart, curve)
        widths = np.diff(curve.breaks)
        # Two derivatives magnify the rounding of values, whatever the precision of the features.
        twice = np.abs(curve.slopes @ curve.slopes).sum(2).mean(1)
        values = np.linalg.norm(
            np.abs(R) @ np.abs(curve.values).max(1)[:, None, :, None], axis=(2, 3)
        )
        return cls(
            curve.places(middles),
            off * np.outer(widths, np.diff(nodes)) / 2 / size,
            EPSILON * twice * values.max(1) * widths / size,
            array(transport.condition()).reshape(off.shape),
        )

    @property
    def residual(self) -> float:
        """The angle by which the curve turns where a geodesic does not, in all."""
        return float(self.bends.sum())

    def poor(self, tolerance: float) -> Array:
        """Which pieces are next to be halved, (e,): neither good enough, nor rounded, nor to wait."""
        turns = self.bends.sum(1)
        good = max(tolerance / len(turns), GAIN * turns.max())
        return turns > np.maximum(good, self.noise)


def refined(chart: Chart, curve: Curve, tolerance: float | None) -> tuple[Curve, float]:
    """A geodesic from a curve near it, with its residual.

    Without a tolerance it is the rounding unit to the power 0.4, or what the map allows: where its
    second derivatives jump, as those of ELU do, halving a piece gains little, but the length is
    known long before.
    """
    limit = chart.unit**0.4 if tolerance is None else tolerance
    most = max(UNKNOWNS, 2 * curve.values.size)
    best, stalled, first, last = math.inf, 0, None, math.inf
    while True:
        try:
            curve, singular = settle(chart, curve), False
        except LinAlgError:  # some field V has no |DV|^2
            singular = True
        seen, total = Examination.of(chart, curve), energy(chart, curve)
        first = first or seen.condition.max()
        singular = singular or math.isinf(seen.condition.max())
        poor = seen.poor(limit)
        if not singular and not poor.any():
            return curve, seen.residual
        stalled = 0 if seen.residual < best / 2 else stalled + 1
        best = min(best, seen.residual)
        full = (len(poor) + poor.sum()) * curve.values[0].size > most
        if singular or full or stalled == STALLED:
            singular = singular or seen.condition.max() > GROWN * first
            still = abs(total - last) < STILL * total
            if tolerance is None and still and not singular:
                return curve, seen.residual
            raise NotConverged(_told(chart, curve, seen, singular, limit))
        curve, last = curve.split(poor), total


def _told(chart: Chart, curve: Curve, seen: Examination, singular: bool, tolerance: float) -> str:
    which = seen.condition if singular else seen.bends
    at = np.unravel_index(which.argmax(), which.shape)
    t = seen.times[at]
    point = told(chart.places(curve.at(np.array([t])))[0])
    why = (
        "the metric is singular there or close by: take more features, or points whose path keeps away"
        if singular
        else "if the map has a kink there, use relax; else raise the tolerance"
    )
    return (
        f"The path comes to no rest at the point {point}, {t:.3g} of the way along: it turns by "
        f"{seen.residual:.2g}, a geodesic by 0, up to the tolerance {tolerance:.2g}, and the condition "
        f"number of the Jacobian is {seen.condition[at]:.2g}; {why}."
    )

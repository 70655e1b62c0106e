r"""Geodesics from a point along initial velocities: the exponential map.

On orthonormal axes of the tangent space the equation is $R x'' = -N x'$, whose solution keeps its speed
$|R x'|$; how far the computed speed changes is a free check, which also detects kinks of the map.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from numbers import Real

import numpy as np
from scipy.integrate import OdeSolution, solve_ivp
from torch import Tensor

from numeric.geodesics.chart import Chart, array, as_point, open_chart, require_single_point
from numeric.geodesics.elements import Array
from numeric.geodesics.geodesic import like, times
from numeric.geodesics.refinement import NotConverged
from numeric.inputs import ArrayLike, InputError, as_numbers, positive
from numeric.models.model import ModelLike
from numeric.models.output_checks import format_point

__all__ = ["Ray", "shoot"]

CALLS = 10_000  # most evaluations of the right hand side
SAMPLES = 129  # times at which the speed is compared


@dataclass(frozen=True, eq=False)
class Ray:
    """Geodesics from one point, for times from 0 to `time`: one for each initial velocity."""

    length: Tensor  # (...), initial speed times time
    drift: float  # the largest relative change of a speed, 0 in exact arithmetic
    time: float
    origin: Tensor = field(repr=False)  # (*shape)
    start: Tensor = field(repr=False)  # (..., *shape), velocities at t = 0
    solution: OdeSolution = field(repr=False)

    @property
    def end(self) -> Tensor:
        """The end points, exponentials of time times velocity: (..., *shape)."""
        return self.at(self.time)

    def at(self, t: ArrayLike | float) -> Tensor:
        """Points at times in any shape: (*shape of t, ..., *shape of a point)."""
        return self.origin + self._state(t, 0)

    def velocity(self, t: ArrayLike | float) -> Tensor:
        """Their derivatives by t, in the same shape."""
        return self._state(t, 1)

    def _state(self, t: ArrayLike | float, part: int) -> Tensor:
        t = times(t, self.time)
        state = self.solution(t.ravel()).T.reshape(t.size, 2, -1)
        return like(self.start, state[:, part], t.shape)


def shoot(
    model: ModelLike,
    p: ArrayLike,
    v: ArrayLike,
    time: float = 1.0,
    *,
    layer: str | None = None,
    tolerance: float | None = None,
) -> Ray:
    r"""Geodesics from p with velocities v: the exponential map.

    $x'' + \Gamma(x', x') = 0$ from x = p and x' = v, for times from 0 to `time`.

    The model is a module or a function (m, ...) -> (m, ...), taken up to `layer` if one is named; p is one
    point, and v has its shape or (..., *shape of p). The tolerance is the relative error of a step; by
    default 1e-11 in float64, 1e-5 in float32. Returned is a `Ray`. Refused are batches of points, maps with
    kinks, singular points and times that are not above 0; `NotConverged` is raised where the path is lost
    or its speed changes.

    >>> import torch
    >>> polar = lambda x: x[:, :1] * torch.cat([x[:, 1:].cos(), x[:, 1:].sin()], 1)
    >>> ray = shoot(polar, [1.0, 0.0], [0.0, 1.0])  # a tangent of the unit circle, of length 1
    >>> [round(x, 6) for x in (ray.end[0].item() ** 2, ray.length.item())]
    [2.0, 1.0]
    """
    p, v = as_point("p", p), as_numbers("v", v)
    time = positive("time", time)
    _check_velocities(p, v, tolerance)
    require_single_point(model, layer, p=p)
    with open_chart(model, p[None], layer) as (chart, _):
        if chart.kinks:
            raise InputError(
                f"The map has kinks, by {', '.join(chart.kinks[:3])}. They refract paths, which the "
                "geodesic equation does not know: use between or relax, which find shortest ones."
            )
        flat = array(v).reshape(-1, p.numel())
        precision = tolerance or chart.unit**0.7
        solution = _solve(chart, flat, time, precision)
        drift, speed = _drift(chart, solution, flat, time)
    if not drift <= (limit := max(chart.unit**0.4, 1e3 * precision)):
        raise NotConverged(
            f"The speed of the geodesic changes by {drift:.2g} of itself, and not by less than {limit:.2g}: "
            "the map has kinks, as ReLU has, where paths are refracted, so that relax finds shortest ones "
            "but none can be shot; or the time is too long for the tolerance."
        )
    length = like(v.new_empty(()), time * speed, v.shape[: v.ndim - p.ndim])
    return Ray(length, drift, time, p.detach(), v.detach(), solution)


def _solve(chart: Chart, v: Array, time: float, precision: float) -> OdeSolution:
    """Integrate the state (2, k, d) of displacements and velocities."""
    calls = count()

    def rate(t: float, state: Array) -> Array:
        y, u = state.reshape(2, *v.shape)
        if next(calls) == CALLS:
            raise NotConverged(
                f"The geodesic has come to t = {t:.4g} of {time:g} in {CALLS} steps, at the point "
                f"{format_point(chart.places(y)[0])}: it runs away, or into a singular point. Take a shorter "
                "time."
            )
        derivative = chart.covariant_derivative(y, u)
        derivative.require_nonsingular(chart.places(y))
        return np.stack([u, array(derivative.acceleration(chart.tensor(u)))]).ravel()

    start = np.stack([np.zeros_like(v), v]).ravel()
    size = np.abs(v).max() or 1.0
    scale = np.repeat([time * size, size], v.size)
    solution = solve_ivp(
        rate,
        (0.0, time),
        start,
        "DOP853",
        dense_output=True,
        rtol=precision,
        atol=precision * scale,
    )
    if not solution.success:
        raise NotConverged(
            f"The geodesic is lost at t = {solution.t[-1]:.4g} of {time:g}, at the point "
            f"{format_point(chart.places(solution.y[: v.size, -1].reshape(v.shape))[0])}: {solution.message}"
        )
    return solution.sol


def _drift(chart: Chart, solution: OdeSolution, v: Array, time: float) -> tuple[float, Array]:
    """The largest relative change of a speed, and the initial speeds."""
    states = solution(np.linspace(0, time, SAMPLES)).T.reshape(SAMPLES, 2, -1, v.shape[1])
    y, u = (states[:, part].reshape(-1, v.shape[1]) for part in range(2))
    speed = chart.speeds(y, u).reshape(SAMPLES, -1)
    change = np.abs(speed - speed[0])
    return float((change / np.where(speed[0] > 0, speed[0], 1.0)).max()), speed[0]


def _check_velocities(p: Tensor, v: Tensor, tolerance: float | None) -> None:
    if not v.numel() or v.ndim < p.ndim or v.shape[v.ndim - p.ndim :] != p.shape:
        raise InputError(
            f"Velocities of shape {tuple(v.shape)} were given, but those at a point of shape "
            f"{tuple(p.shape)} have that shape, or several first axes."
        )
    if v.dtype != p.dtype or v.device != p.device or not v.isfinite().all():
        raise InputError(
            f"Velocities must be finite, and {p.dtype} on {p.device} as p is, not {v.dtype} on {v.device}."
        )
    if tolerance is not None and not (isinstance(tolerance, Real) and 0 < tolerance < 1):
        raise InputError(f"tolerance = {tolerance!r} was given, but it must lie between 0 and 1.")

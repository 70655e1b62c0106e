"""Fixed points of the variance and correlation maps of many signals at once, in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from analytic.activations.activation import Activation
from analytic.signal_propagation.fixed_points import moment_grid
from analytic.signal_propagation.mehler import from_formulas, from_mehler_series

__all__ = ["bracketed_roots", "limit_correlations", "limit_variances"]

Array = np.ndarray
NEUTRAL = 1e-13  # a map that changes every log V by less is taken to fix every variance
SERIES_TOLERANCE = 1e-13  # a truncated Mehler series with a smaller error is accepted
MEHLER_SERIES = (  # tried in this order, before the activation's own formulas
    partial(from_mehler_series, terms=400),
    partial(from_mehler_series, terms=1600),
)
TINY = 1e-60  # lower end of the search: smaller variances count as 0


@np.errstate(over="ignore", divide="ignore")  # powers and exponentials leave the floats
def limit_variances(act: Activation, sigma2: Array, zeta2: Array, start: float = 1.0) -> Array:
    """The limit of the variance from `start`, for arrays (n,) of sigma^2 and zeta^2.

    NaN where the variance grows without bound.
    """
    table = moment_grid(act)
    x, logs = np.full(len(sigma2), start), (np.log(table.V), np.log(table.F))
    # Iterate an interpolated map, until at most one fixed point lies between x and the limit.
    for _ in range(64):
        x = np.clip(sigma2 * np.exp(np.interp(np.log(x), *logs)) + zeta2, table.V[0], table.V[-1])
    rising = sigma2 * np.exp(np.interp(np.log(x), *logs)) + zeta2 > x
    begin = sigma2 * act.phi.numpy(0.0) ** 2 + zeta2
    side = np.where(begin > 0, 1.0, np.sign(sigma2 * table.G0 - 1))

    grid = np.r_[TINY, table.V]
    gap = np.log((sigma2[:, None] * table.F + zeta2[:, None]) / table.V)
    neutral = (abs(gap) < NEUTRAL).all(1)
    gap = np.c_[side, gap]
    column, index = np.arange(len(grid)), np.searchsorted(grid, x)[:, None]
    stop = np.where(rising[:, None], (gap <= 0) & (column >= index), (gap >= 0) & (column < index))
    crosses = stop.any(1)  # whether the map meets the diagonal in the direction of motion
    last = len(grid) - 1 - np.argmax(stop[:, ::-1], axis=1)
    low = np.where(rising, np.argmax(stop, axis=1) - 1, last)

    V = np.where(rising, np.nan, 0.0)
    V[neutral] = start
    todo = np.flatnonzero(crosses & ~neutral)
    low, s2, z2 = low[todo], sigma2[todo], zeta2[todo]
    V[todo] = np.exp(
        bracketed_roots(
            lambda u: np.log((s2 * act.F.numpy(np.exp(u)) + z2) / np.exp(u)),
            np.log(grid[low]), np.log(grid[low + 1]), gap[todo, low], gap[todo, low + 1],
        )
    )  # fmt: skip
    return V


def limit_correlations(
    act: Activation, V: Array, sigma2: Array, zeta2: Array
) -> tuple[Array, Array]:
    """c* and the slope of the correlation map at c*, for arrays (n,) of fixed variances above 0."""
    slope = sigma2 * act.require("G").numpy(V)
    c = np.ones_like(V)
    closed = {"kernel", "slope"} <= set(act.closed_forms)
    todo = np.flatnonzero(slope > 1)
    for averages_of in [from_formulas] if closed else [*MEHLER_SERIES, from_formulas]:
        if not todo.size:
            break
        weight, bias = sigma2[todo] / V[todo], zeta2[todo] / V[todo]
        pair, chi = averages_of(act, V[todo]), sigma2[todo] * act.require("G").numpy(V[todo])
        c[todo] = _below_one(lambda c: weight * pair.kernel(c) + bias, chi)  # noqa: B023
        slope[todo] = sigma2[todo] * pair.slope(c[todo])
        todo = todo[pair.error(c[todo]) > SERIES_TOLERANCE]
    return c, slope


def _below_one(f: Callable[[Array], Array], chi: Array) -> Array:
    """The fixed points in [0, 1) of correlation maps whose slopes at 1 are chi > 1."""

    def excess(c: Array) -> Array:  # increasing on [0, 1]: the trivial root c = 1 is divided out
        return (c - f(c)) / np.maximum(1 - c, 1e-16)

    zero = np.zeros_like(chi)
    return bracketed_roots(excess, zero, zero + 1, excess(zero), chi - 1)


def bracketed_roots(
    f: Callable[[Array], Array], a: Array, b: Array, fa: Array, fb: Array, steps: int = 100
) -> Array:
    """Roots between a and b, where f has the values fa and fb of opposite signs (Anderson-Björck)."""
    x = np.where(fa == 0, a, b)
    done = (fa == 0) | (fb == 0)
    for _ in range(steps):
        if done.all():
            break
        with np.errstate(all="ignore"):
            x = np.where(done, x, b - fb * (b - a) / (fb - fa))
            fx = f(x)
            crossed, shrink = fx * fb < 0, 1 - fx / fb
        done |= (abs(x - b) <= 1e-15 * abs(x)) | (fx == 0)
        fa = np.where(crossed, fb, fa * np.where(shrink > 0, shrink, 0.5))
        a, b, fb = np.where(crossed, b, a), x, fx
    return x

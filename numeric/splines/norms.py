"""Norms of a fitted interpolant by integrals over its shape, independent of its coefficients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from numeric.inputs import require_instance
from numeric.splines.curve import SplineCurve
from numeric.splines.interpolant import SplineInterpolant
from numeric.splines.weights import NODES, WEIGHTS

__all__ = ["norm_by_integral", "variation"]

Array = NDArray[np.float64]
END = 1e30  # in units of a typical knot: the integral beyond it is below rounding


def norm_by_integral(fitted: SplineInterpolant) -> float:
    """The squared norm: theorem 5 of the smooth part, corollary 6 of the two fields.

    >>> from analytic.splines import INITIALISATIONS
    >>> fitted = SplineInterpolant(INITIALISATIONS["signs"], {"B": 1.0}).fit([-0.5, 0, 0.5], [0, 1, 0])
    >>> abs(norm_by_integral(fitted) / fitted.norm - 1) < 1e-9
    True
    """
    curve = _require_fitted(fitted).curve_
    total = _curvature(curve) + (0.0 if curve.law.clamped else _affine(curve))
    for field in fitted.fields_:
        total += field.norm(curve.law.clamped) / fitted.readout
    return total


def variation(fitted: SplineInterpolant) -> float:
    r"""$\int|f''|\sqrt{1+x^2}\,dx$ of the smooth part: what training of all weights makes small."""
    curve = _require_fitted(fitted).curve_
    unit = min(1.0, curve.law.scale)
    # In asinh(x / unit) neither factor changes much along 1, however far apart their scales are.
    reach = np.arcsinh(_ends(curve)[1] / unit)
    breaks = np.concatenate([curve.x, _zeros(curve), curve.law.edges])
    grid = np.linspace(-reach, reach, int(2 * reach) + 2)
    marks = np.unique(np.concatenate([np.arcsinh(breaks / unit), grid]))
    lengths = np.diff(marks)[:, None]
    place = marks[:-1, None] + lengths * NODES
    x = unit * np.sinh(place)
    integrand = np.abs(curve.second_derivative(x)) * np.hypot(1, x) * unit * np.cosh(place)
    return float((integrand * lengths * WEIGHTS).sum())


def _require_fitted(fitted: SplineInterpolant) -> SplineInterpolant:
    require_instance("fitted", fitted, SplineInterpolant, "SplineInterpolant(...).fit(x, y)")
    check_is_fitted(fitted)
    return fitted


def _ends(curve: SplineCurve) -> Array:
    """Finite ends that stand for -infinity and infinity."""
    size = max(curve.law.scale, float(np.abs(curve.x).max()))
    return END * size * np.array([-1.0, 1.0])


def _curvature(curve: SplineCurve) -> float:
    r"""$\int f''^2/\nu = \int\nu m^2$."""
    marks = np.concatenate([[_ends(curve)[0]], curve.x, [_ends(curve)[1]]])
    p, q = marks[:-1], marks[1:]
    m = curve.moment(p), curve.moment(q)
    return float(curve.law.hats(p, q).against(m, m).sum())


def _affine(curve: SplineCurve) -> float:
    """4 l_1^2 / E[a^2] + 4 l_0^2 / E[b^2], the means of f' and of f - x f' at both infinities."""
    here = curve.x[[0, -1]]
    far = _ends(curve)
    slope, values = curve.slope(here), curve.values[[0, -1]]
    p, q = np.minimum(here, far), np.maximum(here, far)
    sign = np.array([-1.0, 1.0])
    rate = (slope + sign * curve.integral_of_second_derivative(p, q)).mean()
    level = (
        values - here * slope - sign * curve.integral_of_second_derivative(p, q, (p, q))
    ).mean()
    return float(4 * rate**2 / curve.law.slopes + 4 * level**2 / curve.law.biases)


def _zeros(curve: SplineCurve) -> Array:
    """Where m changes its sign, between the nodes and beyond them."""
    x, m = curve.x, curve.moments
    change = m[:-1] * m[1:] < 0
    inner = (x[:-1] - np.diff(x) * m[:-1] / np.where(change, np.diff(m), 1.0))[change]
    roots = [-level / slope if slope else np.nan for slope, level in curve.outer]
    outer = [root for root, out in zip(roots, (roots[0] < x[0], roots[1] > x[-1])) if out]
    return np.concatenate([inner, outer])

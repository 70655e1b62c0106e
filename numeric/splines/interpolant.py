"""Interpolants of least norm in the function spaces of random features and tangent kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from analytic.splines import Initialisation
from numeric.inputs import ArrayLike, InputError, as_numbers, positive, whole
from numeric.splines.curve import SplineCurve
from numeric.splines.law import filled
from numeric.splines.system import System

__all__ = ["SplineInterpolant"]

Array = NDArray[np.float64]
Counts = NDArray[np.intp]
Data = tuple[Array, Array, Counts]  # places, targets, and how often each place occurs


class SplineInterpolant(RegressorMixin, BaseEstimator):
    """The interpolant of a wide univariate ReLU network in its kernel regime, for a given law.

    With `readout` = E[c^2] = 0 only the outer weights are trained (random features); above 0 all are,
    infinitesimally (tangent kernel). `ridge` is that of kernel regression. Fitting takes time in
    proportion to the number of data. A finite `time` stops the gradient flow of the squared error
    (half its sum over the data) that starts from 0; this takes the cube of the number of data.
    A place may occur several times: for an interpolant with one target, else each time counts.

    Where no unit looks to the left of 0 (the law `onesided`) the function is 0 up to 0, so that
    targets there must be 0, and a datum (0, 0) is understood; beyond the last knot it is straight.
    `coefficients_` belong to the places `curve_.x`, which are sorted.

    initialisation: a law of analytic.splines. values: numbers for its parameters, by name.
    Refused are data that are no finite numbers, fewer than two different x, two targets at one x without
    a ridge, and data that do not determine an interpolant.

    >>> from analytic.splines import INITIALISATIONS
    >>> fitted = SplineInterpolant(INITIALISATIONS["signs"], {"B": 1.0}).fit([-0.5, 0, 0.5], [0, 1, 0])
    >>> fitted.predict([0.0, 0.5]).round(9).tolist()
    [1.0, 0.0]
    """

    def __init__(
        self,
        initialisation: Initialisation,
        values: Mapping[str, float] | None = None,
        readout: float = 0.0,
        ridge: float = 0.0,
        time: float = math.inf,
    ) -> None:
        self.initialisation = initialisation
        self.values = values
        self.readout = readout
        self.ridge = ridge
        self.time = time

    def fit(self, x: ArrayLike, y: ArrayLike) -> SplineInterpolant:
        """Fit to data (n,), (n,) in any order, and return the interpolant itself."""
        law = filled(self.initialisation, {} if self.values is None else self.values)
        for name in ("readout", "ridge", "time"):
            positive(name, getattr(self, name), zero=True, endless=name == "time")
        endless = self.time == math.inf
        x, y, counts = _data(x, y, interpolated=endless and not self.ridge)
        if law.clamped:
            x, y, counts = _right_of_zero(x, y, counts)
        system, ridge = System(law, x, self.readout), self.ridge
        if not endless:
            y, ridge = _flow_as_regression(law.gram(x, self.readout), y, counts, ridge, self.time)
        states = system.regressed(y, ridge / counts) if ridge else system.interpolated(y)
        self.curve_ = SplineCurve(
            x, states.values, states.slopes, states.moments, states.outer, law
        )
        self.coefficients_, self.fields_ = states.coefficients, states.fields
        return self

    def predict(self, x: ArrayLike) -> Array:
        """The function at places of any shape: the smooth part plus h_1(x) + x h_2(x)."""
        check_is_fitted(self)
        x = np.maximum(_places(x), self.curve_.start)
        total = self.curve_(x)
        if self.fields_:
            one, two = (field(self.curve_.law.passed(x)) for field in self.fields_)
            total = total + one + x * two
        return total

    def smooth_part(self, x: ArrayLike) -> Array:
        """Its part in the space of random features: all of it, if only outer weights move."""
        check_is_fitted(self)
        return self.curve_(_places(x))

    def derivative(self, x: ArrayLike, order: int = 1) -> Array:
        """The first or second derivative of the smooth part."""
        check_is_fitted(self)
        if whole("order", order) > 2:
            raise InputError(f"order = {order} was given, but only 1 and 2 exist everywhere.")
        return (self.curve_.slope if order == 1 else self.curve_.second_derivative)(_places(x))

    @property
    def norm(self) -> float:
        """The squared norm of the interpolant, from its coefficients."""
        check_is_fitted(self)
        return float(self.coefficients_ @ self.predict(self.curve_.x))


def _places(x: ArrayLike) -> Array:
    x = _numbers("Places", x)
    if not np.isfinite(x).all():
        raise InputError("Places must be finite: remove NaN and infinite entries.")
    return x


def _numbers(name: str, x: ArrayLike) -> Array:
    return as_numbers(name, x, "(n,)").detach().cpu().double().numpy()


def _data(x: ArrayLike, y: ArrayLike, interpolated: bool) -> Data:
    """Places in order and without repetitions, the mean target of each, and how often it occurs."""
    x, y = _numbers("x", x), _numbers("y", y)
    if x.ndim != 1 or y.shape != x.shape:
        raise InputError(
            f"x and y must be lists of equal length, but have shapes {x.shape} and {y.shape}."
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError("x and y must be finite: remove NaN and infinite entries.")
    places, first, which, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    if len(places) < 2:
        raise InputError(f"At least two different x are needed, but {len(places)} were given.")
    deviations = y - y[first][which]
    if interpolated and deviations.any():
        where = x[deviations != 0][0]
        raise InputError(
            f"x = {where} has two different targets: keep one, average them, or use a ridge."
        )
    return places, y[first] + np.bincount(which, deviations) / counts, counts


def _right_of_zero(x: Array, y: Array, counts: Counts) -> Data:
    """The data with x > 0, where units are active, after an added datum (0, 0)."""
    unreachable = (x <= 0) & (y != 0)
    if unreachable.any():
        raise InputError(
            f"x = {x[unreachable][0]} has the target {y[unreachable][0]}, but no unit is active up to 0: "
            "leave it out, move the data to the right, or use a law that looks both ways."
        )
    if x[-1] <= 0:
        raise InputError(
            f"All x are 0 or below (the last is {x[-1]}), but no unit is active there."
        )
    after = x > 0
    return np.append(0.0, x[after]), np.append(0.0, y[after]), np.append(1, counts[after])


def _flow_as_regression(
    gram: Array, y: Array, counts: Counts, ridge: float, time: float
) -> tuple[Array, float]:
    """Targets and a ridge whose regression equals the gradient flow from 0 at this time.

    A mode of rate r has reached (1 - e^-z)/z time of its pull, where z = (r + ridge) time. The ridge
    grows by 1/time, which makes targets of the size of y. A place pulls as often as it occurs.
    """
    if time == 0:
        return 0 * y, 1.0
    pull = np.sqrt(counts)
    rates, modes = np.linalg.eigh(pull[:, None] * gram * pull)
    z = (np.maximum(rates, 0) + ridge) * time
    arrived = -np.expm1(-z)
    reached = np.where(z > 0, arrived / np.where(z > 0, z, 1.0), 1.0)
    return modes @ ((reached + arrived) * (modes.T @ (pull * y))) / pull, ridge + 1 / time

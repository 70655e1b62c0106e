"""Interpolants of least norm in the function spaces of random features and tangent kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin

from analytic.domain import InputError
from analytic.splines import Initialisation
from numeric.splines.curve import Curve
from numeric.splines.fields import Field, field_system
from numeric.splines.law import Law, filled
from numeric.splines.system import Clamped, Line, solve

Array = NDArray[np.float64]


class SplineInterpolant(RegressorMixin, BaseEstimator):
    """What a wide univariate ReLU network of a given law interpolates when little of it moves.

    With `readout` = E[c^2] = 0 only the outer weights are trained (random features); above 0 all are,
    infinitesimally (tangent kernel). `ridge` is that of kernel regression. Fitting takes time in
    proportion to the number of data. A finite `time` stops the gradient flow of the squared error
    (half its sum over the data) that starts from 0; this takes the cube of the number of data.

    Where no unit looks to the left of 0 (the law `onesided`) the function is 0 up to 0, so that
    targets there must be 0, and a datum (0, 0) is understood; beyond the last knot it is straight.
    `coefficients_` belong to the places `curve_.x`, which are sorted.
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

    def fit(self, x: Any, y: Any) -> SplineInterpolant:
        """From data in any order; equal places must have equal targets."""
        law = filled(self.initialisation, self.values or {})
        for name in ("readout", "ridge", "time"):
            given = getattr(self, name)
            if not (given >= 0 and (math.isfinite(given) or name == "time")):
                raise InputError(f"{name} = {given} was given, but it must be 0 or above.")
        x, y = _data(x, y)
        if law.clamped:
            x, y = _from_zero(x, y)
        ridge = self.ridge
        if math.isfinite(self.time):
            y, ridge = _stopped(law.gram(x, self.readout), y, ridge, self.time), 0.0
        weights = law.hats(x[:-1], x[1:])
        line = Clamped(x, weights) if law.clamped else Line(x, weights, law.slopes, law.biases)
        found, values, self.fields_ = _solved(line, law, y, self.readout, ridge)
        self.curve_ = Curve(x, values, found[: len(x)], line.outer(found), law)
        self.coefficients_ = line.coefficients() @ found
        return self

    def predict(self, x: Any) -> Array:
        """h_1(x) + x h_2(x) and the smooth part."""
        x = np.maximum(_places(x), self.curve_.start)
        total = self.curve_(x)
        if self.fields_:
            one, two = (field(self.curve_.law.passed(x)) for field in self.fields_)
            total = total + one + x * two
        return total

    def smooth_part(self, x: Any) -> Array:
        """Its part in the space of random features: all of it, if only outer weights move."""
        return self.curve_(_places(x))

    def derivative(self, x: Any, order: int = 1) -> Array:
        """The first or second derivative of the smooth part."""
        if order not in (1, 2):
            raise InputError(f"order = {order} was given, but only 1 and 2 exist everywhere.")
        return (self.curve_.slope if order == 1 else self.curve_.bend)(_places(x))

    @property
    def norm(self) -> float:
        """The squared norm of the interpolant, from its coefficients."""
        return float(self.coefficients_ @ self.predict(self.curve_.x))


def _places(x: Any) -> Array:
    x = np.asarray(x, float)
    if not np.isfinite(x).all():
        raise InputError("Places must be finite: remove NaN and infinite entries.")
    return x


def _data(x: Any, y: Any) -> tuple[Array, Array]:
    """Sorted, finite and without repetitions."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    if x.ndim != 1 or y.shape != x.shape:
        raise InputError(
            f"x and y must be lists of equal length, but have shapes {x.shape} and {y.shape}."
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError("x and y must be finite: remove NaN and infinite entries.")
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    same = np.diff(x) == 0
    if (np.diff(y)[same] != 0).any():
        where = x[1:][same & (np.diff(y) != 0)][0]
        raise InputError(f"x = {where} has two different targets: keep one, or average them.")
    keep = np.concatenate([[True], ~same]) if len(x) else np.array([], bool)
    if keep.sum() < 2:
        raise InputError(f"At least two different x are needed, but {keep.sum()} were given.")
    return x[keep], y[keep]


def _from_zero(x: Array, y: Array) -> tuple[Array, Array]:
    """Data where some unit is active, after the origin."""
    off = (x <= 0) & (y != 0)
    if off.any():
        raise InputError(
            f"x = {x[off][0]} has the target {y[off][0]}, but no unit is active up to 0: "
            "leave it out, move the data to the right, or use a law that looks both ways."
        )
    if x[-1] <= 0:
        raise InputError(
            f"All x are 0 or below (the last is {x[-1]}), but no unit is active there."
        )
    return np.append(0.0, x[x > 0]), np.append(0.0, y[x > 0])


def _stopped(gram: Array, y: Array, ridge: float, time: float) -> Array:
    """Where the gradient flow from 0 is at the data; it interpolates these values ever since."""
    rates, modes = np.linalg.eigh(gram)
    rates = np.maximum(rates, 0)
    decay = rates + ridge
    share = np.where(decay > 0, rates / np.where(decay > 0, decay, 1), 0)
    return modes @ (share * -np.expm1(-decay * time) * (modes.T @ y))


def _solved(
    line: Line | Clamped, law: Law, y: Array, readout: float, ridge: float
) -> tuple[Array, Array, list[Field]]:
    """Moments and what is unknown with them, values of the smooth part, and the fields h_1 and h_2."""
    bends, on_values = line.bending()
    alpha = line.coefficients()
    if not readout and not ridge:
        return solve(bends, on_values @ y), y, []
    s, n = len(y), bends.shape[1]
    rows = [[bends, -on_values], [ridge * alpha, sparse.eye_array(s)]]
    if readout:
        place = sparse.dia_array((line.x[None], [0]), shape=(s, s))
        share = law.passed(line.x)
        step, sources = field_system(share, law.clamped)
        here = sparse.eye_array(s, step.shape[1])
        rows[0] += [None, None]
        rows[1] += [here, place @ here]
        rows += [
            [-readout * sources @ alpha, None, step, None],
            [-readout * sources @ place @ alpha, None, None, step],
        ]
    system = sparse.block_array(rows)
    right = np.zeros(system.shape[0])
    right[n : n + s] = y
    found = solve(system, right)
    fields = np.split(found[n + s :], 2) if readout else []
    return found[:n], found[n : n + s], [Field(share, f[:s], f[s], f[-1]) for f in fields]

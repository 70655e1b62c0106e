"""What a spline interpolant takes, and what it says to anything else."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from analytic.expressions.arguments import InputError
from analytic.splines import INITIALISATIONS
from numeric.splines import SplineInterpolant

SIGNS, UNIFORM, _, ONESIDED = INITIALISATIONS.values()
X, Y = np.array([-0.8, -0.4, 0.0, 0.5, 0.9]), np.array([0.3, -0.2, 0.5, 0.1, -0.4])


def model(readout=0.0, ridge=0.0) -> SplineInterpolant:
    return SplineInterpolant(UNIFORM, {"A": 1.0, "B": 1.0}, readout, ridge)


def test_nothing_is_predicted_before_a_fit() -> None:
    fresh = model()
    calls = (lambda: fresh.predict(X), lambda: fresh.smooth_part(X), lambda: fresh.derivative(X))
    for call in (*calls, lambda: fresh.norm):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call()


def test_scikit_learn_knows_it() -> None:
    one = model(1 / 3, 0.1)
    copy = clone(one).set_params(ridge=0.0)
    assert set(one.get_params()) == {"initialisation", "values", "readout", "ridge", "time"}
    assert (one.ridge, copy.ridge, copy.readout) == (0.1, 0.0, 1 / 3)
    assert copy.fit(X, Y).score(X, Y) == pytest.approx(1, abs=1e-14)
    assert 0 < one.fit(X, Y).score(X, Y) < 0.999


@pytest.mark.parametrize(
    ("x", "y", "match"),
    [
        ([0.0, 1.0, 1.0], [0.0, 1.0, 2.0], "two different targets"),
        ([0.5], [1.0], "At least two"),
        ([0.5, 0.5], [1.0, 1.0], "At least two"),
        ([], [], "At least two"),
        ([0.0, math.nan], [0.0, 1.0], "finite"),
        ([0.0, 1.0], [0.0, math.inf], "finite"),
        ([0.0, 1.0, 2.0], [0.0, 1.0], "equal length"),
        ([[0.0], [1.0]], [0.0, 1.0], "equal length"),
        (["a", "b"], [0.0, 1.0], "must be an array of numbers"),
        ([0.0, 1.0], [0.0, 1j], "must be an array of numbers"),
        ([0.0, None], [0.0, 1.0], "must be an array of numbers"),
    ],
)
def test_bad_data(x, y, match) -> None:
    with pytest.raises(InputError, match=match):
        model().fit(x, y)


@pytest.mark.parametrize(
    ("init", "values", "more", "match"),
    [
        (UNIFORM, {"A": -1.0, "B": 1.0}, {}, "A"),
        (UNIFORM, {"A": 1.0, "B": 0.0}, {}, "B"),
        (UNIFORM, {"A": 1.0}, {}, "needs values"),
        (SIGNS, None, {}, "needs values"),
        (SIGNS, {"B": 1.0, "C": 1.0}, {}, "needs values"),
        (ONESIDED, {"B": 1.0}, {}, "needs values"),
        ("signs", {"B": 1.0}, {}, "analytic.splines"),
        (SIGNS, {"B": 1.0}, {"ridge": -1e-9}, "ridge"),
        (SIGNS, {"B": 1.0}, {"readout": math.inf}, "readout"),
        (SIGNS, {"B": 1.0}, {"time": math.nan}, "time"),
        (SIGNS, {"B": 1.0}, {"ridge": "much"}, "ridge = 'much'"),
    ],
)
def test_bad_parameters(init, values, more, match) -> None:
    with pytest.raises(InputError, match=match):
        SplineInterpolant(init, values, **more).fit(X, Y)

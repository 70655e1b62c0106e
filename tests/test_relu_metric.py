"""Is the change of metric of a neuron exact, and good in floats at every scale?"""

from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic import catalogue
from analytic.expressions.arguments import InputError
from analytic.expressions.symbols import alpha, charge, delta, m
from analytic.relu_dynamics import (
    Neuron,
    adaptive_limit,
    change_of_metric,
    jacobian,
    kernel_limit,
)

NAMES = ("relu.c_squared", "relu.radial_rate", "relu.angular_rate")
ULP = 2.0**-52
named = pytest.mark.parametrize("name", NAMES)


def typed(name: str, delta: Any, r: Any, m: Any, alpha: Any) -> Any:
    """The definitions, with digits enough for any cancellation between 1e-300 and 1e300."""
    with mp.workdps(1300):
        delta, r, m, alpha = map(mpf, (delta, r, m, alpha))
        size = mp.sqrt(delta**2 + 4 * (alpha * r / m) ** 2)
        values = ((delta + size) / 2, (m / alpha) ** 2 * size, 2 / (size - delta))
        return values[NAMES.index(name)]


def scales(count: int) -> np.ndarray:
    """(delta, r, m, alpha) with magnitudes from 1e-150 to 1e150, widths up to 1e15.

    In every second one delta is within three orders of what it is added to.
    """
    rng = np.random.default_rng(7)
    powers = rng.uniform(-150, 150, (4, count))
    width, alpha = np.floor(10 ** (np.abs(powers[2]) / 10)), 10 ** powers[3]
    deltas, charges = 10 ** powers[0], 10 ** powers[1]
    near = (alpha[::2] / width[::2] * charges[::2]) * 10 ** rng.uniform(-3, 3, len(alpha[::2]))
    deltas[::2] = np.clip(near, 1e-290, 1e290)
    signs = rng.choice([-1.0, 1.0], (2, count))
    return np.stack([signs[0] * deltas, signs[1] * charges, width, alpha])


@named
def test_the_catalogue_has_it_with_the_names_of_the_design(name) -> None:
    formula = catalogue[name]
    assert formula.name == name
    assert [symbol.name for symbol in formula.args] == ["delta", "r", "m", "alpha"]
    assert "Williams" in formula.citation


@named
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_floats_are_right_to_a_few_ulps_at_every_scale(name, backend) -> None:
    """Four roundings in a row at most, and hypot errs by one ulp."""
    points = scales(400)
    arguments = points if backend == "numpy" else torch.tensor(points)
    computed = np.asarray(getattr(catalogue[name], backend)(*arguments))
    judged = 0
    for point, value in zip(points.T, computed, strict=True):
        true = typed(name, *point)
        if mpf("1e-290") < true < mpf("1e290"):
            judged += 1
            assert abs(mpf(float(value)) - true) <= 4 * ULP * true, (point, value)
    assert judged > 200


@named
@pytest.mark.parametrize("big", [1e12, 1e150])
@pytest.mark.parametrize("sign", [1, -1])
def test_neither_end_cancels(name, big, sign) -> None:
    """delta = -1e12 leaves nothing of c^2 in the textbook form, delta = 1e12 nothing of a^2 + b^2."""
    value = catalogue[name].numpy(delta=sign * big, r=1.5, m=3, alpha=2.0)
    assert abs(mpf(value) / typed(name, sign * big, 1.5, 3, 2) - 1) <= 4 * ULP


@named
def test_thirty_digits_through_a_cancellation_of_five_hundred(name) -> None:
    values = {"delta": -(10**150), "r": mpf(10) ** -100, "m": 7, "alpha": mpf("0.3")}
    computed, true = catalogue[name].evaluate(30, **values), typed(name, **values)
    assert abs(computed / true - 1) < mpf(10) ** -29


@pytest.mark.parametrize(
    ("delta", "r", "expected"),
    [(0, 0, (0, 0)), (5, 0, (5, 0)), (-5, 0, (0, 5)), (0, 6, (4, 4)), (-21, 15, (4, 25)), (21, -15, (25, 4))],
)  # fmt: skip
def test_special_points(delta, r, expected) -> None:
    """c^2 and a^2 + b^2 with m = 3, alpha = 2, where alpha r/m = c sqrt(a^2 + b^2)."""
    at = {"delta": delta, "r": r, "m": 3, "alpha": 2}
    for face in ("numpy", "torch", "evaluate"):
        square, spread = (getattr(catalogue[name], face)(**at) for name in NAMES[:2])
        assert float(square) == pytest.approx(expected[0], rel=4 * ULP)
        assert float(spread) == pytest.approx(2.25 * sum(expected), rel=4 * ULP)
        if expected[1]:
            turning = getattr(catalogue[NAMES[2]], face)(**at)
            assert float(turning) == pytest.approx(1 / expected[1], rel=4 * ULP)


@pytest.mark.parametrize("delta", [0, 3])
def test_a_neuron_without_angle_has_no_angular_rate(delta) -> None:
    formula = catalogue["relu.angular_rate"]
    at = {"delta": delta, "r": 0, "m": 2, "alpha": 1}
    with pytest.raises(InputError, match="has no angle"):
        formula.evaluate(**at)
    with pytest.raises(InputError, match="has no angle"):
        formula.numpy(**at)
    with pytest.raises(InputError, match="has no angle"):
        formula.numpy(**at | {"r": np.array([1.0, 0.0])})


@named
@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        ({"m": 0}, "m"),
        ({"m": 2.5}, "m"),
        ({"alpha": 0}, "alpha"),
        ({"delta": float("nan")}, "delta"),
        ({"r": float("inf")}, "r"),
    ],
)
def test_bad_input_is_refused_by_name(name, wrong, argument) -> None:
    at = {"delta": 1.0, "r": 1.0, "m": 2, "alpha": 1.0} | wrong
    for face in ("numpy", "evaluate"):
        with pytest.raises(InputError, match=f"^{argument} ="):
            getattr(catalogue[name], face)(**at)


@named
def test_torch_keeps_type_and_gradients(name) -> None:
    """Against mpmath's derivative; float32 rounds at 6e-8."""
    formula = catalogue[name]
    points = [(-1e3, 0.7), (-2.0, 0.0), (0.0, 1.2), (3.0, -0.4), (1e3, 2.0)]
    deltas, rs = (
        torch.tensor(row, dtype=torch.float64, requires_grad=True) for row in zip(*points)
    )
    value = formula.torch(delta=deltas, r=rs, m=4, alpha=2.5)
    slopes = torch.autograd.grad(value.sum(), (deltas, rs))
    for k, (d0, r0) in enumerate(points):
        for by, computed in zip(((1, 0), (0, 1)), slopes, strict=True):
            with mp.workdps(40):
                true = mp.diff(lambda d, r: formula.mpmath(d, r, 4, mpf(2.5)), (d0, r0), by)
            assert float(computed[k]) == pytest.approx(float(true), rel=1e-12, abs=1e-300)
    single = formula.torch(delta=deltas.float(), r=rs.float(), m=4, alpha=2.5)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), value, rtol=1e-6, atol=0)


@named
def test_a_fixed_argument_changes_nothing(name) -> None:
    formula, r = catalogue[name], np.array([0.3, 2.0])
    whole = formula.numpy(delta=-1.5, r=r, m=3, alpha=0.5)
    np.testing.assert_array_equal(formula.at(delta=-1.5, m=3).numpy(r=r, alpha=0.5), whole)
    part = formula.at(delta=-1.5, m=3).torch(r=torch.tensor(r, dtype=torch.float32), alpha=0.5)
    assert part.dtype == torch.float32
    assert formula.at(delta=-1.5, r="0.3", m=3, alpha="0.5").numpy() == whole[0]


@pytest.mark.parametrize("delta", [0.0, 1e-150, -1e-150])
def test_a_product_below_the_range_of_floats_is_not_formed(delta) -> None:
    """alpha r/m = 1e-315 has lost its digits, but (m/alpha)^2 times it has not."""
    at = {"delta": delta, "r": 1.1e-150, "m": 10**15, "alpha": 0.7e-150}
    value = catalogue["relu.radial_rate"].numpy(**at)
    assert abs(mpf(value) / typed("relu.radial_rate", **at) - 1) <= 4 * ULP


def test_the_metric_is_that_of_the_jacobian() -> None:
    """P = J J^T, and with delta and r of the neuron it is the catalogue's."""
    a, b, c = sp.symbols("a b c", positive=True)
    J = jacobian(Neuron(a, b, c), m, alpha)
    P = (J * J.T).applyfunc(sp.simplify)
    stated = sp.diag((m / alpha) ** 2 * (a**2 + b**2 + c**2), 1 / (a**2 + b**2))
    assert sp.simplify(P - stated) == sp.zeros(2)
    assert J[1, :] == sp.Matrix([[b, -a, 0]]) / (a**2 + b**2)
    at = {delta: c**2 - a**2 - b**2, charge: m / alpha * c * sp.sqrt(a**2 + b**2)}
    same = change_of_metric().subs(at).subs({a: 3, b: 4, c: 2, m: 5, alpha: sp.Rational(3, 2)})
    assert same == P.subs({a: 3, b: 4, c: 2, m: 5, alpha: sp.Rational(3, 2)})


def test_limits_of_the_metric() -> None:
    r = sp.Symbol("r", positive=True)
    P = change_of_metric().subs(charge, r)
    ends = ((sp.oo, adaptive_limit().subs(charge, r)), (-sp.oo, kernel_limit()))
    for end, limit in ends:
        scale = delta if end > 0 else -delta
        assert P.applyfunc(lambda e: sp.limit(e / scale, delta, end)) == limit  # noqa: B023


def test_the_adaptive_limit_is_the_plane_and_not_the_cylinder() -> None:
    """D D^T of (u, v) = |r| d(theta), carried by the metric, is the identity times (m/alpha)^2."""
    r, theta = sp.symbols("r theta", positive=True)
    D = sp.Matrix([r * sp.cos(theta), r * sp.sin(theta)]).jacobian((r, theta))
    limit = adaptive_limit().subs(charge, r)
    assert sp.simplify(D * limit * D.T) == (m / alpha) ** 2 * sp.eye(2)
    assert sp.simplify(D * D.T) != sp.eye(2)  # of (47), which says that it is

"""Do twofold numbers have 30 digits in every operation, on numpy and torch, and derivatives too?"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic.expressions.expectation import Moment
from analytic.expressions.symbols import V, z
from analytic.expressions.twofold import Twofold, compile_twofold, functions
from analytic.expressions.twofold.number import constant, renormalised

RNG = np.random.default_rng(7)
HIGH = np.concatenate([RNG.uniform(0.1, 30, 40), 10 ** RNG.uniform(-18, 18, 80)])
LOW = HIGH * RNG.uniform(-1, 1, len(HIGH)) * 2.0**-54
BACKENDS = pytest.mark.parametrize("xp", [np, torch], ids=["numpy", "torch"])


def twofold(xp: Any, high: Any = HIGH, low: Any = LOW) -> Twofold:
    return renormalised(xp, xp.asarray(high), xp.asarray(low))


def exactly(x: Twofold) -> list[Any]:
    high, low = (np.atleast_1d(np.asarray(part)) for part in (x.high, x.low))
    rows = np.broadcast_arrays(high, low)
    return [mpf(float(h)) + mpf(float(l)) for h, l in zip(*rows, strict=True)]


def worst(values: Twofold, true: Callable[[Any], Any], *at: Twofold) -> Any:
    """The largest relative error."""
    points = zip(exactly(values), *map(exactly, at), strict=True)
    return max(abs(value / true(*x) - 1) for value, *x in points)


ARITHMETIC = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b / 3,
    "product": lambda a, b: a * b,
    "quotient": lambda a, b: a / b,
    "with numbers": lambda a, b: 2 - 3 * a / 7 + (1 - b) + 5 / b,
    "squares": lambda a, b: a**2 + b**-3,
}


@BACKENDS
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(xp, name) -> None:
    a, b = twofold(xp), twofold(xp, HIGH[::-1].copy(), LOW[::-1].copy())
    operation = ARITHMETIC[name]
    with mp.workdps(60):
        size = [abs(x) + abs(y) for x, y in zip(exactly(a), exactly(b), strict=True)]
        for value, x, y, scale in zip(
            exactly(operation(a, b)), exactly(a), exactly(b), size, strict=True
        ):
            true = operation(x, y)
            terms = abs(true) if name in ("product", "quotient", "squares") else scale + 5 / y + 3
            assert abs(value - true) <= mpf(10) ** -30 * terms


FUNCTIONS = {
    "exp": (functions.exp, mp.exp, 300.0),
    "expm1": (functions.expm1, mp.expm1, 300.0),
    "falling exp": (lambda x: functions.exp(-x), lambda x: mp.exp(-x), 300.0),
    "falling expm1": (lambda x: functions.expm1(-x), lambda x: mp.expm1(-x), np.inf),
    "sqrt": (functions.sqrt, mp.sqrt, np.inf),
    "atan": (functions.atan, mp.atan, np.inf),
    "power 5/2": (lambda x: x**2.5, lambda x: mp.power(x, mpf(5) / 2), np.inf),
    "power -3/2": (lambda x: x**-1.5, lambda x: mp.power(x, -mpf(3) / 2), np.inf),
}


@BACKENDS
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(xp, name) -> None:
    ours, true, below = FUNCTIONS[name]
    inside = below > HIGH
    x = twofold(xp, HIGH[inside], LOW[inside])
    with mp.workdps(60):
        assert worst(ours(x), true, x) < mpf(10) ** -29


@BACKENDS
def test_logarithms_and_powers_of_any_exponent(xp) -> None:
    """Beside 1 a logarithm has as many digits after the point; a power multiplies what it lacks."""
    x = twofold(xp)
    with mp.workdps(60):
        for logarithm, at in zip(exactly(functions.log(x)), exactly(x), strict=True):
            assert abs(logarithm - mp.log(at)) <= mpf(10) ** -29 * max(1, abs(mp.log(at)))
        assert worst(x**2.3, lambda t: mp.power(t, mpf(2.3)), x) < mpf(10) ** -27


def test_where_floats_end() -> None:
    """What overflows is no finite number, and what underflows is 0."""
    huge = Twofold(np, np.array([1e300, 1e308, 1e5]))
    with np.errstate(all="ignore"):
        assert not np.isfinite((huge * huge).high[:2]).any()
        assert (huge * 0.5).high.tolist() == [5e299, 5e307, 5e4]
        assert not np.isfinite(functions.exp(huge).high).any()
        assert functions.exp(-huge).high.tolist() == [0.0] * 3
        assert functions.expm1(-huge).high.tolist() == [-1.0] * 3
        assert not np.isfinite((1 / Twofold(np, np.array([0.0]))).high).any()
    assert Twofold(np, np.array([0.0])).sqrt().high.tolist() == [0.0]
    angles = functions.atan(Twofold(np, np.array([0.0, 1.0, np.nan]))).high
    assert angles[:2].tolist() == [0.0, np.pi / 4]
    assert np.isnan(angles[2])


def test_the_numbers_0_and_1_cost_nothing() -> None:
    x = twofold(np)
    assert x * 0 == 0 * x == 0
    assert x + 0 is x
    assert x**0 == 1
    for doubled in (2 * x, x + x):
        assert exactly(doubled) == [2 * value for value in exactly(x)]


def test_constants_have_both_halves() -> None:
    for value in (mp.mpf(1) / 3, sp.N(sp.pi, 40), "0.1"):
        half = constant(value)
        with mp.workdps(40):
            assert abs(mpf(half.high) + mpf(half.low) - mp.mpmathify(value)) < mpf(10) ** -30


def test_gradients_are_those_of_the_function() -> None:
    """Error terms have no derivative, so that autograd sees the function itself."""
    at = torch.tensor([0.02, 0.7, 3.0], dtype=torch.float64, requires_grad=True)
    x = Twofold(torch, at)
    body = functions.exp(-x) / (1 + x**1.5) + functions.atan(x) * functions.scaled_tail(1, x)
    (body + functions.log(x) * functions.expm1(x)).high.sum().backward()

    def true(t: Any) -> Any:
        tail = 1 / mp.sqrt(mp.pi) - t * mp.exp(t**2) * mp.erfc(t)
        rest = mp.log(t) * mp.expm1(t)
        return mp.exp(-t) / (1 + t ** mpf("1.5")) + mp.atan(t) * tail + rest

    with mp.workdps(30):
        for point, slope in zip(at.tolist(), at.grad.tolist(), strict=True):
            expected = mp.diff(true, mpf(point))
            assert abs(slope - expected) <= 1e-14 * abs(expected)


def test_expressions_compile_with_constants_exponents_and_averages() -> None:
    averages = Moment(sp.cos(z), V)
    exprs = sp.Tuple(V / 3 + sp.pi, (1 + 2 * V) ** sp.Rational(-5, 2), averages * sp.sqrt(V))

    def floats(args: Any, wanted: sp.Tuple) -> Any:
        assert wanted == sp.Tuple(averages)
        return lambda variance: [np.exp(-variance / 2)]

    body = compile_twofold(np, floats, (V,), exprs)
    one, two, three = body(Twofold(np, np.array([0.7, 5.0])))
    with mp.workdps(50):
        for k, at in enumerate((mpf(0.7), mpf(5.0))):
            assert abs(exactly(one)[k] - at / 3 - mp.pi) < mpf(10) ** -30
            assert abs(exactly(two)[k] - (1 + 2 * at) ** mpf(-2.5)) < mpf(10) ** -30
            assert abs(exactly(three)[k] - mp.exp(-at / 2) * mp.sqrt(at)) < 1e-15

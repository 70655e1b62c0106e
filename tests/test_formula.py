"""Does a formula give every digit it promises on every backend, and refuse what it cannot use?"""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic.expressions.arguments import Domain, InputError, admits, bind, exact, need
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V, d, kxx, kxy, kyy, r, sigma

x, y = sp.symbols("x y", real=True)

SAME = Formula("same", (x,), x)
GROWTH = Formula("growth", (x, y), sp.exp(x) - y)
POWER = Formula("power", (d, r, sigma), sigma * r**d)
GRAM = Formula("gram", (kxx, kxy, kyy), kxx * kyy - kxy**2, Domain((sp.Le(kxy**2, kxx * kyy),)))

with mp.workdps(50):
    THIRD = mpf(1) / 3  # carries more digits than the working precision outside
_, _MANTISSA, _EXPONENT, _ = THIRD._mpf_


def close(got, wanted, digits) -> bool:
    """Equal to that many digits."""
    with mp.workdps(digits + 20):
        return abs(got - wanted) <= abs(wanted) * mpf(10) ** -digits


NUMBERS = (
    (3, Fraction(3)),
    ("3", Fraction(3)),
    ("0.1", Fraction(1, 10)),
    ("1/3", Fraction(1, 3)),
    ("1e-8", Fraction(1, 10**8)),
    (0.1, Fraction(3602879701896397, 2**55)),
    (Fraction(1, 3), Fraction(1, 3)),
    (sp.Rational(-1, 3), Fraction(-1, 3)),
    (THIRD, Fraction(_MANTISSA, 2**-_EXPONENT)),
    (np.float64(0.1), Fraction(3602879701896397, 2**55)),
    (np.float32(0.5), Fraction(1, 2)),
    (np.int64(3), Fraction(3)),
    (torch.tensor(0.5), Fraction(1, 2)),
)


@pytest.mark.parametrize(("number", "meant"), NUMBERS, ids=lambda v: type(v).__name__)
def test_a_number_means_exactly_what_it_says(number, meant) -> None:
    value, fixed = SAME.evaluate(80, x=number), SAME.at(x=number).evaluate(80)
    with mp.workdps(100):
        wanted = mpf(meant.numerator) / meant.denominator
    assert close(value, wanted, 80)
    assert close(fixed, wanted, 80)


@pytest.mark.parametrize("digits", [1, 5, 30, 300])
def test_every_digit_asked_for_is_right(digits) -> None:
    with mp.workdps(digits + 20):
        wanted = mp.exp(mpf(7) / 3) - mpf(1) / 10
    assert close(GROWTH.evaluate(digits, x="7/3", y="0.1"), wanted, digits)


@pytest.mark.parametrize(
    ("tiny", "digits"),
    [("1e-20", 30), ("1e-40", 30), ("1e-60", 30), ("1e-200", 30), ("1e-60", 500)],
)
def test_precision_is_raised_until_cancellation_is_outrun(tiny, digits) -> None:
    with mp.workdps(digits + 20):
        wanted = mp.expm1(mpf(tiny))  # exp(x) - 1 by its own series
    assert close(GROWTH.evaluate(digits, x=tiny, y=1), wanted, digits)


def test_what_never_settles_is_an_error_and_not_a_number() -> None:
    with pytest.raises(ArithmeticError, match="may be exactly zero"):
        Formula("sine", (x,), sp.sin(sp.pi * x)).evaluate(x=1)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(("expr", "point"), [(1 / x, 0), (sp.log(x), 0), (sp.sqrt(x), -1)])
def test_no_value_is_told_as_such(expr, point, fixed) -> None:
    pole = Formula("pole", (x,), expr)
    with pytest.raises(InputError, match="no finite real value"):
        pole.at(x=point).evaluate() if fixed else pole.evaluate(x=point)


def test_arrays_broadcast_and_scalars_stay_scalars() -> None:
    assert np.array_equal(GROWTH.numpy(np.zeros((2, 1)), y=[1, 2, 3]), [[0, -1, -2]] * 2)
    assert type(GROWTH.numpy(0, 1)) is float
    assert GROWTH.numpy(np.zeros(0), 1).shape == (0,)
    assert GROWTH.numpy(np.zeros(2, dtype=np.float32), 1).dtype == np.float64
    assert np.array_equal(Formula("two", (x,), sp.Integer(2)).numpy(np.zeros((1, 2))), [[2, 2]])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("partner", [1, 1.0, Fraction(1), torch.ones(3, dtype=torch.int64)])
def test_torch_keeps_the_floating_dtype(dtype, partner) -> None:
    out = GROWTH.torch(torch.zeros(2, 1, dtype=dtype), partner)
    assert out.dtype == dtype
    assert out.shape == ((2, 3) if torch.is_tensor(partner) else (2, 1))
    assert not out.any()


@pytest.mark.parametrize("integers", [0, torch.tensor(0), torch.zeros(2, dtype=torch.int32)])
def test_torch_reads_whole_numbers_as_float64(integers) -> None:
    assert GROWTH.torch(integers, 1).dtype == torch.float64


def test_torch_promotes_to_the_wider_dtype() -> None:
    narrow, wide = torch.zeros(2, dtype=torch.float32), torch.zeros(3, 1, dtype=torch.float64)
    assert GROWTH.torch(narrow, wide).dtype == torch.float64
    assert GROWTH.torch(narrow, wide).shape == (3, 2)


@pytest.mark.parametrize("name", ["x", "y"])
def test_autograd_is_the_symbolic_derivative(name) -> None:
    formula = Formula("mixed", (x, y), sp.exp(x * y) * sp.sin(x) + sp.atan2(y, x) + sp.erf(x))
    point = {
        "x": torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64, requires_grad=True),
        "y": torch.tensor([[-0.7], [0.4]], dtype=torch.float64, requires_grad=True),
    }
    (grad,) = torch.autograd.grad(formula.torch(**point).sum(), point[name])
    slope = formula.diff(name).torch(**point).sum(0 if name == "x" else 1, keepdim=name == "y")
    assert torch.allclose(grad, slope, rtol=1e-13, atol=0)  # rounding


def test_floats_take_the_stable_face_and_digits_the_textbook_face() -> None:
    faces = Formula("faces", (x,), x, stable=x + 1)
    assert (faces.evaluate(x=1), faces.mpmath(1)) == (1, 1)
    assert (faces.numpy(1), faces.torch(1).item(), faces.at(x=1).numpy()) == (2, 2, 2)
    assert faces.diff("x").numpy(5) == 1


def test_fixing_arguments_keeps_the_others_and_the_domain() -> None:
    half = GRAM.at(kxx="1/2")
    assert (half.name, half.args, half.expr) == ("gram[kxx=1/2]", (kxy, kyy), kyy / 2 - kxy**2)
    assert half.evaluate(kxy="1/2", kyy=1) == mpf(1) / 4
    with pytest.raises(InputError, match="kxy = 2, kyy = 1"):
        half.evaluate(kxy=2, kyy=1)


def test_derivatives_follow_the_names_in_turn() -> None:
    formula = Formula("wave", (x, y), sp.sin(x * y))
    twice = formula.diff("x", "y")
    assert sp.simplify(twice.expr - (sp.cos(x * y) - x * y * sp.sin(x * y))) == 0
    assert twice.name == "d(wave)/d(x,y)"


def test_a_derivative_by_nothing_is_the_formula() -> None:
    assert Formula("square", (x,), x**2).diff().expr == x**2


def test_a_formula_shows_its_textbook_face() -> None:
    assert GROWTH._repr_latex_() == r"$\displaystyle - y + e^{x}$"


@pytest.mark.parametrize("faces", [{"expr": x + y}, {"expr": x, "stable": x + y}])
def test_stray_symbols_are_refused(faces) -> None:
    with pytest.raises(ValueError, match=r"'stray' depends on y.*Add them to `args`"):
        Formula("stray", (x,), **faces)


CALLS = (
    ("evaluate mpmath numpy torch", (), {"x": 1}, "growth also needs y: give y=VALUE"),
    ("evaluate mpmath numpy torch", (), {"x": 1, "w": 2}, "no argument w; it takes x, y"),
    ("mpmath numpy torch", (1, 2, 3), {}, r"growth takes 2 arguments \(x, y\), got 3"),
    ("mpmath numpy torch", (1,), {"x": 1, "y": 2}, "growth was given x twice"),
)


@pytest.mark.parametrize(("backends", "positional", "named", "sentence"), CALLS)
def test_missing_surplus_and_doubled_arguments_are_refused(
    backends, positional, named, sentence
) -> None:
    for backend in backends.split():
        with pytest.raises(InputError, match=sentence):
            getattr(GROWTH, backend)(*positional, **named)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="growth has no argument w; it takes x, y"):
        GROWTH.at(w=1)
    with pytest.raises(InputError, match="growth has no argument w; it takes x, y"):
        GROWTH.diff("w")


NOTHING = (float("nan"), mp.nan, float("inf"), "inf", True, np.bool_(True), "two", "1/0", None, 1j)


@pytest.mark.parametrize("value", [*NOTHING, sp.pi, [1, 2], np.array([1.0])], ids=repr)
def test_what_is_no_number_is_refused(value) -> None:
    for ask in (SAME.evaluate, SAME.at):
        with pytest.raises(InputError, match=r"^x = .* is no number: give a real number, such as"):
            ask(x=value)


@pytest.mark.parametrize("value", [np.nan, [1, np.nan], "two", None, 1j, np.array([1j])], ids=repr)
def test_arrays_with_no_number_are_refused(value) -> None:
    with pytest.raises(InputError, match=r"^x = .* (is no number|must be a real number)"):
        SAME.numpy(value)


OUTSIDE = (
    ({"d": 0}, "d must be a whole number at least 1"),
    ({"d": -1}, "d must be a whole number at least 1"),
    ({"d": 1.5}, "d must be a whole number at least 1"),
    ({"d": float("inf")}, "whole number at least 1"),
    ({"r": -1}, "r must be a number at least 0"),
    ({"sigma": 0}, "sigma must be a number above 0"),
)


@pytest.mark.parametrize(("bad", "sentence"), OUTSIDE, ids=repr)
def test_arguments_outside_their_assumptions_are_refused(bad, sentence) -> None:
    for ask in (POWER.evaluate, POWER.at, POWER.numpy):
        with pytest.raises(InputError, match=sentence):
            ask(**({"d": 2, "r": 1, "sigma": 1} | bad))


@pytest.mark.parametrize(
    "ask", [GRAM.evaluate, GRAM.numpy, lambda **bad: GRAM.at(**bad).evaluate()]
)
def test_a_joint_condition_is_told_with_the_values_that_break_it(ask) -> None:
    with pytest.raises(InputError, match=r"gram.* needs kxy\^2 <= kxx kyy, but .*kxy = 2"):
        ask(kxx=1, kxy=2, kyy=1)


@pytest.mark.parametrize("digits", [0, -1, True, 2.0, "3"])
def test_digits_are_a_positive_whole_number(digits) -> None:
    with pytest.raises(InputError, match="must be a whole number at least 1"):
        SAME.evaluate(digits, x=1)


def test_assumptions_read_as_words_and_decide_what_is_admitted() -> None:
    whole = sp.Symbol("k", integer=True)
    words = (
        "a whole number at least 1",
        "a number at least 0",
        "a number above 0",
        "a real number",
    )
    assert tuple(map(need, (d, V, sigma, x))) == words
    assert need(whole) == "a whole number"
    assert (admits(whole, Fraction(-3)), admits(whole, Fraction(1, 2))) == (True, False)
    assert exact(d, "4/2") == 2
    assert bind("f", (x, y), (1,), {"y": 2}) == [1, 2]


@pytest.mark.parametrize("argument", [0.5, Fraction(1, 2), [0.5, 1.0], np.zeros((2, 1))], ids=repr)
def test_a_call_with_numbers_and_arrays_is_that_of_numpy(argument) -> None:
    called, wanted = GROWTH(argument, y=1), GROWTH.numpy(argument, y=1)
    assert type(called) is type(wanted)
    assert np.array_equal(called, wanted)


def test_a_call_with_a_tensor_is_that_of_torch() -> None:
    x_values = torch.tensor([0.0, 1.0], requires_grad=True)
    for value in (GROWTH(x_values, 1), GROWTH(x=x_values, y=[1, 2]), GROWTH(0.5, y=x_values)):
        assert value.requires_grad
        assert value.shape == (2,)


def test_a_call_is_refused_as_numpy_refuses_it() -> None:
    with pytest.raises(InputError, match="also needs y"):
        GROWTH(1)
    with pytest.raises(InputError, match="is no number"):
        GROWTH("one", 2)


def test_symbols_have_the_assumptions_that_derivatives_need() -> None:
    assert POWER.symbols.sigma is sigma
    assert sp.diff(POWER.expr, POWER.symbols.sigma) == r**d
    assert dir(POWER.symbols) == ["d", "r", "sigma"]
    assert repr(POWER.symbols) == "Symbols(d, r, sigma)"
    for kind in (InputError, AttributeError):
        with pytest.raises(kind, match="power has no argument zeta; it takes d, r, sigma"):
            _ = POWER.symbols.zeta
    assert not hasattr(POWER.symbols, "zeta")


def test_latex_is_that_of_the_textbook_form() -> None:
    assert Formula("faces", (x,), x**2, stable=x * x + 0).latex == "x^{2}"


def test_a_value_prints_the_digits_that_were_asked_for() -> None:
    value = GROWTH.evaluate(40, x=1, y=0)
    text = "2.718281828459045235360287471352662497757"
    assert (str(value), f"{value}", repr(value)) == (text, text, f"mpf('{text}')")
    assert str(GROWTH.evaluate(3, x=1, y=0)) == "2.72"


def test_a_value_is_a_number_of_mpmath() -> None:
    value = GROWTH.evaluate(40, x=1, y=0)
    assert isinstance(value, mpf)
    with mp.workdps(40):
        for computed in (value + 1, 1 + value, value - mpf(1), 2 * value, value**2, -value, +value):
            assert type(computed) is mpf
        assert mp.almosteq(mp.log(value), 1)
        assert value == mp.mpf(value) == pickle.loads(pickle.dumps(value))
        assert abs(sp.sympify(value) - sp.E.n(40)) < 1e-38
    assert str(pickle.loads(pickle.dumps(value))) == str(value) == str(copy.copy(value))
    assert float(value) == math.e
    assert {value: 1}[mp.mpf(value._mpf_, prec=200)] == 1

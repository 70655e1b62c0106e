"""Do Gaussian expectations behave as symbols: bound variable, derivatives, print?"""

import pytest
import sympy as sp
from mpmath import mp, mpf

from analytic.expressions.backends import compile_mpmath
from analytic.expressions.expectation import Moment, PairMoment
from analytic.expressions.symbols import V, kxx, kxy, kyy, sigma, w, z

GRAM = (kxx, kxy, kyy)
DIGITS = 25


def piecewise(low, at, high) -> sp.Expr:
    return sp.Piecewise((low, z < at), (high, True))


def test_the_preactivation_is_bound() -> None:
    single, double = Moment(sp.exp(w * z), V), PairMoment(sp.exp(w * z), z**2, *GRAM, ())
    assert single.free_symbols == {V, w}
    assert double.free_symbols == {w, *GRAM}
    assert (single.parameters, double.parameters) == ((w,), (w,))
    for average in (single, double):
        assert average.subs(z, 3) == average
        assert average.diff(z) == 0
        assert average.diff(sigma) == 0


def test_substitution_reaches_parameters_and_variances() -> None:
    average = Moment(sp.exp(w * z), V, 2, (0,)).subs({w: 2, V: sigma**2, z: 5})
    assert average == Moment(sp.exp(2 * z), sigma**2, 2, (0,))
    pair = PairMoment(sp.exp(w * z), z**2, *GRAM, (0,)).subs({w: 2, kxy: 0, z: 5})
    assert pair == PairMoment(sp.exp(2 * z), z**2, kxx, 0, kyy, (0,))


@pytest.mark.parametrize("average", [Moment(w * z, V, 2, (1,)), PairMoment(w * z, z, *GRAM, (0,))])
def test_an_expectation_is_rebuilt_from_its_parts(average) -> None:
    assert average.func(*average.args) == average
    assert average.is_real


MOMENTS = {
    "smooth": Moment(sp.exp(w * z), V, 3),
    "bend at 0": Moment(piecewise(-w * z, 0, sp.exp(-w * z) - 1), V, 0, (0,)),
    "jump at 0": Moment(piecewise(w, 0, sp.cos(w * z) + 2), V, 1, (0,)),
    "bend at 1": Moment(piecewise(w, 1, w * z**2), V, 0, (1,)),
    "step at 1": Moment(w * sp.Piecewise((1, z > 1), (0, True)), V, 0, (1,)),
    "weighted jump at -1": Moment(piecewise(w, -1, sp.cos(w * z)), V, 3, (-1,)),
}
POINT = {V: mpf(3) / 4, w: mpf(5) / 8}


@pytest.mark.parametrize("by", [V, w])
@pytest.mark.parametrize("average", MOMENTS.values(), ids=MOMENTS)
def test_derivatives_agree_with_differences(average, by) -> None:
    f = compile_mpmath((V, w), average)
    with mp.workdps(DIGITS + 10):
        slope = compile_mpmath((V, w), average.diff(by))(*POINT.values())
        h = mpf(10) ** -7  # of a rule of order h^4, whose rounding is 10^-35 / h
        there = [f(*(POINT | {by: POINT[by] + k * h}).values()) for k in (-2, -1, 1, 2)]
        numeric = (there[0] - 8 * there[1] + 8 * there[2] - there[3]) / (12 * h)
    assert abs(slope - numeric) <= mpf(10) ** -DIGITS * abs(numeric)


def test_a_step_has_the_density_for_its_slope() -> None:
    step = Moment(sp.Piecewise((1, z > 1), (0, True)), V, 0, (1,))
    for order in (1, 2):
        with mp.workdps(DIGITS):
            wanted = mp.diff(lambda v: mp.erfc(1 / mp.sqrt(2 * v)) / 2, mpf("0.75"), order)
            slope = compile_mpmath((V,), step.diff(V, order))(mpf("0.75"))
            assert mp.almosteq(slope, wanted, mpf(10) ** -15)  # of mpmath's second difference


def test_the_logarithmic_derivative_is_taken_along_the_scale() -> None:
    log_derivative = compile_mpmath((V,), Moment(sp.cos(z), V).log_derivative())
    chained = compile_mpmath((sigma,), Moment(sp.cos(z), sigma**2).diff(sigma))
    with mp.workdps(DIGITS):  # E[cos z] = exp(-V/2)
        assert mp.almosteq(log_derivative(mpf(4)), -2 * mp.exp(-2))
        assert mp.almosteq(chained(mpf(2)), -2 * mp.exp(-2))


LAW = r"\mathbb{E}_{z\sim N(0,\,V)}"
PRINTED = {
    LAW + r"\left[e^{w z}\right]": Moment(sp.exp(w * z), V),
    LAW + r"\left[\left(z/\sqrt{V}\right)^{3}e^{z}\right]": Moment(sp.exp(z), V, 3),
    LAW + r"\left[e^{z}\right]^{2}": Moment(sp.exp(z), V) ** 2,
    r"\mathbb{E}_{u,v}\left[e^{u w}\,v^{2}\right]": PairMoment(sp.exp(w * z), z**2, *GRAM, ()),
}


@pytest.mark.parametrize(("latex", "average"), PRINTED.items())
def test_print_names_the_law(latex, average) -> None:
    assert sp.latex(average) == latex

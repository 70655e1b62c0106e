"""Do numpy, torch and mpmath compute the same function of one expression?"""

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic.expressions import special
from analytic.expressions.backends import (
    compile_mpmath,
    compile_numpy,
    compile_torch,
    fold,
    host_symbols,
)
from analytic.expressions.expectation import Moment, PairMoment
from analytic.expressions.symbols import V, kxx, kxy, kyy, q, r, sigma, w, z, zeta

x, y = sp.symbols("x y", real=True)
ROUNDING = 4e-15  # a few operations in float64
GRAM = (kxx, kxy, kyy)


def on_numpy(args, expr, *columns) -> np.ndarray:
    return compile_numpy(args, expr)(*map(np.array, columns))


def on_torch(args, expr, *columns) -> np.ndarray:
    columns = (torch.tensor(column, dtype=torch.float64) for column in columns)
    return compile_torch(args, expr)(*columns).numpy()


both = pytest.mark.parametrize("backend", [on_numpy, on_torch])


def step(t) -> sp.Expr:
    return sp.Piecewise((1, t > 0), (0, True))


LINE = (-2.5, -1.0, -0.3, 0.0, 0.3, 1.0, 4.0)
EXPRESSIONS = {
    "erf": (sp.erf(x / sp.sqrt(2)), lambda t: mp.erf(t / mp.sqrt(2))),
    "erfc": (sp.erfc(5 * x), lambda t: mp.erfc(5 * t)),
    "two branches": (sp.Piecewise((x, x > 0), (0, True)), lambda t: max(t, 0)),
    "three branches": (
        sp.Piecewise((-1, x < -1), (x, x <= 1), (sp.pi, True)),
        lambda t: -1 if t < -1 else t if t <= 1 else mp.pi,
    ),
    "joined conditions": (
        sp.Piecewise((2, (x < -1) | (x > 3)), (x, (x >= -1) & (x < 1)), (sp.E, True)),
        lambda t: 2 if t < -1 or t > 3 else t if t < 1 else mp.e,
    ),
    "dead branch": (
        sp.Piecewise((sp.sqrt(x), x > 0), (-x, True)),
        lambda t: mp.sqrt(t) if t > 0 else -t,
    ),
    "constants": (sp.sqrt(2) * sp.pi**2 * x + sp.E, lambda t: mp.sqrt(2) * mp.pi**2 * t + mp.e),
    "atan2": (sp.atan2(x, -1), lambda t: mp.atan2(t, -1)),
    "loggamma": (sp.loggamma(x**2 + 1), lambda t: mp.loggamma(t**2 + 1)),
    "powers": (
        (x**2 + 1) ** sp.Rational(-1, 2) + 2**x,
        lambda t: 1 / mp.sqrt(t**2 + 1) + mp.mpf(2) ** t,
    ),
    "Abs and sign": (sp.Abs(x) + 3 * sp.sign(x), lambda t: abs(t) + 3 * mp.sign(t)),
    "inverse": (sp.asinh(x) + sp.acosh(x**2 + 1), lambda t: mp.asinh(t) + mp.acosh(t**2 + 1)),
    "arcs": (sp.asin(x / 4) - sp.acos(x / 4), lambda t: mp.asin(t / 4) - mp.acos(t / 4)),
    "irrational constant": (sp.sqrt(2) * sp.pi**2, lambda t: mp.sqrt(2) * mp.pi**2),
    "rational constant": (sp.Rational(1, 3), lambda t: mpf(1) / 3),
}


@both
@pytest.mark.parametrize(("expr", "meaning"), EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_arrays_agree_with_mpmath(backend, expr, meaning) -> None:
    got = backend((x,), expr, LINE)
    assert got.tolist() == pytest.approx(
        [float(meaning(mpf(t))) for t in LINE], rel=ROUNDING, abs=0
    )


@pytest.mark.parametrize(("expr", "meaning"), EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_the_mpmath_callable_has_every_digit_that_is_set(expr, meaning) -> None:
    call = compile_mpmath((x,), expr)
    for digits in (15, 60):  # the precision is the caller's, not the compiler's
        with mp.workdps(digits):
            for t in map(mpf, LINE):
                assert mp.almosteq(call(t), meaning(t), rel_eps=mpf(10) ** (2 - digits))


@both
def test_a_constant_fills_the_shape_of_its_arguments(backend) -> None:
    assert backend((x, y), sp.sqrt(2), [[0.0], [0.0]], [0.0, 0.0, 0.0]).shape == (2, 3)


@pytest.mark.parametrize("compiler", [compile_numpy, compile_torch])
def test_a_case_left_open_is_refused(compiler) -> None:
    with pytest.raises(ValueError, match=r"leaves a case open: end it with \(value, True\)"):
        compiler((x,), sp.Piecewise((x, x > 0)))


@both
def test_a_function_without_an_array_form_is_refused_in_words(backend) -> None:
    with pytest.raises((NotImplementedError, ValueError), match="besselj"):
        backend((x,), sp.besselj(0, x), LINE)


def test_folding_leaves_no_irrational_constant() -> None:
    folded = fold(sp.sqrt(2) * sp.pi**2 * sp.sin(sp.pi * x) + x ** sp.Rational(1, 3))
    assert not folded.has(sp.pi, sp.sqrt(2))
    assert folded.has(sp.Rational(1, 3))  # rationals divide exactly
    value = folded.subs(x, sp.Rational(1, 2)) - sp.Rational(1, 2) ** sp.Rational(1, 3)
    assert float(value) == pytest.approx(2**0.5 * np.pi**2, rel=ROUNDING, abs=0)


ORDERED = {
    "monomial": (special.monomial_pair(q, *GRAM), 0.5),  # E[u^2 v^2] / 3 = (1 + 2 kxy^2) / 3
    "rectified": (
        special.rectified_pair(q, *GRAM),
        (mp.pi / 3 * 2 * 1.5 + 1.5 * mp.sqrt(0.75)) / (2 * mp.pi),
    ),
}


@pytest.mark.parametrize(
    "order", [2, 2.0, np.int64(2), torch.tensor(2)], ids=lambda v: type(v).__name__
)
@pytest.mark.parametrize(("expr", "wanted"), ORDERED.values(), ids=ORDERED)
def test_an_order_stays_a_plain_number(expr, wanted, order) -> None:
    args = (q, *GRAM)
    assert host_symbols(expr) == {q}
    on_arrays = compile_numpy(args, expr)(order, np.ones(2), 0.5, 1.0)
    on_tensors = compile_torch(args, expr)(order, torch.ones(2, dtype=torch.float64), 0.5, 1.0)
    assert on_arrays.tolist() == pytest.approx([float(wanted)] * 2, rel=ROUNDING, abs=0)
    assert on_tensors.tolist() == pytest.approx([float(wanted)] * 2, rel=ROUNDING, abs=0)


@both
def test_an_array_of_orders_is_refused_in_words(backend) -> None:
    with pytest.raises(ValueError, match=r"\bq\b"):
        backend((q, *GRAM), special.rectified_pair(q, *GRAM), [1.0, 2.0], 1.0, 0.5, 1.0)


HEADS = {
    "share": (special.share(sigma**2 * r**2, zeta**2, 1), {sigma: 1, r: 1, zeta: 2}, 0.2),
    "share corner": (special.share(sigma**2 * r**2, zeta**2, 1), {sigma: 1, r: 0, zeta: 0}, 1),
    "expm1": (special.expm1(x), {x: 2}, mp.exp(2) - 1),
    "log1p": (special.log1p(x), {x: 2}, mp.log(3)),
    "gram_det": (special.gram_det(kxx, kyy, kxy), {kxx: 3, kyy: 2, kxy: 1}, 5),
    "log_variance": (
        special.log_variance(q, sigma, r, zeta),
        {q: 3, sigma: 2, r: 1, zeta: 1},
        3 * mp.log(5),
    ),
    "volume": (special.volume(x, sp.log(x), y, q), {x: 4, y: 9, q: 3}, 24),
    "bernoulli": (special.bernoulli(0, x), {x: 2}, 2 / (mp.exp(2) - 1)),
    "monomial_pair": (special.monomial_pair(2, *GRAM), {kxx: 1, kxy: 1, kyy: 2}, mpf(4) / 3),
    "rectified_pair": (special.rectified_pair(0, *GRAM), {kxx: 1, kxy: 1, kyy: 2}, mpf(3) / 8),
    "Moment": (Moment(sp.exp(w * z), V), {w: 1, V: 2}, mp.e),
    "PairMoment": (PairMoment(step(z), step(z), *GRAM, (0,)), {kxx: 1, kxy: 1, kyy: 2}, mpf(3) / 8),
}  # at an angle of pi/4 both are positive on 3/8 of the circle


@both
@pytest.mark.parametrize(("expr", "values", "wanted"), HEADS.values(), ids=HEADS)
def test_a_head_may_have_any_argument_fixed(backend, expr, values, wanted) -> None:
    for fixed in ([], *([symbol] for symbol in values), list(values)):
        rest = {s: float(v) for s, v in values.items() if s not in fixed}
        some = expr.subs({s: values[s] for s in fixed})
        got = backend(tuple(rest), some, *rest.values())
        assert float(got) == pytest.approx(float(wanted), rel=2e-14, abs=0), (
            fixed
        )  # 40 nodes added up


AVERAGES = {
    "moment": (
        Moment(sp.exp(w * z), V, 1),
        (V, w),
        lambda V, w: w * mp.sqrt(V) * mp.exp(w**2 * V / 2),
    ),
    "two moments": (
        sp.sqrt(V) * Moment(z**2, V) + Moment(sp.cos(w * z), V),
        (V, w),
        lambda V, w: mp.sqrt(V) * V + mp.exp(-(w**2) * V / 2),
    ),
    "jump": (
        Moment(w * step(z - 1), V, kinks=(1,)),
        (V, w),
        lambda V, w: w * mp.ncdf(-1 / mp.sqrt(V)),
    ),
    "pair": (
        PairMoment(sp.sin(w * z), z, kxx, kxx / 2, 2 * kxx, ()),
        (kxx, w),
        lambda k, w: w * k / 2 * mp.exp(-(w**2) * k / 2),
    ),
}


@pytest.mark.parametrize(("expr", "args", "meaning"), AVERAGES.values(), ids=AVERAGES)
def test_expectations_compile_on_all_three_backends(expr, args, meaning) -> None:
    first, second = [[0.2], [1.7]], [0.5, 1.0, 1.2]  # parameters and variances broadcast too
    wanted = np.array([[float(meaning(mpf(a), mpf(b))) for b in second] for (a,) in first])
    for backend in (on_numpy, on_torch):
        got = backend(args, expr, first, second)
        assert got == pytest.approx(wanted, rel=1e-12, abs=0)  # what the float rule for pairs gives
    with mp.workdps(25):
        a, b = mpf("0.2"), mpf("1.2")
        assert mp.almosteq(compile_mpmath(args, expr)(a, b), meaning(a, b), mpf(10) ** -23)


@pytest.mark.parametrize(
    "expr", [*(e for e, _ in EXPRESSIONS.values()), special.bernoulli(1, x**2)], ids=str
)
def test_single_precision_stays_single(expr) -> None:
    line = torch.tensor(LINE, dtype=torch.float32)
    got = compile_torch((x,), expr)(line)
    assert got.dtype == torch.float32
    assert got.tolist() == pytest.approx(
        on_numpy((x,), expr, line.tolist()).tolist(), rel=2e-5, abs=1e-6
    )


def slopes(expr, args, *values) -> tuple[torch.Tensor, ...]:
    points = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values]
    return torch.autograd.grad(compile_torch(args, expr)(*points).sum(), points)


def test_autograd_does_not_see_the_clamp_of_a_determinant() -> None:
    x = np.random.default_rng(7).standard_normal(2000)
    gram = a, b, c = x * x, 9 * x * x, 3 * x * x  # rounding makes about half of them negative
    got = slopes(special.gram_det(kxx, kyy, kxy), (kxx, kyy, kxy), *gram)
    for slope, wanted in zip(got, (b, a, -2 * c), strict=True):
        assert slope.numpy() == pytest.approx(wanted, rel=ROUNDING, abs=0)


@pytest.mark.parametrize(("order", "wanted"), [(1, 1 / 2), (2, 4 / 2), (3, 9 * 3 / 2)])
def test_autograd_of_a_kernel_exists_on_the_diagonal(order, wanted) -> None:
    _, slope, _ = slopes(special.rectified_pair(order, *GRAM), GRAM, 1.0, 1.0, 1.0)
    assert slope.item() == pytest.approx(wanted, rel=ROUNDING)  # Price: q^2 E[u_+^(2q-2)]


def test_autograd_outlives_an_overflow_in_a_branch_not_taken() -> None:
    (slope,) = slopes(special.bernoulli(0, x), (x,), [1e-9, 800.0, 1e6])
    assert slope.tolist() == pytest.approx([-0.5, 0, 0], rel=1e-9, abs=0)

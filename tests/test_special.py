"""Do our own functions keep their digits on arrays where the textbook form loses them?"""

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic.expressions.backends import compile_mpmath, compile_torch
from analytic.expressions.special import HEADS

share, expm1, log1p, sine_excess, gram_det, log_variance, volume, *REST = HEADS
bernoulli, off_origin, monomial_pair, rectified_pair, *TAILS = REST
EPS = 2.0**-52


def on_arrays(xp, convert, head, values) -> np.ndarray:
    """Lists and floats become arrays; orders stay plain numbers."""
    host = getattr(head, "host", ())
    arrays = [value if k in host else convert(value) for k, value in enumerate(values)]
    with np.errstate(all="ignore"):  # branches that are not taken
        return np.asarray(head.array(xp, *arrays))


def on_numpy(head, *values) -> np.ndarray:
    return on_arrays(np, np.asarray, head, values)


def on_torch(head, *values) -> np.ndarray:
    return on_arrays(torch, lambda v: torch.tensor(v, dtype=torch.float64), head, values)


both = pytest.mark.parametrize("array", [on_numpy, on_torch])


def exact(head, *values) -> mpf:
    """The textbook meaning at these very floats, with digits enough for any cancellation."""
    with mp.workdps(700):
        return sp.lambdify((), head.exact(*map(sp.Rational, values)), "mpmath")()


def near(wanted, ulps) -> object:
    return pytest.approx(float(wanted), rel=ulps * EPS, abs=0)


def test_a_share_is_a_quotient_and_its_corner_where_both_vanish() -> None:
    t, z = [0.0, 1.0, 0.0, 1.0, 1e-300, 5e-324], [0.0, 0.0, 1.0, 3.0, 1.0, 5e-324]
    for array in (on_numpy, on_torch):
        assert array(share, t, z, 0.25).tolist() == [0.25, 1.0, 0.0, 0.25, 1e-300, 0.5]
    assert share.exact(sp.S(0), sp.S(0), sp.Rational(1, 4)) == sp.Rational(1, 4)
    assert share.exact(sp.S(1), sp.S(3), 9) == sp.Rational(1, 4)
    assert on_torch(off_origin, [0.0, 2.5])[1] == 2.5
    assert 0 < on_torch(off_origin, 0.0) < 1e-50


@both
@pytest.mark.parametrize("head", [expm1, log1p])
@pytest.mark.parametrize("x", [1e-300, 1e-17, -1e-9, 1e-3, 1.5, 700.0])
def test_small_arguments_lose_nothing(array, head, x) -> None:
    assert array(head, x) == near(exact(head, x), 2)


def collinear(dimension, exponent=0) -> tuple[np.ndarray, ...]:
    """Gram entries of y = 3x; rounding makes many determinants positive, many negative."""
    x = np.random.default_rng(7).standard_normal((2000, dimension)) * 10.0**exponent
    y = 3 * x
    return (x * x).sum(1), (y * y).sum(1), (x * y).sum(1)


NEAR = 1.1 * np.ones(61), 1.3 * np.ones(61), (1 - 10.0 ** -np.linspace(0, 15, 61)) * 1.43**0.5
LARGE = np.array([1e305]), np.array([1.0]), np.array([1e150])  # too large to split
PAIRS = [collinear(1), collinear(1, -30), collinear(1, 30), collinear(5), NEAR, LARGE]


def gram_by_fractions(a, b, c) -> list[Fraction]:
    rows = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    return [max(Fraction(p) * Fraction(q) - Fraction(r) ** 2, Fraction(0)) for p, q, r in rows]


@both
@pytest.mark.parametrize("gram", PAIRS, ids=["1", "1e-30", "1e30", "5", "near", "large"])
def test_the_determinant_of_a_pair_is_right_to_the_last_digit(array, gram) -> None:
    for got, true in zip(array(gram_det, *gram).tolist(), gram_by_fractions(*gram), strict=True):
        assert abs(Fraction(got) - true) <= EPS * true


def test_the_determinant_is_as_good_in_single_precision() -> None:
    gram = [torch.tensor(part, dtype=torch.float32) for part in collinear(1)]
    got = gram_det.array(torch, *gram).tolist()
    for value, true in zip(got, gram_by_fractions(*gram), strict=True):
        assert abs(Fraction(value) - true) <= 2.0**-23 * true


VARIANCES = (
    (1.0, 1.0, 0.0),
    (1.0, 1e-8, 1.0),  # log(1 + 1e-16)
    (0.6, 1.0, 0.8),  # log(1) but for rounding
    (1.0, 1 - 1e-10, 1e-5),
    (1e-75, 1e-5, 0.0),
    (1e75, 1e5, 1.0),
    (1.3, 0.7, 0.2),
)


@both
@pytest.mark.parametrize("variance", VARIANCES, ids=str)
@pytest.mark.parametrize("power", [0.5, -3.0, 1e6, 1e300])
def test_the_logarithm_of_a_variance_stands_any_power(array, power, variance) -> None:
    assert array(log_variance, power, *variance) == near(exact(log_variance, power, *variance), 4)


@both
@pytest.mark.parametrize("variance", [(1e100, 1e100, 0.0), (1e-200, 1.0, 0.0), (1e154, 1.0, 1e154)])
def test_the_logarithm_of_a_variance_outlives_the_variance(array, variance) -> None:
    assert array(log_variance, 2.0, *variance) == near(exact(log_variance, 2, *variance), 4)
    assert array(log_variance, 0.0, *variance) == 0


@both
@pytest.mark.parametrize("angle", ["1e-100", "1e-8", "0.3", "0.999999", "1.000001", "3.1"])
def test_sine_excess_keeps_its_digits_at_small_angles(array, angle: str) -> None:
    with mp.workdps(250):
        a = mpf(float(angle))
        wanted = mp.sin(a) - a * mp.cos(a)
    assert float(array(sine_excess, float(angle))) == near(wanted, 8)


@both
def test_no_power_of_a_vanishing_variance_is_zero(array) -> None:
    assert array(log_variance, 0.0, 1.0, 0.0, 0.0) == 0
    assert array(log_variance, 2.0, 1.0, 0.0, 0.0) == -math.inf


VOLUMES = (
    (0.5, 0.3, 3.0),
    (2.0, 1.0, 64.0),
    (1 + 1e-10, 0.3, 1e6),
    (0.5, 0.3, 1000.0),
    (1e300, 1e-300, 2.0),
    (1e-10, 1e300, 64.0),  # A^(d/2) underflows, the volume does not
    (1e10, 1e-300, 64.0),  # A^(d/2) overflows, the volume does not
)


@both
@pytest.mark.parametrize(("A", "P", "d"), VOLUMES)
def test_a_volume_exists_where_its_factors_do_not(array, A, P, d) -> None:
    log_A = float(mp.log(mpf(A)))
    spread = max(1.0, d * abs(log_A), abs(math.log(P)))  # what a rounded exponent costs
    assert array(volume, A, log_A, P, d) == near(mpf(A) ** (mpf(d) / 2) * mp.sqrt(P), 4 * spread)


@both
@pytest.mark.parametrize("scale", [1.0, -1.0])
@pytest.mark.parametrize("order", [0, 1])
def test_bernoulli_is_smooth_across_its_switch(array, order, scale) -> None:
    one = (1.0, 1 - 2.0**-53, 1 + EPS, 0.999, 1.001)
    x = [scale * t for t in (1e-300, 1e-16, 1e-8, 1e-3, 0.5, *one, 1.9, 2.0, 10.0, 100.0, 700.0)]
    for got, point in zip(array(bernoulli, order, x).tolist(), x, strict=True):
        with mp.workdps(700):
            e, t = mp.expm1(mpf(point)), mpf(point)
            wanted = t / e if order == 0 else (t * (1 + e) - e) / e**2
        assert got == near(wanted, 3)
    assert array(bernoulli, order, 0.0) == (1.0, 0.5)[order]


GRAMS = [(1.0, 1.0, 1.0), (1.0, -1.0, 1.0), (0.7, -0.3, 2.0), (1e10, 1e-5, 1e-10), (3.0, 0.0, 0.5)]


@both
@pytest.mark.parametrize("gram", GRAMS, ids=str)
def test_monomials_of_a_pair_follow_isserlis(array, gram) -> None:
    kxx, kxy, kyy = map(Fraction, gram)
    for q in range(13):
        moment, norm = Fraction(0), math.prod(range(1, 2 * q, 2))
        for crossed in range(q % 2, q + 1, 2):  # legs of u joined to legs of v, the rest at home
            ways = math.comb(q, crossed) ** 2 * math.factorial(crossed)
            home = math.prod(range(1, q - crossed, 2)) ** 2
            moment += ways * home * kxy**crossed * (kxx * kyy) ** ((q - crossed) // 2)
        assert array(monomial_pair, q, *gram) == near(moment / norm, q + 1)
        assert monomial_pair.exact(q, *map(sp.Rational, gram)) == sp.Rational(moment / norm)


def rectified_by_hypergeometric(q, kxx, kxy, kyy) -> mpf:
    with mp.workdps(60):
        q, kxx, kxy, kyy = map(mpf, (q, kxx, kxy, kyy))
        scale = mp.sqrt(kxx * kyy)
        half = (1 + kxy / scale) / 2
        front = 2 ** (q - 1) * mp.gamma(q + 1) ** 2 / (mp.sqrt(mp.pi) * mp.gamma(q + 1.5))
        return scale**q * front * half ** (q + 0.5) * mp.hyp2f1(0.5, 0.5, q + 1.5, half)


ORDERS = (0, 1, 2, 3, 5, 12, -0.25, 0.5, 1.5, 2.5)
CORRELATIONS = (-1 + 1e-12, -0.999, -0.5, 0.0, 0.5, 0.9, 0.999, 1 - 1e-9, 1.0)


@both
@pytest.mark.parametrize("q", ORDERS)
def test_rectified_pairs_match_the_hypergeometric_form(array, q) -> None:
    for kxx, kyy in ((1.0, 1.0), (0.7, 2.0), (1e-8, 1e8)):
        for rho in CORRELATIONS:
            kxy = rho * math.sqrt(kxx * kyy)
            if Fraction(kxy) ** 2 > Fraction(kxx) * Fraction(kyy):
                kxy = math.nextafter(kxy, 0)  # still a covariance
            wanted = rectified_by_hypergeometric(q, kxx, kxy, kyy)
            got = array(rectified_pair, q, kxx, kxy, kyy)
            assert got == near(wanted, 20 + 2 * q), (kxx, kxy, kyy)  # q-th powers, many nodes


@both
def test_rectified_pairs_vanish_where_one_side_does(array) -> None:
    never = [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [1.0, 1.0, 0.0]
    assert array(rectified_pair, 1, *never).tolist() == [0, 0, 0]


k, t, u, v = POINT = sp.symbols("k t u v", positive=True)
VALUES = dict(zip(POINT, map(sp.Rational, ("3", "0.7", "0.5", "2")), strict=True))
SLOPES = [
    (head, by)
    for head, symbols in (
        (share(t, u, 1), (t, u)),
        (expm1(t), (t,)),
        (log1p(t), (t,)),
        (gram_det(t, v, u), (t, v, u)),
        (log_variance(k, t, u, v), (k, t, u, v)),
        (bernoulli(0, t), (t,)),
        (monomial_pair(k, t, u, v), (u,)),
        (rectified_pair(k, t, u, v), (u,)),
        (rectified_pair(k / 2, t, u, v), (u,)),
    )
    for by in symbols
]


@pytest.mark.parametrize(("head", "by"), SLOPES, ids=str)
def test_a_slope_is_that_of_the_meaning_and_of_autograd(head, by) -> None:
    others = {symbol: value for symbol, value in VALUES.items() if symbol != by}
    with mp.workdps(40):
        slope = compile_mpmath((), sp.diff(head, by).subs(VALUES))()
        x = mpf(VALUES[by].p) / VALUES[by].q
        numeric = mp.diff(compile_mpmath((by,), head.subs(others)), x)
        assert mp.almosteq(slope, numeric, mpf(10) ** -20)  # half the digits, by its step
    point = [torch.tensor(float(VALUES[s]), dtype=torch.float64, requires_grad=True) for s in POINT]
    order = [3, *point[1:]] if by != k else point
    (grad,) = torch.autograd.grad(compile_torch(POINT, head)(*order), point[POINT.index(by)])
    assert grad.item() == near(slope, 40)  # 40 nodes added up

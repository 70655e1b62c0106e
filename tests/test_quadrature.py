"""Are Gaussian expectations right to every digit, and float ones as good as they say?"""

import math

import numpy as np
import pytest
import torch
from mpmath import mp, mpf
from scipy.special import erf

from analytic.expressions.quadrature import moment, moment_array, pair, pair_array

VARIANCES = ("1e-16", "1e-8", "1e-3", "1.7", "1e8", "1e16")
DIGITS = 30


def true(meaning, *arguments) -> mpf:
    """A closed form with digits to spare, for those that cancel."""
    with mp.workdps(2 * DIGITS + 40):
        return meaning(*arguments)


def agrees(got, wanted) -> bool:
    """All but the last of 30 digits."""
    return abs(got - wanted) <= mpf(10) ** (1 - DIGITS) * abs(wanted)


def number(text) -> mpf:
    with mp.workdps(DIGITS):
        return mpf(text)


def relu(z) -> mpf:
    return max(z, mpf(0))


def exp_abs(V) -> mpf:
    """E[exp(-|z|)]: e^(V/2) erfc, or its asymptotic series."""
    s = mp.sqrt(V)
    if V < 1e5:
        return mp.exp(V / 2) * mp.erfc(s / mp.sqrt(2))
    series = mp.fsum((-1) ** k * mp.fac2(2 * k - 1) / s ** (2 * k + 1) for k in range(10))
    return mp.sqrt(2 / mp.pi) * series


KNOWN = {  # function of z, power of t, kinks, its expectation in V
    "1": (lambda z: mpf(1), 0, (), lambda V: mpf(1)),
    "t^8": (lambda z: mpf(1), 8, (), lambda V: mpf(105)),
    "t^2 z": (lambda z: z, 2, (), lambda V: mpf(0)),
    "t z": (lambda z: z, 1, (), mp.sqrt),
    "z^12": (lambda z: z**12, 0, (), lambda V: 10395 * V**6),
    "gaussian": (lambda z: mp.exp(-z * z / 2), 0, (), lambda V: 1 / mp.sqrt(1 + V)),
    "erf squared": (
        lambda z: mp.erf(z / mp.sqrt(2)) ** 2,
        0,
        (),
        lambda V: 2 / mp.pi * mp.asin(V / (1 + V)),
    ),
    "relu": (relu, 0, (0,), lambda V: mp.sqrt(V / (2 * mp.pi))),
    "unsaid kink": (relu, 1, (), lambda V: mp.sqrt(V) / 2),
    "exp(-|z|)": (lambda z: mp.exp(-abs(z)), 0, (0,), exp_abs),
}


@pytest.mark.parametrize("V", VARIANCES)
@pytest.mark.parametrize(("f", "power", "kinks", "meaning"), KNOWN.values(), ids=KNOWN)
def test_moments_are_right_to_every_digit(f, power, kinks, meaning, V) -> None:
    V = number(V)
    with mp.workdps(DIGITS):
        assert agrees(moment(f, V, power, kinks), true(meaning, V))


@pytest.mark.parametrize("V", ["1e-16", "1", "100", "1e3"])
@pytest.mark.parametrize("power", [0, 2])
def test_exponentials_are_followed_to_their_peak(V, power) -> None:
    V = number(V)
    with mp.workdps(DIGITS):
        wanted = true(lambda V: mp.exp(V / 2) * (1 + V if power else 1), V)
        assert agrees(moment(mp.exp, V, power), wanted)


@pytest.mark.parametrize("digits", [15, DIGITS])
@pytest.mark.parametrize("V", [1, 30, 100, 1000])
def test_a_wave_that_averages_to_nothing_gives_nothing(V, digits) -> None:
    with mp.workdps(digits):
        assert abs(moment(mp.cos, mpf(V)) - mp.exp(mpf(-V) / 2)) < mpf(10) ** (1 - digits)


BROKEN = {
    "below 1": (lambda z: mpf(z < 1), (1,), lambda s: mp.ncdf(1 / s)),
    "box": (lambda z: mpf(-1 < z < 2), (-1, 2), lambda s: mp.ncdf(2 / s) - mp.ncdf(-1 / s)),
    "hinge": (lambda z: 1 + relu(z - 1), (1,), lambda s: 1 + s * mp.npdf(1 / s) - mp.ncdf(-1 / s)),
}


@pytest.mark.parametrize("V", VARIANCES)
@pytest.mark.parametrize(("f", "kinks", "meaning"), BROKEN.values(), ids=BROKEN)
def test_kinks_may_lie_anywhere(f, kinks, meaning, V) -> None:
    V = number(V)
    with mp.workdps(DIGITS):
        assert agrees(moment(f, V, kinks=kinks), true(lambda V: meaning(mp.sqrt(V)), V))


@pytest.mark.parametrize("kinks", [(), (0,), (1,), (-1, 2)])
def test_no_variance_leaves_the_value_at_zero(kinks) -> None:
    assert moment(lambda z: 3 + abs(z), mpf(0), 2, kinks) == pytest.approx(3, rel=1e-14)


def arc_cosine(a, c, b) -> mpf:
    angle = mp.acos(c / mp.sqrt(a * b))
    return mp.sqrt(a * b) / (2 * mp.pi) * (mp.sin(angle) + (mp.pi - angle) * mp.cos(angle))


def orthant(a, c, b) -> mpf:
    return (mp.pi - mp.acos(c / mp.sqrt(a * b))) / (2 * mp.pi)


def arc_sine(a, c, b) -> mpf:
    return 2 / mp.pi * mp.asin(c / mp.sqrt((1 + a) * (1 + b)))


PAIRS = {  # function, kinks, expectation of f(u) f(v)
    "u v": (lambda z: z, (), lambda a, c, b: c),
    "u^2 v^2": (lambda z: z * z, (), lambda a, c, b: a * b + 2 * c * c),
    "exp": (mp.exp, (), lambda a, c, b: mp.exp((a + b) / 2 + c)),
    "cos": (mp.cos, (), lambda a, c, b: mp.exp(-(a + b) / 2) * mp.cosh(c)),
    "relu": (relu, (0,), arc_cosine),
    "step": (lambda z: mpf(z > 0), (0,), orthant),
}
COVARIANCES = (
    ("1", "0.5", "2"),
    ("1", "1", "1"),
    ("1e-8", "-5e-9", "1e-8"),
    ("1", "-0.999999", "1"),
)
TRIED = [
    (name, gram)
    for name in PAIRS
    for gram in COVARIANCES
    if gram[2] == "2" or name in ("u v", "exp", "relu")
]


@pytest.mark.parametrize(("name", "gram"), TRIED, ids=str)
def test_pairs_are_right_to_every_digit(name, gram) -> None:
    (f, kinks, meaning), gram = PAIRS[name], [*map(number, gram)]
    with mp.workdps(DIGITS):
        assert agrees(pair(f, f, *gram, kinks=kinks), true(meaning, *gram))


@pytest.mark.parametrize("V", [0.01, 1, 1e4])
def test_pairs_of_a_steep_function_stand_any_variance(V) -> None:
    with mp.workdps(15):
        got = pair(lambda z: mp.erf(z / mp.sqrt(2)), lambda z: mp.erf(z / mp.sqrt(2)), V, V / 2, V)
        assert float(got) == pytest.approx(float(arc_sine(V, V / 2, V)), rel=1e-13, abs=0)


def test_pairs_refuse_kinks_away_from_zero() -> None:
    with pytest.raises(ValueError, match=r"kink at 0 only, but kinks \(0, 1\) were given"):
        pair(relu, relu, 1, 0, 1, kinks=(0, 1))


def mean_root(V) -> mpf:
    """E[sqrt |z|]."""
    return mp.root(2 * V, 4) * mp.gamma(0.75) / mp.sqrt(mp.pi)


def erf_of(xp, z) -> object:
    return (torch.erf if xp is torch else erf)(z / math.sqrt(2))


ARRAYS = {  # function of numpy or torch and z, power of t, kinks, expectation in V
    "t z": (lambda xp, z: z, 1, (), mp.sqrt),
    "z^6": (lambda xp, z: z**6, 0, (), lambda V: 15 * V**3),
    "gaussian": (lambda xp, z: xp.exp(-z * z / 2), 0, (), KNOWN["gaussian"][-1]),
    "erf squared": (lambda xp, z: erf_of(xp, z) ** 2, 0, (), KNOWN["erf squared"][-1]),
    "relu": (lambda xp, z: xp.where(z > 0, z, 0.0 * z), 0, (0,), KNOWN["relu"][-1]),
    "root": (lambda xp, z: xp.sqrt(abs(z)), 0, (0,), mean_root),
    "exp(-|z|)": (lambda xp, z: xp.exp(-abs(z)), 0, (0,), exp_abs),
    "below 1": (lambda xp, z: 1.0 * (z < 1), 0, (1,), lambda V: mp.ncdf(1 / mp.sqrt(V))),
    "box": (
        lambda xp, z: 1.0 * ((z > -1) & (z < 2)),
        0,
        (-1, 2),
        lambda V: BROKEN["box"][-1](mp.sqrt(V)),
    ),
}


def estimated(xp, f, variances, power=0, kinks=()) -> tuple[np.ndarray, np.ndarray]:
    V = np.array(variances) if xp is np else torch.tensor(variances, dtype=torch.float64)
    result = moment_array(xp, lambda z: f(xp, z), V, power, kinks)
    return np.asarray(result.value), np.asarray(result.error)


@pytest.mark.parametrize("xp", [np, torch], ids=["numpy", "torch"])
@pytest.mark.parametrize(("f", "power", "kinks", "meaning"), ARRAYS.values(), ids=ARRAYS)
def test_float_moments_are_right_and_say_how_right(xp, f, power, kinks, meaning) -> None:
    variances = [1e-16, 1e-8, 1e-3, 1.0, 7.3, 1e4]
    wanted = np.array([float(true(meaning, mpf(V))) for V in variances])
    value, error = estimated(xp, f, variances, power, kinks)
    assert value == pytest.approx(wanted, rel=1e-13, abs=0)  # a sum of a thousand terms
    assert (abs(value - wanted) <= error + 1e-13 * wanted).all()


@pytest.mark.parametrize("xp", [np, torch], ids=["numpy", "torch"])
def test_float_moments_own_up_to_what_they_miss(xp) -> None:
    variances = [1.0, 9.0, 30.0, 49.0, 100.0]
    for f, sign in (("cos", -1), ("exp", 1)):
        wanted = np.exp(sign * np.array(variances) / 2)
        value, error = estimated(xp, lambda xp, z, f=f: getattr(xp, f)(z), variances)
        assert (abs(value - wanted) <= error + 1e-13 * np.maximum(1, wanted)).all(), f


def test_a_wave_too_fine_for_the_nodes_shows_in_the_error() -> None:
    value, error = estimated(np, lambda xp, z: xp.cos(z), [1e4, 1e8, 1e12])
    assert (error > abs(value) / 10).all()  # the true average is zero


FLOAT_PAIRS = {
    "u v": (lambda z: z, PAIRS["u v"][-1]),
    "exp": (np.exp, PAIRS["exp"][-1]),
    "cos": (np.cos, PAIRS["cos"][-1]),
    "erf": (lambda z: erf_of(np, z), arc_sine),
    "relu": (lambda z: np.maximum(z, 0), arc_cosine),
    "step": (lambda z: 1.0 * (z > 0), orthant),
}


@pytest.mark.parametrize("V", [1e-8, 1.0, 30.0])
@pytest.mark.parametrize(("f", "meaning"), FLOAT_PAIRS.values(), ids=FLOAT_PAIRS)
def test_float_pairs_say_how_right_they_are(f, meaning, V) -> None:
    kxx, kyy, kxy = np.array(V), np.array(2 * V), V * np.array([-1.2, -0.5, 0.0, 0.5, 1.2, 1.4])
    result = pair_array(np, f, f, kxx, kxy, kyy)
    wanted = [float(true(meaning, mpf(V), mpf(c), mpf(2 * V))) for c in kxy]
    scale = float(mp.sqrt(meaning(mpf(V), mpf(V), mpf(V)) * meaning(*[mpf(2 * V)] * 3)))
    miss = abs(result.value - wanted)
    assert (miss <= result.error + 1e-13 * scale).all()  # Cauchy-Schwarz bounds what was added up
    if V <= 1 or meaning in (arc_cosine, orthant):
        assert miss.max() <= 1e-12 * scale

"""Is det g of an erf network the sum of its Gaussian bumps, in exact numbers and in floats?"""

import random
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
import sympy as sp
from mpmath import mp, mpf
from sympy import Rational

from analytic.expressions.arguments import InputError
from analytic.finite.bumps import Bump, bumps, determinant, log_determinant

SHAPES = ((4, 1), (5, 2), (4, 3), (3, 3))
networks = pytest.mark.parametrize(("n", "d"), SHAPES)


def network(n: int, d: int) -> tuple[list[list[Fraction]], list[Fraction], list[Fraction]]:
    """Weights, biases and an input, all fractions of moderate size."""
    rng = random.Random(10 * n + d)

    def vector(size: int) -> list[Fraction]:
        return [Fraction(rng.choice((-1, 1)) * rng.randint(1, 9), 7) for _ in range(size)]

    return [vector(d) for _ in range(n)], vector(n), vector(d)


def number(value: Any) -> Any:
    return mpf(value.numerator) / value.denominator


def by_features(weights: Any, biases: Any, x: Any) -> Any:
    """det of J^T J from numerical derivatives of erf, at the working precision."""
    w = [[number(v) for v in row] for row in weights]
    z = [sum(a * number(c) for a, c in zip(row, x)) + number(b) for row, b in zip(w, biases)]
    slopes = [mp.diff(lambda t: mp.erf(t / mp.sqrt(2)), v) for v in z]
    J = mp.matrix([[p * v / mp.sqrt(len(w)) for v in row] for p, row in zip(slopes, w)])
    return mp.det(J.T * J)


def exactly(network_bumps: tuple[Bump, ...], x: Any, digits: int = 30) -> Any:
    return mp.mpmathify(determinant(network_bumps, x).evalf(digits))


@networks
def test_expansion_is_the_determinant_of_the_metric(n: int, d: int) -> None:
    weights, biases, x = network(n, d)
    with mp.workdps(60):  # the determinant cancels where units differ in slope
        computed, true = exactly(bumps(weights, biases), x, 40), by_features(weights, biases, x)
        assert abs(computed - true) < mpf(10) ** -30 * true
        assert abs(mpf("1.01") * computed - true) > mpf(10) ** -30 * true


@networks
def test_expansion_is_the_sum_over_subsets_of_cauchy_and_binet(n: int, d: int) -> None:
    weights, biases, x = network(n, d)
    W, b, at = sp.Matrix(weights), sp.Matrix(biases), sp.Matrix(x)
    total = 0
    for units in map(list, combinations(range(n), d)):
        rows, z = W.extract(units, range(d)), (W * at + b).extract(units, [0])
        total += (2 / (sp.pi * n)) ** d * rows.det() ** 2 * sp.exp(-z.dot(z))
    assert sp.expand(determinant(bumps(weights, biases), x) - total) == 0


@networks
def test_each_centre_is_where_its_hyperplanes_meet(n: int, d: int) -> None:
    weights, biases, _ = network(n, d)
    network_bumps = bumps(weights, biases)
    assert len(network_bumps) == comb(n, d)
    for units, bump in zip(combinations(range(n), d), network_bumps, strict=True):
        W, b = sp.Matrix([weights[j] for j in units]), sp.Matrix([biases[j] for j in units])
        assert W * bump.centre + b == sp.zeros(d, 1)
        assert bump.precision == W.T * W
        assert bump.weight == (2 / (sp.pi * n)) ** d * W.det() ** 2


def test_without_biases_every_bump_sits_at_the_origin() -> None:
    weights, *_ = network(5, 2)
    assert {tuple(bump.centre) for bump in bumps(weights, [0] * 5)} == {(0, 0)}
    assert any(any(bump.centre) for bump in bumps(weights, [0, 0, 0, 0, 1]))


def test_collinear_pairs_drop_out() -> None:
    weights, biases = [(1, 2), (-2, -4), (0, 1), (0, 0)], [1, 3, Fraction(1, 2), 5]
    network_bumps = bumps(weights, biases)
    assert len(network_bumps) == 2  # units 1 and 3, 2 and 3
    x = [Fraction(1, 3), Fraction(-1, 5)]
    with mp.workdps(60):
        true = by_features(weights, biases, x)
        assert abs(exactly(network_bumps, x, 40) - true) < mpf(10) ** -30 * true


def test_symbols_stay_symbols() -> None:
    a, b = sp.symbols("a b", real=True)
    x = sp.symbols("x1 x2", real=True)
    (bump,) = bumps([(a, 0), (1, 1)], (b, 0))
    assert tuple(bump.centre) == (-b / a, b / a)
    assert bump.weight == a**2 / sp.pi**2
    expected = a**2 / sp.pi**2 * sp.exp(-((a * x[0] + b) ** 2) - (x[0] + x[1]) ** 2)
    assert sp.simplify(determinant([bump], x) / expected) == 1
    s = sp.sqrt(2)
    assert len(bumps([(s, 1), (2, s), (1, 0)], (0, b, 1))) == 2  # the first two are collinear


def test_numbers_of_every_kind_are_read_exactly() -> None:
    half, tenth = Rational(1, 2), Rational(1, 10)
    network_bumps = [
        bumps(weights, biases)
        for weights, biases in (
            ([(half, 0), (0, 1)], (tenth, 0)),
            ([(0.5, 0), (0, 1.0)], ("0.1", 0)),
            (np.array([[0.5, 0.0], [0.0, 1.0]]), (Fraction(1, 10), np.int64(0))),
            (sp.Matrix([[sp.Float(0.5), 0], [0, 1]]), ["1/10", 0]),
        )
    ]
    assert all(one == network_bumps[0] for one in network_bumps)
    assert bumps([(0.1,)], (1,))[0].centre[0] == -1 / Rational(0.1) != -10


GRID = np.array([[0.0, 0.0], [1.5, -2.0], [-30.0, 4.0], [1e3, 1e3], [-1e8, 3e7], [1e140, 1.0]])
NETWORKS = {
    "plain": ([(1.0, 0.3), (-0.4, 0.9), (0.2, -1.1), (2.0, 0.5)], (0.1, -0.7, 0.4, 1.2)),
    "nearly collinear": ([(1.0, 1.0), (1.0, 1.0 + 1e-12), (1.0, 1.0 - 1e-9)], (0.3, -0.2, 0.9)),
    "tiny": ([(1e-200, 0.0), (0.0, 1e-190), (1e-200, 1e-200)], (0.5, 1.0, -2.0)),
    "far biases": ([(1.0, 0.0), (-0.5, 0.8), (-0.5, -0.8)], (100.0, 100.0, 100.0)),
}


@pytest.mark.parametrize("which", NETWORKS)
def test_floats_follow_the_exact_logarithm_far_out(which: str) -> None:
    network_bumps = bumps(*NETWORKS[which])
    computed = log_determinant(network_bumps, GRID)
    for x, value in zip(GRID, computed, strict=True):
        with mp.workdps(320):  # 1e140 squared, and still digits behind the point
            exponents = [
                sp.log(bump.weight) - ((y := sp.Matrix([*map(Rational, x)]) - bump.centre).T
                * bump.precision * y)[0] for bump in network_bumps
            ]  # fmt: skip
            numbers = [mp.mpmathify(e.evalf(320)) for e in exponents]
            true = mp.log(sum(mp.exp(e - max(numbers)) for e in numbers)) + max(numbers)
        # A square rounds by some 1e-16 of |w|^2 |x|^2, of which the exponent is made.
        scale = 1 + float(np.square(NETWORKS[which][0]).sum() * np.square(x).sum())
        assert abs(value - true) <= 1e-15 * (abs(true) + scale)


def test_near_its_centre_a_far_bump_keeps_its_digits() -> None:
    network_bumps = bumps([(1, 0), (0, 1)], (10**8, -(10**8)))
    shift = np.array([0.5, 0.25])
    value = log_determinant(network_bumps, np.array([-1e8, 1e8]) + shift)
    assert value == pytest.approx(-2 * np.log(np.pi) - shift @ shift, rel=1e-15)


def test_a_grid_keeps_its_shape_however_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    network_bumps = bumps(*NETWORKS["plain"])
    grid = np.stack(np.meshgrid(np.linspace(-2, 2, 7), np.linspace(-1, 1, 5)), -1)
    whole = log_determinant(network_bumps, grid)
    assert whole.shape == (5, 7)
    monkeypatch.setattr("analytic.finite.bumps.CHUNK", 12)
    np.testing.assert_allclose(log_determinant(network_bumps, grid), whole, rtol=1e-15)
    assert log_determinant(network_bumps, grid[:0]).shape == (0, 7)
    assert log_determinant(network_bumps, [0.0, 1.0]).shape == ()


def test_where_even_the_logarithm_overflows_it_is_minus_infinity() -> None:
    assert log_determinant(bumps(*NETWORKS["plain"]), [1e200, -1e200]) == -np.inf


PLAIN = bumps([(1, 0), (0, 1)], (0, 0))
b = sp.Symbol("b", real=True)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bumps([(1, 2), (2, 4), (-3, -6)], (1, 2, 3)), "do not span 2 dimensions"),
        (lambda: bumps([(1, 2)], (1,)), "at least 2 that are linearly independent"),
        (lambda: bumps([(0,), (0,)], (1, 2)), "do not span 1"),
        (lambda: bumps([], ()), "one row for each unit"),
        (lambda: bumps([(), ()], (1, 2)), "at least 1"),
        (lambda: bumps([(1, 2), (3,)], (1, 2)), r"lengths \[1, 2\]"),
        (lambda: bumps([(1, 2), (3, 4)], (1,)), "2 units but 1 biases"),
        (lambda: bumps([(1, float("nan")), (3, 4)], (1, 2)), "w12 = nan is no number"),
        (lambda: bumps([(1, 2), (3, 4)], (1, sp.oo)), "b2"),
        (lambda: bumps([(1, 2), (3, 4)], (1, sp.I)), "b2 = I was given, but it must be a real"),
        (lambda: bumps([(1, 2), (3, 4)], (True, 1)), "b1 = True is no number"),
        (lambda: bumps(3, (1, 2)), "one row of weights for each unit"),
        (lambda: bumps((1, 2), (1, 2)), "one row of weights for each unit"),
        (lambda: bumps([(1, 2), (3, 4)], 0), "biases = 0 .* a list of biases"),
        (lambda: determinant(PLAIN, (1, 2, 3)), "3 coordinates was given, but the bumps need 2"),
        (lambda: determinant((), (1,)), "No bump"),
        (lambda: log_determinant((), [1.0]), "No bump"),
        (lambda: log_determinant(PLAIN, np.zeros((4, 3))), r"last axis of 2"),
        (lambda: log_determinant(PLAIN, 1.0), r"shape \(\)"),
        (lambda: log_determinant(PLAIN, [np.nan, 0.0]), "NaN"),
        (lambda: log_determinant(bumps([(1, 0), (0, 1)], (b, 0)), [0.0, 0.0]), "free symbols"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_a_reason(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()

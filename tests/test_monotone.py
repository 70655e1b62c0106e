"""Does chi increase with the overlap for every degree and dimension, and does each step of the proof hold?"""

from fractions import Fraction
from itertools import pairwise
from math import comb

import numpy as np
import pytest
import sympy as sp

from analytic.expressions.arguments import InputError
from analytic.perturbation import chi, exact_chi
from analytic.perturbation.monotone import least_dimension, proven_slopes, slopes
from analytic.perturbation.polynomials import (
    bernstein,
    excess,
    fluctuation_powers,
    odd_factorial,
    polynomial,
)

DEGREES = range(1, 41)


def test_the_brace_of_the_proof_is_an_identity() -> None:
    q, d, j = sp.symbols("q d j")
    L = (2 * q - 1) * (d + 2 * q)
    brace = (2 * q + 2 * j - 1) * (L - 4 * (j + 1) * (q - 1)) - (2 * j + 1) * (L - 4 * j * (q - 1))
    assert sp.expand(brace - 2 * (q - 1) * (L + 2 - 4 * q * (j + 1))) == 0
    assert sp.expand((L + 2 - 4 * q**2) - ((2 * q - 1) * d - 2 * (q - 1))) == 0


@pytest.mark.parametrize("q", DEGREES)
def test_both_bases_hold_the_same_polynomial(q) -> None:
    """t^k is the sum over j >= k of C(j, k)/C(q, k) times the j-th Bernstein polynomial."""
    powers, lines = polynomial(q), bernstein(q)
    for j, line in enumerate(lines):
        shares = [Fraction(comb(j, k), comb(q, k)) for k in range(j + 1)]
        assert line.slope == sum(a * p.slope for a, p in zip(shares, powers))
        assert line.level == sum(a * p.level for a, p in zip(shares, powers))


@pytest.mark.parametrize("q", DEGREES)
def test_the_last_line_of_the_proof_is_the_difference(q) -> None:
    assert slopes(q) == proven_slopes(q)
    assert len(slopes(q)) == q


@pytest.mark.parametrize("q", DEGREES)
def test_every_coefficient_of_the_slope_is_positive_from_dimension_one_on(q) -> None:
    for line in slopes(q):
        assert line.slope >= 0
        assert line.at(1) > 0 if q > 1 else line.slope == line.level == 0


@pytest.mark.parametrize("q", DEGREES[1:])
def test_the_bound_on_the_dimension_is_sharp(q) -> None:
    """At t = 1 the derivative is the last coefficient; summed over powers it is the same number."""
    least = least_dimension(q)
    at_one = sum((k * line.at(least) for k, line in enumerate(polynomial(q))), Fraction(0))
    assert at_one == slopes(q)[-1].at(least) == 0
    assert slopes(q)[-1].at(least - Fraction(1, 1000)) < 0
    assert 0 < least < 1


@pytest.mark.parametrize("q", DEGREES)
def test_the_ends(q) -> None:
    for d in (1, 2, 1000):
        assert exact_chi(d, q, 0) == d + 2 * q
        last = Fraction(odd_factorial(4 * q - 3), odd_factorial(2 * q - 1) ** 2)
        assert exact_chi(d, q, 1) == exact_chi(d, q, -1) == last * ((2 * q - 1) * d + 2 * q)


@pytest.mark.parametrize("q", DEGREES)
def test_no_sum_in_floats_has_a_minus_sign(q) -> None:
    assert all(line.slope >= 0 and line.level > 0 for line in excess(q))
    assert all(c > 0 for c in fluctuation_powers(q))


@pytest.mark.parametrize("q", DEGREES[1:])
def test_powers_of_rho_have_both_signs_whatever_the_dimension(q) -> None:
    """The paper finds each hypergeometric factor positive; their difference is not, term by term."""
    assert polynomial(q)[-1].slope == 0
    assert polynomial(q)[-1].level < 0 < polynomial(q)[0].level


@pytest.mark.parametrize("q", [2, 5, 40])
@pytest.mark.parametrize("d", [1, 3, 1000])
def test_exact_values_rise_on_a_grid(d, q) -> None:
    values = [exact_chi(d, q, Fraction(k, 50)) for k in range(51)]
    assert all(low < high for low, high in pairwise(values))


@pytest.mark.parametrize("d", [1, 2, 100])
def test_floats_rise_too_and_a_linear_network_stays(d) -> None:
    rho = np.linspace(0, 1, 400)
    for q in (2, 7, 40):
        assert (np.diff(chi.numpy(d, q, rho)) > 0).all()
    assert np.ptp(chi.numpy(d, 1, rho)) <= 2 * np.spacing(d + 2.0)


@pytest.mark.parametrize("bad", [0, -3, 2.5, "two", None])
def test_no_degree_but_a_whole_one(bad) -> None:
    for call in (slopes, proven_slopes, least_dimension, polynomial, bernstein):
        with pytest.raises(InputError, match=r"q .*a whole number at least 1"):
            call(bad)

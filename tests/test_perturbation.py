"""Are the factors of the 1/n correction exact, stable in floats, and what a posterior really has?"""

import random
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic.expressions.arguments import InputError
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.symbols import d as dimension
from analytic.perturbation import (
    chi,
    exact_chi,
    exact_fluctuation,
    factors,
    fluctuation,
    magnification,
)
from analytic.perturbation.linear import coefficient, posterior_spread, posterior_volume
from analytic.perturbation.polynomials import gaussian_mean, odd_factorial, polynomial

AWKWARD = [(d, q, rho) for d in (1, 2, 1000) for q in (1, 2, 40) for rho in (0.0, 1.0, -1.0, 1e-9)]
ALL = (chi, fluctuation, magnification)
POINT = {"d": 3, "q": 2, "rho": 0.5, "ratio": 1.5, "n": 100}


def at(formula, **changed) -> dict:
    values = POINT | changed
    return {symbol.name: values[symbol.name] for symbol in formula.args}


def error(computed, exact: Fraction) -> float:
    return float(abs(Fraction(float(computed)) - exact) / abs(exact))


@lru_cache
def wick(legs: tuple[tuple[int, ...], ...]) -> Fraction:
    """The average of a product of w.leg over standard normal w: the first leg meets each other one."""
    if not legs:
        return Fraction(1)
    first, *rest = legs
    total = Fraction(0)
    for k, leg in enumerate(rest):
        inner = sum((Fraction(a) * b for a, b in zip(first, leg)), Fraction(0))
        total += inner and inner * wick((*rest[:k], *rest[k + 1 :]))
    return total


@pytest.mark.parametrize(
    ("x_a", "square"), [((3, 4), 25), ((0, 1), 1), ((5, 0), 25), ((-8, 15), 289)]
)
@pytest.mark.parametrize("q", [1, 2, 3])
def test_chi_is_the_ratio_of_brute_force_moments(q, x_a, square) -> None:
    """At x = (1, 0) the metric is diagonal: E[z^2q] along x and E[z^(2q-2)] across."""
    x, y = (1, 0), (0, 1)
    legs = (x_a,) * (2 * q) + (x,) * (2 * q - 2)
    along, across = wick((x,) * (2 * q)), wick((x,) * (2 * q - 2))
    total = wick((*legs, x, x)) / along + wick((*legs, y, y)) / across
    overlap = Fraction(x_a[0] ** 2, square)
    powers = [line.at(2) * overlap**k for k, line in enumerate(polynomial(q))]
    assert total / wick((x_a,) * (2 * q)) == sum(powers)


@pytest.mark.parametrize("q", range(1, 8))
def test_what_the_moments_give_is_what_the_polynomials_hold(q) -> None:
    lines = [(sp.Rational(p.slope), sp.Rational(p.level)) for p in polynomial(q)]
    stated = sum(
        (slope * dimension + level) * factors.rho ** (2 * k)
        for k, (slope, level) in enumerate(lines)
    )
    assert sp.expand(factors.derived_chi(q) - stated) == 0
    kappa = factors.derived_fluctuation(q)
    assert [kappa.subs(dimension, k) for k in (1, 2, 3)] == [
        exact_fluctuation(k, q) for k in (1, 2, 3)
    ]


def test_values_that_are_known() -> None:
    assert exact_chi(5, 2, "1/2") - 5 == 4 * (1 + Fraction(7, 4) - Fraction(4, 48))
    assert [exact_fluctuation(k, 1) for k in (1, 2, 10)] == [Fraction(-1, 4), -1, -25]
    known = {(2, 2): Fraction(-23, 6), (2, 3): Fraction(-77, 5), (3, 2): Fraction(-22, 3)}
    assert {key: exact_fluctuation(*key) for key in known} == known


@pytest.mark.parametrize(("d", "q", "rho"), AWKWARD)
def test_awkward_points_in_floats(d, q, rho) -> None:
    exact = exact_chi(d, q, Fraction(rho))
    assert error(chi.numpy(d, q, rho), exact) < 2e-15
    assert error(chi.torch(d, q, torch.tensor(rho, dtype=torch.float64)), exact) < 2e-15
    kappa = exact_fluctuation(d, q)
    assert max(error(f(d, q), kappa) for f in (fluctuation.numpy, fluctuation.torch)) < 1e-15


@pytest.mark.parametrize(("d", "q", "rho"), [*AWKWARD[::5], (3, 17, 0.3), (1, 40, -0.7)])
def test_thirty_digits_are_those_of_the_fraction(d, q, rho) -> None:
    for computed, exact in (
        (chi.evaluate(30, d=d, q=q, rho=rho), exact_chi(d, q, Fraction(rho))),
        (fluctuation.evaluate(30, d=d, q=q), exact_fluctuation(d, q)),
    ):
        with mp.workdps(40):
            assert abs(computed * exact.denominator / exact.numerator - 1) < mpf(10) ** -29


@pytest.mark.parametrize("q", [1, 2, 3, 6, 12, 25, 40])
def test_a_sweep_in_floats(q) -> None:
    """rho^2 is rounded, and chi moves up to q/2 times as fast: forty half ulps at most, 5e-15."""
    rng = random.Random(q)
    overlaps = [rng.uniform(-1, 1) for _ in range(40)] + [1 - 10.0**-k for k in range(2, 16, 3)]
    for d in (1, 2, 7, 1000):
        exact = [exact_chi(d, q, Fraction(x)) for x in overlaps]
        for computed in (
            chi.numpy(d, q, np.array(overlaps)),
            chi.torch(d, q, torch.tensor(overlaps, dtype=torch.float64)),
        ):
            assert max(map(error, computed, exact)) < 5e-15


@pytest.mark.parametrize("q", [1, 2, 7, 40])
def test_gradients_by_autograd(q) -> None:
    x = torch.tensor([0.0, 1e-9, -0.3, 0.9, 1.0, -1.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(chi.torch(3, q, x).sum(), x)
    for at, computed in zip(x.tolist(), slope.tolist()):
        powers = [(k, line.at(3)) for k, line in enumerate(polynomial(q))]
        exact = sum((2 * k * c * Fraction(at) ** (2 * k - 1) for k, c in powers[1:]), Fraction(0))
        assert error(computed, exact) < 1e-14 if exact else computed == 0
        textbook = chi.diff("rho").evaluate(20, d=3, q=q, rho=at)
        assert float(textbook) == pytest.approx(float(exact), rel=1e-14)


def test_the_faces_agree_to_thirty_digits() -> None:
    values = [mpf(POINT[symbol.name]) for symbol in magnification.args]
    for formula in ALL:
        with mp.workdps(40):
            args = values[: len(formula.args)]
            stable = compile_mpmath(formula.args, formula.stable)(*args)
            assert abs(stable / formula.mpmath(*args) - 1) < mpf(10) ** -38


@pytest.mark.parametrize("formula", [chi, magnification], ids=lambda f: f.name)
def test_the_sign_of_the_overlap_does_not_matter(formula) -> None:
    x = np.linspace(0, 1, 11)
    np.testing.assert_array_equal(
        formula.numpy(**at(formula, rho=x)), formula.numpy(**at(formula, rho=-x))
    )


@pytest.mark.parametrize("ratio", [0, 0.3, 1, 4.5])
@pytest.mark.parametrize(("d", "q", "x"), [(1, 1, 1.0), (1000, 1, 0.2), (2, 40, 0.9), (3, 2, 0.0)])
def test_magnification_is_made_of_both_factors(d, q, x, ratio) -> None:
    """The error is measured by the larger of the two terms, which may cancel against each other."""
    data = (Fraction(ratio) - 1) * (exact_chi(d, q, Fraction(x)) - d) / 4
    kappa, n = exact_fluctuation(d, q), 12345
    values = {"d": d, "q": q, "rho": x, "ratio": ratio, "n": n}
    scale = 1 + (abs(data) + abs(kappa)) / n
    for computed in (
        magnification.numpy(**values),
        magnification.torch(**values),
        magnification.evaluate(**values),
    ):
        assert abs(Fraction(float(computed)) - 1 - (data + kappa) / n) < Fraction(5e-15) * scale


BAD = {
    "q": (0, -2, 1.5, "two"), "d": (0, 2.5), "rho": (1.1, -2, float("nan"), None),
    "ratio": (-0.1,), "n": (0, 0.5, -3),
}  # fmt: skip


@pytest.mark.parametrize(
    ("formula", "name", "bad"),
    [(f, symbol.name, bad) for f in ALL for symbol in f.args for bad in BAD[symbol.name]],
)
def test_bad_values_are_refused_in_words(formula, name, bad) -> None:
    for call in (formula.evaluate, formula.numpy, formula.torch):
        with pytest.raises(
            InputError, match=rf"(must be|needs {name}|{name} = .* is no number)"
        ) as raised:
            call(**at(formula, **{name: bad}))
        assert f"{name} = " in str(raised.value)


def test_degrees_in_tensors_are_degrees() -> None:
    x = torch.tensor([0.5], dtype=torch.float64)
    assert chi.torch(3, torch.tensor(2), x) == chi.torch(3, 2, x)
    with pytest.raises(InputError, match="whole number"):
        chi.torch(3, torch.tensor(1.5), x)
    for several in (np.array([1, 2]), [1, 2]):
        with pytest.raises(InputError, match="q must be one number"):
            chi.numpy(3, several, 0.5)
    for bad in ("3/2", "abc", float("nan"), None):
        with pytest.raises(InputError, match="rho"):
            exact_chi(2, 2, bad)


def test_a_degree_beyond_floats_is_refused_by_floats_only() -> None:
    for call in (chi.numpy, chi.torch, magnification.numpy):
        for q in (600, 10_000):
            with pytest.raises(InputError, match=rf"q = {q} .*evaluate"):
                call(**at(magnification if call == magnification.numpy else chi, q=q))
    with mp.workdps(40):
        exact, computed = exact_chi(3, 600, 1), chi.evaluate(30, d=3, q=600, rho=1)
        assert abs(computed * exact.denominator / exact.numerator - 1) < 1e-29


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9])
def test_large_degrees_stay_in_range(rho) -> None:
    """The error grows with q as in the sweep; in single precision a unit of rounding is 6e-8."""
    assert error(chi.numpy(2, 450, rho), exact_chi(2, 450, Fraction(rho))) < 1e-13
    single = torch.tensor(rho)
    assert error(chi.torch(100, 50, single), exact_chi(100, 50, Fraction(single.item()))) < 1e-5


def test_arrays_broadcast_and_numbers_may_be_fixed() -> None:
    dims, x = np.array([[1], [5]]), np.array([0.1, -0.4, 1.0])
    computed = magnification.numpy(dims, 3, x, 2.0, 50)
    assert computed.shape == (2, 3)
    assert computed[1, 1] == magnification.numpy(5, 3, -0.4, 2.0, 50)
    for name in ("d", "q", "rho", "ratio", "n"):
        fixed = magnification.at(**{name: POINT[name]})
        rest = {k: v for k, v in POINT.items() if k != name}
        for backend in ("numpy", "torch"):
            whole = float(getattr(magnification, backend)(**POINT))
            assert float(getattr(fixed, backend)(**rest)) == pytest.approx(whole, rel=1e-15)
    assert chi.torch(3, 2, torch.tensor([0.5])).dtype == torch.float32


def test_averages_of_polynomials_are_exact() -> None:
    with mp.workdps(40):
        computed = gaussian_mean(lambda u, v: u**8 * (v**6 + u * v), 2, 9)
        assert abs(computed - odd_factorial(7) * odd_factorial(5)) < mpf(10) ** -36


def test_the_exact_linear_posterior_is_that_of_sampled_weights() -> None:
    """Narrow networks drawn from the prior and weighed by the datum y = 1.3 at x_a = (1, 0)."""
    n, y, draws = 6, 1.3, 400_000
    w = np.random.default_rng(0).standard_normal((draws, n, 2))
    g = np.einsum("sni,snj->sij", w, w) / n
    weight = np.exp(-(y**2) / (2 * g[:, 0, 0])) / np.sqrt(g[:, 0, 0])
    rest = np.linalg.det(g) / g[:, 0, 0] + (y * g[:, 0, 1] / g[:, 0, 0]) ** 2  # of f at (0, 1)
    volume, spread = posterior_volume(n, 2, mpf(y) ** 2), posterior_spread(n, mpf(y) ** 2)
    for sampled, true in ((np.sqrt(np.linalg.det(g)), volume), (rest, spread)):
        residue = weight * (sampled - float(true)) / weight.mean()
        assert abs(residue.mean()) < 4 * residue.std() / np.sqrt(draws)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_linear_network_has_the_corrected_coefficient_and_not_the_printed_one(d) -> None:
    computed = coefficient(lambda n: posterior_volume(n, d, mpf("2.5")), start=1024)
    assert abs(computed - magnification.evaluate(15, d=d, q=1, rho=1, ratio="2.5", n=1) + 1) < 1e-12
    assert abs(computed - mpf("1.5") * 2 / 4) > 0.2

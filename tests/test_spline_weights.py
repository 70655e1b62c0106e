"""Hats against the density of knots in 30 digits, shares of knots, fields, and the shape of curves."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from mpmath import mp
from scipy.integrate import quad
from scipy.optimize import brentq

from analytic.expressions.arguments import InputError
from analytic.splines import INITIALISATIONS
from numeric.splines import SplineInterpolant
from numeric.splines.equations import place, solve
from numeric.splines.law import FilledLaw, filled
from numeric.splines.norms import variation
from numeric.splines.system import FIELDS, StepKernelSum, field_terms
from numeric.splines.weights import hats

LAWS = {
    "signs": {"B": 0.75},
    "uniform": {"A": 2.0, "B": 0.75},
    "gaussian": {"sa": 1.5, "sb": 0.5},
    "onesided": {},
}
INTERVALS = [
    (-0.2, 0.1),
    (-2.0, 3.0),
    (-5.0, -0.1),
    (0.3, 0.3 + 1e-6),
    (0.1, 40.0),
    (1000.0, 1001.0),
    (1000.0, 5000.0),
    (-2e6, 0.5),
    (-1e6, -1e6 + 30),
    (-1e-9, 1e-9),
]


def law(name: str) -> FilledLaw:
    return filled(INITIALISATIONS[name], LAWS[name])


def by_quadrature(name: str, p: float, q: float) -> list[float]:
    """The three integrals of hats, cut wherever the density is not smooth or changes its scale."""
    density, values = INITIALISATIONS[name].density, LAWS[name]
    p, q = mp.mpf(p), mp.mpf(q)
    scale = [s * 10**k for k in range(-3, 7) for s in (-1, 1)] + [0]
    cuts = sorted(c for c in {*map(mp.mpf, scale), *map(mp.mpf, law(name).edges)} if p < c < q)
    numbers = {key: mp.mpf(value) for key, value in values.items()}

    def integral(power: int) -> float:
        def integrand(u: mp.mpf) -> mp.mpf:
            t = (u - p) / (q - p)
            return density.mpmath(u=u, **numbers) * (1 - t) ** (2 - power) * t**power

        return float(mp.quad(integrand, [p, *cuts, q]))

    with mp.workdps(30):
        return [integral(power) for power in range(3)]


@pytest.mark.parametrize("name", LAWS)
def test_hats_agree_with_quadrature(name) -> None:
    p, q = (np.array(ends) for ends in zip(*INTERVALS, strict=True))
    integrals = hats(INITIALISATIONS[name], LAWS[name])(p, q)
    for k, interval in enumerate(INTERVALS):
        wanted = by_quadrature(name, *interval)
        got = integrals.pp[k], integrals.pq[k], integrals.qq[k]
        assert got == pytest.approx(wanted, rel=4e-15, abs=0)


@pytest.mark.parametrize("name", LAWS)
def test_an_interval_of_no_length_holds_nothing(name) -> None:
    at = np.array([-3.0, -0.5, 0.0, 0.2, 7.0])
    integrals = law(name).hats(at, at)
    assert [*integrals.pp, *integrals.pq, *integrals.qq] == [0.0] * 15


@pytest.mark.parametrize("name", LAWS)
def test_all_knots_together_have_the_moments_of_the_law(name) -> None:
    one = law(name)
    ends = np.array([-1e12, -3.0, 0.0, 0.4, 1e12])
    p, q = ends[:-1], ends[1:]
    ones = np.ones_like(p), np.ones_like(p)
    total = one.hats(p, q)
    assert total.against(ones, ones).sum() == pytest.approx(one.slopes, rel=1e-13)
    squares = total.against((p, q), (p, q)).sum()
    # The density falls as u^-4, so that 1e-12 of its second moment lies beyond the last end.
    assert squares == pytest.approx(one.biases, rel=1e-11)


def test_linear_functions_against_the_density() -> None:
    one = law("signs")  # 1 / (2 B) on [-B, B]
    inner = one.hats(np.array([-0.5]), np.array([0.5]))
    x = np.array([-0.5]), np.array([0.5])
    assert inner.against(x, x)[0] == pytest.approx(1 / 12 / 1.5, rel=1e-15)
    assert inner.against(x, (1.0, 1.0))[0] == pytest.approx(0, abs=1e-17)
    assert inner.against((3.0, 3.0), (2.0, 2.0))[0] == pytest.approx(6 / 1.5, rel=1e-15)


def test_density_of_a_law_and_its_edges() -> None:
    assert law("uniform").edges == [-0.375, 0.375]
    assert law("onesided").edges == [0.0, 1.0]
    assert law("gaussian").edges == []
    assert law("signs").density(np.array([0.0, 0.7, 0.8])) == pytest.approx([2 / 3, 2 / 3, 0])
    assert law("gaussian").scale == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", LAWS)
def test_share_of_knots(name) -> None:
    one, values = law(name), {key: mp.mpf(v) for key, v in LAWS[name].items()}
    x = np.array([-2.0, -0.3, 0.0, 0.2, 0.9, 5.0])
    density = INITIALISATIONS[name].knots.mpmath
    for at, share in zip(x, one.passed(x), strict=True):
        cuts = sorted({-9.0, -1.0, 0.0, 1.0, *one.edges})
        pieces = [-mp.inf, *(c for c in cuts if c < at), at]
        counted = mp.quad(lambda u: density(u=u, **values), pieces)
        assert share == pytest.approx(float(counted), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", LAWS)
def test_which_laws_look_one_way(name) -> None:
    assert law(name).clamped == (name == "onesided")


@pytest.mark.parametrize("clamped", [False, True])
def test_fields_are_sums_of_step_kernels(clamped) -> None:
    share = np.array([0.0, 0.2, 0.2, 0.7, 0.9]) if clamped else np.array([0.1, 0.2, 0.2, 0.7, 0.9])
    sources = np.array([0.0 if clamped else 0.4, 1.0, -0.3, 2.0, -1.5])

    def kernel(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        return np.minimum(p, q) if clamped else (1 - np.abs(p - q)) / 2

    # The sources are unknowns that are known: those of the other field.
    source_places = place(FIELDS[1], np.arange(5))
    terms = field_terms(share, clamped, FIELDS[0], (source_places, sources))
    field = StepKernelSum.of(share, solve(terms, known=(source_places, np.ones(5))), FIELDS[0])
    at = np.linspace(0, 1, 41)
    sections = kernel(at[:, None], share)
    assert field(at) == pytest.approx(sections @ sources, abs=1e-14)
    assert field.norm(clamped) == pytest.approx(
        float(sources @ kernel(share[:, None], share) @ sources), rel=1e-13
    )


@pytest.mark.parametrize("name", LAWS)
def test_derivatives_of_the_smooth_part(name) -> None:
    x, y = np.array([0.05, 0.3, 0.5, 0.7, 1.4]), np.array([0.3, -0.2, 0.5, 0.1, -0.4])
    fitted = SplineInterpolant(INITIALISATIONS[name], LAWS[name]).fit(x, y)
    at = np.array([-2.0, -0.2, 0.02, 0.31, 0.36, 0.63, 1.1, 1.6, 30.0])  # within smooth pieces
    h = 1e-4

    def difference(of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Of fourth order."""
        near, wide = of(at + h) - of(at - h), of(at + 2 * h) - of(at - 2 * h)
        return (8 * near - wide) / (12 * h)

    size = np.abs(fitted.predict(at)).max()
    # Rounding leaves eps / h of a difference.
    assert fitted.derivative(at) == pytest.approx(difference(fitted.predict), abs=2e-11 * size)
    second = difference(fitted.derivative)
    assert fitted.derivative(at, 2) == pytest.approx(second, abs=1e-10 * np.abs(second).max())
    for order in (0, 3, 1.5):
        with pytest.raises(InputError, match="order"):
            fitted.derivative(at, order)
    with pytest.raises(InputError, match="finite"):
        fitted.predict([0.0, np.nan])


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("stretch", [0.02, 1.0, 30.0])
def test_variation_by_adaptive_quadrature(name, stretch) -> None:
    x, y = np.array([0.05, 0.3, 0.5, 0.8]), np.array([0.3, -0.2, 0.5, 0.1])
    x = x if name in ("signs", "onesided") else stretch * (x - 0.4)
    fitted = SplineInterpolant(INITIALISATIONS[name], LAWS[name]).fit(x, y)

    def integrand(t: float) -> float:
        """In x = sinh t, so that all scales take part."""
        x = np.sinh(t)
        return float(np.abs(fitted.derivative(x, 2)) * np.cosh(t) ** 2)

    def bend(t: float) -> float:
        return float(fitted.derivative(np.sinh(t), 2))

    grid = np.arcsinh(np.concatenate([x, law(name).edges, [0.0]]))
    marks = np.unique(np.concatenate([grid, np.linspace(-30, 30, 61)]))
    zeros = [brentq(bend, p, q) for p, q in pairwise(marks) if bend(p) * bend(q) < 0]
    marks = np.unique(np.concatenate([marks, zeros]))
    pieces = [quad(integrand, p, q, epsabs=1e-12, epsrel=1e-10)[0] for p, q in pairwise(marks)]
    assert variation(fitted) == pytest.approx(sum(pieces), rel=1e-9)


def test_variation_of_one_section() -> None:
    c = 0.7
    fitted = SplineInterpolant(INITIALISATIONS["onesided"]).fit([0.0, c], [0.0, 2.0])
    alpha = 2.0 / (c**3 / 3)
    first = (c * np.hypot(1, c) + np.arcsinh(c)) / 2  # of sqrt(1 + x^2) up to c
    exact = alpha * (c * first - ((1 + c**2) ** 1.5 - 1) / 3)
    assert variation(fitted) == pytest.approx(exact, rel=1e-14)


def test_cubic_in_the_core_and_rational_outside() -> None:
    x = np.array([-3.0, -0.5, 0.2, 0.7, 2.0, 4.0])
    fitted = SplineInterpolant(INITIALISATIONS["uniform"], {"A": 1.0, "B": 1.0}).fit(
        x, [0.3, -0.2, 0.5, 0.1, -0.4, 1.0]
    )

    def fourth(p, q, power=0) -> float:
        """Relative fourth differences of x^power f."""
        at = np.linspace(p, q, 9)
        return (
            np.abs(np.diff(at**power * fitted.predict(at), 4)).max()
            / np.abs(fitted.predict(at)).max()
        )

    for p, q in ((-0.5, 0.2), (0.2, 0.7), (0.7, 1.0), (-1.0, -0.5)):
        assert fourth(p, q) < 1e-13
    for p, q in ((2.0, 4.0), (4.0, 9.0), (-3.0, -1.0), (-8.0, -3.0)):
        assert fourth(p, q, 2) < 1e-12  # a + b x + c / x + d / x^2
        assert fourth(p, q) > 1e-6


@pytest.mark.parametrize("name", LAWS)
def test_tangent_interpolants_have_kinks_at_data(name) -> None:
    x, y = np.array([0.1, 0.3, 0.5, 0.7]), np.array([0.3, -0.2, 0.5, 0.1])
    init, h = INITIALISATIONS[name], 1e-7
    fitted = SplineInterpolant(init, LAWS[name], readout=1 / 3).fit(x, y)
    before, here, after = (fitted.predict(x + step) for step in (-h, 0, h))
    jump = -fitted.coefficients_[-4:] * (1 + x**2) * init.knots.numpy(u=x, **LAWS[name]) / 3
    # h f'' and eps / h are what differences of this step cannot resolve.
    assert (before - 2 * here + after) / h == pytest.approx(jump, abs=1e-5 * np.abs(jump).max())
    assert np.abs(jump).min() > 0.01


def test_order_and_repetitions_do_not_matter() -> None:
    x, y = np.array([-0.4, 0.1, 0.3, 2.0]), np.array([1.0, -1.0, 0.5, 0.2])
    order, at = [3, 0, 2, 2, 1, 0], np.linspace(-3, 4, 15)
    one = SplineInterpolant(INITIALISATIONS["gaussian"], LAWS["gaussian"])
    shuffled, sorted_ = one.fit(x[order], y[order]).predict(at), one.fit(list(x), y).predict(at)
    assert shuffled.tolist() == sorted_.tolist()

"""Posteriors of finite width: solved exactly, or by weighted networks that refute the printed sign."""

import math

import pytest
import torch
from mpmath import mp, mpf

from analytic import perturbation
from analytic.activations import erf, monomial, relu
from analytic.expressions.arguments import InputError
from analytic.perturbation.linear import (
    coefficient,
    posterior_moment,
    posterior_volume,
    wishart_volume,
)
from numeric.estimate import Estimate
from numeric.experiments.bayes import (
    Coefficients,
    FewEffectiveDraws,
    PosteriorVolume,
    Problem,
    Weighted,
    at_infinite_width,
)
from test_progress import terminal_for


def run(problem: Problem, n: int, draws: int, seed: int = 0) -> Weighted:
    return PosteriorVolume(problem, n, draws, seed, device="cpu").run(progress=False)


def linear(d: int, t: float) -> Problem:
    return Problem.one_example(monomial(1), d, -1.0 if d == 1 else 0.3, t)


@pytest.mark.parametrize("power", [0.5, 1, 2, -1])
@pytest.mark.parametrize(("n", "t"), [(1, "1e-6"), (1, 2.5), (2, 90), (7, 0.01), (400, 2.5)])
def test_moments_are_ratios_of_bessel_functions(n: int, t: float, power: float) -> None:
    with mp.workdps(50):
        order, at = mpf(n - 1) / 2, mp.sqrt(n * mpf(t))
        ratio = mp.besselk(order + power, at) / mp.besselk(order, at)
        expected = (mpf(t) / n) ** (mpf(power) / 2) * ratio
        assert abs(posterior_moment(n, mpf(t), power) / expected - 1) < mpf(10) ** -30


def test_moments_are_those_of_the_density() -> None:
    n, t, m = 5, mpf("1.7"), 3

    def mass(power: int) -> mpf:
        order = power + mpf(n - m) / 2
        return mp.quad(lambda s: s ** (order - 1) * mp.exp(-(n * s + t / s) / 2), [0, 1, mp.inf])

    assert abs(posterior_moment(n, t, 1, outputs=m) - mass(1) / mass(0)) < 1e-12


def test_very_wide_networks_do_not_underflow() -> None:
    n = 10**8
    assert n * (posterior_moment(n, 100, 0.5) - 1) == pytest.approx(49.25, rel=1e-5)
    assert n * (wishart_volume(n, 3) - 1) == pytest.approx(-2.25, rel=1e-7)


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_fluctuations_of_a_wishart_matrix(d: int) -> None:
    numerical_kappa = coefficient(lambda n: wishart_volume(n, d), start=1024)
    assert abs(numerical_kappa + mpf(d * d) / 4) < mpf(10) ** -18 * d**2
    kappa = perturbation.fluctuation.evaluate(30, d=d, q=1)
    assert abs(numerical_kappa - kappa) < mpf(10) ** -18 * d**2


@pytest.mark.parametrize(("d", "t", "m"), [(1, "2.5", 1), (3, "2.5", 1), (2, 0, 1), (2, 3, 4)])
def test_exact_posteriors_have_the_corrected_coefficient(d: int, t: str, m: int) -> None:
    learning, kappa = (mpf(t) - m) / 2, -mpf(d * d) / 4
    total = coefficient(lambda n: posterior_volume(n, d, mpf(t), m))
    assert abs(total - learning - kappa) < mpf(10) ** -15
    assert abs(total - learning) > 0.2  # as printed


def test_an_unlabelled_example_is_the_limit_of_a_small_label() -> None:
    assert posterior_volume(6, 3, 0) == pytest.approx(posterior_volume(6, 3, mpf("1e-25")))
    assert posterior_volume(2, 3, 1) == wishart_volume(2, 3) == 0  # fewer units than dimensions
    with pytest.raises(InputError, match="label of 0"):
        posterior_moment(1, 0)


@pytest.mark.parametrize("bad", [0, -1, 2.0, True])
def test_exact_sizes_are_whole(bad: object) -> None:
    for call in (
        lambda: wishart_volume(bad, 2),
        lambda: posterior_volume(3, bad, 1),
        lambda: posterior_moment(bad, 1),
        lambda: coefficient(lambda n: n, terms=bad),
    ):
        with pytest.raises(InputError, match="whole number"):
            call()
    for t in (-1, math.nan, math.inf, 1j):
        with pytest.raises(InputError, match="t = "):
            posterior_moment(3, t)


@pytest.mark.parametrize(
    ("n", "d", "t"), [(20, 1, 2.5), (20, 2, 2.5), (12, 3, 0.4), (100, 2, 0.0), (30, 2, 6.0)]
)
def test_weighted_networks_find_the_exact_posterior(n: int, d: int, t: float) -> None:
    coefficients = run(linear(d, t), n, 30_000).coefficients
    learning = n * (posterior_moment(n, t) - 1) / 2
    total = n * (posterior_volume(n, d, t) - 1)
    prior = n * (wishart_volume(n, d) - 1)
    pairs = (
        (coefficients.learning, learning),
        (coefficients.total, total),
        (coefficients.fluctuation, prior),
    )
    for estimate, exact in pairs:
        assert estimate.sigmas_from(torch.tensor(float(exact))).max() < 4
        assert estimate.stderr.max() < 0.03
    printed = (t - 1) / 2
    assert coefficients.total.sigmas_from(torch.tensor(printed)).min() > 10


def test_several_outputs_weigh_together() -> None:
    one, m, n = linear(2, 1.0), 3, 40
    labels = torch.tensor([[0.5, -1.5, 1.0]], dtype=torch.float64)
    coefficients = run(
        Problem(one.activation, one.inputs, labels, one.points), n, 30_000
    ).coefficients
    exact = n * (posterior_volume(n, 2, (labels**2).sum().item(), m) - 1)
    assert coefficients.total.sigmas_from(torch.tensor(float(exact))).max() < 4


@pytest.fixture(scope="module")
def quadratic() -> tuple[Weighted, Weighted]:
    problem = Problem.one_example(monomial(2), 2, 0.5, 1.5)
    return run(problem, 150, 20_000, seed=1), run(problem, 450, 20_000, seed=2)


def test_the_volume_contracts_where_the_paper_says_it_expands(
    quadratic: tuple[Weighted, Weighted],
) -> None:
    values = {"d": 2, "q": 2, "rho": "0.5"}
    printed = 0.5 / 4 * (float(perturbation.chi.evaluate(20, **values)) - 2)
    corrected = float(perturbation.magnification.evaluate(20, **values, ratio="1.5", n=1)) - 1
    assert printed > 0.9
    assert corrected < -2.8
    limit = at_infinite_width(*quadratic)
    assert limit.total.stderr.max() < 0.1
    assert limit.total.sigmas_from(torch.tensor(corrected)).max() < 4
    for coefficients in (quadratic[0].coefficients, quadratic[1].coefficients, limit):
        assert coefficients.total.sigmas_from(torch.tensor(printed)).min() > 30
        assert coefficients.total.mean.max() < 0
    assert limit.learning.sigmas_from(torch.tensor(printed)).max() < 4  # true of sqrt(det <g>)


def test_the_prior_alone_fluctuates_by_kappa(quadratic: tuple[Weighted, Weighted]) -> None:
    limit = at_infinite_width(*quadratic)
    kappa = float(perturbation.fluctuation.evaluate(20, d=2, q=2))
    assert kappa == pytest.approx(-23 / 6)
    assert limit.fluctuation.sigmas_from(torch.tensor(kappa)).max() < 4
    assert limit.fluctuation.sigmas_from(torch.tensor(0.0)).min() > 30


def test_weights_even_out_with_width(quadratic: tuple[Weighted, Weighted]) -> None:
    narrow, wide = (sample.draws - sample.effective for sample in quadratic)
    assert 2 < narrow / wide < 4.5  # their variance falls as 1/n, and the widths are as 1 to 3


def _normal(*shape: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(erf, _normal(2, 3, seed=0), _normal(2, 2, seed=1), _normal(2, 3, seed=2), 1.2, 0.5, 0.1),
        Problem(monomial(1), _normal(2, 2, seed=3), _normal(2, 1, seed=4), _normal(1, 2, seed=5)),
        Problem(relu, _normal(1, 2, seed=6), _normal(1, 1, seed=7), _normal(1, 2, seed=8)),
    ],
    ids=["erf with biases, warm", "linear, interpolating", "relu"],
)  # fmt: skip
def test_networks_agree_with_the_first_order_of_a_dataset(problem: Problem) -> None:
    theory = problem.sampled(400_000, seed=1, device="cpu")
    limit = at_infinite_width(run(problem, 80, 12_000, seed=1), run(problem, 240, 12_000, seed=2))
    for name in ("shift", "learning", "fluctuation", "total"):
        a, b = getattr(limit, name), getattr(theory, name)
        off = (a.mean - b.mean).abs() / (a.stderr**2 + b.stderr**2).sqrt()
        assert off.max() < 4, name
    assert limit.shift.mean.abs().max() > 5 * limit.shift.stderr.max()  # there is something to see


def test_a_seed_is_a_result_and_blocks_cover_all_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = linear(2, 2.0)
    first, again, other = (
        run(problem, 30, 500, seed).coefficients.total.mean for seed in (5, 5, 6)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    monkeypatch.setattr("numeric.experiments.bayes.posterior.BLOCK", 30 * 4 * 64)
    sizes = list(PosteriorVolume(problem, 30, 500)._sizes())
    assert sizes == [64] * 7 + [52]
    assert run(problem, 30, 500, 5).coefficients.total.count == 500


def test_progress_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal_for(monkeypatch)
    PosteriorVolume(linear(1, 2.0), 30, 200, device="cpu").run()
    assert "networks" in shown.getvalue()


def test_few_effective_draws_are_told_and_fewer_refused() -> None:
    with pytest.warns(FewEffectiveDraws, match="only 2.. count"):
        assert 100 < run(linear(2, 30.0), 10, 10_000).effective < 1_000
    with pytest.raises(InputError, match="are needed"):
        run(linear(2, 300.0), 5, 1_000)
    with pytest.raises(InputError, match="overflow"):
        run(linear(2, 1e4), 5, 1_000)


def test_bad_experiments_are_refused() -> None:
    problem = linear(2, 2.0)
    for n in (0, -5, 1, 2.5, True):
        with pytest.raises(InputError, match="n "):
            PosteriorVolume(problem, n)
    for draws in (0, 199, 1e4):
        with pytest.raises(InputError, match="draws"):
            PosteriorVolume(problem, 100, draws)
    three = Problem(erf, _normal(3, 2, seed=0), _normal(3, 1, seed=0), _normal(1, 2, seed=0))
    with pytest.raises(InputError, match="3 examples"):
        PosteriorVolume(three, 2)
    half = Problem(relu, _normal(1, 1, seed=0), _normal(1, 1, seed=0), _normal(1, 1, seed=0))
    with pytest.raises(InputError, match="widen"):
        run(half, 2, 200)  # both units are off in a quarter of the networks
    one = run(problem, 30, 200)
    with pytest.raises(InputError, match="two widths"):
        at_infinite_width(one, one)


def test_extrapolation_removes_one_power_of_the_width() -> None:
    def posterior_sample(n: int, error: float) -> Weighted:
        value = Estimate(torch.tensor([2 + 30 / n]), torch.tensor([error]), 1)
        return Weighted(n, Coefficients(value, value, value, value), 1.0, 1)

    limit = at_infinite_width(posterior_sample(10, 0.3), posterior_sample(30, 0.4)).total
    assert limit.mean.item() == pytest.approx(2)
    assert limit.stderr.item() == pytest.approx(math.hypot(0.15, 0.6))

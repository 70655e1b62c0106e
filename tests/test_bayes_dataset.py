"""The first correction by a dataset: against closed forms, sampling, and what it must refuse."""

import math

import pytest
import sympy as sp
import torch

from analytic import perturbation
from analytic.activations import erf, exponential, monomial, relu
from analytic.activations.activation import Activation
from analytic.expressions.arguments import InputError
from analytic.expressions.symbols import z
from numeric.experiments.bayes import Coefficients, Problem
from numeric.experiments.bayes.coefficients import Tally

FIELDS = ("shift", "learning", "fluctuation", "total")
SWISH = Activation.of(z / (1 + sp.exp(-z)))


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def several(act: Activation, p: int = 2, d: int = 3, **how: float) -> Problem:
    return Problem(act, normal(p, d), normal(p, 2, seed=1), normal(2, d, seed=2), **how)


def worst(coefficients: Coefficients, exact: Coefficients) -> float:
    """Standard errors between sampling and a rule, over every coefficient."""
    pairs = [(getattr(coefficients, f), getattr(exact, f)) for f in FIELDS]
    return max(
        ((a.mean - b.mean).abs() / (a.stderr**2 + b.stderr**2).sqrt()).max().item()
        for a, b in pairs
    )


@pytest.mark.parametrize("rho", [0.0, 0.3, -0.8, 1.0])
@pytest.mark.parametrize(("q", "d"), [(1, 2), (2, 2), (2, 7), (3, 2), (4, 3)])
def test_monomials_have_the_closed_forms(q: int, d: int, rho: float) -> None:
    ratio = 2.5
    coefficients = Problem.one_example(monomial(q), d, rho, ratio).quadrature(24)
    values = {"d": d, "q": q, "rho": rho}
    learning = (ratio - 1) / 4 * (float(perturbation.chi.evaluate(20, **values)) - d)
    kappa = float(perturbation.fluctuation.evaluate(20, d=d, q=q))
    total = float(perturbation.magnification.evaluate(20, **values, ratio=ratio, n=1)) - 1
    for estimate, exact in (
        (coefficients.learning, learning),
        (coefficients.fluctuation, kappa),
        (coefficients.total, total),
    ):
        assert estimate.mean.item() == pytest.approx(exact, rel=1e-10)
        assert estimate.stderr.item() < 1e-10 * (1 + abs(exact))  # exact for polynomials


def test_one_dimension_needs_no_plane() -> None:
    coefficients = Problem.one_example(monomial(1), 1, -1.0, 2.5).quadrature(8)
    assert coefficients.total.mean.item() == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("size", [1e-6, 1e5])
def test_monomials_do_not_see_the_scale_of_anything(size: float) -> None:
    one = Problem.one_example(monomial(3), 2, 0.4, 0.5)
    scaled = Problem(
        one.activation, size * one.inputs, size**3 * one.labels, one.points / size, sigma=1.0
    )
    torch.testing.assert_close(scaled.quadrature(16).total.mean, one.quadrature(16).total.mean)
    wide = Problem(one.activation, one.inputs, 8 * one.labels, one.points, sigma=2.0)
    torch.testing.assert_close(wide.quadrature(16).total.mean, one.quadrature(16).total.mean)


@pytest.mark.parametrize(
    ("act", "sizes", "how", "nodes"),
    [
        (erf, (2, 3), {}, 40),
        (erf, (2, 3), {"zeta": 0.4, "sigma": 1.3, "temperature": 0.1}, 24),
        (SWISH, (1, 6), {"sigma": 0.8}, 60),
        (monomial(2), (2, 2), {"zeta": 0.7}, 12),
        (relu, (1, 2), {}, 60),  # its kink costs the rule digits, which its error tells
        (exponential(0.3), (3, 2), {"temperature": 0.2}, 40),
    ],
    ids=["erf", "erf with biases", "swish", "quadratic", "relu", "exponential"],
)
def test_sampling_agrees_with_quadrature(
    act: Activation, sizes: tuple[int, int], how: dict[str, float], nodes: int
) -> None:
    problem = several(act, *sizes, **how)
    rule = problem.quadrature(nodes)
    assert worst(problem.sampled(100_000, seed=3, device="cpu"), rule) < 4.5


def test_half_the_trace_is_what_learning_adds() -> None:
    problem = several(erf, p=2, d=2)
    coefficients = problem.quadrature(24)
    trace = torch.einsum("rde,red->r", torch.linalg.inv(problem.metric), coefficients.shift.mean)
    torch.testing.assert_close(coefficients.learning.mean, trace / 2)
    torch.testing.assert_close(
        coefficients.total.mean, coefficients.learning.mean + coefficients.fluctuation.mean
    )


def test_labels_like_the_prior_teach_nothing() -> None:
    """Psi = 0 where G_yy equals Gamma, and then only fluctuations are left."""
    problem = several(erf, p=2, temperature=0.3)
    labels = math.sqrt(2) * torch.linalg.cholesky(problem.gamma)
    same = Problem(erf, problem.inputs, labels, problem.points, temperature=0.3)
    coefficients = same.quadrature(16)
    assert coefficients.learning.mean.abs().max() < 1e-12
    torch.testing.assert_close(coefficients.total.mean, coefficients.fluctuation.mean)


def test_one_example_has_the_ratio_it_names() -> None:
    problem = Problem.one_example(erf, 3, 0.25, 4.0)
    assert problem.psi.item() == pytest.approx(3 / problem.kernel.item())
    assert (problem.inputs @ problem.points.T).item() == pytest.approx(0.25)
    assert problem.points.norm().item() == pytest.approx(1)


def test_a_tally_is_the_mean_and_the_delta_method() -> None:
    top, bottom = normal(500, 3) + 2, normal(500, seed=1) / 5 + 1
    whole, parts = Tally(), Tally()
    whole.add(top, bottom)
    for piece in (slice(200), slice(200, 500)):
        parts.add(top[piece], bottom[piece])
    ratio = top.mean(0) / bottom.mean()
    spread = ((top - ratio * bottom[:, None]) / bottom.mean()).std(0)
    for tally in (whole, parts):
        torch.testing.assert_close(tally.estimate().mean, ratio)
        torch.testing.assert_close(tally.estimate().spread, spread)


GOOD = {"inputs": normal(2, 3), "labels": normal(2, 1), "points": normal(1, 3)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"labels": normal(3, 1)}, "labels"),
        ({"labels": normal(2)}, "labels must be"),
        ({"labels": [[1.0], [2.0]]}, "labels must be"),
        ({"points": normal(1, 2)}, "points"),
        ({"points": normal(1, 3).float()}, "float64"),
        ({"inputs": normal(2, 3) * math.nan}, "finite"),
        ({"inputs": normal(1, 3).repeat(2, 1)}, "singular"),
        ({"inputs": torch.zeros(2, 3, dtype=torch.float64)}, "singular"),
        ({"sigma": 0.0}, "sigma"),
        ({"zeta": -1.0}, "zeta"),
        ({"temperature": -0.1}, "temperature"),
        ({"activation": monomial()}, "open parameters"),
        ({"activation": sp.Symbol("z")}, "activation"),
    ],
)
def test_bad_problems_are_refused(wrong: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Problem(**({"activation": monomial(1)} | GOOD | wrong))


def test_opposite_inputs_are_one_to_an_even_activation() -> None:
    inputs = torch.cat([normal(1, 3), -normal(1, 3)])
    with pytest.raises(InputError, match="singular"):
        Problem(monomial(2), inputs, normal(2, 1), normal(1, 3))
    with pytest.raises(InputError, match="singular"):
        Problem(monomial(1), inputs, normal(2, 1), normal(1, 3))
    assert Problem(erf, inputs, normal(2, 1), normal(1, 3), zeta=1.0).psi.isfinite().all()


def test_bad_requests_are_refused() -> None:
    problem = several(erf, p=4, d=6)
    for bad in (0, 1, -3, 2.5, True):
        with pytest.raises(InputError, match="draws"):
            problem.sampled(bad)
        with pytest.raises(InputError, match="nodes"):
            problem.quadrature(bad)
    with pytest.raises(InputError, match="sampled"):
        problem.quadrature(48)  # five axes
    with pytest.raises(InputError, match="at most 100"):
        problem.quadrature(101)
    with pytest.raises(InputError, match="origin"):
        Problem(
            monomial(2), normal(1, 2), normal(1, 1), torch.zeros(1, 2, dtype=torch.float64)
        ).sampled()
    for d, rho, ratio in (
        (2, 1.1, 1.0),
        (1, 0.5, 1.0),
        (2, 0.5, -1.0),
        (2, math.nan, 1.0),
        (2, "half", 1.0),
        (2, 0.5, None),
        (2, 0.5, math.inf),
        (0, 1.0, 1.0),
    ):
        with pytest.raises(InputError):
            Problem.one_example(erf, d, rho, ratio)
    for q in (-1, 0, 1.5):
        with pytest.raises(InputError, match="q"):
            Problem.one_example(monomial(q), 2, 0.5, 1.0)

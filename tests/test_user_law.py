"""Laws of one's own: densities of knots, kernels by one integral, and what is refused."""

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic.expressions.arguments import InputError
from analytic.splines import INITIALISATIONS, Initialisation

a, b = sp.symbols("a b", real=True)
PAIRS = [(0.3, -0.2), (2.0, -3.0), (5.0, 5.0), (0.0, 0.0), (-40.0, 0.1), (1e6, -1e6)]


@pytest.fixture(scope="module")
def laplace() -> Initialisation:
    return Initialisation.of(sp.exp(-sp.Abs(a) - sp.Abs(b)) / 4)


@pytest.fixture(scope="module")
def normal() -> Initialisation:
    return Initialisation.of(sp.exp(-(a**2) / 2 - b**2 / 2) / (2 * sp.pi))


def test_the_normal_law_is_the_one_with_a_closed_form(normal: Initialisation) -> None:
    known = INITIALISATIONS["gaussian"]
    one = {"sa": 1, "sb": 1}
    for x, y in PAIRS:
        for mine, closed in ((normal.rf, known.rf), (normal.both, known.both)):
            true = closed.evaluate(20, x=x, y=y, **one)
            assert abs(mine.evaluate(20, x=x, y=y) - true) <= mpf(10) ** -19 * true
            assert abs(mpf(float(mine.numpy(x=x, y=y))) - true) <= 1e-13 * true
    assert abs(normal.slopes - 1) < 1e-30 > abs(normal.biases - 1)


def test_a_kernel_is_the_average_over_the_law(laplace: Initialisation) -> None:
    """Of ramps over a and b, in 2-D quadrature with cuts at the kinks."""

    def over_b(slope: mpf, x: mpf, y: mpf) -> mpf:
        top = min(slope * x, slope * y)
        cuts = [-mp.inf, *sorted({mpf(0), top} if top > 0 else {top})]
        return mp.quad(lambda c: (slope * x - c) * (slope * y - c) * mp.exp(-abs(c)) / 2, cuts)

    x, y = mpf(1), mpf(-2)
    with mp.workdps(12):
        true = mp.quad(lambda s: over_b(s, x, y) * mp.exp(-abs(s)) / 2, [-mp.inf, 0, mp.inf])
    assert abs(laplace.rf.mpmath(x=x, y=y) - true) < mpf(10) ** -8 * true


def test_gram_matrices_are_positive_and_have_gradients(laplace: Initialisation) -> None:
    x = torch.linspace(-3, 3, 40, dtype=torch.float64, requires_grad=True)
    gram = laplace.rf.torch(x=x[:, None], y=x[None, :])
    assert gram.shape == (40, 40)
    assert torch.allclose(gram, gram.T, rtol=1e-14)
    assert torch.linalg.eigvalsh(gram.detach()).min() > 0
    gram.sum().backward()
    assert torch.isfinite(x.grad).all()
    other = laplace.rf.numpy(x=np.linspace(-3, 3, 40)[:, None], y=np.linspace(-3, 3, 40))
    assert np.allclose(other, gram.detach().numpy(), rtol=1e-14)


def test_the_tangent_kernel_follows(laplace: Initialisation) -> None:
    x, y, ec2 = mpf("0.4"), mpf("-1.1"), mpf("0.3")
    remainder = laplace.ntk.mpmath(x=x, y=y, ec2=ec2) - laplace.rf.mpmath(x=x, y=y)
    assert abs(remainder - ec2 * (1 + x * y) * laplace.both.mpmath(x=x, y=y)) < mpf(10) ** -14


@pytest.mark.parametrize(
    ("density", "why"),
    [
        (sp.exp(-(a**2) - b**2 - a) / sp.pi, "changes under"),
        (sp.exp(-(a**2) / 2 - b**2 / 2), "not to 1"),
        (1 / (sp.pi**2 * (1 + a**2) * (1 + b**2)), "infinite"),
        ((1 + sp.Abs(a) + sp.Abs(b)) ** -3, "infinite"),  # SymPy would not come back
        (sp.exp(-(a**2) - b**2) * sp.Symbol("c"), "depends on"),
        (sp.exp(-(a**2) / 2 - b**2 / 2) / (2 * sp.pi) * (2 - a**2), "a density is at least 0"),
        (sp.I * sp.exp(-(a**2) - b**2), "a density is at least 0"),
        (None, "density in the symbols a and b"),
        ("exp((", "density in the symbols a and b"),
    ],
)
def test_other_laws_are_refused(density: sp.Expr, why: str) -> None:
    with pytest.raises(InputError, match=why):
        Initialisation.of(density)

"""Two-point averages as one integral over an angle: those of ELU, at every angle and scale."""

from functools import cache, partial

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic import activations as A
from analytic.expressions import quadrature
from analytic.expressions.angular_average import AngularAverage, X, Y
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.expectation import PairMoment
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import kxx, kxy, kyy, w
from test_activations import COLLINEAR, GENERAL, PHI, floats

pairs = pytest.mark.parametrize("part", ["kernel", "slope"])


@cache
def elu_by_quadrature(part, gram) -> mpf:
    """Collinear and orthogonal points need one-point averages only."""
    body = {"kernel": PHI["elu"], "slope": lambda z: mp.exp(min(z, mpf(0)))}[part]
    average = partial(quadrature.moment, V=1, kinks=[0])
    with mp.workdps(24):  # nodes reach down to 1e-24, where a steep function falls off
        u, v = mp.sqrt(gram[0]), mp.sqrt(gram[2]) * (-1 if gram[1] < 0 else 1)
        if gram[1] == 0:
            return average(lambda t: body(u * t)) * average(lambda t: body(v * t))
        return average(lambda t: body(u * t) * body(v * t))


@pairs
def test_the_elu_pair_is_right_to_twelve_digits(part) -> None:
    orthogonal = [gram for gram in GENERAL if gram[1] == 0][::3]
    grams = COLLINEAR[::4] + orthogonal  # seven to a scale, so that every fourth meets all kinds
    for gram, *both in zip(grams, *floats(getattr(A.elu, part), grams, {})):
        exact = elu_by_quadrature(part, gram)
        assert all(abs(mpf(float(v)) - exact) <= 1e-12 * abs(exact) for v in both), gram


def test_the_elu_pair_has_a_value_at_variance_zero() -> None:
    """phi'(0) = 1 from both sides, and phi(0) = 0."""
    mean_slope = quadrature.moment(lambda z: mp.exp(min(z, mpf(0))), 1, kinks=[0])
    for gram, slope in (((0, 0, 1), mean_slope), ((1, 0, 0), mean_slope), ((0, 0, 0), mpf(1))):
        at = dict(zip(("kxx", "kxy", "kyy"), gram))
        for formula, true in ((A.elu.slope, slope), (A.elu.kernel, mpf(0))):
            assert abs(formula.evaluate(15, **at) - true) <= 1e-14
            assert abs(formula.numpy(**at) - true) <= 1e-14
            tensor = formula.torch(*(torch.tensor(k).double() for k in gram))
            assert abs(tensor.item() - true) <= 1e-14


@pairs
def test_a_double_integral_finds_the_same(part) -> None:
    phi = {"kernel": A.elu.phi.expr, "slope": A.elu.derivative()}[part]
    double = PairMoment(phi, phi, kxx, kxy, kyy, (0,))
    at = {kxx: sp.Rational(3, 2), kxy: sp.Rational(-2, 5), kyy: sp.Integer(2)}
    value = getattr(A.elu, part).evaluate(15, **{k.name: str(v) for k, v in at.items()})
    with mp.workdps(8):
        true = compile_mpmath((), double.subs(at))()
    assert abs(value - true) <= 1e-7 * abs(true)


def test_integration_variables_are_bound_and_parameters_are_not() -> None:
    """The average of a constant w is w; products of |u| and |v| give the ReLU kernel."""
    one = AngularAverage(w, w, w, w, kxx, kxy, kyy)
    assert one.free_symbols == {w, kxx, kxy, kyy}
    assert one.subs(X, 3) == one
    body = Formula("one", (kxx, kxy, kyy, w), one)
    assert abs(body.evaluate(20, kxx=2, kxy="0.3", kyy=1, w=3) - 3) < mpf(10) ** -19
    values = body.numpy(kxx=2, kxy=[0.3, -1.0], kyy=1, w=[[3.0], [4.0]])
    np.testing.assert_allclose(values, [[3, 3], [4, 4]], rtol=1e-14)
    product = Formula("product", (kxx, kxy, kyy), AngularAverage(2 * X * Y, 0, 0, 0, kxx, kxy, kyy))
    relu = A.relu.kernel.evaluate(25, kxx=2, kxy="0.3", kyy=1)
    assert abs(product.evaluate(25, kxx=2, kxy="0.3", kyy=1) - relu) < mpf(10) ** -24
    assert product.numpy(kxx=[], kxy=[], kyy=[]).shape == (0,)


def test_many_points_are_taken_in_blocks() -> None:
    rng = np.random.default_rng(0)
    a, b, rho = rng.uniform(0.1, 3, (3, 2500))
    c = np.sqrt(a * b) * np.clip(rho - 1.5, -1, 1)
    values = A.elu.slope.numpy(a, c, b)
    for k in (0, 1023, 1024, 2499):
        assert values[k] == pytest.approx(A.elu.slope.numpy(a[k], c[k], b[k]), rel=1e-14)


def test_it_prints_its_integrals() -> None:
    text = A.elu.slope._repr_latex_()
    assert text.count(r"\int_0") == 2
    assert text.count("{") == text.count("}")
    assert r"t_{1}\left(" in text
    assert r"B\left(" in A.elu.kernel._repr_latex_()

"""Do tanh, sigmoid, softplus and SiLU keep their digits where naive forms overflow or cancel?"""

from functools import cache

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from analytic import activations as A
from analytic.checks.oracles import nngp_jet, point_at_radius
from analytic.expressions import quadrature
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import z
from analytic.geometry import nngp


def sech2(t) -> mpf:
    return mp.sech(t) ** 2


def logistic(t) -> mpf:
    return 1 / (1 + mp.exp(-t))


DERIVATIVES = {  # phi, phi', phi'' by hand
    "tanh": (mp.tanh, sech2, lambda t: -2 * mp.tanh(t) * sech2(t)),
    "sigmoid": (
        logistic,
        lambda t: sech2(t / 2) / 4,
        lambda t: -mp.tanh(t / 2) * sech2(t / 2) / 4,
    ),
    "softplus": (lambda t: mp.log1p(mp.exp(t)), logistic, lambda t: sech2(t / 2) / 4),
    "silu": (
        lambda t: t * logistic(t),
        lambda t: logistic(t) + t * sech2(t / 2) / 4,
        lambda t: sech2(t / 2) * (2 - t * mp.tanh(t / 2)) / 4,
    ),
}
names = pytest.mark.parametrize("name", DERIVATIVES)
parts = pytest.mark.parametrize(("part", "order"), [("F", 0), ("G", 1), ("G2", 2)])
POINTS = [0.0] + [side * t for t in (1e-6, 0.5, 1, 3, 36, 700, 1e3, 1e5) for side in (1, -1)]


@names
def test_phi_keeps_all_its_digits_in_both_tails(name) -> None:
    phi, points = A.FURTHER[name].phi, np.array(POINTS)
    for point, *both in zip(POINTS, phi.numpy(points), phi.torch(torch.tensor(points))):
        with mp.workdps(40):
            exact = DERIVATIVES[name][0](mpf(point))
            assert abs(phi.evaluate(30, z=point) - exact) <= mpf("1e-29") * abs(exact)
            assert all(abs(mpf(float(v)) - exact) <= 1e-15 * abs(exact) + 1e-300 for v in both)


@names
@pytest.mark.parametrize("order", [0, 1, 2])
def test_derivatives_and_their_gradients_do_not_overflow(name, order) -> None:
    act, at = A.FURTHER[name], torch.tensor(POINTS, dtype=torch.float64, requires_grad=True)
    formula = Formula("derivative", (z,), act.derivative(order)) if order else act.phi
    value = formula.torch(at)
    for point, v in zip(POINTS, value.tolist()):
        exact = DERIVATIVES[name][order](mpf(point))
        assert abs(v - exact) <= 2e-15 * max(1, abs(exact))
    value.sum().backward()
    assert torch.isfinite(at.grad).all()
    if order < 2:
        expected = [float(DERIVATIVES[name][order + 1](mpf(point))) for point in POINTS]
        np.testing.assert_allclose(at.grad.numpy(), expected, rtol=1e-14, atol=1e-15)


@cache
def moment(name, order, v, sign=1) -> mpf:
    """E[phi(z) phi(sign z)] of a derivative of phi."""
    body = DERIVATIVES[name][order]
    with mp.workdps(20):
        return quadrature.moment(lambda t: body(t) * body(sign * t), mpf(v))


@names
@parts
def test_one_point_moments_hold_to_twelve_digits(name, part, order) -> None:
    formula = A.FURTHER[name].parts[part]
    for v in (1e-6, 1e-2, 1.0, 1e2, 1e4):
        variance = torch.tensor(v, dtype=torch.float64, requires_grad=True)
        value = formula.torch(variance)
        for one in (formula.numpy(v), value.item()):
            assert abs(one - moment(name, order, v)) <= 1e-12 * moment(name, order, v)
        value.backward()
        assert torch.isfinite(variance.grad)
    at_zero = DERIVATIVES[name][order](mpf(0)) ** 2
    assert formula.numpy(0.0) == pytest.approx(float(at_zero), rel=1e-15)


@names
def test_pairs_agree_with_one_point_moments_on_a_line(name) -> None:
    """Coincident and opposite points, held to 1e-12 of E[phi^2] or E[phi'^2]."""
    act, cases = A.FURTHER[name], [(sign, v) for sign in (1, -1) for v in (1e-4, 0.5, 4.0, 1e2)]
    columns = np.array([(v, sign * v, v) for sign, v in cases]).T
    for order, part in enumerate(("kernel", "slope")):
        for (sign, v), value in zip(cases, act.parts[part].numpy(*columns)):
            off = abs(value - moment(name, order, v, sign))
            assert off <= 1e-12 * moment(name, order, v), (part, sign, v)


@names
def test_the_whole_geometry_follows(name) -> None:
    act = A.FURTHER[name]
    assert act.closed_forms == ()
    with mp.workdps(20):
        expected = nngp_jet(act, point_at_radius(mpf("1.25"), 2), mpf("1.5"), mpf("0.5")).scalar()
    assert nngp.ricci(act).numpy(2, 1.5, 0.5, 1.25) == pytest.approx(float(expected), rel=1e-10)

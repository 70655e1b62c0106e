"""Does shallow NTK geometry hold in floats at every radius, and refuse what has no metric?"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf
from sympy import Rational

from analytic import activations, catalogue
from analytic.activations import ACTIVATIONS, elu, exponential, monomial, relu, relu_power
from analytic.activations.activation import Activation
from analytic.checks.kernel_oracles import WideNetwork, ntk_by_weight_average
from analytic.checks.oracles import point_at_radius
from analytic.expressions.arguments import InputError
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import d, s, sigma, xi, z, zeta
from analytic.geometry import nngp, ntk

R = np.array([1e-8, 1e-3, 0.5, 3.0, 1e3, 1e8])
SCALES = ((1.0, 0.0), (1.3, 0.5), (0.7, 1.7))
READOUTS = (0.6, 5.0)
DIMENSIONS = (2, 3, 100, 1)
VALUES = {
    "q": [{"q": q} for q in (2, 3, 5, 1)],
    "w": [{"w": 1.0}, {"w": 0.3}],
    "a": [{"a": 0.75}],
}
FLOATS = 1e-300, 1.7e308

every = pytest.mark.parametrize("act", ACTIVATIONS.values(), ids=ACTIVATIONS)
quantities = pytest.mark.parametrize(
    "quantity", [ntk.magnification, ntk.ricci], ids=lambda f: f.__name__
)


@cache
def formula(act: Activation, quantity: Any) -> Formula:
    return quantity(act)


def parameters(act: Activation) -> list[dict]:
    if act.name == "relu_power":
        return VALUES["q"][:3]  # the ReLU has no metric
    return VALUES[act.parameters[0].name] if act.parameters else [{}]


def radii(act: Activation) -> np.ndarray:
    """All, but for those where moments leave the floats, as a test at the end shows."""
    return R[:4] if act.name == "exponential" else R


def settings(act: Activation) -> Iterator[dict]:
    """Every combination of scales, readout and parameters, with each dimension in its turn."""
    combinations = product(parameters(act), SCALES, READOUTS)
    for k, (values, (scale, bias), readout) in enumerate(combinations):
        at = {"sigma": scale, "zeta": bias, "xi": readout, "d": DIMENSIONS[k % 4]}
        yield at | values


def is_right(value: float, true: Any) -> bool:
    """1e-12 relative, of which d/2 ulps in a power cost 1e-14; or beyond the range of floats."""
    smallest, largest = FLOATS
    if abs(true) > largest:
        return value == np.copysign(np.inf, float(mp.sign(true)))
    return abs(mpf(float(value)) - true) <= 1e-12 * abs(true) + smallest


@quantities
@every
def test_floats_are_right_to_twelve_digits(act, quantity) -> None:
    exact, wrong = formula(act, quantity), []
    for values in settings(act):
        where = radii(act)
        tensor = exact.torch(r=torch.tensor(where), **values)
        for r, *computed in zip(where, exact.numpy(r=where, **values), tensor.numpy()):
            true = exact.evaluate(18, r=r, **values)
            wrong += [(values, r, v, mp.nstr(true)) for v in computed if not is_right(v, true)]
    assert wrong == []


@every
def test_the_origin_is_curved_as_its_own_formula_says(act) -> None:
    for values in settings(act):
        if values["zeta"] == 0:  # V = 0: the metric may be singular, and is where G(0) = 0
            continue
        own, small = formula(act, ntk.origin), {**values, "zeta": 1e-6}
        true = own.evaluate(25, **values)
        assert is_right(own.numpy(**values), true)
        assert is_right(own.numpy(**small), own.evaluate(20, **small))
        curvature = formula(act, ntk.ricci)
        assert abs(curvature.evaluate(20, r=0, **values) - true) <= mpf(10) ** -19 * abs(true)
        assert is_right(curvature.numpy(r=0, **values), true)
        tensor = curvature.torch(r=torch.zeros((), dtype=torch.float64), **values)
        assert is_right(tensor.item(), true)
        if values["d"] > 1 and values.get("q") != 1:
            assert true < 0
        volume = formula(act, ntk.magnification)
        assert is_right(volume.numpy(r=0, **values), volume.evaluate(20, r=0, **values))


@every
def test_without_readout_it_is_the_nngp(act) -> None:
    for values in settings(act):
        at = {k: v for k, v in values.items() if k != "xi"}
        for mine, other in ((ntk.ricci, nngp.ricci), (ntk.magnification, nngp.magnification)):
            ntk_values = formula(act, mine).numpy(r=radii(act), xi=0, **at)
            expected = formula(act, other).numpy(r=radii(act), **at)
            np.testing.assert_allclose(ntk_values, expected, rtol=2e-12, atol=1e-290)
        if true := formula(act, nngp.ricci).evaluate(30, r="0.7", **at):  # no digits show a zero
            value = formula(act, ntk.ricci).evaluate(30, r="0.7", xi=0, **at)
            assert abs(value - true) <= mpf(10) ** -29 * abs(true)


@every
def test_a_line_is_flat(act) -> None:
    at = {"d": 1, "sigma": 1.3, "zeta": 0.5, "xi": 0.6, **parameters(act)[0]}
    assert not formula(act, ntk.ricci).numpy(r=radii(act), **at).any()
    assert formula(act, ntk.ricci).evaluate(r=2, **at) == 0
    assert formula(act, ntk.origin).evaluate(**at) == 0


def test_the_square_has_an_elementary_curvature() -> None:
    """With a = 4/3 (p s + rest) = 4/3 alpha and a + s b = 4/3 eps, in exact rationals."""
    S, m = sigma**2 + xi**2, sigma**2 * xi**2
    p, rest, beta = S * sigma**2 + m, S * zeta**2 + m, 2 * S * sigma**2
    alpha, eps = p * s + rest, rest + (p + beta) * s
    sphere = (d - 2) * (alpha * beta - 2 * p * alpha - s * p**2) / (alpha**2 * eps)
    bend = 2 * (2 * p * s + rest) * (p * eps + alpha * (p + beta)) / (alpha**2 * eps**2)
    expected = Rational(3, 4) * (d - 1) * (sphere - 8 * p / (alpha * eps) + bend)
    curvature = ntk.metric(monomial(2)).scalar_curvature()
    point = {sigma: Rational(3, 4), zeta: Rational(1, 2), xi: Rational(5, 3)}
    for dimension, norm in product((1, 2, 3, 7), (0, Rational(7, 5))):
        at = point | {d: dimension, s: norm}
        assert curvature.subs(at).is_Rational
        assert curvature.subs(at) == expected.subs(at)


def test_tanh_has_the_metric_that_averages_over_its_weights_give() -> None:
    """Tanh has no closed form: each side averages in its own way."""
    act = Activation.of(sp.tanh(z))
    at = {"sigma": 0.75, "zeta": 0.5, "xi": 1.25}
    with mp.workdps(15):
        jet = ntk_by_weight_average(
            WideNetwork(act, **{k: mpf(v) for k, v in at.items()}), point_at_radius(mpf(7) / 5, 3)
        )
    for quantity, true in ((ntk.ricci, jet.scalar()), (ntk.magnification, jet.volume())):
        assert quantity(act).numpy(d=3, r=1.4, **at) == pytest.approx(float(true), rel=1e-11)


ROUGH = {
    "relu": (lambda: relu, "jumps at 0"),
    "relu_power 3/2": (lambda: relu_power(Rational(3, 2)), "too steep at 0"),
    "relu_power fixed": (lambda: relu_power().fixed(q=1), "q > 3/2"),
    "absolute": (lambda: activations.absolute, "jumps at 0"),
    "leaky": (lambda: activations.leaky_relu(), "jumps at 0"),
    "scaled": (lambda: relu.scaled(2), "jumps at 0"),
    "affine": (lambda: activations.affine(activations.absolute, 2, 1), "jumps at 0"),
    "own relu": (lambda: Activation.of(sp.Max(0, z)), "jumps at 0"),
    "own absolute": (lambda: Activation.of(sp.Abs(z)), "jumps at 0"),
    "hard tanh": (lambda: Activation.of(sp.Max(-1, sp.Min(1, z))), "jumps at"),
}


@pytest.mark.parametrize("name", ROUGH)
def test_a_slope_that_jumps_has_no_metric(name) -> None:
    make, reason = ROUGH[name]
    act = make()
    for quantity in (ntk.metric, ntk.magnification, ntk.ricci, ntk.origin):
        with pytest.raises(InputError, match=rf"NTK metric.*does not exist.*{reason}"):
            quantity(act)


@pytest.mark.parametrize("q", [1, 1.5])
def test_an_open_degree_is_refused_when_it_is_too_low(q) -> None:
    at = {"d": 2, "sigma": 1, "zeta": 0, "xi": 1, "r": 1}
    for name in ("ntk.relu_power.ricci", "ntk.relu_power.magnification"):
        for call in (catalogue[name].evaluate, catalogue[name].numpy, catalogue[name].torch):
            with pytest.raises(InputError, match=r"q > 3/2.*E\[phi''\^2\] diverges"):
                call(q=q, **at)


def test_a_kink_whose_slope_is_continuous_is_accepted() -> None:
    act = Activation.of(sp.Piecewise((z, z > 0), (sp.exp(z) - 1, True)))
    at = {"d": 3, "sigma": 1.3, "zeta": 0.5, "xi": 0.6, "r": np.array([0.0, 0.5, 3.0])}
    curvature, known = ntk.ricci(act).numpy(**at), formula(elu, ntk.ricci).numpy(**at)
    np.testing.assert_allclose(curvature, known, rtol=1e-12)


def test_the_relu_has_a_kernel_all_the_same() -> None:
    """Cho and Saul's arc-cosine kernels of degree 1 and 0, and their limits on a line."""
    kernel = catalogue["ntk.relu_power.kernel"]
    at = {"q": 1, "kxx": mpf(2), "kyy": mpf(3), "xi": mpf("0.6"), "xy": mpf("-0.4")}
    root = mp.sqrt(6)
    for rho in (mpf("-0.8"), mpf(0), mpf("0.3")):
        angle = mp.acos(rho)
        once = root * (mp.sin(angle) + (mp.pi - angle) * rho) / (2 * mp.pi)
        slope = (mp.pi - angle) / (2 * mp.pi)
        expected = once + at["xi"] ** 2 * (1 + at["xy"]) * slope
        assert abs(kernel.mpmath(kxy=root * rho, **at) - expected) < 1e-14
        value = kernel.numpy(**{k: float(v) for k, v in at.items()}, kxy=float(root * rho))
        assert value == pytest.approx(float(expected), rel=1e-12)
    same, opposite = ({"kxx": 2, "kyy": 2, "kxy": k, "xy": 1.5, "xi": 0.6, "q": 1} for k in (2, -2))
    assert kernel.numpy(**same) == pytest.approx(1 + 0.36 * 2.5 / 2, rel=1e-14)
    assert kernel.numpy(**opposite) == 0 == kernel.evaluate(**opposite)


@every
def test_kernels_of_coincident_and_of_opposite_points(act) -> None:
    """At y = x the kernel is F + xi^2 (1 + s) G; opposite, an odd and an even phi change its sign."""
    kernel, values, phi = formula(act, ntk.kernel), parameters(act)[0], act.phi.expr
    at = {"kxx": 1.25, "kyy": 1.25, "xi": 0.6, **values}
    F, G = (act.parts[p].numpy(V=1.25, **values) for p in ("F", "G"))
    same = kernel.numpy(kxy=1.25, xy=1.1, **at)
    assert same == pytest.approx(F + 0.36 * 2.1 * G, rel=1e-12)
    for sign in (1, -1):
        if sp.simplify(phi.subs(z, -z) - sign * phi) == 0 and not act.kinks:
            expected = sign * F - sign * 0.36 * (1 - 1.1) * G
            assert kernel.numpy(kxy=-1.25, xy=-1.1, **at) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "act", [monomial(1), activations.hermite(1), activations.polynomial([1, 2])]
)
def test_a_linear_activation_is_flat(act) -> None:
    at = {"d": 3, "sigma": 1.3, "zeta": 0.5, "xi": 0.6, "r": R}
    assert not ntk.ricci(act).numpy(**at).any()
    constant = ((1.3**2 + 0.6**2) * float(act.G.evaluate(20, V=1))) ** 1.5
    np.testing.assert_allclose(ntk.magnification(act).numpy(**at), constant, rtol=1e-13)


@pytest.mark.xfail(strict=True, reason="exp(2 V) overflows, though its root does not")
def test_an_exponential_is_right_as_long_as_its_value_is_a_float() -> None:
    volume, at = formula(exponential(1), ntk.magnification), {"sigma": 1, "zeta": 0, "xi": 1}
    assert is_right(volume.numpy(d=1, r=20, **at), volume.evaluate(18, d=1, r=20, **at))

"""Does shallow NNGP geometry hold in floats from r = 1e-8 to 1e8, and obey its laws exactly?"""

from functools import cache
from itertools import cycle, product

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic.activations import ACTIVATIONS, cosine, erf, gelu, monomial, relu
from analytic.expressions.arguments import InputError
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import d, s, sigma, zeta
from analytic.geometry import nngp

WITHOUT_DIMENSION = (nngp.omega, nngp.tangential, nngp.radial)
WITH_DIMENSION = (nngp.magnification, nngp.ricci)
QUANTITIES = (*WITHOUT_DIMENSION, *WITH_DIMENSION)
R = np.array([0.0, *np.geomspace(1e-8, 1e8, 17)])
SCALES = ((1.0, 0.0), (1.3, 0.5), (0.7, 1.7))
VALUES = {
    "q": [{"q": q} for q in (1, 2, 3, 5, 8, 12)],
    "w": [{"w": 1.0}, {"w": 0.3}],
    "a": [{"a": 0.75}],
}
DIMENSIONS = (1000, 2, 3, 1, 10)
REPRESENTABLE = 1e-300, 1.7e308

activations = pytest.mark.parametrize("act", ACTIVATIONS.values(), ids=ACTIVATIONS)
quantities = pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda f: f.__name__)


@cache
def formula(act, quantity) -> Formula:
    """Derived and compiled once for all tests."""
    return quantity(act)


def parameters(act) -> list[dict]:
    return VALUES[act.parameters[0].name] if act.parameters else [{}]


def settings(act, quantity) -> list[dict]:
    """Every combination of sigma, zeta and the activation's parameters; each with the next d, where asked.

    d enters algebraically, so that one activation with every d is enough.
    """
    combinations = [
        {"sigma": sigma, "zeta": zeta} | extra
        for (sigma, zeta), extra in product(SCALES, parameters(act))
    ]
    if quantity not in WITH_DIMENSION:
        return combinations
    if act is erf:
        return [values | {"d": n} for values, n in product(combinations, DIMENSIONS)]
    return [values | {"d": n} for values, n in zip(combinations, cycle(DIMENSIONS))]


def unbiased(act, quantity) -> list[dict]:
    return [values for values in settings(act, quantity) if values["zeta"] == 0]


def has_origin(exact, values) -> bool:
    """Whether floats have a limit at the origin without bias, or refuse it."""
    try:
        exact.numpy(r=0, **values)
    except InputError:
        return False
    return True


def is_right(value, true) -> bool:
    """1e-12 relative, or beyond the range of floats: d/2 ulps in V^(d/2) cost 1e-13 at d = 1000."""
    smallest, largest = REPRESENTABLE
    if abs(true) > largest:
        return value == np.copysign(np.inf, float(mp.sign(true)))
    if abs(true) < smallest:
        return value == 0 if true == 0 else abs(value) <= smallest
    return bool(np.isfinite(value)) and abs(mpf(float(value)) - true) <= 1e-12 * abs(true)


@quantities
@activations
def test_floats_are_right_to_twelve_digits(act, quantity) -> None:
    exact, wrong = formula(act, quantity), []
    for values in settings(act, quantity):
        radii = R if values["zeta"] or has_origin(exact, values) else R[1:]
        faces = exact.numpy(r=radii, **values), exact.torch(r=torch.tensor(radii), **values).numpy()
        for r, *computed in zip(radii, *faces):
            try:
                true = exact.evaluate(18, r=r, **values)
            except InputError:
                if (r, values["zeta"]) != (0, 0):  # V = 0: only there may a metric not exist
                    wrong.append((values, r, "refused"))
                continue
            wrong += [(values, r, v, mp.nstr(true)) for v in computed if not is_right(v, true)]
    assert wrong == []


@quantities
@activations
def test_the_origin_without_bias_is_a_limit_or_no_number(act, quantity) -> None:
    """V = 0 may be refused or a pole, but a finite float there is the limit r -> 0, up to O(r)."""
    exact = formula(act, quantity)
    for values in unbiased(act, quantity):
        if has_origin(exact, values) and np.isfinite(value := exact.numpy(r=0, **values)):
            limit = exact.evaluate(18, r="1e-15", **values)
            assert abs(value - limit) <= 1e-12 * (1 + abs(limit)), values


@quantities
@activations
def test_few_digits_are_the_first_of_many(act, quantity) -> None:
    """At r = 1e-25 a difference such as 1 - exp(-V) vanishes to 50 digits, but is not zero."""
    exact = formula(act, quantity)
    for values in unbiased(act, quantity):
        few, many = (exact.evaluate(digits, r="1e-25", **values) for digits in (15, 150))
        assert abs(few - many) <= 1e-14 * abs(many), values


@activations
def test_the_curvature_is_that_of_the_general_radial_formula(act) -> None:
    general = nngp.metric(act).scalar_curvature()
    for values, (dimension, scale, bias, r) in product(
        parameters(act)[-2:], ((2, "3/4", "1/2", "7/5"), (5, "6/5", 0, "1/3"), (3, 2, "1/7", 4))
    ):
        arguments = {"d": dimension, "sigma": scale, "zeta": bias, "r": r} | {
            k: sp.Rational(str(v)) for k, v in values.items()
        }
        exact = {d: dimension, sigma: sp.Rational(scale), zeta: sp.Rational(bias)}
        exact |= {s: sp.Rational(r) ** 2} | {p: arguments[p.name] for p in act.parameters}
        expected = sp.N(general.subs(exact), 40)
        value = formula(act, nngp.ricci).evaluate(30, **arguments)
        with mp.workdps(40):
            # The general formula may vanish only up to its cancellation, as for z and the ReLU.
            assert abs(value - mpf(expected)) <= mpf("1e-29") * abs(value) + mpf("1e-38")


@quantities
@activations
def test_a_weight_scale_is_a_scale_of_the_input(act, quantity) -> None:
    """(2 sigma, r/2) is (sigma, r) in the chart 2x; powers of two round nothing."""
    extra = {"d": 3} if quantity in WITH_DIMENSION else {}
    values = {"zeta": 0.75, **parameters(act)[-1], **extra}
    r = np.geomspace(0.01, 10, 9)
    once, twice = (formula(act, quantity).numpy(sigma=c, r=r / c, **values) for c in (1, 2))
    factor = {nngp.tangential: 4, nngp.radial: 4, nngp.magnification: 8}.get(quantity, 1)
    shift = np.log(4) if quantity is nngp.omega else 0
    np.testing.assert_allclose(twice, factor * once + shift, rtol=1e-12)


@activations
def test_the_eigenvalues_make_omega_and_the_volume(act) -> None:
    values = {"sigma": 1.3, "zeta": 0.5, "r": np.geomspace(0.01, 3, 9), **parameters(act)[-1]}
    across, along = (formula(act, f).numpy(**values) for f in (nngp.tangential, nngp.radial))
    volume = formula(act, nngp.magnification).numpy(d=4, **values)
    np.testing.assert_allclose(np.exp(formula(act, nngp.omega).numpy(**values)), across, rtol=1e-12)
    np.testing.assert_allclose(volume**2, across**3 * along, rtol=1e-12)


@activations
def test_the_curvature_vanishes_at_the_origin_and_on_a_line(act) -> None:
    ricci, values = formula(act, nngp.ricci), {"sigma": 1.3, **parameters(act)[-1]}
    assert ricci.evaluate(d=3, zeta="0.5", r=0, **values) == 0
    assert ricci.evaluate(d=1, zeta="0.5", r=2, **values) == 0
    assert ricci.numpy(d=3, zeta=0.5, r=0, **values) == 0
    assert ricci.numpy(d=1, zeta=0.5, r=2, **values) == 0
    assert ricci.numpy(d=3, zeta=0.5, r=2, **values) != 0


def test_a_scaled_cosine_is_a_cosine_down_to_its_curvature() -> None:
    at = {"d": 3, "sigma": 1.3, "zeta": 0.5, "r": np.geomspace(1e-4, 10, 9)}
    one, other = (nngp.ricci(act).numpy(**at) for act in (cosine(1).scaled(2), cosine(2)))
    np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("act", [relu, monomial(1)], ids=["relu", "identity"])
def test_a_homogeneous_network_of_degree_one_is_flat(act) -> None:
    assert nngp.ricci(act).expr == 0
    assert nngp.metric(act).b == 0
    half = sp.Rational(1, 2) if act is relu else 1
    assert nngp.metric(act).a == half * sigma**2


@pytest.mark.parametrize("name", ["relu_power", "monomial"])
def test_degree_one_of_a_family_is_flat_too(name) -> None:
    ricci = formula(ACTIVATIONS[name], nngp.ricci)
    assert ricci.evaluate(q=1, d=3, sigma=2, zeta="0.5", r=3) == 0
    assert not ricci.numpy(q=1, d=3, sigma=2, zeta=0.5, r=R).any()


def test_gelu_changes_the_sign_of_its_curvature_where_its_slope_turns() -> None:
    """dG/dV = E[(t^2 - 1) phi'^2]/(2V) has a zero at V = 10.2133, by quadrature of phi itself."""

    def turning(variance) -> mpf:
        def integrand(t) -> mpf:
            z = mp.sqrt(variance) * t
            return (t**2 - 1) * (mp.ncdf(z) + z * mp.npdf(z)) ** 2 * mp.npdf(t)

        return mp.quad(integrand, mp.linspace(-10, 10, 9))

    with mp.workdps(20):
        zero = mp.findroot(turning, (10.2, 10.3))
        assert mp.nstr(zero, 6) == "10.2133"
        at, radius = {"d": 3, "sigma": 1, "zeta": 0}, mp.sqrt(zero)
        ricci = formula(gelu, nngp.ricci)
        below, there, above = (ricci.evaluate(15, r=radius * c, **at) for c in (0.999, 1, 1.001))
        assert below * above < 0
        assert abs(there) < mpf("1e-13") * abs(above)  # R is linear there, and V has 20 digits
        floats = ricci.numpy(r=float(radius) * np.array([0.999, 1.001]), **at)
        assert floats == pytest.approx([float(below), float(above)], rel=1e-12)

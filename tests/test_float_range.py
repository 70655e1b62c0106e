"""Is a value out of the reach of floats, or of real numbers, refused, and one within it right?"""

from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic import catalogue
from analytic.activations import Activation, erf, gelu, two_slope
from analytic.expressions.arguments import InputError
from analytic.expressions.formula import Formula
from analytic.geometry import nngp
from numeric import infinite

x, y = sp.symbols("x y", real=True)
GROWTH = Formula("growth", (x, y), sp.exp(x) - y)
TOLERANCE = 1e-12  # what floats promise from |x| = 1e-8 to 1e8


def arguments(name: str, values: dict[str, Any]) -> dict[str, Any]:
    names = {symbol.name for symbol in catalogue[name].args}
    return {k: v for k, v in values.items() if k in names}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.bool])
def test_torch_refuses_what_is_no_real_number(dtype) -> None:
    with pytest.raises(InputError, match=f"y was given as a tensor of {dtype}.*real number"):
        GROWTH.torch(torch.zeros(2), torch.ones(2, dtype=dtype))


@pytest.mark.parametrize("argument", [1j, np.array([1.0, 1j]), np.complex128(1)])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_complex_numbers_are_refused_on_every_backend(backend, argument) -> None:
    with pytest.raises(InputError, match=r"x = .* is no number"):
        getattr(GROWTH, backend)(argument, 1.0)


def test_nan_is_refused_with_the_point_that_leads_to_it() -> None:
    gap = Formula("gap", (x, y), sp.exp(x) / sp.exp(y))
    assert gap.numpy(1.0, 1000.0) == 0
    with pytest.raises(InputError, match=r"gap cannot be .* in floats at x = 800\.0, y = 900\.0"):
        gap.numpy(np.array([1.0, 800.0]), np.array([[1.0], [900.0]]))
    assert torch.isnan(gap.torch(torch.tensor(800.0), 900.0))  # tensor values are not inspected


REFUSED, RIGHT = True, False
FAR_AWAY = [
    ("nngp.erf.omega", 1e200, REFUSED),  # it is -461, but log(1 + 2V) is infinite
    ("nngp.erf.tangential", 1e200, REFUSED),  # it is 5e-201, but 1/sqrt(1 + 2V) is 0
    ("nngp.erf.ricci", 1e200, REFUSED),
    ("nngp.erf.ricci", 1e74, RIGHT),
    ("nngp.cosine.omega", 1e-200, REFUSED),
    ("ntk.erf.ricci", 1e9, RIGHT),
    ("ntk.erf.ricci", 1e17, REFUSED),  # the metric along x is 1e-34 of the metric across it
    ("ntk.erf.ricci", 1e-74, RIGHT),
    ("deep.elu.ntk.ricci", 1e-74, RIGHT),
    ("deep.gaussian.ntk.ricci", 1e155, REFUSED),
]


@pytest.mark.parametrize(("name", "r", "refused"), FAR_AWAY)
def test_beyond_the_reach_of_floats_is_the_value_or_a_refusal(name, r, refused) -> None:
    values = {"d": 3, "sigma": 1.0, "zeta": 0.5, "xi": 0.7, "depth": 2, "w": 1.3}
    at, both = arguments(name, values), np.array([0.5, r])
    if refused:
        with pytest.raises(InputError, match=f"r = {r}.*evaluate".replace("+", r"\+")):
            catalogue[name].numpy(r=both, **at)
    else:
        true = float(catalogue[name].evaluate(15, r=r, **at))
        assert catalogue[name].numpy(r=both, **at)[1] == pytest.approx(true, rel=TOLERANCE, abs=0)


def test_a_variance_that_vanishes_beside_one_is_refused() -> None:
    """Without bias the curvature is -4 r^2, and 1 + 2 V is 1 in twofold numbers."""
    at = {"d": 3, "sigma": 1.0, "zeta": 0.0, "xi": 0.7}
    with pytest.raises(InputError, match="r = 1e-17"):
        catalogue["ntk.erf.ricci"].numpy(r=1e-17, **at)
    assert catalogue["ntk.erf.ricci"].numpy(r=0.0, **at) == 0


def test_digits_are_raised_until_an_amplified_origin_is_near() -> None:
    """Six layers of sigma = 300 amplify |x|^2 by 1e25, and the tangent kernel does so once more."""
    at = {"d": 3, "sigma": 300, "zeta": 0, "xi": 1, "r": 0, "depth": 6}
    few, many = (catalogue["deep.erf.ntk.ricci"].evaluate(digits, **at) for digits in (15, 60))
    assert abs(few / many - 1) < mpf("1e-14")


def test_far_out_digits_do_not_settle_on_what_cancels() -> None:
    """R r^4 has the limit 1/(2 pi): at 43 digits E[phi'^2] was without any at V = 1e68."""
    at = {"d": 3, "sigma": 1, "zeta": 0.5}
    for r in (mpf(10) ** 20, mpf(10) ** 34):
        assert catalogue["nngp.elu.ricci"].evaluate(13, r=r, **at) * r**4 == pytest.approx(
            0.15915494309189535
        )


def test_numbers_of_a_layer_beyond_floats_are_not_made_up() -> None:
    formula = catalogue["deep.monomial.nngp.ricci"]
    at = {"d": 2, "sigma": 1.0, "zeta": 0.0, "depth": 5, "q": 2}
    for r in (0.0, 1e-8):  # V^32 is none
        with pytest.raises(InputError, match=f"in floats at d = 2, .*r = {r}"):
            formula.numpy(r=np.array([1.0, r]), **at)


def test_a_factor_with_more_digits_than_floats_have_room_for() -> None:
    """Factoring clears denominators: c^2 = p/q leaves integers of 400 digits."""
    one = nngp.ricci(erf.scaled(sp.Rational(10**200 + 7, 3 * 10**200)))
    at = {"d": 3, "sigma": 1, "zeta": 0.5, "r": 1}
    assert one.evaluate(15, **at) == pytest.approx(-1.46274494616989)  # that of erf(z/3)
    for backend in (one.numpy, one.torch):
        with pytest.raises(InputError, match="fewer digits"):
            backend(**at)


FLOATS = torch.float64, torch.float32
LONG = {  # of a moderate size, with integers that neither floats nor int64 hold
    "a text": "1.2533141373",
    "pi": sp.Rational(3141592653589793, 10**15),
    "30 digits": sp.Rational(10**30 + 1, 10**29 + 7),
    "400 digits": sp.Rational(10**400 + 7, 3 * 10**400),
}


@pytest.mark.parametrize(("act", "digits"), [*((erf, name) for name in LONG), (gelu, "400 digits")])
def test_kernels_take_factors_with_more_digits_than_floats_have_room_for(act, digits) -> None:
    """At 400 digits factoring the kernel took a minute, and its integers could not be held then."""
    x = torch.tensor([[0.3, -1.2, 0.7], [1.1, 0.4, -0.2], [0.5, 0.5, 0.9]], dtype=torch.float64)
    factor = sp.Rational(LONG[digits])
    short = factor.limit_denominator(10**8)  # whose square fits into int64
    assert abs(factor / short - 1) < 1e-15
    for network in (one_layer, two_dense):
        long, true = (network(act.scaled(c)) for c in (factor, short))
        for name, points in ((name, x.to(kind)) for name in ("nngp", "ntk") for kind in FLOATS):
            one, other = (getattr(net, name)(points) for net in (long, true))
            # both round some thirty numbers of the size of the largest
            atol = 30 * torch.finfo(points.dtype).eps * other.max().item()
            torch.testing.assert_close(one, other, rtol=0, atol=atol)


def one_layer(act: Activation) -> infinite.FullyConnected:
    return infinite.FullyConnected([act], sigma_w=1.0)


def two_dense(act: Activation) -> infinite.Network:
    return infinite.Network([infinite.Dense(), act, infinite.Dense()])


def test_rounding_may_break_a_bound_by_1e_12_and_not_by_more() -> None:
    kernel = catalogue["nngp.erf.kernel"].numpy
    kernel(1.0, 1 + 1e-13, 1.0)  # kxy^2 exceeds kxx kyy by 2e-13
    with pytest.raises(InputError, match=r"kxy\^2 <= kxx kyy"):
        kernel(1.0, np.array([0.5, 1 + 1e-11]), 1.0)


def test_a_slope_without_a_negative_side_keeps_its_digits_next_to_opposite_points() -> None:
    """P(u > 0, v > 0) = angle / (2 pi), where 1/4 + asin(rho) / (2 pi) cancels to 1e-8."""
    rho = mpf(-(1 - 2.0**-52))
    true = mp.acos(-rho) / (2 * mp.pi)
    slope = two_slope(0, 1).slope.numpy(1.0, float(rho), 1.0)
    assert slope == pytest.approx(
        float(true), rel=1e-14, abs=0
    )  # a root and an arc of a determinant

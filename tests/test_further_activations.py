"""Are the closed forms beyond the catalogue what their names say, and right in floats everywhere?"""

from functools import partial
from itertools import product

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic import activations as A
from analytic.activations.activation import GRAM, PARTS, Activation
from analytic.activations.log_derivatives import log_derivatives
from analytic.expressions.arguments import InputError
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V, z
from test_activations import COLLINEAR, GENERAL, faults

NAMES = "kxx", "kxy", "kyy"
PHI = {
    "leaky_relu": lambda t: t if t > 0 else t / 10,
    "absolute": abs,
    "sign": mp.sign,
    "step": lambda t: mpf(t > 0),
    "phased_sine": lambda t: mp.sin(mpf(13) / 10 * t + mpf(2) / 5),
    "rbf": lambda t: mp.sqrt(2) * mp.sin(mp.sqrt(mpf(7) / 5) * t + mp.pi / 4),
    "gabor": lambda t: mp.exp(-t * t) * mp.sin(t),
    "hermite": lambda t: (t**3 - 3 * t) / mp.sqrt(6),
}
MORE = {  # other parameters, at which floats may fail
    "no leak": A.leaky_relu(0),
    "slow leak": A.leaky_relu(),
    "bent": A.two_slope(-2, 3),
    "line": A.two_slope(2, 2),
    "early": A.sine(1, phase="1e-6"),
    "late": A.sine("1/3", phase=2),
    "turned": A.sine(2, phase=sp.pi / 2),
    "narrow": A.rbf(50),
    "quadratic": A.hermite(2),
    "tenth": A.hermite(10),
    "moved": A.affine(A.erf, -2, "1/2"),
}
CLOSED = {name: A.FURTHER[name] for name in PHI} | MORE
closed = pytest.mark.parametrize("act", CLOSED.values(), ids=CLOSED)
sloped = [
    (name, part) for name in CLOSED for part in ("kernel", "slope") if part in CLOSED[name].parts
]


def test_the_two_collections_are_apart() -> None:
    assert set(A.FURTHER) == {*PHI, "tanh", "sigmoid", "softplus", "silu"}
    assert not set(A.FURTHER) & set(A.ACTIVATIONS)
    assert len(A.ACTIVATIONS) == 10
    assert all(A.FURTHER[name].closed_forms for name in PHI)


@pytest.mark.parametrize("name", PHI)
def test_phi_is_what_its_name_says(name) -> None:
    """In floats to a few roundings of the value and of the argument."""
    formula, points = A.FURTHER[name].phi, np.array([0, 1e-6, -0.5, 0.75, -3, 5, 1e3, -1e3])
    floats = formula.numpy(points), formula.torch(torch.tensor(points))
    with mp.workdps(40):
        for point, *both in zip(points, *floats):
            exact = PHI[name](mpf(point))
            assert abs(formula.evaluate(30, z=point) - exact) <= mpf("1e-29") * abs(exact)
            turn = point * mp.diff(PHI[name], mpf(point)) if point else 0
            room = 1e-15 * (abs(exact) + abs(turn)) + 1e-300
            assert all(abs(mpf(float(v)) - exact) <= room for v in both)


@pytest.mark.parametrize(("name", "part"), sloped)
def test_floats_are_right_at_awkward_pairs(name, part) -> None:
    """Coincident, opposite, collinear and zero; near those, as far as the inputs determine it."""
    formula = CLOSED[name].parts[part]
    assert faults(formula, COLLINEAR, {}) == []
    assert faults(formula, GENERAL, {}, ulps=4) == []


@closed
def test_one_point_moments_are_right_in_floats(act) -> None:
    """F and G are the pair at coincident points; all three keep their digits at any variance."""
    for v in (0.0, 1e-12, 1e-6, 0.3, 17.0, 1e8):
        for part, pair in (("F", "kernel"), ("G", "slope"), ("G2", None)):
            if part in act.parts and not (act.kinks and v == 0):
                exact = act.parts[part].evaluate(20, V=v)
                assert abs(act.parts[part].numpy(v) - exact) <= 1e-13 * abs(exact)
                if pair:
                    other = act.parts[pair].evaluate(20, kxx=v, kxy=v, kyy=v)
                    assert abs(other - exact) <= 1e-18 * abs(exact)


SHAPES = [(1, 1, 1), (1, -1, 1), (4, 2, 1), (4, -2, 1), (1, 0, 3), (2, -0.75, 1)]
SHAPES += [(1, 1 - 2.0**-20, 1), (1, 2.0**-20 - 1, 1)]
POINTS = [tuple(k * c for c in shape) for shape in SHAPES for k in (2.0**-27, 1.0, 2.0**27)]
ZERO = [(0.0, 0.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)]


@pytest.mark.parametrize(("name", "part"), sloped)
def test_single_precision_stays_finite_and_close(name, part) -> None:
    act, columns = CLOSED[name], torch.tensor([*POINTS, *ZERO], dtype=torch.float64).T
    if name == "tenth":  # (1e8)^10 is beyond its range
        columns = columns[:, columns.amax(0) < 8]
    single = {"kernel": act.F, "slope": act.G}[part].torch
    size = (single(columns[0]) * single(columns[2])).sqrt()
    value = act.parts[part].torch(*columns.float())
    assert value.dtype == torch.float32
    assert torch.all((value - act.parts[part].torch(*columns)).abs() <= 1e-5 * size)


SMOOTH = {name: CLOSED[name] for name, part in sloped if part == "slope"} | {"sine": A.sine(1.5)}


@pytest.mark.parametrize("act", SMOOTH.values(), ids=SMOOTH)
def test_gradients_obey_price_and_are_finite(act) -> None:
    """d(kernel)/d(kxy) is the slope, also where the angle of the pair has no derivative."""
    points = POINTS if act.kinks else [*POINTS, *ZERO]
    gram = torch.tensor(points, dtype=torch.float64).T.requires_grad_()
    (rate,) = torch.autograd.grad(act.kernel.torch(*gram).sum(), gram)
    slope, G = act.slope.torch(*gram.detach()), act.G.torch
    size = (G(gram[0]) * G(gram[2])).sqrt().detach()
    assert torch.isfinite(rate).all()
    assert torch.all((rate[1] - slope).abs() <= 1e-11 * size + 1e-15)


@pytest.mark.parametrize("name", ["gabor", "hermite", "phased_sine", "turned"])
def test_what_curvature_rests_on_keeps_its_digits(name) -> None:
    act = CLOSED[name]
    stretch = Formula("stretch", (V,), log_derivatives(act.G, act.log_derivative).one_plus_2_eps)
    for v in (1e-12, 1e-3, 1.0, 1e3, 1e8):
        with mp.workdps(40):
            exact = 1 + 2 * v * act.G.diff("V").evaluate(40, V=v) / act.G.evaluate(40, V=v)
        assert abs(stretch.numpy(v) - exact) <= 1e-13 * abs(exact)


def test_without_a_leak_it_is_the_relu() -> None:
    columns = np.array(POINTS).T
    for part in ("kernel", "slope"):
        one, other = (getattr(act, part).numpy(*columns) for act in (MORE["no leak"], A.relu))
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=0)
    for part in ("F", "G"):
        assert getattr(MORE["no leak"], part).expr == sp.simplify(getattr(A.relu, part).expr)


def test_an_even_kernel_does_not_see_the_sign_of_a_point() -> None:
    (kxx, kxy, kyy), kernel = np.array(POINTS).T, A.absolute.kernel.numpy
    np.testing.assert_allclose(kernel(kxx, kxy, kyy), kernel(kxx, -kxy, kyy), rtol=1e-14)


def test_collinear_fractions_have_exact_values() -> None:
    """1/10 and 9/10 are no binary fractions, so that rounding may put rho above 1."""
    for sign in (1, -1):
        gram = {"kxx": "0.1", "kxy": sp.Rational(3 * sign, 10), "kyy": "0.9"}
        values = [act.kernel.evaluate(20, **gram) for act in (A.absolute, A.sign, A.step)]
        expected = mpf(3) / 10, sign, mpf(1 + sign) / 4
        assert all(abs(v - e) <= 1e-16 for v, e in zip(values, expected))


def test_jumps_have_their_own_value_at_variance_zero() -> None:
    for act, level in ((A.sign, 1), (A.step, 0.5)):
        assert act.F.numpy(np.array([0.0, 1e-300, 2.0])).tolist() == [0, level, level]
        assert act.phi.numpy(0.0) == act.kernel.numpy(0.0, 0.0, 5.0) == 0


@pytest.mark.parametrize(
    ("act", "parts"),
    [(A.sign, ("slope", "G", "G2")), (A.step, ("slope", "G", "G2")), (A.absolute, ("G2",))],
    ids=["sign", "step", "absolute"],
)
def test_what_diverges_is_absent_and_says_why(act, parts) -> None:
    assert tuple(p for p in PARTS if p not in act.parts) == parts
    for part in parts:
        with pytest.raises(InputError, match="jumps at 0"):
            act.require(part)


def test_a_straight_line_has_all_its_parts() -> None:
    line = A.two_slope("1/2", 0.5)
    assert (line.closed_forms, line.kinks) == (PARTS, ())
    assert [4 * line.parts[part].expr for part in PARTS] == [GRAM[1], 1, V, 1, 0]


def test_the_phase_turns_a_sine_into_others() -> None:
    assert A.sine(phase=0).kernel == A.sine().kernel
    assert A.sine(phase=1).parameters == A.sine().parameters
    points = [dict(zip(NAMES, p)) for p in ((2, "-1/3", 1), (1, 1, 1))]
    for part, point in product(("kernel", "slope"), points):
        half, whole = (getattr(A.sine("1/2", t), part) for t in (sp.pi / 2, sp.pi))
        for turned, plain in ((half, A.cosine("1/2")), (whole, A.sine("1/2"))):
            expected = getattr(plain, part).evaluate(20, **point)
            assert abs(turned.evaluate(20, **point) - expected) <= 1e-15 * abs(expected)


def test_random_fourier_features_have_the_gaussian_kernel() -> None:
    (kxx, kxy, kyy), gamma = GRAM, sp.Symbol("gamma", positive=True)
    assert sp.simplify(A.rbf(gamma).kernel.expr - sp.exp(-gamma * (kxx - 2 * kxy + kyy))) == 0
    assert A.rbf(gamma).parameters == (gamma,)


@pytest.mark.parametrize("n", range(9))
def test_hermite_agrees_with_its_expansion(n) -> None:
    act = A.hermite(n)
    expanded = A.polynomial(sp.Poly(act.phi.expr, z).all_coeffs()[::-1])
    for part in PARTS:
        assert sp.expand(act.parts[part].expr - expanded.parts[part].expr) == 0
    assert act.kernel.expr.subs({GRAM[0]: 1, GRAM[2]: 1}) == GRAM[1] ** n


@pytest.mark.parametrize("n", [3, 10])
def test_hermite_keeps_its_digits_near_unit_variance(n) -> None:
    rng, act = np.random.default_rng(n), A.hermite(n)
    kxx, kyy = np.exp(rng.uniform(-1, 1, (2, 50)))
    kxy = np.sqrt(kxx * kyy) * rng.uniform(-1, 1, 50)
    value, size = act.kernel.numpy(kxx, kxy, kyy), np.sqrt(act.F.numpy(kxx) * act.F.numpy(kyy))
    for gram, v, most in zip(zip(kxx, kxy, kyy), value, size):
        assert abs(v - act.kernel.evaluate(20, **dict(zip(NAMES, gram)))) <= 1e-15 * most


def same(one: Activation, other: Activation, parts=PARTS) -> None:
    for part in parts:
        at = (1.5, -0.4, 2.0) if part in ("kernel", "slope") else (0.7,)
        left, right = (act.parts[part].numpy(*at) for act in (one, other))
        assert left == pytest.approx(right, rel=1e-13), part


def test_an_affine_activation_is_the_one_it_writes() -> None:
    same(A.affine(A.polynomial([1, 2, 0, 3]), -2, "1/3"), A.polynomial(["-5/3", -4, 0, -6]))
    same(A.affine(A.step, 2, -1), A.sign, ("kernel", "F"))
    same(A.affine(A.sine(2, sp.pi / 4), sp.sqrt(2)), A.rbf(2))
    same(A.affine(A.tanh.scaled("1/2"), "1/2", "1/2"), A.sigmoid)
    assert A.affine(A.step, 2, -1).absent == A.step.absent
    assert A.affine(A.erf, 3, 1).closed_forms == PARTS  # odd, so no mean is needed
    assert A.affine(A.gelu, 3, 1).closed_forms == ("slope", "G", "G2")
    assert A.affine(A.absolute, 2).derivative() == sp.Piecewise((2, z > 0), (-2, True))


BAD = [
    partial(A.two_slope, sp.nan, 1), partial(A.two_slope, float("nan"), 1),
    partial(A.two_slope, 0, sp.oo), partial(A.two_slope, "x", 1), partial(A.leaky_relu, 1j),
    partial(A.leaky_relu, None), partial(A.hermite, -1), partial(A.hermite, 2.5),
    partial(A.hermite, "1/2"), partial(A.hermite, V), partial(A.rbf, 0), partial(A.rbf, -1),
    partial(A.rbf, sp.nan), partial(A.sine, 1, sp.nan), partial(A.sine, 1, V), partial(A.sine, 0, 1),
    partial(A.affine, A.erf, 0), partial(A.affine, A.erf, 1, sp.oo),
]  # fmt: skip


@pytest.mark.parametrize("make", BAD, ids=lambda make: make.func.__name__)
def test_wrong_numbers_are_refused(make) -> None:
    with pytest.raises(InputError):
        make()

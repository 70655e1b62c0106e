"""Are the hand-typed Gaussian moments pinned, consistent with one another, and right in floats?"""

from itertools import product

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic import activations as A
from analytic.activations.activation import PARTS
from analytic.expressions import quadrature
from analytic.expressions.arguments import InputError

VALUES = {
    "monomial": [{"q": q} for q in (1, 2, 3, 8)],
    "relu_power": [{"q": q} for q in (1, 2, 3, 8, 1.5, 0.75)],
    "snake": [{"a": 0.75}],
    **{name: [{"w": 1.0}, {"w": 0.3}] for name in ("sine", "cosine", "exponential")},
}
CASES = [(act, values) for act in A.ACTIVATIONS.values() for values in VALUES.get(act.name, [{}])]
PHI = {
    "erf": lambda z: mp.erf(z / mp.sqrt(2)),
    "monomial": lambda z, q: z**q / mp.sqrt(mp.fac2(2 * q - 1)),
    "relu_power": lambda z, q: z**q if z > 0 else 0,
    "sine": lambda z, w: mp.sin(w * z),
    "cosine": lambda z, w: mp.cos(w * z),
    "exponential": lambda z, w: mp.exp(w * z),
    "gaussian": lambda z: mp.exp(-(z**2) / 2),
    "gelu": lambda z: z * mp.ncdf(z),
    "elu": lambda z: z if z > 0 else mp.expm1(z),
    "snake": lambda z, a: z + mp.sin(a * z) ** 2 / a,
}


def label(value) -> str:
    return value.name if hasattr(value, "name") else ",".join(f"{k}={v}" for k, v in value.items())


cases = pytest.mark.parametrize(("act", "values"), CASES, ids=label)
CLOSED = [case for case in CASES if case[0] is not A.elu]
closed = pytest.mark.parametrize(("act", "values"), CLOSED, ids=label)
pairs = pytest.mark.parametrize("part", ["kernel", "slope"])


@cases
def test_phi_is_what_the_design_says(act, values) -> None:
    with mp.workdps(40):
        for point in (-3, -1, 1, 2):
            expected = PHI[act.name](mpf(point), *map(mpf, values.values()))
            value = act.phi.evaluate(30, z=point, **values)
            assert abs(value - expected) <= mpf("1e-29") * abs(expected)


def test_erf_gelu_and_monomials_are_normalised_as_the_design_says() -> None:
    assert str(A.erf.phi.evaluate(30, z=1)) == "0.682689492137085897170465091264"
    assert str(A.gelu.phi.evaluate(30, z=1)) == "0.841344746068542948585232545632"
    for q in range(1, 7):
        second = quadrature.moment(lambda z, q=q: PHI["monomial"](z, q) ** 2, mpf(2))
        assert mp.almosteq(second, 2**q, 1e-14)
        assert A.monomial(q).F.evaluate(V=2) == 2**q


@closed
def test_coincident_points_give_the_one_point_moments(act, values) -> None:
    for v in ("1/7", 2, 11):
        for pair, one in ((act.kernel, act.F), (act.slope, act.G)):
            expected = one.evaluate(30, V=v, **values)
            value = pair.evaluate(30, kxx=v, kxy=v, kyy=v, **values)
            assert abs(value - expected) <= mpf("1e-28") * abs(expected)


# Covariances (kxx, kxy, kyy) that break textbook forms, from 1e-16 to 1e16. With powers of 2 the
# coincident, antipodal, parallel and opposed points are exactly that in floats, too.
SCALES = [2.0**n for n in (-53, -40, -27, -13, 0, 7, 13, 27, 40, 53)]
LINES = (1, 1, 1), (1, -1, 1), (4, 2, 1), (4, -2, 1), (0, 0, 1), (1, 0, 0), (0, 0, 0)
COLLINEAR = [(a * k, c * k, b * k) for k in SCALES for a, c, b in LINES]
COLLINEAR += [(k, sign, 1 / k) for k in SCALES for sign in (1.0, -1.0)]
ANGLES = (0, 3), (1 / 3, 3), (-1 / 3, 3), (1 - 2.0**-30, 1), (2.0**-30 - 1, 1)
GENERAL = [(k, c * k, b * k) for k in SCALES for c, b in ANGLES]
GENERAL += [(k, -0.5, 1 / k) for k in SCALES]
MODERATE = [g for g in (*COLLINEAR, *GENERAL) if min(g[::2]) > 1e-5 and max(g[::2]) < 300]


def floats(formula, grams, values) -> np.ndarray:
    """Values by numpy and by torch, as (2, n)."""
    rows = np.array(grams).T
    return np.stack([formula.numpy(*rows, **values), formula.torch(*torch.tensor(rows), **values)])


def true(formula, gram, values) -> mpf:
    return formula.evaluate(20, **dict(zip(("kxx", "kxy", "kyy"), gram)), **values)


def is_right(value, exact, rtol) -> bool:
    if abs(exact) > 1.7e308 or abs(exact) < 1e-300:
        return bool(np.isinf(value)) if abs(exact) > 1 else abs(value) <= 1e-300
    return bool(np.isfinite(value)) and abs(mpf(float(value)) - exact) <= rtol * abs(exact)


def sensitivity_to_kxy(formula, gram, values, exact) -> mpf:
    shift = mpf(2) ** -40
    moved = true(formula, (gram[0], gram[1] * (1 - shift), gram[2]), values)
    return abs(moved - exact) / (abs(exact) or 1) / shift


def faults(formula, grams, values, ulps=0) -> list[tuple]:
    """Where a float is off by more than 1e-12 and some ulps of kxy, or `evaluate` has no value."""
    failures = []
    for gram, *both in zip(grams, *floats(formula, grams, values)):
        try:
            exact = true(formula, gram, values)
            extra = ulps and ulps * 2**-52 * sensitivity_to_kxy(formula, gram, values, exact)
            if not all(is_right(v, exact, 1e-12 + extra) for v in both):
                failures.append((gram, *both, mp.nstr(exact, 17)))
        except (InputError, ArithmeticError) as error:
            failures.append((gram, str(error)))
    return failures


@pairs
@closed
def test_floats_are_right_at_collinear_points(act, values, part) -> None:
    """Nothing is excluded, but max(0, z)^(q-1) has no value at variance 0 when q <= 1."""
    singular = act.name == "relu_power" and part == "slope" and values["q"] <= 1
    grams = [g for g in COLLINEAR if not (singular and 0 in g[::2])]
    assert faults(getattr(act, part), grams, values) == []


@pairs
@closed
def test_floats_are_right_where_the_inputs_determine_them(act, values, part) -> None:
    """Far out and nearly collinear, exp(w^2 (kxy - kxx)) and GELU's two cancelling terms are no better
    determined than kxy is: what four of its ulps make of the value is excluded."""
    assert faults(getattr(act, part), GENERAL, values, ulps=4) == []


@pairs
@cases
def test_a_pair_is_symmetric_and_obeys_cauchy_and_schwarz(act, values, part) -> None:
    formula, single = getattr(act, part), {"kernel": act.F, "slope": act.G}[part]
    one, other = (floats(formula, [g[::s] for g in MODERATE], values) for s in (1, -1))
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)
    u, v = (single.numpy(V=np.array(MODERATE)[:, k], **values) for k in (0, 2))
    assert np.all(abs(one) <= np.sqrt(u * v) * (1 + 1e-12))


@pairs
@cases
def test_gram_matrices_are_positive_semidefinite(act, values, part) -> None:
    x = np.random.default_rng(5).normal(size=(9, 3)) / 2
    x = np.stack([*x, x[0], -x[1], 2 * x[2]])  # with an equal, an opposite and a parallel point
    own = np.broadcast_to((x * x).sum(-1), (12, 12))
    eigenvalues = np.linalg.eigvalsh(getattr(act, part).numpy(own.T, x @ x.T, own, **values))
    assert eigenvalues[0] >= -1e-12 * eigenvalues[-1]


@pytest.mark.parametrize("act", [A.erf, A.gelu, A.relu_power(2), A.sine(1), A.snake(1)], ids=label)
@pytest.mark.parametrize(("part", "order"), list(zip(PARTS, (0, 1, 0, 1, 2))))
def test_scaling_follows_the_chain_rule_and_composes(act, part, order) -> None:
    at = {"kxx": 2, "kxy": "-1/2", "kyy": "3/5"} if part in ("kernel", "slope") else {"V": "7/10"}
    inner = {k: sp.Rational(v) * sp.Rational(9, 4) for k, v in at.items()}
    expected = mpf(1.5) ** (2 * order) * getattr(act, part).evaluate(20, **inner)
    for scaled in (act.scaled("3/2"), act.scaled(3).scaled("1/2"), act.scaled(-1).scaled("-3/2")):
        assert mp.almosteq(getattr(scaled, part).evaluate(20, **at), expected, 1e-14)


@pytest.mark.parametrize(("part", "q"), list(product(PARTS, range(1, 6))))
def test_a_polynomial_of_one_term_is_a_monomial(part, q) -> None:
    alone = A.polynomial([0] * q + [1 / sp.sqrt(sp.factorial2(2 * q - 1))])
    assert sp.simplify(getattr(alone, part).expr - getattr(A.monomial(q), part).expr) == 0


def test_a_polynomial_is_averaged_term_by_term() -> None:
    """Gauss-Hermite with 8 nodes is exact up to degree 15."""
    root, phi = np.array([[1.2, 0], [-0.7, 0.4]]), np.polynomial.Polynomial([1, -0.5, 0.25, 2])
    t, weight = np.polynomial.hermite_e.hermegauss(8)
    u, v = np.einsum("ia,ast->ist", root, np.meshgrid(t, t))
    (kxx, kxy), (_, kyy) = root @ root.T
    for part, f in (("kernel", phi), ("slope", phi.deriv())):
        value = getattr(A.polynomial(phi.coef), part).numpy(kxx, kxy, kyy)
        assert value == pytest.approx(weight @ (f(u) * f(v)) @ weight / (2 * np.pi), rel=1e-12)


@pytest.mark.parametrize("rho", [-0.875, -0.25, 0, 0.5, 0.984375])
def test_rectified_kernels_are_arc_cosine_kernels(rho) -> None:
    """Cho and Saul's J_0, J_1, J_2 at variances 4 and 9."""
    with mp.workdps(30):
        angle, c = mp.acos(rho), mpf(rho)
        turn, rise = mp.pi - angle, mp.sin(angle)
        J = turn, rise + turn * c, 3 * rise * c + turn * (1 + 2 * c**2)
        for n, formula in enumerate((A.relu.slope, A.relu.kernel, A.relu_power(2).kernel)):
            expected = mpf(6) ** n * J[n] / (2 * mp.pi)
            value = formula.evaluate(25, kxx=4, kxy=6 * rho, kyy=9)
            assert abs(value - expected) <= mpf("1e-24") * expected


BAD = {
    A.monomial: (0, -1, "1/2", 1.5, sp.nan, sp.oo, "x"),
    A.relu_power: (0, -1, "1/2", sp.nan, sp.oo, 1j),
    A.polynomial: ([], ["x"], [1, 1j], [sp.nan], [sp.oo]),
    **dict.fromkeys((A.sine, A.cosine, A.exponential, A.snake, A.relu.scaled), (0, 1j, sp.nan)),
}


@pytest.mark.parametrize(("make", "bad"), [(make, bad) for make in BAD for bad in BAD[make]])
def test_bad_degrees_coefficients_and_scales_are_refused(make, bad) -> None:
    with pytest.raises(InputError):
        make(bad)


def test_a_parameter_may_be_text() -> None:
    for family in (A.sine, A.exponential, A.snake, A.relu_power, A.cosine):
        assert family("3/4").phi.expr == family(sp.Rational(3, 4)).phi.expr


@pytest.mark.parametrize(("part", "q"), [("G", "1/4"), ("G", "1/2"), ("G2", "5/4"), ("G2", "3/2")])
def test_a_moment_that_diverges_has_no_value(part, q) -> None:
    """E[max(0, z)^(2q-2)] needs q > 1/2, and E[max(0, z)^(2q-4)] needs q > 3/2 or q = 1."""
    with pytest.raises(InputError):
        getattr(A.relu_power(), part).evaluate(V=1, q=q)

"""Does a user's own activation get correct averages, correct labels and the whole geometry?"""

import threading
from functools import cache

import numpy as np
import pytest
import sympy as sp
from mpmath import mp, mpf

from analytic import Activation
from analytic.activations import erf
from analytic.activations.activation import PARTS
from analytic.checks.oracles import nngp_jet, point_at_radius
from analytic.expressions import quadrature
from analytic.expressions.arguments import InputError
from analytic.expressions.symbols import z as bound
from analytic.geometry import nngp

x, z = sp.symbols("x z")
EXPRESSIONS = {
    "hard tanh": sp.Max(-1, sp.Min(1, z)),
    "relu": sp.Max(z, 0),
    "wavelet": z * sp.exp(-(z**2) / 2),
    "wave": sp.sin(x) + x,  # a foreign variable
    "erf": sp.erf(z / sp.sqrt(2)),
    "tanh": sp.tanh(z),
    "softplus": sp.log(1 + sp.exp(z)),
}
CLOSED = {"erf": ("G", "G2"), "tanh": (), "softplus": ()}  # the others have F, too
KINKS = {"hard tanh": (-1, 1), "relu": (0,)}
DERIVATIVES = {  # phi, phi', phi'' between kinks, by hand
    "erf": (
        lambda t: mp.erf(t / mp.sqrt(2)),
        lambda t: 2 * mp.npdf(t),
        lambda t: -2 * t * mp.npdf(t),
    ),
    "tanh": (mp.tanh, lambda t: mp.sech(t) ** 2, lambda t: -2 * mp.tanh(t) * mp.sech(t) ** 2),
    "softplus": (
        lambda t: mp.log1p(mp.exp(t)),
        lambda t: 1 / (1 + mp.exp(-t)),
        lambda t: mp.sech(t / 2) ** 2 / 4,
    ),
    "hard tanh": (lambda t: max(-1, min(1, t)), lambda t: int(abs(t) < 1), lambda t: 0),
    "relu": (lambda t: max(t, 0), lambda t: int(t > 0), lambda t: 0),
    "wavelet": (
        lambda t: t * mp.exp(-(t**2) / 2),
        lambda t: (1 - t**2) * mp.exp(-(t**2) / 2),
        lambda t: (t**3 - 3 * t) * mp.exp(-(t**2) / 2),
    ),
    "wave": (lambda t: mp.sin(t) + t, lambda t: mp.cos(t) + 1, lambda t: -mp.sin(t)),
}
names = pytest.mark.parametrize("name", EXPRESSIONS)


@cache
def own(name) -> Activation:
    return Activation.of(EXPRESSIONS[name])


@names
def test_closed_forms_are_listed(name) -> None:
    closed = CLOSED.get(name, ("F", "G", "G2"))
    rest = ", ".join(part for part in PARTS if part not in closed)
    assert own(name).closed_forms == closed
    assert str(own(name)).endswith(f"forms: {', '.join(closed) or 'none'}; quadrature: {rest}")


def test_a_polynomial_has_every_closed_form() -> None:
    act = Activation.of(x**3 - x)
    assert act.closed_forms == PARTS
    assert "quadrature: none" in str(act)
    assert act.F.expr == sp.expand(15 * act.F.args[0] ** 3 - 6 * act.F.args[0] ** 2 + act.F.args[0])


@names
def test_phi_is_rewritten_in_the_bound_variable_and_cut_at_its_kinks(name) -> None:
    assert own(name).phi.args == (bound,)
    assert own(name).kinks == KINKS.get(name, ())
    for t in (-3, mpf(-0.5), mpf(0.25), 2):
        assert mp.almosteq(own(name).phi.evaluate(20, z=t), DERIVATIVES[name][0](mpf(t)), 1e-14)


@pytest.mark.parametrize(("part", "order"), [("F", 0), ("G", 1), ("G2", 2)])
@names
def test_one_point_averages_agree_with_quadrature(name, part, order) -> None:
    body = DERIVATIVES[name][order]
    for v in (mpf(1) / 3, mpf(5)):
        with mp.workdps(22):
            expected = quadrature.moment(lambda t: body(t) ** 2, v, kinks=KINKS.get(name, ()))
        value = getattr(own(name), part).evaluate(18, V=v)
        assert abs(value - expected) <= mpf("1e-17") * abs(expected)
        assert getattr(own(name), part).numpy(float(v)) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(("part", "order"), [("kernel", 0), ("slope", 1)])
@pytest.mark.parametrize("name", ["wavelet", "wave"])
def test_two_point_averages_agree_with_quadrature(name, part, order) -> None:
    gram, body = (mpf(1.5), mpf(-0.5), mpf(0.75)), DERIVATIVES[name][order]
    with mp.workdps(17):
        expected = quadrature.pair(body, body, *gram)
    value = getattr(own(name), part).evaluate(15, **dict(zip(("kxx", "kxy", "kyy"), gram)))
    assert abs(value - expected) <= mpf("1e-15") * abs(expected)
    assert getattr(own(name), part).numpy(*map(float, gram)) == pytest.approx(
        float(value), rel=1e-9
    )


@pytest.mark.parametrize("part", ["kernel", "slope"])
def test_two_point_averages_of_tanh_agree_with_gauss_and_hermite(part) -> None:
    """150 nodes leave exp(-2 sqrt(300) 1.3) of tanh's poles at i pi/2, in units of sqrt(1.5)."""
    t, weight = np.polynomial.hermite_e.hermegauss(150)
    root = np.linalg.cholesky([[1.5, -0.5], [-0.5, 0.75]])
    u, v = np.einsum("ia,ast->ist", root, np.meshgrid(t, t))
    body = np.tanh if part == "kernel" else lambda z: 1 / np.cosh(z) ** 2
    expected = weight @ (body(u) * body(v)) @ weight / (2 * np.pi)
    assert getattr(own("tanh"), part).numpy(1.5, -0.5, 0.75) == pytest.approx(expected, rel=1e-9)


def test_the_kernel_of_max_is_the_arc_cosine_kernel() -> None:
    angle = np.arccos(-0.5)
    expected = (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi
    assert own("relu").kernel.numpy(2.0, -1.0, 2.0) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("face", ["numpy", "evaluate"])
def test_a_pair_with_kinks_off_zero_is_right_or_refused(face) -> None:
    """The value is a double integral by mpmath.quad, cut at the kinks."""
    try:
        value = getattr(own("hard tanh").kernel, face)(kxx=1.5, kxy=-0.5, kyy=2)
    except InputError:
        return
    assert float(value) == pytest.approx(-0.15391027478589, rel=1e-9)


def test_an_erf_of_ones_own_has_the_geometry_of_erf() -> None:
    mine, known = nngp.ricci(own("erf")), nngp.ricci(erf)
    for point in ((2, "0.6", "0.5", "1.4"), (3, 1, 0, "0.01"), (10, 2, 3, 100)):
        at = dict(zip(("d", "sigma", "zeta", "r"), point))
        assert mp.almosteq(mine.evaluate(25, **at), known.evaluate(25, **at), 1e-14)
        assert mine.numpy(**{k: float(v) for k, v in at.items()}) == pytest.approx(
            float(known.evaluate(20, **at)), rel=1e-12
        )


@pytest.mark.parametrize("name", ["tanh", "hard tanh"])
def test_curvature_of_ones_own_agrees_with_brute_force(name) -> None:
    with mp.workdps(22):
        jet = nngp_jet(own(name), point_at_radius(mpf(1.25), 3), mpf(0.75), mpf(0.5))
        expected = jet.curvature().scalar
    value = nngp.ricci(own(name)).evaluate(16, d=3, sigma=0.75, zeta=0.5, r=1.25)
    assert abs(value - expected) <= mpf("1e-15") * abs(expected)


@pytest.mark.parametrize("name", ["tanh", "hard tanh"])  # softplus, as written, overflows
def test_curvature_of_ones_own_survives_far_out(name) -> None:
    """Floats and exact quadrature share no rule; 1e-9 because a user's phi has no stable face."""
    ricci, at = nngp.ricci(own(name)), {"d": 3, "sigma": 0.75, "zeta": 0.5}
    r = [1e2, 1e4]
    exact = [float(ricci.evaluate(10, r=v, **at)) for v in r]
    np.testing.assert_allclose(ricci.numpy(r=np.array(r), **at), exact, rtol=1e-9)


def test_a_thread_gives_the_closed_forms_of_the_main_thread() -> None:
    results: list[Activation] = []
    thread = threading.Thread(target=lambda: results.append(Activation.of(EXPRESSIONS["wave"])))
    thread.start()
    thread.join()
    for part in PARTS:
        assert getattr(results[0], part).expr == getattr(own("wave"), part).expr


REFUSED = {
    "a string": ("tanh(z)", "SymPy expression"),
    "a function": (np.tanh, "SymPy expression"),
    "a number": (2.0, "SymPy expression"),
    "two variables": (x * sp.tanh(z), "exactly one variable"),
    "a constant": (sp.Integer(3), "exactly one variable"),
    "complex values": (sp.sqrt(x), "real and finite"),
    "imaginary values": (sp.I * x, "real and finite"),
    "a pole at 0": (1 / x, "real and finite"),
    "a pole elsewhere": (1 / (x - 1), None),
    "many poles": (sp.tan(x), None),
    "a jump, whose slope has no square": (sp.Heaviside(x), None),
    "too much growth": (sp.exp(x**2), "outgrows"),
    "too much growth at larger variance": (sp.exp(x**2 / 8), None),
}


@pytest.mark.parametrize(("expr", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_activation_is_refused(expr, message) -> None:
    with pytest.raises(InputError, match=message):
        Activation.of(expr)


def test_a_slope_without_a_square_is_refused() -> None:
    with pytest.raises(InputError, match="phi'"):
        Activation.of(sp.sqrt(sp.Abs(z)))


def test_an_average_that_floats_cannot_follow_is_refused() -> None:
    wave = Activation.of(sp.tanh(z) * sp.sin(4 * z))
    assert wave.G.numpy(0.5) == pytest.approx(float(wave.G.evaluate(15, V="0.5")), rel=1e-12)
    with pytest.raises(ArithmeticError, match="did not converge"):
        wave.G.numpy(100.0)

"""Is the boundary of chaos where it is known to be, is the diagram right, is bad input refused?"""

import numpy as np
import pytest
import sympy as sp
from mpmath import mp, mpf

from analytic import activations as A
from analytic.activations.activation import activation
from analytic.checks.oracles import squared_moment
from analytic.expressions.arguments import InputError
from analytic.expressions.symbols import z
from analytic.signal_propagation import (
    Signal,
    critical_line,
    critical_sigma,
    phase_diagram,
    trajectory,
)

PLAIN = activation("plain erf", sp.erf(z / sp.sqrt(2)))  # every average of it is a quadrature
FIELDS = ("V", "chi_1", "c", "xi_c")


def near(value: object, other: object, digits: float) -> bool:
    return abs(mpf(value) - other) <= mpf(10) ** -digits * abs(mpf(other))


# The boundary


def test_without_bias_the_boundary_is_at_the_slope_of_phi_at_zero() -> None:
    with mp.workdps(40):
        assert near(critical_sigma(A.erf, 0) ** 2, mp.pi / 2, 29)  # phi'(0)^2 = 2/pi
        assert near(critical_sigma(A.tanh, 0), 1, 29)
        assert near(critical_sigma(A.sine(2), 0), mpf(1) / 2, 29)
        assert near(critical_sigma(A.relu, 0) ** 2, 2, 29)
    with pytest.raises(ArithmeticError, match=r"no critical sigma at zeta = 0\.3"):
        critical_sigma(A.relu, "0.3")


def test_the_gaussian_has_its_boundary_in_closed_form() -> None:
    with mp.workdps(40):  # V - F/G = V - 2 - 1/V
        zeta2 = mpf(9) / 100
        V = (2 + zeta2 + mp.sqrt((2 + zeta2) ** 2 + 4)) / 2
        assert near(critical_sigma(A.gaussian, "0.3") ** 2, (1 + 2 * V) ** 1.5 / V, 29)


@pytest.mark.parametrize("act", [A.erf, A.tanh, A.elu], ids=lambda act: act.name)
def test_quadrature_of_phi_is_critical_on_the_boundary(act) -> None:
    sigma = critical_sigma(act, sp.sqrt(sp.Rational(1, 20)))
    with mp.workdps(32):
        square, slope = squared_moment(act, 0), squared_moment(act, 1)
        V = mp.findroot(
            lambda V: sigma**2 * square(V, 0) + mpf(1) / 20 - V,
            (mpf("0.1"), mpf(3)), solver="anderson", tol=1e-30,
        )  # fmt: skip
        assert near(sigma**2 * slope(V, 0), 1, 28)
    if act is A.tanh:
        assert near(sigma**2, mpf("1.76"), 2.9)  # Schoenholz et al. 2017 take (1.76, 0.05)


@pytest.mark.parametrize("act", [A.erf, A.gelu, A.gaussian], ids=lambda act: act.name)
def test_phases_change_across_the_boundary(act) -> None:
    sigma = critical_sigma(act, 1)
    edge = Signal(act, sigma, 1)
    assert (edge.phase, edge.correlation.value, edge.xi_c) == ("critical", 1, mp.inf)
    assert Signal(act, sigma * (1 - mpf("1e-9")), 1).phase == "ordered"
    assert Signal(act, sigma * (1 + mpf("1e-9")), 1).phase == "chaotic"


@pytest.mark.parametrize("act", [A.erf, A.tanh, A.elu, A.sine(1)], ids=lambda act: act.name)
def test_the_line_rises_and_holds_what_root_finding_finds(act) -> None:
    zeta, sigma = critical_line(act, np.logspace(-2, 0.5, 50))
    assert len(zeta) == len(sigma) == 50
    assert (np.diff(zeta) > 0).all()
    assert (np.diff(sigma) > 0).all()
    assert float(critical_sigma(act, zeta[30], digits=15)) == pytest.approx(sigma[30], rel=1e-12)


def test_the_line_leaves_out_what_no_signal_stays_on() -> None:
    for act in (A.exponential(1), A.monomial(2)):  # chi_V is 2 and 3/2 where chi_1 = 1
        assert [part.size for part in critical_line(act, [0.5, 1.0, 2.0])] == [0, 0]
        with pytest.raises(ArithmeticError, match="no critical sigma"):
            critical_sigma(act, 1)
    V = np.logspace(-1, 2, 40)
    stays = A.gelu.F.diff("V").numpy(V) <= A.gelu.G.numpy(V)
    assert 0 < stays.sum() < 40
    np.testing.assert_allclose(critical_line(A.gelu, V)[1], 1 / np.sqrt(A.gelu.G.numpy(V[stays])))
    zeta, sigma = critical_line(A.relu, [0.1, 7.0])
    np.testing.assert_allclose([*zeta, *sigma], [0, 0, 2**0.5, 2**0.5])


# The diagram


@pytest.mark.parametrize(
    ("act", "digits"),
    [(A.erf, 30), (A.gelu, 30), (A.gaussian, 30), (A.tanh, 14)],
    ids=lambda v: str(v)[:20],
)
def test_the_diagram_agrees_with_single_signals(act, digits) -> None:
    sigmas, zetas = [0.7, 1.35, 2.0, 3.5], [0.1, 0.8]
    diagram = phase_diagram(act, sigmas, zetas)
    assert diagram.V.shape == (2, 4)
    for i, j in [(0, 2), (1, 0), (1, 2)] if act is A.tanh else np.ndindex(2, 4):
        signal = Signal(act, sigmas[j], zetas[i], digits=digits)
        computed = [getattr(diagram, name)[i, j] for name in FIELDS]
        if np.isnan(computed).all():
            with pytest.raises(ArithmeticError, match="without bound"):
                _ = signal.variance
        else:
            exact = [signal.variance.value, signal.chi_1, signal.correlation.value, signal.xi_c]
            rtol = (
                1e-13 + 1e-15 / float(signal.chi_1 - 1) ** 2
            )  # two roots come close near chi_1 = 1
            np.testing.assert_allclose(computed, [float(v) for v in exact], rtol=rtol)


def test_series_and_closed_forms_draw_one_diagram() -> None:
    sigmas, zetas = np.linspace(0.5, 12, 8), np.linspace(0, 12, 8)  # steep: V up to 300
    quick, closed = phase_diagram(PLAIN, sigmas, zetas), phase_diagram(A.erf, sigmas, zetas)
    for name, rtol in zip(FIELDS, (1e-12, 1e-12, 1e-11, 1e-8), strict=True):
        np.testing.assert_allclose(
            getattr(quick, name), getattr(closed, name), rtol=rtol, atol=1e-12, err_msg=name
        )


def test_what_grows_vanishes_or_stands_still_is_told_apart() -> None:
    diagram = phase_diagram(A.relu, [1.0, 2**0.5, 1.5], [0.0, 0.5])
    np.testing.assert_allclose(diagram.V, [[0, 1, np.nan], [0.5, np.nan, np.nan]], atol=1e-12)
    np.testing.assert_allclose(diagram.c, [[np.nan, 1, np.nan], [1, np.nan, np.nan]])
    assert diagram.chi_1[0, 0] == pytest.approx(0.5)


def test_variances_far_below_one_are_found() -> None:
    sigma = (sp.pi / 2) ** sp.S.Half * (1 + sp.Rational(1, 10**14))
    chi = 2e-14 + 1e-28  # F = 2/pi (V - V^2 + ...): at rest V = sigma^2 2/pi - 1
    assert float(Signal(A.erf, sigma).variance.value) == pytest.approx(chi, rel=1e-10, abs=0)
    assert phase_diagram(A.erf, [float(sigma)], [0.0]).V[0, 0] == pytest.approx(
        chi, rel=0.05, abs=0
    )
    small = 1e-16 / (1 - 2 / np.pi)  # V = 2/pi V + zeta^2
    assert float(Signal(A.erf, 1, 1e-8).variance.value) == pytest.approx(small, rel=1e-12, abs=0)
    assert phase_diagram(A.erf, [1.0], [1e-8]).V[0, 0] == pytest.approx(small, rel=1e-12, abs=0)


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Signal(A.monomial(), 1), "open parameters"),
        (lambda: Signal(sp.tanh(z), 1), "must be an Activation"),
        (lambda: Signal(A.sign, 1), "no finite G"),
        (lambda: Signal(A.erf, -1), "sigma"),
        (lambda: Signal(A.erf, -sp.sqrt(2)), "sigma"),
        (lambda: Signal(A.erf, sp.nan), "sigma"),
        (lambda: Signal(A.erf, float("nan")), "sigma"),
        (lambda: Signal(A.erf, 1, -1), "zeta"),
        (lambda: Signal(A.erf, 1, start=-1), "V = -1"),
        (lambda: Signal(A.erf, 1, digits=5), "digits"),
        (lambda: Signal(A.erf, 2).correlation_map(1.5), "between -1 and 1"),
        (lambda: Signal(A.monomial(1), 1).correlation_map.fixed_points, "linear"),
        (lambda: critical_sigma(A.sine(), 1), "open parameters"),
        (lambda: critical_sigma(A.erf, float("nan")), "zeta"),
        (lambda: critical_line(A.erf, [0.0, 1.0]), "above 0"),
        (lambda: phase_diagram(A.erf, [1.0, np.nan], [0.0]), "sigmas"),
        (lambda: phase_diagram(A.erf, [1.0], [-0.1]), "zetas"),
        (lambda: phase_diagram(A.erf, 1.0, [0.0]), "sigmas"),
        (lambda: trajectory(A.erf, 1, 0, 1, 0.5, 0), "depth"),
        (lambda: trajectory(A.erf, -1, 0, 1, 0.5, 3), "sigma"),
        (lambda: trajectory(A.erf, [1, 2], 0, 1, 0.5, 3), "3 of them"),
        (lambda: trajectory(A.erf, 1, 0, 1, 1.5, 3), "C0"),
        (lambda: trajectory(A.erf, 1, 0, 1, float("nan"), 3), "C0"),
        (lambda: trajectory(A.sine(), 1, 0, 1, 0.5, 3), "open parameters"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(call, message) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_a_trajectory_that_outgrows_floats_says_where() -> None:
    with pytest.raises(ArithmeticError, match="layer 11"):  # V = 2^(2^(layer - 1))
        trajectory(A.monomial(2), 1, 0, 2, 1, 30)

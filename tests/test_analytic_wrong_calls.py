"""Does every public call of `analytic` refuse wrong input with one sentence?"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import sympy as sp

from analytic import Activation, activations, catalogue, deep, nngp, ntk, riemann
from analytic import signal_propagation as signal
from analytic.activations import affine, erf, monomial, relu, sine
from analytic.finite import bumps
from analytic.finite.units import Units
from analytic.perturbation import exact_chi, exact_fluctuation, linear, monotone, polynomial
from analytic.relu_dynamics import CanonicalNeuron, Neuron, Samples, VelocityField
from analytic.splines import INITIALISATIONS, Initialisation
from refusals import require_refusals

NAN, HUGE = float("nan"), 10**400
x = sp.Symbol("x", real=True)
y = sp.Symbol("y", real=True)
OMEGA = catalogue["nngp.erf.omega"]
NO_ACTIVATION = ("erf", None, ["erf"], NAN, True, -1, HUGE, sp.tanh(x), Activation, erf.phi)
NO_NUMBER = ("one", "", None, [1], [], NAN, float("inf"), True, 1j, {}, erf, object(), "1/0")
NO_LIST = ("12", None, 3, NAN, True, {}, ["one"], [None], [NAN], [[1.0, 2.0], [3.0]], erf)
NO_COUNT = ("2", None, [2], NAN, True, -1, 0, 1.5, erf)
NO_MATRIX = ("metric", None, 3, True, [[1, 0], [0, 1]], sp.Matrix([[1, 2]]), erf)
UNITS = [[1, 0], [0, 1]]
GEOMETRY = {
    **{
        f"nngp.{one}": getattr(nngp, one)
        for one in ("kernel", "slope", "metric", "omega", "tangential")
    },
    **{f"nngp.{one}": getattr(nngp, one) for one in ("radial", "magnification", "ricci")},
    **{
        f"ntk.{one}": getattr(ntk, one)
        for one in ("kernel", "metric", "magnification", "ricci", "origin")
    },
    **{f"deep.{one}": getattr(deep, one) for one in deep.__all__},
}
FUNCTIONS: dict[str, tuple[Callable[..., object], tuple]] = {
    **{name: (function, NO_ACTIVATION) for name, function in GEOMETRY.items()},
    "deep.layered of a list": (lambda bad: deep.layered([erf, bad]), NO_ACTIVATION),
    "Activation.of": (
        Activation.of,
        ("tanh(z)", None, [sp.tanh(x)], NAN, True, 3, HUGE, sp.Integer(2), x * y, sp.true, erf, 1j),
    ),
    "Activation.of kinks": (
        lambda bad: Activation.of(sp.Abs(x), kinks=bad),
        ("0", 0, True, ["zero"], [None], [NAN], [1j], [x], [[0]], erf),
    ),
    "affine": (affine, NO_ACTIVATION),
    "affine scale": (lambda bad: affine(erf, bad), (*NO_NUMBER, 0, x)),
    "affine shift": (lambda bad: affine(erf, 1, bad), (*NO_NUMBER, x)),
    "Activation.scaled": (erf.scaled, (*NO_NUMBER, 0, sp.I, x)),
    "Activation.fixed": (lambda bad: monomial().fixed(q=bad), (*NO_NUMBER, -1, 1.5, 0, x)),
    "Activation.fixed of another kind": (lambda bad: sine().fixed(w=bad), (*NO_NUMBER, -1, 0)),
    "Activation.fixed name": (lambda bad: erf.fixed(**bad), ({"q": 1}, {"": 2})),
    "Activation.require": (relu.require, ("G2", "H", None, 3, ["G"])),
    "Activation.derivative": (erf.derivative, ("1", None, [1], NAN, True, -1, 1.5)),
    "monomial": (activations.monomial, (*NO_NUMBER, -1, 0, 1.5)),
    "relu_power": (activations.relu_power, (*NO_NUMBER, -1, 0, 0.5)),
    "sine": (activations.sine, (*NO_NUMBER, -1, 0)),
    "sine phase": (lambda bad: activations.sine(1, phase=bad), NO_NUMBER),
    "cosine": (activations.cosine, (*NO_NUMBER, -1, 0)),
    "exponential": (activations.exponential, (*NO_NUMBER, -1, 0)),
    "snake": (activations.snake, (*NO_NUMBER, -1, 0)),
    "rbf": (activations.rbf, (*NO_NUMBER, -1, 0)),
    "leaky_relu": (activations.leaky_relu, NO_NUMBER),
    "two_slope": (lambda bad: activations.two_slope(1, bad), NO_NUMBER),
    "hermite": (activations.hermite, (*NO_NUMBER, -1, 1.5)),
    "polynomial": (activations.polynomial, (*NO_LIST, [], [1j], [x], [True])),
    "catalogue": (catalogue.__getitem__, (3, None, "", ["nngp.erf.ricci"], NAN, True, {}, erf, "erf")),
    "Formula.source": (OMEGA.source, ("c++", None, 3, ["C"], True)),
    "Formula.diff": (OMEGA.diff, ("q", None, 3, ["r"], sp.Symbol("sigma"))),
    "Formula.at": (lambda bad: OMEGA.at(sigma=bad), (*NO_NUMBER, -1, 0, x)),
    "Formula.evaluate": (lambda bad: OMEGA.evaluate(sigma=bad, zeta=0, r=1), (*NO_NUMBER, -1, 0, x)),
    "Formula.numpy": (lambda bad: OMEGA.numpy(bad, 0, 1), (*NO_NUMBER[:3], *NO_NUMBER[5:], HUGE, -1, 0)),
    "Formula digits": (lambda bad: OMEGA.evaluate(bad, sigma=1, zeta=0, r=1), NO_COUNT),
    **{
        f"riemann.{one}": (lambda bad, one=one: getattr(riemann, one)(bad, (x, y)), NO_MATRIX)
        for one in ("christoffel", "riemann", "riemann_lowered", "ricci", "scalar_curvature")
    },
    "riemann.inverse": (riemann.inverse, (*NO_MATRIX, sp.zeros(2), sp.Matrix([[1, 2], [3, 4]]))),
    "riemann coordinates": (
        lambda bad: riemann.scalar_curvature(sp.eye(2), bad),
        ("xy", None, 3, (x,), ("x", "y"), (1, 2), [x, None], x),
    ),
    "riemann.curvature_at": (
        lambda bad: riemann.curvature_at(sp.eye(2) * (1 + x**2), (x, y), bad),
        ("x", None, 3, {}, {x: "one", y: 1}, {x: NAN, y: 1}, {x: None, y: 0}, [(x, 1)]),
    ),
    "riemann.curvature_of_jet": (
        lambda bad: riemann.curvature_of_jet(bad, np.zeros((2, 2, 2)), np.zeros((2, 2, 2, 2))),
        ("metric", None, 3, [[1, 0]], [[1, "a"], [0, 1]], [[NAN, 0], [0, 1]], [[0, 0], [0, 0]]),
    ),
    "Signal": (lambda bad: signal.Signal(bad, 1), NO_ACTIVATION),
    "Signal sigma": (lambda bad: signal.Signal(erf, bad), (*NO_NUMBER, -1, 0)),
    "Signal zeta": (lambda bad: signal.Signal(erf, 1, bad), (*NO_NUMBER, -1)),
    "Signal start": (lambda bad: signal.Signal(erf, 1, 0, bad), (*NO_NUMBER, -1)),
    "Signal digits": (lambda bad: signal.Signal(erf, 1, digits=bad), (*NO_COUNT, 9)),
    "variance_map": (lambda bad: signal.Signal(erf, 1).variance_map(bad), (*NO_NUMBER, -1)),
    "correlation_map": (
        lambda bad: signal.Signal(erf, 1, 1).correlation_map(bad), (*NO_NUMBER, -2, 2),
    ),
    "critical_sigma": (lambda bad: signal.critical_sigma(bad, 0), NO_ACTIVATION),
    "critical_sigma zeta": (lambda bad: signal.critical_sigma(erf, bad), (*NO_NUMBER, -1)),
    "critical_sigma digits": (lambda bad: signal.critical_sigma(erf, 0, bad), NO_COUNT),
    "critical_line": (lambda bad: signal.critical_line(bad, [1.0]), NO_ACTIVATION),
    "critical_line V_values": (lambda bad: signal.critical_line(erf, bad), (*NO_LIST, [-1.0], [HUGE])),
    "phase_diagram": (lambda bad: signal.phase_diagram(bad, [1.0], [0.1]), NO_ACTIVATION),
    "phase_diagram sigmas": (
        lambda bad: signal.phase_diagram(erf, bad, [0.1]), (*NO_LIST, [], [-1.0], [HUGE]),
    ),
    "phase_diagram zetas": (lambda bad: signal.phase_diagram(erf, [1.0], bad), (*NO_LIST, [], [-1.0])),
    "trajectory": (lambda bad: signal.trajectory(bad, 1, 0, 1, 0, 2), NO_ACTIVATION),
    "trajectory sigma": (
        lambda bad: signal.trajectory(erf, bad, 0, 1, 0, 2), (*NO_NUMBER, -1, [1, 2, 3], HUGE),
    ),
    "trajectory zeta": (lambda bad: signal.trajectory(erf, 1, bad, 1, 0, 2), (*NO_NUMBER, -1)),
    "trajectory V0": (
        lambda bad: signal.trajectory(erf, 1, 0, bad, 0, 2),
        ("one", None, [], [1, 2, 3], NAN, float("inf"), True, 1j, {}, erf, -1, HUGE),
    ),
    "trajectory C0": (
        lambda bad: signal.trajectory(erf, 1, 0, 1, bad, 2), ("one", None, NAN, True, 1j, {}, erf, 2, [2]),
    ),
    "trajectory depth": (lambda bad: signal.trajectory(erf, 1, 0, 1, 0, bad), NO_COUNT),
    "Initialisation.of": (
        Initialisation.of, (None, [1], "a b", NAN, True, 1, x, sp.true, erf, object(), 1j),
    ),
    "spline formula": (
        lambda bad: INITIALISATIONS["signs"].rf.evaluate(x=bad, y=0, B=1), NO_NUMBER,
    ),
    "exact_chi": (lambda bad: exact_chi(bad, 2, "1/2"), (*NO_NUMBER, -1, 0, 1.5)),
    "exact_chi degree": (lambda bad: exact_chi(2, bad, "1/2"), (*NO_NUMBER, -1, 0, 1.5)),
    "exact_chi rho": (lambda bad: exact_chi(2, 2, bad), (*NO_NUMBER, -2, 2)),
    "exact_fluctuation": (lambda bad: exact_fluctuation(2, bad), (*NO_NUMBER, -1, 0, 1.5)),
    "perturbation.polynomial": (polynomial, (*NO_NUMBER, -1, 0, 1.5)),
    "monotone.slopes": (monotone.slopes, (*NO_NUMBER, -1, 0, 1.5)),
    "monotone.least_dimension": (monotone.least_dimension, (*NO_NUMBER, -1, 0, 1.5)),
    "wishart_volume": (lambda bad: linear.wishart_volume(bad, 2), NO_COUNT),
    "wishart_volume d": (lambda bad: linear.wishart_volume(3, bad), NO_COUNT),
    "posterior_moment": (lambda bad: linear.posterior_moment(bad, 1), NO_COUNT),
    "posterior_moment t": (lambda bad: linear.posterior_moment(4, bad), (*NO_NUMBER, -1)),
    "posterior_moment power": (lambda bad: linear.posterior_moment(4, 1, bad), NO_NUMBER),
    "posterior_volume": (lambda bad: linear.posterior_volume(4, bad, 1), NO_COUNT),
    "posterior_spread": (lambda bad: linear.posterior_spread(4, bad), (*NO_NUMBER, -1)),
    "coefficient": (linear.coefficient, ("f", None, 3, [1], NAN, True)),
    "coefficient digits": (lambda bad: linear.coefficient(lambda n: 1, 2, 2, bad), NO_COUNT),
    "bumps": (lambda bad: bumps.bumps(bad, [0, 0]), (*NO_LIST, [], [[1, NAN], [0, 1]], [[1], [0, 1]])),
    "bumps biases": (lambda bad: bumps.bumps(UNITS, bad), (*NO_LIST, [], [1])),
    "bumps.determinant": (
        lambda bad: bumps.determinant(bad, [0, 0]), ("bumps", None, 3, NAN, True, [], [1], erf),
    ),
    "bumps.determinant point": (
        lambda bad: bumps.determinant(bumps.bumps(UNITS, [0, 0]), bad), NO_LIST,
    ),
    "bumps.log_determinant": (
        lambda bad: bumps.log_determinant(bad, [0.0, 0.0]), ("bumps", None, 3, NAN, True, [], [1], erf),
    ),
    "bumps.log_determinant points": (
        lambda bad: bumps.log_determinant(bumps.bumps(UNITS, [0, 0]), bad), NO_LIST,
    ),
    "Units.of": (lambda bad: Units.of(bad, UNITS, [0, 0], [0, 0]), NO_ACTIVATION),
    "Units.of weights": (lambda bad: Units.of(erf, bad, [0, 0], [0, 0]), (*NO_LIST, [])),
    "Units.of biases": (lambda bad: Units.of(erf, UNITS, bad, [0, 0]), (*NO_LIST, [])),
    "Units.of x": (lambda bad: Units.of(erf, UNITS, [0, 0], bad), (*NO_LIST, [])),
    "Units": (lambda bad: Units(UNITS, bad, [0, 0]), (*NO_LIST, [])),
    "Units.generic": (lambda bad: Units.generic(bad, 2), NO_COUNT),
    "Neuron": (lambda bad: Neuron(bad, 1, 1), NO_NUMBER),
    "CanonicalNeuron": (lambda bad: CanonicalNeuron(1, bad), NO_NUMBER),
    "CanonicalNeuron.full": (lambda bad: CanonicalNeuron(1, 0).full(bad, 2, 1), NO_NUMBER),
    "Neuron.canonical": (lambda bad: Neuron(1, 1, 1).canonical(bad, 1), (*NO_NUMBER, -1, 0)),
    "Samples.of": (Samples.of, ("ab", None, 3, NAN, True, [], ["one"], [None], [NAN], [1, 1], erf)),
    "VelocityField.of": (
        lambda bad: VelocityField.of([0, 1], bad),
        ("ab", None, 3, NAN, True, [], ["one", 1], [None, 1], erf),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_calls_are_refused_in_a_sentence(name: str) -> None:
    function, values = FUNCTIONS[name]
    require_refusals((f"{k}: {str(v)[:40]}", partial(function, v)) for k, v in enumerate(values))


def test_right_calls_are_not_refused() -> None:
    """What stands beside the wrong values above."""
    assert polynomial(2)
    assert exact_chi(2, 2, "1/2") == exact_chi(2, 2, Fraction(1, 2))
    assert Units.of(erf, UNITS, [0, 0], [0, 0]).n == len(bumps.bumps(UNITS, [0, 0])) + 1
    assert signal.trajectory(erf, [1, 2], np.float64(0), [1, 2], [0, 1], 2).C.shape == (2, 2)

"""Do full and canonical parameters of a neuron say the same, in every quadrant?"""

import math
from fractions import Fraction
from itertools import product

import pytest
import sympy as sp

from analytic.expressions.arguments import InputError
from analytic.relu_dynamics import (
    CanonicalNeuron,
    Neuron,
    jacobian,
    penalty,
    total_variation,
    weighted_curvature,
)

QUADRANTS = [
    (a, b, c)
    for a, b in ((3, 4), (-3, 4), (-3, -4), (3, -4), (0, 5), (0, -5), (5, 0), (-5, 0), (Fraction(1, 2), 7))
    for c in (2, -2, Fraction(-1, 3), 9)
]  # fmt: skip
PLACES = [Fraction(k, 2) for k in range(-9, 10)]


def output(neuron: Neuron, x: Fraction, alpha: Fraction) -> sp.Expr:
    return neuron.c * sp.Max(neuron.a * sp.Rational(x) - neuron.b, 0) / sp.Rational(alpha)


def reduced(one: CanonicalNeuron, x: Fraction, m: int) -> sp.Expr:
    u, v = one.d
    return one.r * sp.Max(sp.Rational(x) * u + v, 0) / m


@pytest.mark.parametrize("z", QUADRANTS, ids=str)
def test_there_and_back(z) -> None:
    neuron, m, alpha = Neuron(*z), 6, Fraction(3, 2)
    one = neuron.canonical(m, alpha)
    assert -sp.pi < one.theta <= sp.pi
    back = one.full(neuron.delta, m, alpha)
    assert all(sp.simplify(p - q) == 0 for p, q in zip((back.a, back.b, back.c), z, strict=True))
    for x in PLACES[::6]:
        assert sp.simplify(output(neuron, x, alpha) - reduced(one, x, m)) == 0


def test_arctan_finds_the_angle_only_to_the_right() -> None:
    for z in QUADRANTS:
        neuron = Neuron(*z)
        if neuron.a != 0:
            printed = sp.atan(-neuron.b / neuron.a)
            right = neuron.canonical(1, 1).theta
            assert (sp.simplify(printed - right) == 0) == (neuron.a > 0)


def test_the_convention_of_a_neuron() -> None:
    """[ax - b]_+ with its knot at b/a = -v/u, and theta = atan2(-b, a)."""
    neuron = Neuron(2, 3, 5)
    one = neuron.canonical(1, 1)
    u, v = one.plane
    assert neuron.knot == sp.Rational(3, 2) == sp.simplify(-v / u) != sp.simplify(v / u)
    assert one.theta == -sp.atan(sp.Rational(3, 2))
    assert one.r == 5 * sp.sqrt(13)


@pytest.mark.parametrize("k", ["0.01", 3, Fraction(7, 5)])
def test_rescaling_keeps_the_function_and_moves_delta(k) -> None:
    neuron = Neuron(-3, 4, 2)
    other = neuron.rescaled(k)
    assert other.delta != neuron.delta
    assert other.canonical(4, 2) == neuron.canonical(4, 2)
    for x in PLACES:
        assert output(other, x, Fraction(2)) == output(neuron, x, Fraction(2))


@pytest.mark.parametrize(("r", "delta"), list(product((3, -2), (0, 5, -5))))
def test_any_delta_lifts_a_charged_neuron(r, delta) -> None:
    neuron = CanonicalNeuron(r, sp.pi / 3).full(delta, 4, 2)
    assert sp.simplify(neuron.delta - delta) == 0
    assert sp.sign(neuron.c) == sp.sign(r)
    assert sp.simplify(neuron.canonical(4, 2).r - r) == 0


def test_without_charge_only_a_positive_delta_loses_the_sign() -> None:
    assert CanonicalNeuron(0, 1).full(-9, 1, 1) == Neuron(3 * sp.cos(1), -3 * sp.sin(1), 0)
    assert CanonicalNeuron(0, 1).full(0, 1, 1) == Neuron(0, 0, 0)
    with pytest.raises(InputError, match="sign of c is lost"):
        CanonicalNeuron(0, 1).full(2, 1, 1)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: Neuron(math.nan, 1, 1), "a = nan"),
        (lambda: Neuron(1, math.inf, 1), "b = inf"),
        (lambda: Neuron(1, 1, sp.I), "c = I"),
        (lambda: Neuron(True, 1, 1), "a = True"),
        (lambda: CanonicalNeuron("x", 1), "r = 'x'"),
        (lambda: CanonicalNeuron(sp.oo, 1), "r = oo"),
        (lambda: Neuron(0, 0, 1).canonical(1, 1), "no angle"),
        (lambda: Neuron(0, 1, 1).knot, "no knot"),
        (lambda: Neuron(1, 1, 1).canonical(0, 1), "m = 0"),
        (lambda: Neuron(1, 1, 1).canonical(1.5, 1), "m = 1.5"),
        (lambda: Neuron(1, 1, 1).canonical(1, 0), "alpha = 0"),
        (lambda: Neuron(1, 1, 1).rescaled(0), "k = 0"),
        (lambda: CanonicalNeuron(1, 1).full(math.inf, 1, 1), "delta = inf"),
    ],
)
def test_bad_input_is_refused(bad, message) -> None:
    with pytest.raises(InputError, match=message):
        bad()


def test_a_neuron_without_an_angle_has_no_jacobian() -> None:
    with pytest.raises(InputError, match="no angle"):
        jacobian(Neuron(0, 0, 2), 1, 1)


@pytest.mark.parametrize("norm", [penalty, total_variation, weighted_curvature])
def test_no_neurons_are_refused(norm) -> None:
    with pytest.raises(InputError, match="at least one"):
        norm([])

"""Are the moments that germs pass through right in floats, from V = 1e-12 to 1e8?"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf
from sympy import Rational

from analytic.activation import Activation
from analytic.activations import (
    ACTIVATIONS,
    absolute,
    cosine,
    elu,
    erf,
    gabor,
    gaussian,
    gelu,
    hermite,
    leaky_relu,
    monomial,
    rbf,
    relu,
    relu_power,
    sine,
    snake,
    tanh,
)  # fmt: skip
from analytic.composed import Network
from analytic.composed.layered import average
from analytic.domain import InputError
from analytic.formula import Formula
from analytic.germ import Passage
from analytic.passage import derived_passage, derived_textbook, passage, textbook
from analytic.symbols import V

NAMES = [f.name for f in fields(Passage)]
VARIANCES = np.geomspace(1e-12, 1e8, 21)
RANGE = 1e-290, 1e290  # beyond, a float may be 0 or infinite, and products of two are
VALUES = {
    "q": [{"q": q} for q in (2, 3, 12)],
    "w": [{"w": 1}, {"w": "0.3"}],
    "a": [{"a": "3/4"}],
}
NEGLIGIBLE = 1e-45  # what differences at V = 1e-12 cannot tell from 0 with 60 digits
QUADRATURE = 1e-14  # a rule of 1000 nodes, whose rounding errors add up

ROUGH = (relu, leaky_relu(Rational(1, 10)), absolute)  # without E[phi''^2]
FURTHER = (rbf(Rational(7, 10)), hermite(3), sine(Rational(13, 10), phase=Rational(2, 5)))


def cases() -> Iterator[Any]:
    for act in ACTIVATIONS.values():
        for values in VALUES[act.parameters[0].name] if act.parameters else [{}]:
            one = act.fixed(**values) if values else act
            yield pytest.param(one, passage, ("F", "G"), id=one.name)
            yield pytest.param(one, derived_passage, ("G", "G2"), id=f"{one.name}'")
    for act in FURTHER:
        yield pytest.param(act, passage, ("F", "G"), id=act.name)
        yield pytest.param(act, derived_passage, ("G", "G2"), id=f"{act.name}'")
    for act in (*ROUGH, monomial(1)):
        yield pytest.param(act, passage, ("F", "G"), id=act.name)


def orders(moment: Formula, variance: float) -> list[Any]:
    """A moment and two derivatives, by differences."""
    return [mp.diff(moment.mpmath, mpf(variance), n) for n in range(3)]


def defined(act: Activation, parts: tuple[str, str], variance: float) -> dict[str, Any]:
    return by_definition(*(orders(act.require(part), variance) for part in parts), mpf(variance))


def by_definition(one: Sequence[Any], other: Sequence[Any], v: Any) -> dict[str, Any]:
    """Every field by the docstring of Passage, from two moments and their derivatives."""
    (f, f1, f2), (g, g1, g2) = one, other
    first, slope, ratio = v * f1 / f, v * g1 / g, f1 / g
    return {
        "f": f, "first": first, "second": first + v**2 * f2 / f - first**2,
        "g": g, "slope": slope, "bend": slope + v**2 * g2 / g - slope**2, "stretch": 1 + 2 * slope,
        "ratio": ratio, "defect": ratio - 1, "turn": v * (f2 / g - f1 * g1 / g**2),
        "lag": 1 + slope - first,
    }  # fmt: skip


def size(field: str, true: dict[str, Any]) -> Any:
    """What the absolute error of a field is measured by, where the field itself vanishes.

    A rate stands in every product beside its value: theta(first t) = first theta(t) + second t^2,
    and the same for slope with bend and for ratio with turn. The lag is a sum of three numbers.
    """
    beside = {
        "second": ("first",),
        "bend": ("slope",),
        "turn": ("ratio",),
        "lag": ("first", "slope"),
    }
    terms = [abs(true[name]) for name in beside.get(field, ())]
    return mp.fsum(terms) + (1 if field == "lag" else NEGLIGIBLE / np.finfo(float).eps)


def floats(layer: Passage) -> dict[str, Callable[..., Any]]:
    return {n: Formula(n, (V,), sp.sympify(getattr(layer, n))).numpy for n in NAMES}


@pytest.mark.parametrize(("act", "maker", "parts"), [*cases()])
def test_floats_are_right_to_twelve_digits(act, maker, parts) -> None:
    computed = {name: f(VARIANCES) for name, f in floats(maker(act)).items()}
    wrong = []
    with mp.workdps(60):
        for k, variance in enumerate(VARIANCES):
            true = defined(act, parts, variance)
            for name, values in computed.items():
                gap = abs(mpf(float(values[k])) - true[name])
                near = 4 * np.finfo(float).eps * size(name, true)
                if act is elu:  # averages, which are subtracted from each other
                    near = QUADRATURE * (size(name, true) + (name == "defect"))
                inside = abs(true[name]) < RANGE[1] and true["f"] < RANGE[1]
                if inside and not gap <= 1e-12 * abs(true[name]) + near + RANGE[0]:
                    wrong.append((name, variance, values[k], mp.nstr(true[name], 12)))
    assert wrong == []


@pytest.mark.parametrize(
    "act", [erf, gelu, elu, gaussian, monomial(3), snake(1)], ids=lambda a: a.name
)
def test_the_textbook_face_is_the_definition(act) -> None:
    for maker, parts in ((textbook, ("F", "G")), (derived_textbook, ("G", "G2"))):
        with mp.workdps(40):
            for variance in (0.01, 1.0, 30.0):
                true, layer = defined(act, parts, variance), maker(act)
                for name in NAMES:
                    body = Formula(name, (V,), sp.sympify(getattr(layer, name)))
                    found = body.mpmath(mpf(variance))
                    assert abs(found - true[name]) <= mpf(10) ** -34 * (1 + abs(true[name])), name


def squared(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda z: f(z) ** 2


def test_quadratures_pass_too() -> None:
    """Tanh has no closed moments: averages of phi itself, with Hermite weights, judge its floats."""
    with mp.workdps(20):
        net = Network(tanh, mpf(1), mpf(0))
        for variance in (0.04, 2.5):
            F, G, G2 = (average(squared(net.phi(n)), mpf(variance), ())[:3] for n in range(3))
            for maker, one, other in ((passage, F, G), (derived_passage, G, G2)):
                true = by_definition(one, other, mpf(variance))
                for name, f in floats(maker(tanh)).items():
                    assert abs(f(variance) - true[name]) <= 1e-13 * (1 + abs(true[name])), name


def test_torch_says_the_same() -> None:
    for maker in (passage, derived_passage):
        layer = maker(gelu)
        for name in NAMES:
            formula = Formula(name, (V,), sp.sympify(getattr(layer, name)))
            found = formula.torch(torch.tensor(VARIANCES)).numpy()
            np.testing.assert_allclose(found, formula.numpy(VARIANCES), rtol=1e-13, atol=1e-15)


@pytest.mark.xfail(strict=True, reason="the rate of 1 - exp(-x) is written as a difference of two")
@pytest.mark.parametrize("act", [sine(1), erf], ids=lambda act: act.name)
def test_the_rate_of_an_odd_activation_keeps_its_digits_at_small_variance(act) -> None:
    """`second` is near -V there; a layer of degree above 1 shows it alone, as on a cone."""
    second = floats(passage(act))["second"]
    with mp.workdps(60):
        for variance in (1e-12, 1e-6):
            true = defined(act, ("F", "G"), variance)["second"]
            assert second(variance) == pytest.approx(float(true), rel=1e-12, abs=0)


@pytest.mark.xfail(strict=True, reason="f' - g is a difference of two averages")
def test_the_defect_of_elu_keeps_its_digits_at_small_variance() -> None:
    with mp.workdps(60):
        true = defined(elu, ("F", "G"), 1e-12)["defect"]
    assert floats(passage(elu))["defect"](1e-12) == pytest.approx(float(true), rel=1e-12, abs=0)


@pytest.mark.xfail(strict=True, reason="its G2 falls as V^(-1/2), so 1 + 2 slope cancels")
def test_the_stretch_of_gabor_keeps_its_digits_far_out() -> None:
    with mp.workdps(60):
        true = defined(gabor, ("G", "G2"), 1e6)["stretch"]
    assert floats(derived_passage(gabor))["stretch"](1e6) == pytest.approx(
        float(true), rel=1e-11, abs=0
    )


@pytest.mark.parametrize("act", ROUGH, ids=lambda act: act.name)
def test_a_kink_has_no_derived_passage(act) -> None:
    with pytest.raises(InputError, match=r"E\[phi''\^2\] diverges"):
        derived_passage(act)


def test_an_activation_fixed_is_the_one_made_with_its_number() -> None:
    pairs = [
        (monomial().fixed(q=3), monomial(3)),
        (relu_power().fixed(q=2), relu_power(2)),
        (sine().fixed(w="1.3"), sine(Rational(13, 10))),
        (cosine().fixed(w="1.3"), cosine(Rational(13, 10))),
        (snake().fixed(a=2), snake(2)),
    ]
    for fixed, made in pairs:
        assert fixed.parameters == ()
        assert fixed.closed_forms == made.closed_forms
        for part in ("phi", "F", "G", "G2"):
            one, other = (getattr(act, part) for act in (fixed, made))
            arguments = {one.args[0].name: "0.7"}
            assert one.args == other.args
            assert one.evaluate(30, **arguments) == other.evaluate(30, **arguments)
    assert sine().fixed(w="1.3").phi.expr == sp.sin(Rational(13, 10) * sp.Symbol("z", real=True))
    assert cosine().fixed(w=2).elasticity == cosine(2).elasticity


def test_wrong_names_and_numbers_are_not_fixed() -> None:
    refused = [
        (erf, {"q": 3}, "erf has no argument q"),
        (monomial(), {"w": 3}, "monomial has no argument w"),
        (monomial(), {"q": 1.5}, "whole number at least 1"),
        (monomial(), {"q": 0}, "whole number at least 1"),
        (sine(), {"w": -1}, "above 0"),
        (sine(), {"w": "fast"}, "is no number"),
        (monomial().fixed(q=3), {"q": 4}, "has no argument q"),
    ]
    for act, values, reason in refused:
        with pytest.raises(InputError, match=reason):
            act.fixed(**values)


@pytest.mark.xfail(strict=True, reason="z is an argument of phi, and what refuses it is caught")
def test_the_variable_is_no_parameter() -> None:
    with pytest.raises(InputError):
        erf.fixed(z=1)


def test_a_value_that_leaves_some_averages_infinite_says_so() -> None:
    act = relu_power().fixed(q=1)
    assert set(act.parts) == {"kernel", "slope", "F", "G"}
    with pytest.raises(InputError, match=r"G2.*q > 3/2"):
        act.require("G2")

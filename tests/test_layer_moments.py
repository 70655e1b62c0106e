"""Are the moments of layers right beyond the digits of floats, from V = 1e-16 to 1e16?"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf
from sympy import Rational

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
from analytic.activations.activation import Activation
from analytic.checks.kernel_oracles import WideNetwork
from analytic.checks.kernel_oracles.layer_averages import moment_derivatives
from analytic.expressions.arguments import InputError
from analytic.expressions.backends import _table
from analytic.expressions.formula import Formula
from analytic.expressions.printer import numpy_names
from analytic.expressions.symbols import V
from analytic.expressions.twofold import Twofold, compile_twofold
from analytic.geometry import nngp
from analytic.geometry.kernel_jet import LayerMoments
from analytic.geometry.layer_moments import (
    derivative_layer_moments,
    layer_moments,
    textbook_derivative_layer_moments,
    textbook_layer_moments,
)
from density import some_and_all

NAMES = [f.name for f in fields(LayerMoments)]
VARIANCES = np.geomspace(1e-16, 1e16, 33)
RANGE = 1e-290, 1e290  # beyond, a float may be 0 or infinite, and products of two are
VALUES = {
    "q": [{"q": q} for q in (2, 3, 12)],
    "w": [{"w": 1}, {"w": "0.3"}],
    "a": [{"a": "3/4"}],
}
DIGITS = 1e-15  # of every field, however small: its terms have 32
NEGLIGIBLE = 1e-70  # what differences with 90 digits cannot tell from 0

ROUGH = (relu, leaky_relu(Rational(1, 10)), absolute)  # without E[phi''^2]
FURTHER = (rbf(Rational(7, 10)), hermite(3), sine(Rational(13, 10), phase=Rational(2, 5)))


def cases() -> Iterator[Any]:
    for act in ACTIVATIONS.values():
        for values in VALUES[act.parameters[0].name] if act.parameters else [{}]:
            one = act.fixed(**values) if values else act
            yield pytest.param(one, layer_moments, ("F", "G"), id=one.name)
            yield pytest.param(one, derivative_layer_moments, ("G", "G2"), id=f"{one.name}'")
    for act in FURTHER:
        yield pytest.param(act, layer_moments, ("F", "G"), id=act.name)
        yield pytest.param(act, derivative_layer_moments, ("G", "G2"), id=f"{act.name}'")
    for act in (*ROUGH, monomial(1)):
        yield pytest.param(act, layer_moments, ("F", "G"), id=act.name)


def orders(moment: Formula, variance: float) -> list[Any]:
    """A moment and two derivatives, by differences."""
    return [mp.diff(moment.mpmath, mpf(variance), n) for n in range(3)]


def defined(act: Activation, parts: tuple[str, str], variance: float) -> dict[str, Any]:
    return by_definition(*(orders(act.require(part), variance) for part in parts), mpf(variance))


def by_definition(one: Sequence[Any], other: Sequence[Any], v: Any) -> dict[str, Any]:
    """Every field by the docstring of LayerMoments, from two moments and their derivatives."""
    (F, F1, F2), (G, G1, G2) = one, other
    eps_F, eps_G, ratio = v * F1 / F, v * G1 / G, F1 / G
    return {
        "F": F, "eps_F": eps_F, "rate_eps_F": eps_F + v**2 * F2 / F - eps_F**2,
        "G": G, "eps_G": eps_G, "rate_eps_G": eps_G + v**2 * G2 / G - eps_G**2,
        "one_plus_2_eps_G": 1 + 2 * eps_G, "ratio": ratio, "rate_ratio": v * (F2 / G - F1 * G1 / G**2),
    }  # fmt: skip


def floats(layer: LayerMoments, variances: Any = VARIANCES, xp: Any = np) -> dict[str, list[Any]]:
    """Every field at each variance, with the digits of both halves."""
    exprs = sp.Tuple(*(sp.sympify(getattr(layer, name)) for name in NAMES))
    body = compile_twofold(xp, partial(_table, xp, numpy_names()), (V,), exprs)
    with np.errstate(all="ignore"):
        values = body(Twofold(xp, xp.asarray(variances)))
    return {name: exactly(value, len(variances)) for name, value in zip(NAMES, values, strict=True)}


def exactly(value: Any, count: int) -> list[Any]:
    """high + low as mpmath numbers; a field may be one number for all variances."""
    halves = (value.high, value.low) if isinstance(value, Twofold) else (value, 0.0)
    rows = (np.broadcast_to(np.asarray(half, dtype=float), count) for half in halves)
    return [mpf(float(high)) + mpf(float(low)) for high, low in zip(*rows, strict=True)]


@some_and_all
@pytest.mark.parametrize(("act", "maker", "parts"), [*cases()])
def test_every_field_keeps_its_digits(act, maker, parts, dense) -> None:
    wrong, variances = [], VARIANCES if dense else VARIANCES[::4]
    with mp.workdps(90):
        computed = floats(maker(act), variances)
        for k, variance in enumerate(variances):
            true = defined(act, parts, variance)
            for name, values in computed.items():
                inside = abs(true[name]) < RANGE[1] and RANGE[0] < true["F"] < RANGE[1]
                gap = abs(values[k] - true[name])
                if inside and not gap <= DIGITS * abs(true[name]) + NEGLIGIBLE:
                    wrong.append((name, variance, mp.nstr(values[k], 20), mp.nstr(true[name], 20)))
    assert wrong == []


@pytest.mark.parametrize(
    "act", [erf, gelu, elu, gaussian, monomial(3), snake(1)], ids=lambda a: a.name
)
def test_the_textbook_form_is_the_definition(act) -> None:
    for maker, parts in (
        (textbook_layer_moments, ("F", "G")),
        (textbook_derivative_layer_moments, ("G", "G2")),
    ):
        with mp.workdps(40):
            for variance in (0.01, 1.0, 30.0):
                true, layer = defined(act, parts, variance), maker(act)
                for name in NAMES:
                    body = Formula(name, (V,), sp.sympify(getattr(layer, name)))
                    value = body.mpmath(mpf(variance))
                    assert abs(value - true[name]) <= mpf(10) ** -34 * (1 + abs(true[name])), name


def squared(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda z: f(z) ** 2


def test_quadratures_are_right_too() -> None:
    """Tanh has no closed moments: its floats are compared with averages by Gauss-Hermite quadrature."""
    with mp.workdps(20):
        net = WideNetwork(tanh, mpf(1), mpf(0))
        for variance in (0.04, 2.5):
            F, G, G2 = (
                moment_derivatives(squared(net.phi(n)), mpf(variance), ())[:3] for n in range(3)
            )
            for maker, one, other in ((layer_moments, F, G), (derivative_layer_moments, G, G2)):
                true = by_definition(one, other, mpf(variance))
                for name, (value,) in floats(maker(tanh), [variance]).items():
                    assert abs(value - true[name]) <= 1e-13 * (1 + abs(true[name])), name


def test_torch_agrees_with_numpy() -> None:
    for act in (gelu, elu, snake(1)):
        for maker in (layer_moments, derivative_layer_moments):
            tensors = floats(maker(act), torch.tensor(VARIANCES), torch)
            for name, values in floats(maker(act)).items():
                for one, two in zip(tensors[name], values, strict=True):
                    assert abs(one - two) <= 1e-18 * abs(two) + NEGLIGIBLE, name


def test_the_log_derivative_of_gabor_keeps_its_digits_far_out() -> None:
    """Its G is a quadrature, whose digits are those of floats, and G2 falls as V^(-1/2)."""
    with mp.workdps(60):
        true = defined(gabor, ("G", "G2"), 1e6)["one_plus_2_eps_G"]
    (value,) = floats(derivative_layer_moments(gabor), [1e6])["one_plus_2_eps_G"]
    assert abs(value - true) <= 1e-11 * abs(true)


@pytest.mark.parametrize("act", ROUGH, ids=lambda act: act.name)
def test_a_kink_has_no_derivative_layer(act) -> None:
    with pytest.raises(InputError, match=r"E\[phi''\^2\] diverges"):
        derivative_layer_moments(act)


def test_an_activation_fixed_is_the_one_made_with_its_number() -> None:
    pairs = [
        (monomial().fixed(q=3), monomial(3)),
        (relu_power().fixed(q=2), relu_power(2)),
        (sine().fixed(w="1.3"), sine(Rational(13, 10))),
        (cosine().fixed(w="1.3"), cosine(Rational(13, 10))),
        (snake().fixed(a=2), snake(2)),
    ]
    for fixed, direct in pairs:
        assert fixed.parameters == ()
        assert fixed.closed_forms == direct.closed_forms
        for part in ("phi", "F", "G", "G2"):
            one, other = (getattr(act, part) for act in (fixed, direct))
            arguments = {one.args[0].name: "0.7"}
            assert one.args == other.args
            assert one.evaluate(30, **arguments) == other.evaluate(30, **arguments)
    assert sine().fixed(w="1.3").phi.expr == sp.sin(Rational(13, 10) * sp.Symbol("z", real=True))
    assert cosine().fixed(w=2).log_derivative == cosine(2).log_derivative


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


def test_the_variable_is_no_parameter() -> None:
    with pytest.raises(InputError, match="erf has no argument z to fix"):
        erf.fixed(z=1)


def test_the_log_derivative_is_fixed_with_its_activation() -> None:
    at = {"d": 3, "sigma": 1.0, "zeta": 0.5, "r": 0.7}
    fixed, direct = (nngp.ricci(act).numpy(**at) for act in (cosine().fixed(w=2), cosine(2)))
    assert fixed == pytest.approx(direct, rel=1e-14)  # the same expression, but for its order


def test_only_an_average_outside_its_domain_goes_absent() -> None:
    """A formula that lacks the parameter is a mistake in the activation, and no absent average."""
    odd = replace(cosine(), G2=Formula("odd", (V,), V))
    with pytest.raises(InputError, match="odd has no argument w"):
        odd.fixed(w=2)


def test_a_value_that_leaves_some_averages_infinite_says_so() -> None:
    act = relu_power().fixed(q=1)
    assert set(act.parts) == {"kernel", "slope", "F", "G"}
    with pytest.raises(InputError, match=r"G2.*q > 3/2"):
        act.require("G2")

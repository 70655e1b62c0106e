"""Are deep magnification and curvature right to 1e-12 in floats, at any radius and near degenerate points?"""

import pickle
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp, mpf

from analytic import Activation, catalogue
from analytic.activations import ACTIVATIONS, gaussian, sine
from analytic.expressions.arguments import InputError
from analytic.geometry import deep

RADII = (1e-8, 1e-4, 0.01, 0.3, 1.0, 7.0, 100.0, 1e4, 1e8)
QUANTITIES = [f"{kind}.{what}" for kind in ("nngp", "ntk") for what in ("magnification", "ricci")]
FLOATS = 1e-290, 1e290  # beyond, a result or a variance inside may leave the range
TOLERANCE = 1e-12


def arguments(name: str, values: dict[str, Any]) -> dict[str, Any]:
    names = {symbol.name for symbol in catalogue[name].args}
    return {k: v for k, v in values.items() if k in names}


def drawn(act: str, seed: int) -> Iterator[dict[str, Any]]:
    """Scales from a tenth to ten, biases from none to three, up to eight layers."""
    rng = random.Random(f"{act} {seed}")
    small = act in ("exponential", "monomial", "relu_power")  # the others square no scale again
    for _ in range(4):
        yield {
            "d": rng.choice((2, 3, 100)),
            "sigma": rng.choice((0.1, 0.8, 1.0, 1.5) if small else (0.1, 0.8, 1.5, 10.0)),
            "zeta": rng.choice((0.0, 1e-6, 1e-3, 0.5) if small else (0.0, 1e-6, 1e-3, 0.5, 3.0)),
            "xi": rng.choice((1e-3, 0.3, 1.0, 10.0)),
            "depth": rng.choice((1, 2) if small else (1, 2, 3, 5, 8)),
            "w": rng.choice((0.3, 1.0, 2.0)),
            "a": rng.choice((0.75, 2.0)),
            "q": rng.choice((2, 3)),
        }


def sensitivity(name: str, values: dict[str, Any], true: Any) -> Any:
    """How much relative changes of the arguments change the value: next to a zero, without bound."""
    total, step = mpf(0), mpf(10) ** -15
    for key, value in values.items():
        if key not in ("d", "depth", "q") and value:
            moved = catalogue[name].evaluate(32, **values | {key: mpf(value) * (1 + step)})
            total += abs(moved - true) / (step * abs(true))
    return total


def number(name: str, values: dict[str, Any]) -> float | None:
    """The value in floats, or None where it is refused because a number on the way leaves their range."""
    try:
        return catalogue[name].numpy(**values)
    except InputError:
        return None


def is_right(name: str, values: dict[str, Any], computed: float | None) -> bool:
    true = catalogue[name].evaluate(32, **values)
    if true == 0:
        return computed == 0
    if abs(true) >= FLOATS[1]:  # a variance may overflow
        return computed is None or computed * float(mp.sign(true)) > 1e280
    if abs(true) <= FLOATS[0]:
        return computed is None or abs(computed) < 1e-280
    if computed is None:
        return False
    error = abs(mpf(float(computed)) / true - 1)
    if error <= TOLERANCE:
        return True
    with mp.workdps(32):
        return error <= TOLERANCE + 4 * np.finfo(float).eps * sensitivity(name, values, true)


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_floats_follow_thirty_digits(act: str, quantity: str) -> None:
    name, wrong = f"deep.{act}.{quantity}", []
    radii = RADII[:5] if act == "exponential" else RADII
    for values in drawn(act, QUANTITIES.index(quantity)):
        fixed = arguments(name, values)
        try:
            results = catalogue[name].numpy(r=np.array(radii), **fixed).tolist()
        except InputError:
            results = [number(name, fixed | {"r": r}) for r in radii]
        wrong += [
            (fixed, r, value)
            for r, value in zip(radii, results, strict=True)
            if not is_right(name, fixed | {"r": r}, value)
        ]
    assert wrong == []


DEGENERATE = [  # without biases the metric degenerates at the origin
    ("gaussian", {"d": 2, "depth": 3}),
    ("gaussian", {"d": 3, "depth": 2}),
    ("cosine", {"d": 2, "depth": 3, "w": 1}),
    ("elu", {"d": 3, "depth": 2}),
    ("elu", {"d": 2, "depth": 5}),
]


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize(("act", "values"), DEGENERATE)
def test_curvature_near_a_degenerate_origin(act: str, values: dict[str, Any], kind: str) -> None:
    name = f"deep.{act}.{kind}.ricci"
    for r in (1e-9, 1e-8, 1e-6, 1e-3):
        at = arguments(name, values | {"sigma": 1.0, "zeta": 0.0, "xi": 0.7, "r": r})
        true = catalogue[name].evaluate(25, **at)
        assert catalogue[name].numpy(**at) == pytest.approx(float(true), rel=TOLERANCE, abs=0)
        tensor = torch.tensor(r, dtype=torch.float64)
        value = catalogue[name].torch(**at | {"r": tensor}).item()
        assert value == pytest.approx(float(true), rel=TOLERANCE, abs=0)


AT_ORIGIN = [
    ("deep.elu.nngp.ricci", {"d": 2, "sigma": 0.8, "depth": 2}),
    ("deep.elu.nngp.ricci", {"d": 7, "sigma": 3.0, "depth": 4}),
    ("deep.elu.ntk.ricci", {"d": 3, "sigma": 1e-3, "xi": 10.0, "depth": 1}),
    ("deep.erf.nngp.ricci", {"d": 3, "sigma": 1.0, "depth": 3}),
    ("deep.erf.ntk.magnification", {"d": 2, "sigma": 3.0, "xi": 10.0, "depth": 5}),
    ("deep.gaussian.nngp.magnification", {"d": 2, "sigma": 1.0, "depth": 3}),
    ("deep.gaussian.ntk.ricci", {"d": 2, "sigma": 1.0, "xi": 1.0, "depth": 3}),
    ("deep.relu_power.nngp.magnification", {"d": 2, "sigma": 1.0, "depth": 2, "q": 1.1}),
    ("deep.sine.ntk.ricci", {"d": 2, "sigma": 10.0, "xi": 0.3, "depth": 1, "w": 2.0}),
    ("deep.sine.ntk.ricci", {"d": 3, "sigma": 10.0, "xi": 0.7, "depth": 5, "w": 2.0}),
    ("deep.erf.ntk.ricci", {"d": 3, "sigma": 10.0, "xi": 0.7, "depth": 8}),
    ("deep.cosine.ntk.ricci", {"d": 9, "sigma": 10.0, "xi": 10.0, "depth": 5, "w": 1.0}),
    ("deep.elu.nngp.ricci", {"d": 3, "sigma": 10.0, "depth": 8}),
    ("deep.elu.nngp.magnification", {"d": 3, "sigma": 10.0, "depth": 5}),
]


@pytest.mark.parametrize(("name", "values"), AT_ORIGIN)
def test_without_biases_the_origin_is_a_limit(name: str, values: dict[str, Any]) -> None:
    """Beside other points, where it may be finite, vanish, or be reached as |x|."""
    formula, values = catalogue[name], values | {"zeta": 0.0}
    true = formula.evaluate(18, r=0, **values)
    results = formula.numpy(r=np.array([0.0, 0.5]), **values)
    assert results[0] == pytest.approx(float(true), rel=TOLERANCE, abs=0)
    assert results[1] == formula.numpy(r=0.5, **values)
    near = formula.evaluate(18, r=mpf(10) ** -40, **values)  # the limit is one
    assert abs(near - true) <= mpf(10) ** -15 * abs(true) + (true == 0) * mpf(10) ** -3


def test_layers_that_amplify_twice_bring_the_origin_closer() -> None:
    """Eight layers of weight 20 and their slopes: a step that allows for one of the two finds 0 here."""
    formula = catalogue["deep.cosine.ntk.ricci"]
    values = {"d": 2, "sigma": 20.0, "zeta": 0.0, "xi": 10.0, "depth": 8, "w": 1.0}
    true = formula.evaluate(18, r=mpf(10) ** -60, **values)
    assert formula.numpy(r=0.0, **values) == pytest.approx(float(true), rel=TOLERANCE, abs=0)


POLES = [
    ("deep.gaussian.nngp.ricci", {"d": 2, "depth": 3}, 1),
    ("deep.gaussian.nngp.ricci", {"d": 3, "depth": 3}, -1),
    ("deep.elu.ntk.ricci", {"d": 3, "depth": 3, "xi": 1.0}, 1),
]


@pytest.mark.parametrize(("name", "values", "sign"), POLES)
def test_a_pole_at_the_origin_is_infinite_in_arrays_and_refused_as_a_number(
    name: str, values: dict[str, Any], sign: int
) -> None:
    formula, values = catalogue[name], values | {"sigma": 1.0, "zeta": 0.0}
    with pytest.raises(InputError, match="no finite real value"):
        formula.evaluate(15, r=0, **values)
    results = formula.numpy(r=np.array([0.0, 1e-7, 0.4]), **values)
    assert results[0] == sign * np.inf
    assert np.sign(results[1]) == sign
    assert np.isfinite(results[1:]).all()
    radii = torch.tensor([0.0, 0.4], dtype=torch.float64)
    np.testing.assert_allclose(formula.torch(r=radii, **values), results[[0, 2]], rtol=1e-13)


def test_layers_that_differ_keep_their_digits_too() -> None:
    volume, curvature = deep.layered([gaussian, sine(2), gaussian])
    at = {f"sigma_{l}": s for l, s in enumerate((1.0, 0.1, 10.0), 1)}
    at |= {"zeta_1": 0.0, "zeta_2": 1e-3, "zeta_3": 0.0, "d": 2}
    for formula in (volume, curvature):
        for r in RADII:
            true = formula.evaluate(20, r=r, **at)
            assert formula.numpy(r=r, **at) == pytest.approx(float(true), rel=TOLERANCE, abs=0)


x = sp.Symbol("x")


def test_quadratures_keep_twelve_digits_away_from_degenerate_points() -> None:
    """A user's own activation has moments of 16 digits."""
    formula = deep.nngp_ricci(Activation.of(sp.atan(x)))
    at = {"d": 3, "sigma": 0.9, "zeta": 0.4, "depth": 2, "r": 1.2}
    assert formula.numpy(**at) == pytest.approx(float(formula.evaluate(13, **at)), rel=1e-12)


def test_quadratures_reach_the_origin_less_closely() -> None:
    own = Activation.of(sp.Piecewise((x, x > 0), (sp.exp(x) - 1, True)))
    at = {"d": 3, "sigma": 0.9, "zeta": 0.0, "depth": 2, "r": 0.0}
    true = catalogue["deep.elu.nngp.ricci"].numpy(**at)
    assert deep.nngp_ricci(own).numpy(**at) == pytest.approx(true, rel=1e-7)
    half = Activation.of(sp.Piecewise((sp.sin(x), x < 0), (x, True)))
    assert deep.nngp_ricci(half).numpy(**at) == 0  # as |x|^2


def test_formulas_are_values_like_any_other() -> None:
    """They are sent to other processes, mapped, fixed at numbers that equal a depth, and take degrees."""
    at = {"d": 1, "sigma": 1, "zeta": 0.3, "xi": 1, "r": 1}
    for name in ("ntk.erf.magnification", "deep.erf.ntk.magnification"):
        formula = catalogue[name]
        values = at | ({"depth": 1} if "deep" in name else {})
        true = formula.numpy(**values)
        assert pickle.loads(pickle.dumps(formula)).numpy(**values) == true
        for key in at:
            rest = {k: v for k, v in values.items() if k != key}
            assert formula.at(**{key: str(at[key])}).numpy(**rest) == pytest.approx(true, rel=1e-15)
        fixed = {k: v for k, v in values.items() if k != "r"}
        radii = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
        mapped = torch.func.vmap(lambda r: formula.torch(r=r, **fixed))(radii)  # noqa: B023
        torch.testing.assert_close(mapped, formula.torch(r=radii, **fixed), rtol=1e-14, atol=0)
    formula, at = catalogue["ntk.monomial.ricci"], {"d": 2, "sigma": 1, "zeta": 0.3, "xi": 1}
    results = formula.numpy(q=np.array([2, 3, 2]), r=np.array([0.5, 0.5, 1.0]), **at)
    assert results.tolist() == [
        formula.numpy(q=q, r=r, **at) for q, r in ((2, 0.5), (3, 0.5), (2, 1.0))
    ]


@pytest.mark.parametrize("act", ["erf", "elu", "snake"])
def test_gradients_have_the_digits_of_floats(act: str) -> None:
    name = f"deep.{act}.ntk.ricci"
    fixed = arguments(name, {"d": 3, "depth": 2, "a": 0.75})
    keys = ("sigma", "zeta", "xi", "r")
    at = torch.tensor([0.8, 0.5, 1.3, 1.1], dtype=torch.float64, requires_grad=True)
    catalogue[name].torch(**dict(zip(keys, at, strict=True)), **fixed).backward()
    values = dict(zip(keys, map(mpf, at.tolist()), strict=True))
    for key, slope in zip(keys, at.grad.tolist(), strict=True):
        with mp.workdps(40):
            step = mpf(10) ** -12
            up, down = (
                catalogue[name].evaluate(40, **values | {key: values[key] + side * step}, **fixed)
                for side in (1, -1)
            )
        assert slope == pytest.approx(float((up - down) / (2 * step)), rel=1e-10)


def test_single_precision_goes_in_and_comes_out() -> None:
    """The scales are floats of either precision."""
    formula = catalogue["deep.erf.ntk.ricci"]
    at = {"d": 2, "sigma": 0.75, "zeta": 0.5, "xi": 1.25, "depth": 3}
    r = torch.tensor([0.25, 1.5])
    results = formula.torch(r=r, **at)
    assert results.dtype == torch.float32
    np.testing.assert_allclose(results, formula.numpy(r=r.numpy(), **at), rtol=1e-7)

"""Do nodes that a program computes work in formulas as any other expression does?"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch
from mpmath import mp

from analytic import catalogue
from analytic.activations import ACTIVATIONS, erf, monomial, sine
from analytic.expressions.arguments import InputError
from analytic.expressions.formula import Formula
from analytic.expressions.opaque import Opaque, Table
from analytic.expressions.symbols import depth, r, w
from analytic.geometry import deep

AT = {"d": 3, "sigma": 1.1, "zeta": 0.4, "xi": 0.7, "r": 0.8, "depth": 2}
TARGET = catalogue["deep.erf.ntk.ricci"]


class iterated(Opaque):
    """x -> step(x, w), as often as `count` says; the step is any expression in r and w."""

    def __new__(cls, step: Any, x: Any, count: Any) -> "iterated":
        return super().__new__(cls, *map(sp.sympify, (step, x, count)))

    @property
    def inputs(self) -> tuple[sp.Expr, ...]:
        return (*self.args[1:], w)

    @property
    def host(self) -> frozenset[sp.Symbol]:
        return frozenset(self.args[2].free_symbols)

    def _program(self, table: Table) -> Callable[..., Any]:
        step = table((r, w), sp.Tuple(self.args[0]))

        def run(x: Any, count: Any, w: Any) -> Any:
            for _ in range(int(count)):
                (x,) = step(x, w)
            return x

        return run

    def on_mpmath(self, table: Table) -> Callable[..., Any]:
        return self._program(table)

    def on_arrays(self, xp: Any, table: Table) -> Callable[..., Any]:
        return self._program(table)


LOGISTIC = iterated(w * r * (1 - r), r, depth)


def logistic(x: Any, rate: Any, count: int) -> Any:
    for _ in range(count):
        x = rate * x * (1 - x)
    return x


def test_each_backend_runs_the_program_in_its_own_numbers() -> None:
    formula = Formula("logistic", (r, w, depth), LOGISTIC)
    x = np.array([[0.1], [0.6]])
    with mp.workdps(50):
        exact = formula.mpmath(mp.mpf("0.1"), mp.mpf(3), 7)
        assert abs(exact - logistic(mp.mpf("0.1"), mp.mpf(3), 7)) < mp.mpf(10) ** -48
    assert formula.evaluate(30, r="0.1", w=3, depth=7) == pytest.approx(float(exact))
    np.testing.assert_allclose(formula.numpy(x, 3.0, 7), logistic(x, 3.0, 7), rtol=1e-14)
    tensor = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    value = formula.torch(tensor, 3.0, 7)
    (slope,) = torch.autograd.grad(value, tensor)
    assert value.item() == pytest.approx(float(exact), rel=1e-14)
    with mp.workdps(30):
        true = mp.diff(lambda x: logistic(x, mp.mpf(3), 7), mp.mpf("0.1"))
    assert slope.item() == pytest.approx(float(true), rel=1e-12)
    assert formula.torch(torch.tensor(0.1), 3.0, 7).dtype == torch.float32


def test_programs_mix_with_each_other_and_with_expressions() -> None:
    twice = iterated(sp.cos(r), r + w, depth)
    formula = Formula("mixed", (r, w, depth), sp.exp(LOGISTIC) * twice + LOGISTIC**2 + w)
    one, two = logistic(0.3, 2.5, 3), np.cos(np.cos(np.cos(0.3 + 2.5)))
    expected = np.exp(one) * two + one**2 + 2.5
    for call in (formula.numpy, formula.torch, formula.evaluate):
        assert float(call(r=0.3, w=2.5, depth=3)) == pytest.approx(expected, rel=1e-14)


def test_numbers_may_take_the_place_of_inputs() -> None:
    formula = Formula("logistic", (r, w, depth), LOGISTIC).at(depth=4, w="5/2")
    assert formula.args == (r,)
    assert formula.numpy(0.3) == pytest.approx(logistic(0.3, 2.5, 4), rel=1e-14)


def test_a_program_that_was_never_written_says_so() -> None:
    bare = Opaque(r)
    for call in (
        lambda: bare.inputs,
        lambda: bare.on_mpmath(None),
        lambda: bare.on_arrays(np, None),
    ):
        with pytest.raises(NotImplementedError):
            call()
    assert bare.host == frozenset()


@pytest.mark.parametrize("bad", [0, 1.5, -1, "two", None])
def test_a_depth_that_counts_no_layers_is_refused(bad) -> None:
    for call in (TARGET.evaluate, TARGET.numpy, TARGET.torch):
        with pytest.raises(InputError, match=r"depth .*a whole number at least 1"):
            call(**AT | {"depth": bad})


@pytest.mark.parametrize("many", [np.array([1, 2]), torch.tensor([1, 2])], ids=["numpy", "torch"])
def test_many_depths_at_once_are_refused(many) -> None:
    for call in (TARGET.numpy, TARGET.torch):
        with pytest.raises(InputError, match=r"depth must be one number.*shape \(2,\)"):
            call(**AT | {"depth": many})


def test_a_list_of_depths_is_refused() -> None:
    with pytest.raises(InputError, match="depth must be one number"):
        TARGET.numpy(**AT | {"depth": [1, 2]})


@pytest.mark.parametrize("bad", [0, 1.5])
def test_a_depth_in_a_tensor_is_a_depth(bad) -> None:
    assert TARGET.torch(**AT | {"depth": torch.tensor(2)}) == TARGET.torch(**AT)
    with pytest.raises(InputError, match="whole number"):
        TARGET.torch(**AT | {"depth": torch.tensor(bad)})


def test_arrays_broadcast_beside_a_depth() -> None:
    x, sizes = np.linspace(0, 2, 5), np.array([[2], [3], [7]])
    at = {k: v for k, v in AT.items() if k not in ("r", "d")}
    values = TARGET.numpy(r=x, d=sizes, **at)
    assert values.shape == (3, 5)
    assert values[1, 2] == TARGET.numpy(r=x[2], d=3, **at)
    assert isinstance(TARGET.numpy(r=1.0, d=2, **at), float)
    assert TARGET.torch(r=torch.tensor(x), d=torch.tensor(sizes), **at).shape == (3, 5)


def without(name: str) -> dict[str, Any]:
    return {k: v for k, v in AT.items() if k != name}


@pytest.mark.parametrize("name", ["d", "sigma", "zeta", "xi", "depth"])
def test_any_argument_may_be_fixed_beforehand(name) -> None:
    fixed = TARGET.at(**{name: AT[name]})
    assert name not in {symbol.name for symbol in fixed.args}
    assert fixed.evaluate(**without(name)) == TARGET.evaluate(**AT)
    for backend in ("numpy", "torch"):
        one, two = getattr(fixed, backend), getattr(TARGET, backend)
        assert float(one(**without(name))) == pytest.approx(float(two(**AT)), rel=1e-14)


def test_the_radius_may_be_fixed_too() -> None:
    fixed = TARGET.at(r=AT["r"])
    assert fixed.evaluate(**without("r")) == TARGET.evaluate(**AT)
    assert fixed.numpy(**without("r")) == pytest.approx(TARGET.numpy(**AT), rel=1e-14)


@pytest.mark.parametrize(("act", "values"), [(monomial(), {"q": 3}), (sine(), {"w": "1.3"})])
def test_the_parameter_of_an_activation_may_be_fixed(act, values) -> None:
    target = catalogue[f"deep.{act.name}.ntk.ricci"]
    fixed = target.at(**values)
    assert fixed.evaluate(**AT) == target.evaluate(**AT | values)
    assert fixed.numpy(**AT) == pytest.approx(float(target.evaluate(**AT | values)), rel=1e-12)


def test_an_activation_fixed_first_is_the_same() -> None:
    target = catalogue["deep.sine.ntk.ricci"]
    fixed = deep.ntk_ricci(sine().fixed(w="1.3"))
    assert fixed.evaluate(25, **AT) == target.evaluate(25, w="1.3", **AT)


def test_symbolic_derivatives_are_refused() -> None:
    with pytest.raises(InputError, match=r"differentiate `\.torch` by autograd"):
        TARGET.diff("r")


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_deep_formula_prints(name, kind) -> None:
    for what in ("magnification", "ricci"):
        text = catalogue[f"deep.{name}.{kind}.{what}"]._repr_latex_()
        assert name.replace("_", r"\_") in text
        assert text.count("{") == text.count("}")
        assert text.count(r"\left") == text.count(r"\right")
    _, curvature = deep.layered([erf, sine(2)], ntk=kind == "ntk")
    assert r"\sigma_{2}" in curvature._repr_latex_()


def test_networks_that_differ_are_different_symbols() -> None:
    one, two = (deep.nngp_ricci(act).expr for act in (sine(1), sine(2)))
    assert one != two
    assert one == deep.nngp_ricci(sine(1)).expr
    assert one.subs(r, 2 * r).free_symbols == one.free_symbols
    assert catalogue["deep.sine.nngp.ricci"].expr.free_symbols > one.free_symbols

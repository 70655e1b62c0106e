"""Claims about the Gaussian moments of every activation, by quadrature and by Stein's and Price's lemmas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.activations import ACTIVATIONS, FURTHER, monomial, polynomial, relu
from analytic.activations.activation import Activation, derivative
from analytic.checks.claims import Claim, Point
from analytic.checks.oracles import squared_moment, two_point_average
from analytic.expressions import quadrature
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.expectation import Moment
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V, z

__all__ = ["GRAMS", "parameters"]

PARAMETERS: dict[str, tuple[Point, ...]] = {
    "monomial": (
        {"q": 2},
        {"q": 3},
        {"q": 4},
    ),  # at q = 1, z^(q-2) would be 0/0 at z = 0: `LINEAR` is claimed instead
    "relu_power": (
        {"q": 2},
        {"q": 4},
    ),  # q = 1 is `relu`, claimed by itself; at q = 3 a mutant of the power q - 2 = 1 would go unseen
    "sine": ({"w": "1.3"},),
    "cosine": ({"w": "1.3"},),
    "exponential": ({"w": "0.6"},),
    "snake": ({"a": "0.7"},),
}
GRAMS: tuple[Point, ...] = (
    {"kxx": "1.5", "kxy": "-0.4", "kyy": 2},
    {"kxx": "0.7", "kxy": "0.5", "kyy": "0.4"},
)


def parameters(act: Activation) -> tuple[Point, ...]:
    """The parameter values at which an activation is checked."""
    return PARAMETERS[act.name] if act.parameters else ({},)


def _points(act: Activation, *more: Point) -> tuple[Point, ...]:
    return tuple({**point, **values} for values in parameters(act) for point in more)


def _one_point(act: Activation) -> Iterator[Claim]:
    for order, part in enumerate(("F", "G", "G2")):
        if part not in act.closed_forms or getattr(act, part).expr == 0:
            continue  # phi'' = 0 for a linear phi, and a formula that is 0 has no mutants
        average = squared_moment(act, order)
        points = _points(act, {"V": "1.7"}, {"V": "0.3"})
        yield Claim(getattr(act, part), "quadrature", _unweighted(average), points)


def _unweighted(average: Any) -> Any:
    """The average without a power of t, with keyword arguments as a `Claim` passes them."""
    return lambda V, **values: average(V, 0, *values.values())


def _two_point(act: Activation) -> Iterator[Claim]:
    """The kernel by quadrature, and the slope from the kernel; by quadrature if it has no kernel."""
    parts = [part for part in ("kernel", "slope") if part in act.closed_forms]
    for part in parts[:1]:
        points = _points(act, GRAMS[0])  # q = 2 and 3 beside 4: a sign to an even power is not seen
        yield _by_pairs(act, part, points[-1:] if act.kinks else points)
    if len(parts) == 2:
        yield Claim(
            act.require("slope"), "Price: d(kernel)/d(kxy)", _price(act), _points(act, *GRAMS)
        )


def _everywhere(act: Activation) -> Iterator[Claim]:
    """Kernel and slope by two-point quadrature, at every point."""
    for part in ("kernel", "slope"):
        if part in act.closed_forms:
            yield _by_pairs(act, part, _points(act, *GRAMS))


def _by_pairs(act: Activation, part: str, points: tuple[Point, ...]) -> Claim:
    average = two_point_average(act, ("kernel", "slope").index(part))
    return Claim(getattr(act, part), "two-point quadrature", _by_keyword(average), points)


def _by_keyword(average: Any) -> Any:
    return lambda kxx, kxy, kyy, **values: average(kxx, kxy, kyy, *values.values())


def _price(act: Activation) -> Any:
    kernel = act.kernel.mpmath
    return lambda kxx, kxy, kyy, **values: mp.diff(lambda k: kernel(kxx, k, kyy, **values), kxy)


def _differentiable(act: Activation) -> bool:
    """Whether phi has no jump, and its mean square is not constant."""
    return {"F", "G"} <= set(act.closed_forms) and act.F.expr.diff(V) != 0


def _product_rule(act: Activation) -> sp.Expr:
    """(phi phi')'."""
    return derivative(act.phi.expr) ** 2 + act.phi.expr * derivative(act.phi.expr, 2)


def _averaged(act: Activation, expr: sp.Expr, order: int) -> Any:
    """E[z^order expr] by quadrature, z in units of its standard deviation."""
    function = compile_mpmath((z, *act.parameters), expr)

    def average(V: Any, **values: Any) -> Any:
        extra = tuple(values.values())
        return quadrature.moment(lambda x: function(x, *extra), V, order, act.kinks)

    return average


def _price_at_one_point(act: Activation) -> Iterator[Claim]:
    """dF/dV = E[phi'^2 + phi phi'']."""
    if _differentiable(act):
        average = _averaged(act, _product_rule(act), 0)
        points = _points(act, {"V": "0.8"})
        yield Claim(act.F.diff("V"), "Price: E[phi'^2 + phi phi'']", average, points)


def _stein(act: Activation) -> Iterator[Claim]:
    """E[z f] = V E[f'] with f = phi phi', both sides by quadrature: this checks phi' and the kinks."""
    if _differentiable(act):
        right = V * Moment(_product_rule(act), V, 0, act.kinks)
        formula = Formula(f"{act.name}: V E[(phi phi')']", (V, *act.parameters), right)
        average = _averaged(act, act.phi.expr * derivative(act.phi.expr), 1)
        points = _points(act, {"V": "0.8"})[-1:]

        def left(V: Any, **values: Any) -> Any:
            return mp.sqrt(V) * average(V, **values)

        yield Claim(formula, "Stein: E[z phi phi']", left, points, digits=20)


def _elu_by_conditioning(of_slope: bool) -> Claim:
    """E[ELU(v) | u] is elementary, which leaves a one-dimensional quadrature over u."""
    elu = ACTIVATIONS["elu"]
    formula = elu.require("slope") if of_slope else elu.kernel
    outer = compile_mpmath((z,), elu.derivative() if of_slope else elu.phi.expr)

    def inner(mean: Any, std: Any) -> Any:
        tail = mp.exp(mean + std**2 / 2) * mp.ncdf(-(mean + std**2) / std)
        if of_slope:
            return mp.ncdf(mean / std) + tail
        return mean * mp.ncdf(mean / std) + std * mp.npdf(mean / std) + tail - mp.ncdf(-mean / std)

    def oracle(kxx: Any, kxy: Any, kyy: Any) -> Any:
        std = mp.sqrt(kyy - kxy**2 / kxx)
        return quadrature.moment(lambda u: outer(u) * inner(kxy / kxx * u, std), kxx, kinks=[0])

    return Claim(formula, "conditioning on u", oracle, GRAMS)


POLYNOMIAL = replace(polynomial([1, "1/2", "-1/3", "1/5"]), name="polynomial")
LINEAR = replace(monomial(1), name="linear")
SCALED = ACTIVATIONS["erf"].scaled(sp.Rational(3, 2))
CLAIMED_ACTIVATIONS = (*ACTIVATIONS.values(), *FURTHER.values(), LINEAR, relu, POLYNOMIAL)


def _claims(act: Activation) -> Iterator[Claim]:
    for claim in chain(_one_point(act), _two_point(act), _price_at_one_point(act)):
        # relu is built from relu_power: name its claims after relu, as the catalogue does
        name = claim.statement.name.replace("relu_power", act.name)
        yield replace(claim, statement=replace(claim.statement, name=name))
    if act.name == "elu":
        yield _elu_by_conditioning(False)
        yield _elu_by_conditioning(True)


CLAIMS = {f"moments.{act.name}": partial(_claims, act) for act in CLAIMED_ACTIVATIONS}
CLAIMS["moments.scaled"] = partial(_one_point, SCALED)
CLAIMS |= {f"stein.{act.name}": partial(_stein, act) for act in (ACTIVATIONS["erf"], relu)}
DENSE = {f"pairs.{act.name}": partial(_everywhere, act) for act in CLAIMED_ACTIVATIONS}
DENSE |= {f"stein.{act.name}": partial(_stein, act) for act in CLAIMED_ACTIVATIONS}

"""The shallow tangent kernel itself, of finite width (D.2) and of infinite width (D.3)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.activations import erf, monomial
from analytic.activations.activation import Activation, derivative
from analytic.checks.claims import Claim, sample
from analytic.checks.oracles import two_point_average
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import kxx, kxy, kyy, sigma, xi, z, zeta
from analytic.ledger.curvature.gaussian import PHI
from analytic.ledger.curvature.weights import APART, vector, x, y
from analytic.ledger.verification import Verification, dot, holds, real_symbols

__all__ = ["ROUTES"]


def _empirical() -> Claim:
    """(D.2) for two units, against the gradient of the network by every parameter."""
    units = [real_symbols(f"v{j} b{j} w{j}1 w{j}2") for j in (1, 2)]
    slope, phi = derivative(PHI), compile_mpmath((z,), PHI)
    total = sp.S.Zero
    for readout, bias, *w in units:
        at_x, at_y = ({z: dot(w, at) + bias} for at in (x, y))
        total += PHI.subs(at_x) * PHI.subs(at_y)
        total += readout**2 * slope.subs(at_x) * slope.subs(at_y) * (1 + dot(x, y))
    flat = tuple(symbol for unit in units for symbol in unit)
    formula = Formula("empirical tangent kernel", (*flat, *x, *y), total / 2)

    def gradient(values: dict[str, Any], at: list[Any]) -> list[Any]:
        def output(**parameters: Any) -> Any:
            rows = ([parameters[symbol.name] for symbol in unit] for unit in units)
            return sum(a * phi(dot(w, at) + b) for a, b, *w in rows) / mp.sqrt(2)

        names = [symbol.name for symbol in flat]
        return [
            mp.diff(lambda t, name=name: output(**values | {name: t}), values[name])
            for name in names
        ]

    def oracle(**values: Any) -> Any:
        return dot(*(gradient(values, vector(values, name)) for name in "xy"))

    return Claim(formula, "gradient by every parameter", oracle, sample(formula, 1))


def _wide(act: Activation, route: str, oracle: Callable[..., Any], **tolerance: Any) -> Claim:
    """(D.3) with closed forms of both averages."""
    gram = [sigma**2 * dot(a, b) + zeta**2 for a, b in ((x, x), (x, y), (y, y))]
    values = dict(zip((kxx, kxy, kyy), gram, strict=True))
    kernel, slope = (
        f.expr.subs(values, simultaneous=True) for f in map(act.require, ("kernel", "slope"))
    )
    formula = Formula(
        f"tangent kernel, {act.name}", (sigma, zeta, xi, *x, *y), kernel + xi**2 * slope * (1 + dot(x, y))
    )  # fmt: skip
    names = [symbol.name for symbol in formula.args]
    return Claim(formula, route, oracle, ({n: APART[n] for n in names},), **tolerance)


def _by_quadrature() -> Claim:
    outputs, slopes = two_point_average(erf), two_point_average(erf, 1)

    def oracle(**values: Any) -> Any:
        at_x, at_y = vector(values, "x"), vector(values, "y")
        pairs = ((at_x, at_x), (at_x, at_y), (at_y, at_y))
        gram = [values["sigma"] ** 2 * dot(*pair) + values["zeta"] ** 2 for pair in pairs]
        return outputs(*gram) + values["xi"] ** 2 * slopes(*gram) * (1 + dot(at_x, at_y))

    reason = "each digit of a double integral takes time"
    return _wide(erf, "two-point quadrature", oracle, digits=20, reason=reason)


def _by_weights() -> Claim:
    """The mean of (D.2) over weights; three Gauss-Hermite nodes are exact for degree five."""
    act = monomial(2)
    phi, slope = (compile_mpmath((z,), f) for f in (act.phi.expr, act.derivative()))

    def oracle(**values: Any) -> Any:
        at_x, at_y, total = vector(values, "x"), vector(values, "y"), 0
        nodes = ((0, mp.mpf(2) / 3), (mp.sqrt(3), mp.mpf(1) / 6), (-mp.sqrt(3), mp.mpf(1) / 6))
        for (w1, a), (w2, b), (bias, c) in product(nodes, repeat=3):
            w = [values["sigma"] * w1, values["sigma"] * w2]
            one, two = (dot(w, at) + values["zeta"] * bias for at in (at_x, at_y))
            trained = values["xi"] ** 2 * slope(one) * slope(two) * (1 + dot(at_x, at_y))
            total += a * b * c * (phi(one) * phi(two) + trained)
        return total

    return _wide(act, "Gauss-Hermite nodes for every weight", oracle)


ROUTES: dict[str, Verification] = {
    "curvature/D.2": holds(_empirical()),
    "curvature/D.3": holds(_by_quadrature(), _by_weights()),
}

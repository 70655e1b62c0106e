"""Where the tangent kernel has no metric: rectified powers of degree 3/2 and less."""

from __future__ import annotations

from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.activations import relu, relu_power
from analytic.activations.activation import Activation
from analytic.checks.claims import Claim, Point
from analytic.checks.kernel_oracles import WideNetwork
from analytic.checks.oracles import Vector
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import exponent, sigma, xi, zeta
from analytic.ledger.verification import Verification, dot, holds, real_symbols

__all__ = ["ROUTES"]

x, e = real_symbols("x1 x2"), real_symbols("e1 e2")
POINT: Point = {"sigma": "0.7", "zeta": "0.5", "xi": "1.3", "x1": "0.6", "x2": "-0.9", "e1": "0.8",
                "e2": "0.5"}  # fmt: skip


def _squared_distance(act: Activation, values: dict[str, Any], step: Any) -> Any:
    """Theta(x, x) - 2 Theta(x, y) + Theta(y, y) for y = x + step e."""
    net = WideNetwork(act, values["sigma"], values["zeta"], 1, values["xi"])
    at: Vector = [values[f"x{k}"] for k in (1, 2)]
    there = [c + step * values[f"e{k}"] for k, c in enumerate(at, 1)]
    return net.ntk(at, at) - 2 * net.ntk(at, there) + net.ntk(there, there)


def _constant() -> Claim:
    """The limit for t -> 0 of the squared NTK distance of x and x + t e, divided by t."""
    V = sigma**2 * dot(x, x) + zeta**2
    angle = sigma / sp.sqrt(V) * sp.sqrt(dot(e, e) - sigma**2 * dot(x, e) ** 2 / V)
    expr = xi**2 / sp.pi * (1 + dot(x, x)) * angle
    formula = Formula("squared NTK distance of ReLU over a step", (sigma, zeta, xi, *x, *e), expr)

    def oracle(**values: Any) -> Any:
        near = mpf(10) ** -mp.dps
        with mp.workdps(4 * mp.dps):
            return _squared_distance(relu, values, near) / near

    return Claim(formula, "the kernel near the diagonal", oracle, (POINT,))


def _exponent() -> Claim:
    """The exponent with which the squared distance vanishes, from the kernel at two tiny steps."""
    args = (exponent, sigma, zeta, xi, *x, *e)
    formula = Formula("exponent of the squared NTK distance", args, 2 * exponent - 1)

    def oracle(q: Any, **values: Any) -> Any:
        act = relu_power(sp.Rational(str(q)))
        near = mpf(10) ** (-3 * mp.dps)  # the next power is |x - y|^2
        with mp.workdps(12 * mp.dps):
            one, two = (_squared_distance(act, values, near / k) for k in (1, 2))
            return mp.log(one / two, 2)

    points = tuple({**POINT, "q": q} for q in ("0.75", 1, "1.25"))
    return Claim(formula, "the kernel near the diagonal", oracle, points)


ROUTES: dict[str, Verification] = {"beyond/relu-tangent-metric": holds(_constant(), _exponent())}

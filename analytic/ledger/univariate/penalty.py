"""The regularised objective and what it means for the function: (16) and (17)."""

from __future__ import annotations

from itertools import product
from typing import Any

import sympy as sp
from mpmath import mp
from sympy import Abs, sqrt

from analytic.checks.claims import Claim, Point, sample
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import charge, x
from analytic.ledger.univariate.network import canonical, gradient, loss
from analytic.ledger.univariate.particles import d, lifted, theta
from analytic.ledger.verification import Verification, dot, real_symbols

__all__ = ["ROUTES"]


def _cancelled() -> Verification:
    """(16) for three particles, of which the first two have the same angle."""
    r1, r2, r3 = args = real_symbols("r1 r2 r3")
    formula = Formula("total variation of three particles", args, (Abs(r1 + r2) + Abs(r3)) / 3)
    printed = (Abs(r1) + Abs(r2) + Abs(r3)) / 3

    def oracle(r1: Any, r2: Any, r3: Any) -> Any:
        """The largest integral of a function on the circle bounded by 1; only its two values matter."""
        return max((r1 * p + r2 * p + r3 * q) / 3 for p, q in product((1, -1), repeat=2))

    points = ({"r1": "1.3", "r2": "-0.4", "r3": "-0.7"}, {"r1": "0.5", "r2": "-2.1", "r3": "1.2"})
    claim = Claim(formula, "largest mean of a bounded function", oracle, points)
    return Verification((claim, _regularised()), Formula("int |r| dmu", args, printed))


def _regularised() -> Claim:
    """The radial slope of the regularised potential, of one particle and one sample."""
    y, weight = real_symbols("y lamda")
    own = dot(lifted(x), d(theta))
    expr = (charge * own - y) * own + weight * sp.sign(charge)
    formula = Formula("radial slope with a penalty", (charge, theta, x, y, weight), expr)

    def oracle(r: Any, theta: Any, x: Any, y: Any, lamda: Any) -> Any:
        energy = loss(canonical, [(x, y)])
        return gradient(lambda w: energy(w) + lamda * abs(w[0]), (r, theta))[0]

    shared: Point = {"x": "0.6", "y": "0.9", "lamda": "0.3"}
    points = ({"r": "1.3", "theta": "0.4", **shared}, {"r": "-0.8", "theta": "1.9", **shared})
    return Claim(formula, "slope of the penalised loss", oracle, points)


def _curvature() -> Verification:
    """(17) for f with two knots and nothing to the left of them: int |f''| sqrt(1 + x^2) dx."""
    bend1, x1, bend2, x2 = args = real_symbols("bend1 x1 bend2 x2")
    true = Abs(bend1) * sqrt(1 + x1**2) + Abs(bend2) * sqrt(1 + x2**2)
    formula = Formula("least penalty of a function with two knots", args, true)
    printed = Formula("int |f''| dx", args, Abs(bend1) + Abs(bend2))

    def oracle(bend1: Any, x1: Any, bend2: Any, x2: Any) -> Any:
        """The least penalty of networks with these knots, over all shares l of left-facing units.

        Left-facing units of slope l at x1 and -l at x2 add up to the constant -l (x1 - x2) left of
        both, whose cost |l (x1 - x2)| is added. The total is piecewise linear in l: its minimum is at
        a corner.
        """
        first, second = mp.hypot(1, x1), mp.hypot(1, x2)

        def cost(l: Any) -> Any:
            at_first = first * (abs(bend1 - l) + abs(l))
            return at_first + second * (abs(bend2 + l) + abs(l)) + abs(l * (x1 - x2))

        return min(cost(l) for l in (0, bend1, -bend2))

    claim = Claim(formula, "cheapest network with these knots", oracle, sample(formula, 3))
    return Verification((claim, _one_neuron()), printed)


def _one_neuron() -> Claim:
    """The jump of the slope of a neuron at its knot, times sqrt(1 + knot^2): its |r|."""
    formula = Formula("|r| of a neuron", (charge, theta), Abs(charge))

    def oracle(r: Any, theta: Any) -> Any:
        knot = -mp.tan(theta)
        values = [canonical((r, theta), knot + k) for k in (-1, 0, 1)]
        return abs(values[0] - 2 * values[1] + values[2]) * mp.sqrt(1 + knot**2)

    return Claim(formula, "weighted second difference", oracle, sample(formula, 3))


ROUTES: dict[str, Verification] = {
    "univariate-relu/16": _cancelled(),
    "univariate-relu/17": _curvature(),
}

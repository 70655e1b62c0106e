"""Directions of neurons: activation arcs, stable equilibria, and the cost of affine functions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from mpmath import mp
from sympy import Abs, atan, pi, sqrt

from analytic.checks.claims import Claim, Point, sample
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import charge, x
from analytic.ledger.verification import Verification, holds, real_symbols
from analytic.relu_dynamics import affine_cost

__all__ = ["ROUTES"]


def _sign_change(f: Any, low: Any, high: Any) -> Any:
    """The point between low and high where f changes sign, by bisection."""
    rising = f(low) < 0
    while high - low > 16 * mp.eps:  # angles go up to 2 pi
        middle = (low + high) / 2
        low, high = (middle, high) if (f(middle) < 0) == rising else (low, middle)
    return low


def _preactivation(place: Any) -> Any:
    return lambda angle: place * mp.cos(angle) + mp.sin(angle)


def _activation_angle() -> Claim:
    formula = Formula("angle from which a sample is seen", (x,), -atan(x))

    def oracle(x: Any) -> Any:
        return _sign_change(_preactivation(x), -mp.pi / 2, mp.pi / 2)

    return Claim(formula, "bisection of <(x, 1), d(theta)>", oracle, sample(formula, 3))


def _arc_lengths() -> Claim:
    """For three samples: the sum over n of z^n times the length of the arcs active at n of them."""
    x1, x2, x3, z = real_symbols("x1 x2 x3 u")
    between = atan(x3) - atan(x1)
    expr = (1 + z**3) * (pi - between) + (z + z**2) * between
    formula = Formula("angles by number of samples seen", (x1, x2, x3, z), expr)

    def oracle(u: Any, **v: Any) -> Any:
        preactivations = [_preactivation(place) for place in v.values()]
        grid = [mp.pi * k / 30 + mp.mpf("0.01") for k in range(61)]
        cuts = [
            _sign_change(f, *pair)
            for f in preactivations
            for pair in pairwise(grid)
            if f(pair[0]) * f(pair[1]) < 0
        ]
        ends = sorted([*cuts, grid[0], grid[-1]])
        middles = [(stop - start, (start + stop) / 2) for start, stop in pairwise(ends)]
        return sum(length * u ** sum(f(at) > 0 for f in preactivations) for length, at in middles)

    points: tuple[Point, ...] = (
        {"x1": "-1.3", "x2": "0.4", "x3": "1.9", "u": "0.7"},
        {"x1": "0.2", "x2": "0.9", "x3": "3.1", "u": "-1.6"},
    )
    return Claim(formula, "bisection and counting", oracle, points)


def _equilibrium() -> Claim:
    """The derivative of the angular velocity by theta at a neuron's equilibrium between two samples."""
    x1, x2, rho1, rho2 = data = real_symbols("x1 x2 rho1 rho2")
    size = sqrt((rho1 * x1 + rho2 * x2) ** 2 + (rho1 + rho2) ** 2)
    formula = Formula("rate of turning back", (charge, *data), -Abs(charge) * size)

    def oracle(r: Any, x1: Any, x2: Any, rho1: Any, rho2: Any) -> Any:
        def turning(angle: Any) -> Any:
            """-dV/dtheta for constant residuals."""

            def V(angle: Any) -> Any:
                pairs = ((x1, rho1), (x2, rho2))
                return r * sum(rho * max(_preactivation(place)(angle), 0) for place, rho in pairs)

            return -mp.diff(V, angle)

        with mp.workdps(2 * mp.dps):
            equilibrium = mp.findroot(
                turning, mp.atan2(1, (x1 + x2) / 2)
            )  # between the two samples
            return mp.diff(turning, equilibrium)

    points: tuple[Point, ...] = (  # r and the residuals have opposite signs
        {"r": "1.3", "x1": "-0.4", "x2": "0.7", "rho1": "-0.8", "rho2": "-1.1"},
        {"r": "-0.6", "x1": "0.3", "x2": "1.6", "rho1": "1.4", "rho2": "0.5"},
    )
    return Claim(formula, "slope of -dV/dtheta where it vanishes", oracle, points)


def _affine() -> Claim:
    def oracle(l1: Any, l0: Any) -> Any:
        """A constant k by one neuron, the rest by two opposite ones: the best k, by trisection."""

        def cost(k: Any) -> Any:
            return abs(k) + 2 * mp.hypot(l1, l0 - k)

        with mp.workdps(2 * mp.dps):
            low, high = -abs(l0) - 1, abs(l0) + 1
            while high - low > mp.sqrt(mp.eps):  # the error of the minimum is of second order
                third = (high - low) / 3
                left, right = low + third, high - third
                low, high = (low, right) if cost(left) < cost(right) else (left, high)
            return min(cost(low), cost(0))

    points = (
        {"l1": 2, "l0": "0.7"},
        {"l1": "-1.3", "l0": "0.2"},
        {"l1": "0.6", "l0": "-1.9"},
        {"l1": 0, "l0": 1},
    )
    return Claim(affine_cost, "best of all splits, by trisection", oracle, points)


ROUTES: dict[str, Verification] = {
    "beyond/activation-arcs": holds(_activation_angle(), _arc_lengths()),
    "beyond/rest-between-samples": holds(_equilibrium()),
    "beyond/affine-cost": holds(_affine()),
}

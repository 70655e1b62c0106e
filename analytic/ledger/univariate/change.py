"""The flow of full parameters in canonical coordinates: (19) to (21), (47), propositions 4 and 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp
from mpmath import mp
from sympy import Abs, cos, sign, sin, sqrt

from analytic.checks.claims import Claim, sample
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import alpha, charge, delta, m, x
from analytic.ledger.univariate.lift import NEURON, a, active, b, c, norm, recovered, theta, y
from analytic.ledger.univariate.network import Vector, downhill, full, gradient, loss, rate
from analytic.ledger.verification import Verification, dot, holds, real_symbols
from analytic.relu_dynamics.metric import ARGS

__all__ = ["ROUTES", "coordinates", "speeds"]

p, q = WAY = real_symbols("p q")  # p r' + q theta' for all p and q determines both
residual = c * (a * x - b) / alpha - y  # of one sample; y includes the outputs of other neurons
slope_r = residual * (a * x - b) / (m * norm)  # of the loss by r
slope_theta = c * (b * x + a) * residual / alpha  # of the loss by theta
FLOW = (*WAY, *NEURON, x, y, m, alpha)


def coordinates(m: Any, alpha: Any) -> tuple[Callable[[Vector], Any], Callable[[Vector], Any]]:
    """r and theta as functions of (a, b, c)."""

    def r(z: Vector) -> Any:
        return m / alpha * z[2] * mp.hypot(z[0], z[1])

    def angle(z: Vector) -> Any:
        return mp.atan2(-z[1], z[0])

    return r, angle


def speeds(z: Vector, x: Any, y: Any, m: Any, alpha: Any) -> tuple[Any, Any]:
    """r' and theta' of a neuron that follows the gradient flow (2)."""
    velocity = downhill(loss(full(alpha), [(x, y)]), z)
    r, angle = (rate(part, z, velocity) for part in coordinates(m, alpha))
    return r, angle


def _speeds(v: dict[str, Any]) -> tuple[Any, Any]:
    z = [v[s.name] for s in NEURON]
    return speeds(z, v["x"], v["y"], v["m"], v["alpha"])


def _changed() -> Verification:
    """Proposition 4: w' = -P grad L."""
    radial, angular = (m / alpha) ** 2 * (a**2 + b**2 + c**2), 1 / (a**2 + b**2)
    climb = p * radial * slope_r + q * angular * slope_theta
    formula = Formula("p r' + q theta'", FLOW, -climb)

    def oracle(p: Any, q: Any, **v: Any) -> Any:
        r, angle = _speeds(v)
        return p * r + q * angle

    claim = Claim(formula, "flow of (a, b, c)", oracle, active(formula, 3))
    return Verification((claim,), Formula("p r' + q theta' as printed", FLOW, climb))


def _metric() -> Claim:
    """(20) as a quadratic form."""
    args = (*WAY, *NEURON, m, alpha)
    expr = p**2 * (m / alpha) ** 2 * (a**2 + b**2 + c**2) + q**2 / (a**2 + b**2)
    formula = Formula("quadratic form of P", args, expr)

    def oracle(p: Any, q: Any, m: Any, alpha: Any, **v: Any) -> Any:
        z = [v[s.name] for s in NEURON]
        by_r, by_theta = (gradient(part, z) for part in coordinates(m, alpha))
        return sum((p * one + q * two) ** 2 for one, two in zip(by_r, by_theta, strict=True))

    return Claim(formula, "derivatives of r and theta by (a, b, c)", oracle, sample(formula, 3))


def _locally() -> Verification:
    """(21): tau' = r theta', and the slope by tau is that by theta over r."""
    r = m / alpha * c * norm
    by_tau = slope_theta / r
    radial = (m / alpha) ** 2 * (a**2 + b**2 + c**2)
    true = -p * radial * slope_r - q * (m / alpha) ** 2 * c**2 * by_tau
    formula = Formula("p r' + q tau'", FLOW, true)

    def oracle(p: Any, q: Any, **v: Any) -> Any:
        change, angle = _speeds(v)
        at = coordinates(v["m"], v["alpha"])[0]([v[s.name] for s in NEURON])
        return p * change + q * at * angle

    claim = Claim(formula, "flow of (a, b, c)", oracle, active(formula, 3))
    printed = p * radial * slope_r + q * c**2 * by_tau
    return Verification((claim,), Formula("p r' + q tau' as printed", FLOW, printed))


def _by_invariant() -> Verification:
    """Proposition 8: the same in r, theta and delta alone."""
    args = (*WAY, *ARGS, theta, x, y)
    own = x * cos(theta) + sin(theta)
    rho = charge / m * own - y
    by_r, by_theta = rho * own / m, rho * charge / m * (cos(theta) - x * sin(theta))

    def flow(size: sp.Expr, radial: Any, angular: Any) -> sp.Expr:
        square = (delta + sqrt(delta**2 + 4 * size**2)) / 2
        return p * radial(square) * by_r + q * angular(square) * by_theta

    scale = (m / alpha) ** 2
    true = flow(
        alpha * charge / m, lambda s: charge**2 / s + scale * s, lambda s: scale * s / charge**2
    )
    printed = flow(charge, lambda s: scale * (charge**2 / s + s), lambda s: s / charge**2)
    formula = Formula("p r' + q theta' by delta", args, -true)

    def oracle(p: Any, q: Any, theta: Any, x: Any, y: Any, **v: Any) -> Any:
        c, size = recovered(**v)
        z = (size * mp.cos(theta), -size * mp.sin(theta), c)
        r, angle = speeds(z, x, y, v["m"], v["alpha"])
        return p * r + q * angle

    shared = {"p": "0.7", "q": "-1.2", "m": 3, "alpha": "1.7"}
    points = (
        {"delta": "-1.4", "r": "0.9", "theta": "0.5", "x": "0.8", "y": "0.4", **shared},
        {"delta": "2.3", "r": "-1.6", "theta": "2.6", "x": "-1.1", "y": "-0.7", **shared},
    )
    claim = Claim(formula, "flow of (a, b, c)", oracle, points)
    return Verification((claim,), Formula("p r' + q theta' by delta as printed", args, printed))


def _plane() -> Verification:
    """(47): how (u, v) moves with (r, theta)."""
    dr, turn = real_symbols("dr dtheta")
    args = (*WAY, charge, theta, dr, turn)
    d, t = (cos(theta), sin(theta)), (-sin(theta), cos(theta))
    combination = sign(charge) * dr * dot(WAY, d) + Abs(charge) * turn * dot(WAY, t)
    formula = Formula("p u' + q v'", args, combination)
    velocity = (dr, turn)
    printed = dot(WAY, d) * dot(velocity, d) + charge**2 * dot(WAY, t) * dot(velocity, t)

    def oracle(p: Any, q: Any, r: Any, theta: Any, dr: Any, dtheta: Any) -> Any:
        def at(w: Vector) -> Any:
            return abs(w[0]) * (p * mp.cos(w[1]) + q * mp.sin(w[1]))

        return rate(at, (r, theta), (dr, dtheta))

    claim = Claim(formula, "differences of (u, v)", oracle, sample(formula, 4))
    return Verification((claim,), Formula("p u' + q v' as printed", args, printed))


_flow, _form = _changed(), _metric()
ROUTES: dict[str, Verification] = {
    "univariate-relu/proposition-4": Verification((*_flow.claims, _form), _flow.printed),
    "univariate-relu/19": _flow,
    "univariate-relu/20": holds(_form),
    "univariate-relu/21": _locally(),
    "univariate-relu/proposition-8": _by_invariant(),
    "univariate-relu/47": _plane(),
}

"""Kernel and adaptive regime of a neuron: limits of the flow for delta -> -oo and delta -> oo."""

from __future__ import annotations

from typing import Any

import sympy as sp
from mpmath import mp
from sympy import Rational, cos, sin, sqrt

from analytic.checks.claims import Claim, Point, sample
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import alpha, charge, delta, m, x
from analytic.ledger.univariate.change import coordinates, speeds
from analytic.ledger.univariate.lift import NEURON, a, active, b, c, recovered, theta, y
from analytic.ledger.univariate.network import gradient, rate
from analytic.ledger.verification import Verification, holds, real_symbols
from analytic.relu_dynamics.metric import ARGS

__all__ = ["ROUTES"]

p, q = WAY = real_symbols("p q")
FAR = mp.mpf(10) ** 30  # a value of |delta| whose distance from the limit is below 1e-30
REDUCED = (*WAY, charge, theta, x, y, m, alpha)
_own = x * cos(theta) + sin(theta)
_residual = charge / m * _own - y
POINTS: tuple[Point, ...] = (
    {"p": "0.7", "q": "-1.2", "r": "0.9", "theta": "0.5", "x": "0.8", "y": "0.4", "m": 3, "alpha": "1.7"},
    {"p": "1.4", "q": "0.3", "r": "-1.6", "theta": "2.6", "x": "-1.1", "y": "-0.7", "m": 2, "alpha": "0.6"},
)  # fmt: skip


def _velocity(delta: Any, v: dict[str, Any]) -> tuple[Any, Any]:
    """r' and theta' of the neuron with this delta."""
    m, alpha, angle = v["m"], v["alpha"], v["theta"]
    c, size = recovered(delta, v["r"], m, alpha)
    z = (size * mp.cos(angle), -size * mp.sin(angle), c)
    return speeds(z, v["x"], v["y"], m, alpha)


def _adaptive() -> Claim:
    """(u, v)'/delta for delta -> oo: -(m/alpha)^2 times the gradient of the loss by (u, v)."""
    expr = -sp.sign(charge) * m / alpha**2 * _residual * (p * x + q)
    formula = Formula("(p u' + q v')/delta in the limit", REDUCED, expr)

    def oracle(p: Any, q: Any, **v: Any) -> Any:
        with mp.workdps(3 * mp.dps):
            velocity = _velocity(FAR, v)

            def at(w: Any) -> Any:
                return abs(w[0]) * (p * mp.cos(w[1]) + q * mp.sin(w[1]))

            return rate(at, (v["r"], v["theta"]), velocity) / FAR

    return Claim(formula, "flow of (a, b, c) with delta = 1e30", oracle, POINTS)


def _kernel() -> Claim:
    """r'/|delta| and theta' |delta| for delta -> -oo."""
    radial = (m / alpha) ** 2 * _residual * _own / m
    angular = _residual * charge / m * (cos(theta) - x * sin(theta))
    formula = Formula("p r'/|delta| + q theta' |delta|", REDUCED, -p * radial - q * angular)

    def oracle(p: Any, q: Any, **v: Any) -> Any:
        with mp.workdps(3 * mp.dps):
            r, angle = _velocity(-FAR, v)
            return p * r / FAR + q * angle * FAR

    return Claim(formula, "flow of (a, b, c) with delta = -1e30", oracle, POINTS)


def _share() -> Claim:
    """The ratio of tangential to radial velocity of a neuron, for equal slopes of the loss."""
    args = (*NEURON, x, y, m, alpha)
    formula = Formula("tangential over radial rate", args, c**2 / (a**2 + b**2 + c**2))

    def oracle(x: Any, y: Any, m: Any, alpha: Any, **v: Any) -> Any:
        z = [v[s.name] for s in NEURON]
        r, angle = (part(z) for part in coordinates(m, alpha))

        def energy(w: Any) -> Any:
            return (w[0] / m * (x * mp.cos(w[1]) + mp.sin(w[1])) - y) ** 2 / 2

        (dr, turn), (by_r, by_theta) = speeds(z, x, y, m, alpha), gradient(energy, (r, angle))
        return r * turn / (by_theta / r) / (dr / by_r)

    return Claim(
        formula, "flow of (a, b, c) over slopes by r and theta", oracle, active(formula, 4)
    )


def _share_by_delta() -> Claim:
    size = sqrt(delta**2 + 4 * (alpha * charge / m) ** 2)
    formula = Formula("tangential over radial rate by delta", ARGS, (1 + delta / size) / 2)

    def oracle(**v: Any) -> Any:
        c, norm = recovered(**v)
        return c**2 / (c**2 + norm**2)

    return Claim(formula, "Newton's method for r and delta", oracle, sample(formula, 3))


def _default() -> tuple[Claim, Claim]:
    """PyTorch's uniform laws of m neurons: E[delta], and E|c| E sqrt(a^2 + b^2)."""
    delta = Formula("mean delta", (m,), 1 / (3 * m) - Rational(2, 3))
    size = Formula("mean of |r| alpha/m", (m,), (sqrt(2) + sp.asinh(1)) / (6 * sqrt(m)))

    def over(m: Any) -> Any:
        """Uniform on [-1/sqrt(m), 1/sqrt(m)], of functions that are the same at -c."""
        end = 1 / mp.sqrt(m)
        return lambda f: mp.quad(f, [0, end]) / end

    def balance(m: Any) -> Any:
        return over(m)(lambda c: c**2) - 2 * over(1)(lambda a: a**2)

    def product(m: Any) -> Any:
        """E sqrt(a^2 + b^2) over the square in polar coordinates; by symmetry, from one octant."""
        eighth = mp.quad(lambda f: mp.quad(lambda s: s**2, [0, 1 / mp.cos(f)]), [0, mp.pi / 4])
        return over(m)(abs) * 2 * eighth

    points = tuple({"m": k} for k in (20, 200, 2000))
    route = "quadrature over the laws"
    return Claim(delta, route, balance, points), Claim(size, route, product, points)


ROUTES: dict[str, Verification] = {
    "beyond/adaptive-limit": holds(_adaptive()),
    "beyond/kernel-limit": holds(_kernel()),
    "beyond/tangential-share": holds(_share(), _share_by_delta()),
    "beyond/default-invariant": holds(*_default()),
}

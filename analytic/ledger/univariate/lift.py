"""Canonical and full parameters, and the invariant of the flow: (5), (18), (44) to (46)."""

from __future__ import annotations

from typing import Any

import sympy as sp
from mpmath import mp
from sympy import Abs, atan, atan2, cos, sin, sqrt

from analytic.checks.claims import Claim, Point, sample
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import alpha, charge, delta, m, x
from analytic.ledger.univariate.network import downhill, full, loss, rate
from analytic.ledger.verification import Verification, holds, real_symbols
from analytic.relu_dynamics.metric import ARGS, c_squared

__all__ = ["NEURON", "ROUTES", "a", "active", "b", "c", "norm", "recovered", "theta", "y"]

NEURON = a, b, c = real_symbols("a b c")
theta, y = real_symbols("theta y")
norm = sqrt(a**2 + b**2)
FACING: tuple[Point, ...] = (  # neurons that are active to the right and to the left of their knot
    {"a": "1.3", "b": "-0.4", "c": "0.7", "x": "0.9"},
    {"a": "-0.8", "b": "-1.9", "c": "-1.6", "x": "-3.1"},
)


def active(formula: Formula, count: int) -> tuple[Point, ...]:
    """Random points where the neuron (a, b, c) is active at x."""
    candidates = sample(formula, 12 * count)
    return tuple(p for p in candidates if p["a"] * p["x"] > p["b"])[:count]


def recovered(delta: Any, r: Any, m: Any, alpha: Any) -> tuple[Any, Any]:
    """c and sqrt(a^2 + b^2) from r and delta, by Newton's method for both equations."""

    def both(c: Any, size: Any) -> list[Any]:
        return [c**2 - size**2 - delta, m / alpha * c * size - r]

    start = mp.sqrt(abs(delta) + abs(alpha * r / m))
    far = start if delta > 0 else abs(alpha * r / m) / start
    near = abs(alpha * r / m) / start if delta > 0 else start
    with mp.workdps(mp.dps + 15):
        c, size = mp.findroot(both, (mp.sign(r) * far, near))
    return c, size


def _same_function() -> Verification:
    """(5): pi preserves the function if theta is defined by atan2; with arctan only for a > 0."""
    args = (*NEURON, x, alpha, m)

    def output(angle: sp.Expr) -> sp.Expr:
        r = m / alpha * c * norm
        return r / m * (x * cos(angle) + sin(angle))

    formula = Formula("a neuron in canonical form", args, output(atan2(-b, a)))
    printed = Formula("a neuron in the printed form", args, output(atan(-b / a)))

    def oracle(a: Any, b: Any, c: Any, x: Any, alpha: Any, m: Any) -> Any:
        return full(alpha)((a, b, c), x)

    points = tuple({**facing, "alpha": "1.7", "m": 5} for facing in FACING)
    claim = Claim(formula, "network of the form (1), where it is active", oracle, points)
    return Verification((claim, _angle()), printed)


def _angle() -> Claim:
    formula = Formula("angle of a neuron", (a, b), atan2(-b, a))

    def oracle(a: Any, b: Any) -> Any:
        return mp.im(mp.log(mp.mpc(a, -b)))

    points = tuple({"a": one, "b": two} for one, two in ((3, 4), (-3, 4), (-3, -4), (0, -2)))
    return Claim(formula, "logarithm of a - ib", oracle, points)


def _balance() -> Claim:
    """2 c c' of one neuron with one sample, which equals 2 a a' + 2 b b'."""
    residual = c * (a * x - b) / alpha - y
    expr = -2 * c * (a * x - b) * residual / alpha
    formula = Formula("speed of c^2", (*NEURON, x, y, alpha), expr)

    def oracle(x: Any, y: Any, alpha: Any, **v: Any) -> Any:
        z = [v[s.name] for s in NEURON]
        velocity = downhill(loss(full(alpha), [(x, y)]), z)
        return rate(lambda z: z[0] ** 2 + z[1] ** 2, z, velocity)

    return Claim(formula, "speed of a^2 + b^2 along the flow", oracle, active(formula, 3))


def _conserved() -> Claim:
    """delta of one neuron with one sample, before and after integrating the flow for some time."""
    formula = Formula("delta", (*NEURON, x, y), c**2 - a**2 - b**2)

    def oracle(x: Any, y: Any, **v: Any) -> Any:
        alpha = mp.mpf("1.7")

        def flow(_: Any, z: Any) -> list[Any]:
            a, b, c = z
            scaled_residual = (
                c * (a * x - b) / alpha - y
            ) / alpha  # the neuron stays active at its sample
            return [-c * scaled_residual * x, c * scaled_residual, -(a * x - b) * scaled_residual]

        a, b, c = mp.odefun(flow, 0, [v[s.name] for s in NEURON])(mp.mpf("0.5"))
        return c**2 - a**2 - b**2

    point = {"a": "1.2", "b": "-0.7", "c": "0.4", "x": "0.8", "y": "1.9"}
    return Claim(formula, "delta after half a unit of time", oracle, (point,))


def _uniquely() -> tuple[Claim, Claim]:
    """Lemma 3: a and c from r, theta and delta."""
    args = (*ARGS, theta)
    size = sqrt(delta**2 + 4 * (alpha * charge / m) ** 2)
    first = Formula("a recovered", args, cos(theta) * sqrt((size - delta) / 2))
    last = Formula("c recovered", ARGS, charge / Abs(charge) * sqrt((size + delta) / 2))

    def slope(theta: Any, **v: Any) -> Any:
        return recovered(**v)[1] * mp.cos(theta)

    def readout(**v: Any) -> Any:
        return recovered(**v)[0]

    route = "Newton's method for r and delta"
    return (
        Claim(first, route, slope, sample(first, 3)),
        Claim(last, route, readout, sample(last, 3)),
    )


def _readout() -> Verification:
    """(45); the printed form is correct only for alpha = m."""

    def oracle(**v: Any) -> Any:
        return recovered(**v)[0] ** 2

    claim = Claim(c_squared, "Newton's method for r and delta", oracle, sample(c_squared, 4))
    printed = (delta + sqrt(delta**2 + 4 * charge**2)) / 2
    return Verification((claim,), Formula("c^2 as printed", ARGS, printed))


def _gradients() -> Verification:
    """(46) for two samples at which the neuron is active, along any direction (p, q, s)."""
    p, q, s = way = real_symbols("p q s")
    places, targets = real_symbols("x1 x2"), real_symbols("y1 y2")
    args = (*NEURON, *way, *places, *targets, alpha)
    rho = [c * (a * z - b) / alpha - t for z, t in zip(places, targets, strict=True)]

    def along(turn: int, scale: sp.Expr) -> sp.Expr:
        terms = (
            (p * c * z + turn * q * c + s * (a * z - b)) * r
            for z, r in zip(places, rho, strict=True)
        )
        return sum(terms) / scale

    formula = Formula("slope of the loss", args, along(-1, alpha))

    def oracle(alpha: Any, x1: Any, x2: Any, y1: Any, y2: Any, **v: Any) -> Any:
        z, direction = ([v[one.name] for one in group] for group in (NEURON, way))
        return rate(loss(full(alpha), [(x1, y1), (x2, y2)]), z, direction)

    data = {"x1": "-0.2", "x2": "0.8", "y1": "0.3", "y2": "-1.4", "alpha": "1.7"}
    points = (
        {"a": "1.2", "b": "-0.7", "c": "0.4", "p": "0.6", "q": "1.3", "s": "-0.9", **data},
        {"a": "-0.5", "b": "-1.8", "c": "-2.3", "p": "1.1", "q": "-0.4", "s": "0.7", **data},
    )
    claim = Claim(formula, "differences of the loss", oracle, points)
    return Verification((claim,), Formula("slope of the loss as printed", args, along(1, sp.S.One)))


_invariant, _c = holds(_balance(), _conserved()), _readout()
ROUTES: dict[str, Verification] = {
    "univariate-relu/5": _same_function(),
    "univariate-relu/lemma-3": holds(*_invariant.claims, *_uniquely()),
    "univariate-relu/18": _invariant,
    "univariate-relu/lemma-7": Verification((*_c.claims, *_invariant.claims), _c.printed),
    "univariate-relu/44": _invariant,
    "univariate-relu/45": _c,
    "univariate-relu/46": _gradients(),
}

"""Neurons with a constant residual sum g: boosts, steps of descent, and sliding along a ray."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import alpha, x
from analytic.ledger.univariate.lift import NEURON, a, active, b, c, y
from analytic.ledger.univariate.network import downhill, full, gradient, loss
from analytic.ledger.verification import Verification, dot, holds, real_symbols, shifted
from analytic.relu_dynamics import Neuron, lorentz_boost

__all__ = ["ROUTES"]

G = g1, g2 = real_symbols("g1 g2")
t = sp.Symbol("t", real=True)


def _after(
    velocity: Callable[[Sequence[Any]], Sequence[Any]], z: Sequence[Any], t: Any
) -> list[Any]:
    """The solution at time t of a linear flow that starts at z, by the matrix exponential."""
    size = range(len(z))
    columns = [velocity([int(j == k) for j in size]) for k in size]
    system = mp.matrix(len(z))
    for k in size:
        for j in size:
            system[j, k] = t * columns[k][j]
    return list(mp.expm(system) * mp.matrix(z))


def _boost() -> Claim:
    """A linear combination of a, b and c after `lorentz_boost`."""
    way = real_symbols("p q s")
    boosted = lorentz_boost(Neuron(*NEURON), G, alpha, t)
    expr = dot(way, (boosted.a, boosted.b, boosted.c))
    formula = Formula("p a + q b + s c after a time", (*way, *NEURON, *G, alpha, t), expr)

    def oracle(g1: Any, g2: Any, alpha: Any, t: Any, **v: Any) -> Any:
        def potential(z: Sequence[Any]) -> Any:
            return z[2] * (g1 * z[0] - g2 * z[1]) / alpha  # sum of rho_j f(x_j), rho_j held fixed

        z, direction = ([v[s.name] for s in group] for group in (NEURON, way))
        return dot(direction, _after(lambda z: downhill(potential, z), z, t))

    points = (
        {"a": "1.2", "b": "0.5", "c": "-0.8", "g1": "0.9", "g2": "1.6", "alpha": "1.7", "t": "0.6"},
        {"a": "-0.4", "b": "1.5", "c": "2.1", "g1": -1, "g2": "0.3", "alpha": "0.8", "t": "-0.5"},
    )
    points = tuple({**point, "p": "0.7", "q": "-1.3", "s": "0.4"} for point in points)
    return Claim(formula, "matrix exponential of the flow", oracle, points)


def _descent() -> Claim:
    """delta after a step of gradient descent, minus delta before, for one sample."""
    eta = sp.Symbol("eta", positive=True)
    residual = c * (a * x - b) / alpha - y
    factor = (c**2 - a**2 - b**2) * (1 + x**2) + (a + b * x) ** 2
    formula = Formula(
        "change of delta in a step", (*NEURON, x, y, alpha, eta), -((eta * residual / alpha) ** 2) * factor
    )  # fmt: skip

    def oracle(x: Any, y: Any, alpha: Any, eta: Any, **v: Any) -> Any:
        z = [v[s.name] for s in NEURON]
        step = shifted(z, gradient(loss(full(alpha), [(x, y)]), z), -eta)
        return _invariant(step) - _invariant(z)

    return Claim(formula, "one step of gradient descent", oracle, active(formula, 3))


def _invariant(z: Sequence[Any]) -> Any:
    return z[2] ** 2 - z[0] ** 2 - z[1] ** 2


def _sliding() -> Claim:
    """n = |(a, b)| and c of a neuron that slides along the right ray of x, where g jumps by rho (x, 1)."""
    p, q, n, rho = real_symbols("p q n rho")
    size = sp.sqrt(1 + x**2)
    rapidity = (g1 - x * g2) / size * t / alpha
    ch, sh = sp.cosh(rapidity), sp.sinh(rapidity)
    expr = p * (n * ch - c * sh) + q * (c * ch - n * sh)
    formula = Formula("p n + q c on a ray", (p, q, n, c, *G, rho, x, alpha, t), expr)

    def oracle(g1: Any, g2: Any, rho: Any, x: Any, alpha: Any, t: Any, **v: Any) -> Any:
        """Filippov's sliding mode: the convex combination of both velocities that stays on the ray."""
        d = [part / mp.hypot(1, x) for part in (1, -x)]
        ratio = -(g1 * x + g2) / (rho * (1 + x**2))
        mixed = [g1 + ratio * rho * x, g2 + ratio * rho]

        def velocity(z: Sequence[Any]) -> list[Any]:
            return [*(-z[2] * part / alpha for part in mixed), -dot(z[:2], mixed) / alpha]

        w1, w2, c = _after(velocity, [v["n"] * d[0], v["n"] * d[1], v["c"]], t)
        return v["p"] * dot((w1, w2), d) + v["q"] * c

    points = (  # attractors: g on both sides turns the neuron towards the ray
        {"n": "1.2", "c": "0.9", "g1": "0.4", "g2": "-0.8", "rho": "1.9", "x": "0.5", "t": "0.6"},
        {"n": "0.6", "c": "-1.4", "g1": "0.3", "g2": "0.7", "rho": "-0.9", "x": "1.5", "t": "0.3"},
    )
    points = tuple({**point, "p": "0.7", "q": "-1.3", "alpha": "1.7"} for point in points)
    return Claim(formula, "Filippov's velocity by matrix exponential", oracle, points)


ROUTES: dict[str, Verification] = {
    "beyond/lorentz-boost": holds(_boost()),
    "beyond/descent-of-delta": holds(_descent()),
    "beyond/sliding-boost": holds(_sliding()),
}

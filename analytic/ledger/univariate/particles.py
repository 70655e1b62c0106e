"""The canonical flow of a few particles: (8) to (13), (43), proposition 1."""

from __future__ import annotations

from typing import Any

import sympy as sp
from mpmath import mp
from sympy import cos, sin

from analytic.checks.claims import Claim, Point, sample
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import charge, x
from analytic.ledger.univariate.network import canonical, downhill, full, gradient, loss, rate
from analytic.ledger.verification import Verification, dot, holds, real_symbols

__all__ = ["ROUTES", "d", "lifted", "t", "theta"]

r1, theta1, r2, theta2 = PARTICLES = real_symbols("r1 theta1 r2 theta2")
X = real_symbols("x1 x2 x3")
RHO = real_symbols("rho1 rho2 rho3")
Y = real_symbols("y1 y2 y3")
theta = sp.Symbol("theta", real=True)

# Three samples: the first particle is active at the last two, the second one at the first two.
PLACES: Point = {"x1": "-1.1", "x2": "0.3", "x3": "1.4"}
FIRST_POINT: Point = {"r1": "1.3", "theta1": "0.4", "r2": "-0.7", "theta2": "2.5"}
SECOND_POINT: Point = {"r1": "-2.1", "theta1": "0.1", "r2": "0.9", "theta2": "2.3"}
ACTIVE = ((1, 2), (0, 1))


def d(angle: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    return cos(angle), sin(angle)


def t(angle: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    return -sin(angle), cos(angle)


def lifted(place: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    return place, sp.S.One


def _points(values: dict[str, tuple[str, str]]) -> tuple[Point, ...]:
    return tuple(
        {**PLACES, **where, **{name: pair[k] for name, pair in values.items()}}
        for k, where in enumerate((FIRST_POINT, SECOND_POINT))
    )


def _read(values: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The parameters of both particles and the places of the samples."""
    return [values[s.name] for s in PARTICLES], [values[s.name] for s in X]


def _mean() -> Claim:
    """(8) for two particles, against neurons of the form (1) that pi sends to them."""
    expr = (r1 * dot(lifted(x), d(theta1)) + r2 * dot(lifted(x), d(theta2))) / 2
    formula = Formula("mean over two particles", (*PARTICLES, x), expr)

    def oracle(x: Any, **v: Any) -> Any:
        alpha, z = mp.mpf("1.7"), []
        for k in (1, 2):
            norm = mp.mpf(3) / (k + 1)  # arbitrary: c is chosen so that r is right
            r, angle = v[f"r{k}"], v[f"theta{k}"]
            z += [norm * mp.cos(angle), -norm * mp.sin(angle), alpha * r / (2 * norm)]
        return full(alpha)(z, x)

    points = tuple({**where, "x": "0.2"} for where in (FIRST_POINT, SECOND_POINT))
    return Claim(formula, "network of the form (1)", oracle, points)


def _energy() -> Claim:
    """(9) and (10) with C_y = |y|^2/2."""
    units = [
        [sp.S.Zero if j not in active else r * dot(lifted(X[j]), d(angle)) for j in range(3)]
        for r, angle, active in ((r1, theta1, ACTIVE[0]), (r2, theta2, ACTIVE[1]))
    ]
    expr = dot(Y, Y) / 2 - sum(dot(unit, Y) for unit in units) / 2
    expr += sum(dot(one, two) for one in units for two in units) / 8
    formula = Formula("loss of two particles", (*PARTICLES, *X, *Y), expr)

    def oracle(**v: Any) -> Any:
        w, places = _read(v)
        return loss(canonical, [(p, v[f"y{k}"]) for k, p in enumerate(places, 1)])(w)

    points = _points({"y1": ("0.8", "-1.3"), "y2": ("-0.4", "0.6"), "y3": ("1.5", "0.2")})
    return Claim(formula, "half the squared residuals", oracle, points)


RESIDUALS = {"rho1": ("0.8", "-1.3"), "rho2": ("-0.4", "0.6"), "rho3": ("1.5", "0.2")}


def _residual_sum(k: int) -> tuple[sp.Expr, sp.Expr]:
    """g of the pattern of particle k."""
    first, second = (sum(RHO[j] * lifted(X[j])[i] for j in ACTIVE[k]) for i in (0, 1))
    return first, second


def _data(v: dict[str, Any]) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """Two particles and targets that leave the given residuals."""
    w, places = _read(v)
    return w, [(p, canonical(w, p) - v[f"rho{k}"]) for k, p in enumerate(places, 1)]


def _field() -> tuple[Claim, Claim]:
    """(12) at the first of two particles: m times the gradient of the loss, not m/2 times."""
    args, points = (*PARTICLES, *X, *RHO), _points(RESIDUALS)
    forms = {
        "radial component of grad V": dot(_residual_sum(0), d(theta1)),
        "angular component of grad V": r1 * dot(_residual_sum(0), t(theta1)),
    }

    def component(k: int) -> Any:
        def oracle(**v: Any) -> Any:
            w, data = _data(v)
            return 2 * gradient(loss(canonical, data), w)[k]

        return oracle

    route = "m times the gradient of the loss"
    one, two = (
        Claim(Formula(name, args, expr), route, component(k), points)
        for k, (name, expr) in enumerate(forms.items())
    )
    return one, two


def _observable(w: Any) -> Any:
    """The mean over particles of a test function on the cylinder, for the weak form of (11)."""
    return sum(r**2 * mp.sin(a) + r * mp.cos(2 * a) for r, a in zip(w[::2], w[1::2])) * 2 / len(w)


def _weak() -> Claim:
    """(11) as its footnote reads it, for two particles: -int <grad psi, grad V> dmu."""
    total = sp.S.Zero
    for k, (r, angle) in enumerate(((r1, theta1), (r2, theta2))):
        psi = r**2 * sin(angle) + r * cos(2 * angle)
        slope = sp.diff(psi, r) * dot(_residual_sum(k), d(angle))
        total += slope + sp.diff(psi, angle) * r * dot(_residual_sum(k), t(angle))
    formula = Formula("change of a mean", (*PARTICLES, *X, *RHO), -total / 2)

    def oracle(**v: Any) -> Any:
        w, data = _data(v)
        return rate(_observable, w, downhill(loss(canonical, data), w, 2))

    return Claim(formula, "particles that go downhill, m times as fast", oracle, _points(RESIDUALS))


def _density() -> Claim:
    """(11) where mu has the density e^(-r^2) (2 + sin theta) and V = r <g, d(theta)>."""
    g1, g2 = real_symbols("g1 g2")
    mu = sp.exp(-(charge**2)) * (2 + sin(theta))
    V = charge * dot((g1, g2), d(theta))
    div = sum(sp.diff(mu * sp.diff(V, one), one) for one in (charge, theta))
    formula = Formula("div(mu grad V)", (charge, theta, g1, g2), div)
    density = sp.lambdify((charge, theta), mu, "mpmath")

    def oracle(r: Any, theta: Any, g1: Any, g2: Any) -> Any:
        """d/dt of the density at a point: that of the preimage over the change of volume."""

        def after(step: Any) -> Any:
            def to(r: Any, a: Any) -> tuple[Any, Any]:
                along, across = g1 * mp.cos(a) + g2 * mp.sin(a), g2 * mp.cos(a) - g1 * mp.sin(a)
                return r - step * along, a - step * r * across

            old = r, theta
            for _ in range(8):  # fixed-point iteration for the preimage: an error O(step^8)
                new = to(*old)
                old = old[0] + r - new[0], old[1] + theta - new[1]
            along = g1 * mp.cos(old[1]) + g2 * mp.sin(old[1])
            across = g2 * mp.cos(old[1]) - g1 * mp.sin(old[1])
            volume = 1 + step * old[0] * along - (step * across) ** 2
            return density(*old) / volume

        return mp.diff(after, 0)

    return Claim(formula, "density carried along", oracle, sample(formula, 2))


def _residual(j: int) -> Claim:
    """(13) for one of three residuals."""
    total = sp.S.Zero
    for k, (r, angle) in enumerate(((r1, theta1), (r2, theta2))):
        if j in ACTIVE[k]:
            ways = ((r**2, t(angle)), (1, d(angle)))
            total += sum(s * dot(lifted(X[j]), way) * dot(_residual_sum(k), way) for s, way in ways)
    formula = Formula(f"speed of residual {j + 1}", (*PARTICLES, *X, *RHO), -total / 2)

    def oracle(**v: Any) -> Any:
        w, data = _data(v)
        place = data[j][0]
        return rate(lambda w: canonical(w, place), w, downhill(loss(canonical, data), w, 2))

    return Claim(formula, "particles that go downhill, m times as fast", oracle, _points(RESIDUALS))


_residuals = holds(*(_residual(j) for j in range(3)))
ROUTES: dict[str, Verification] = {
    "univariate-relu/8": holds(_mean()),
    "univariate-relu/9-10": holds(_energy()),
    "univariate-relu/11": holds(_weak(), _density()),
    "univariate-relu/12": holds(*_field()),
    "univariate-relu/proposition-1": _residuals,
    "univariate-relu/13": _residuals,
    "univariate-relu/43": _residuals,
}

"""Straight lines and how outputs leave them: (2.49) to (2.64), (3.4), (3.5), (3.7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, Point, sample
from analytic.expressions.formula import Formula
from analytic.ledger.output_flow.model import (
    EXTRAPOLATED,
    LABELS,
    OUTPUTS,
    THETA,
    along,
    flow,
    jacobian,
    outputs,
)
from analytic.ledger.verification import Verification, dot, holds, real_symbols
from analytic.output_flow import ProjectorPath, elapsed, remaining

__all__ = ["DIGITS", "ROUTES", "START", "adapted", "t"]

N = sp.Symbol("N", integer=True, positive=True)
t = sp.Symbol("t", nonnegative=True)
s = sp.Symbol("s", nonnegative=True)
x, x0, y = real_symbols("x x0 y")
RATE = {sp.Symbol("c", positive=True): 1 / N}  # of the cost (2.48)
DIGITS = 12  # of flows that are integrated
EARLY = ({"t": "0.3"}, {"t": "0.8"})


def _sampled(formula: Formula, *times: dict[str, Any]) -> tuple[Point, ...]:
    """Random points, with times below 1."""
    return tuple({**point, **time} for point, time in zip(sample(formula, len(times)), times))


def _claim(
    name: str, args: Sequence[sp.Symbol], expr: sp.Expr, route: str, oracle: Callable[..., Any]
) -> Claim:
    formula = Formula(name, tuple(args), expr)
    return Claim(
        formula, route, oracle, _sampled(formula, *EARLY) if t in args else sample(formula, 2)
    )


def _descent() -> Verification:
    """(2.49), one component of x' = -grad C for the cost (2.48)."""
    args = (x, y, N)

    def oracle(x: Any, y: Any, N: Any) -> Any:
        return -mp.diff(lambda out: (out - y) ** 2 / (2 * N), x)

    claim = _claim("speed of an output", args, -(x - y) / N, "differences of the cost", oracle)
    return Verification((claim,), Formula("(2.49) as printed", args, (x - y) / N))


def _decay() -> Claim:
    """(2.50)."""
    expr = y + remaining.expr.subs(RATE) * (x0 - y)

    def oracle(x0: Any, y: Any, s: Any, N: Any) -> Any:
        return flow(lambda _, out: [-(out[0] - y) / N], [x0], mp.mpf(0), s)[0]

    formula = Formula("exponential approach", (x0, y, s, N), expr)
    points = (
        {"x0": "1.7", "y": "-0.4", "s": "0.9", "N": 2},
        {"x0": "-2.2", "y": "1.3", "s": 2, "N": 3},
    )
    return Claim(formula, "integrated flow", oracle, points, DIGITS, EXTRAPOLATED)


def _inverse() -> Claim:
    """(2.53)."""

    def oracle(t: Any, N: Any) -> Any:
        return mp.findroot(lambda s: 1 - mp.exp(-s / N) - t, N * t)

    return _claim("s of t", (t, N), elapsed.expr.subs(RATE), "root of (2.52)", oracle)


def _reparametrised() -> tuple[Claim, Claim]:
    """(2.55), lines 2 and 3, at an output x at the time t."""

    def oracle(x: Any, y: Any, t: Any, N: Any) -> Any:
        def after(time: Any) -> Any:
            later = -N * mp.log(1 - time) + N * mp.log(1 - t)
            return y + mp.exp(-later / N) * (x - y)

        return mp.diff(after, t)

    slope = sp.diff((x - y) ** 2 / (2 * N), x)
    route = "differences in the new time"
    return (
        _claim("(2.55), line 2", (x, y, t, N), -slope * N / (1 - t), route, oracle),
        _claim("(2.55), line 3", (x, y, t, N), -(x - y) / (1 - t), route, oracle),
    )


def _line() -> tuple[Claim, Claim]:
    """(2.56)."""

    def oracle(x0: Any, y: Any, t: Any) -> Any:
        return mp.diff(lambda time: y + (1 - time) * (x0 - y), t)

    here, route = y + (1 - t) * (x0 - y), "differences of (2.51)"
    return (
        _claim("(2.56), line 1", (x0, y, t), -(x0 - y), route, oracle),
        _claim("(2.56), line 2", (x0, y, t), -(here - y) / (1 - t), route, oracle),
    )


START: Point = {"p": "0.4", "q": "-0.3", "r": "0.9", "y1": "1.1", "y2": "0.2"}


def adapted(values: dict[str, Any], end: Any) -> list[Any]:
    """Outputs of the model after the adapted flow (2.27) of the cost (2.48), by numerical slopes."""
    labels = [values[s.name] for s in LABELS]

    def velocity(_: Any, theta: Any) -> list[Any]:
        D = jacobian(outputs, theta)
        apart = mp.matrix([a - b for a, b in zip(outputs(theta), labels, strict=True)])
        return list(-D.T * mp.lu_solve(D * D.T, apart / 2))

    duration = -2 * mp.log(1 - end)  # N = 2
    return outputs(flow(velocity, [values[s.name] for s in THETA], mp.mpf(0), duration))


def _trained() -> tuple[Claim, Claim]:
    """(2.57) for a model of full rank."""

    def component(k: int) -> Claim:
        expr = LABELS[k] + (1 - t) * (OUTPUTS[k] - LABELS[k])
        formula = Formula(f"output {k + 1} on the line", (*THETA, *LABELS, t), expr)
        points = tuple({**START, **time} for time in EARLY)
        return Claim(
            formula,
            "a model trained by the adapted flow",
            lambda t, **values: adapted(values, t)[k],
            points,
            DIGITS,
            EXTRAPOLATED,
        )

    return component(0), component(1)


def _constrained() -> tuple[Claim, Claim]:
    """(2.58) for one parameter and two outputs, (theta, theta^2)."""
    theta = sp.Symbol("theta", real=True)
    tangent, place = (sp.S.One, 2 * theta), (theta, theta**2)
    along_tangent = dot(tangent, [a - b for a, b in zip(place, LABELS, strict=True)])

    def curve(w: Any) -> list[Any]:
        return [w[0], w[0] ** 2]

    def speed(theta: Any, y1: Any, y2: Any, t: Any) -> list[Any]:
        count = mp.mpf(2)  # N of (2.48), which drops out
        D = jacobian(curve, [theta])
        apart = mp.matrix([theta - y1, theta**2 - y2]) / count
        rate = -(D.T * apart)[0] / (D.T * D)[0]
        return along(curve, [theta], [rate * mp.diff(lambda time: -count * mp.log(1 - time), t)])

    def component(k: int) -> Claim:
        expr = -tangent[k] * along_tangent / dot(tangent, tangent) / (1 - t)
        args, route = (theta, *LABELS, t), "outputs along the adapted flow"
        return _claim(
            f"constrained flow, output {k + 1}", args, expr, route, lambda **v: speed(**v)[k]
        )

    return component(0), component(1)


# On the unit circle, one parameter and labels (rho, 0), the constrained flow has a closed form.
angle, rho = real_symbols("angle rho")
TURNED = 2 * sp.atan(sp.tan(angle / 2) * (1 - t) ** rho)
ROUND = (sp.cos(TURNED), sp.sin(TURNED))
FROM, TO = (sp.cos(angle), sp.sin(angle)), (rho, sp.S.Zero)
CIRCLE = (angle, rho, t)
ON_CIRCLE: tuple[Point, ...] = (
    {"angle": "1.9", "rho": "0.7", "t": "0.6"},
    {"angle": "-0.8", "rho": "1.6", "t": "0.4"},
)


def _duhamel(values: dict[str, Any], contractive: bool) -> list[Any]:
    """The right-hand side of (2.59): the propagator from 0 and the integral, along an integrated flow."""
    rho, start = values["rho"], values["angle"]
    apart = mp.matrix([mp.cos(start) - rho, mp.sin(start)])

    def velocity(time: Any, state: Any) -> list[Any]:
        here = mp.matrix([mp.cos(state[0]), mp.sin(state[0])])
        normal = here * here.T
        tangent = mp.eye(2) - normal
        U = mp.matrix([[state[1], state[2]], [state[3], state[4]]])
        way = -tangent * U / (1 - time) if contractive else normal * U / (1 - time)
        source = mp.lu_solve(U, normal * apart) / (1 if contractive else 1 - time)
        return [-rho * mp.sin(state[0]) / (1 - time), *way, *source]

    end = values["t"]
    final = flow(velocity, [start, 1, 0, 0, 1, 0, 0], mp.mpf(0), end)
    U = mp.matrix([[final[1], final[2]], [final[3], final[4]]])
    return list(U * mp.matrix(final[5:]) * (1 if contractive else 1 - end))


def _deviation(k: int, contractive: bool) -> Claim:
    expr = ROUND[k] - ((1 - t) * FROM[k] + t * TO[k])
    formula = Formula(f"deviation on a circle, output {k + 1}", CIRCLE, expr)
    name = "contractive propagator" if contractive else "propagator (2.60), corrected"

    def oracle(**values: Any) -> Any:
        return _duhamel(values, contractive)[k]

    return Claim(formula, name, oracle, ON_CIRCLE, DIGITS, EXTRAPOLATED)


def _leaving() -> Verification:
    """(2.59); as printed the line ends at -y."""
    printed = ROUND[0] - ((1 - t) * FROM[0] - t * TO[0])
    claims = (_deviation(0, False), _deviation(1, False), _deviation(0, True))
    return Verification(claims, Formula("deviation from a line to -y", CIRCLE, printed))


def _constant() -> Verification:
    """(2.60) for a model with one parameter that moves two outputs on a line: U = P + P' (1 - t')/(1 - t)."""
    phi, *r = real_symbols("phi r1 r2")
    direction = (sp.cos(phi), sp.sin(phi))
    rest = [a - n * dot(direction, r) for a, n in zip(r, direction, strict=True)]
    args = (phi, *r, t)

    def oracle(phi: Any, r1: Any, r2: Any, t: Any) -> Any:
        n = mp.cos(phi), mp.sin(phi)

        def velocity(time: Any, state: Any) -> list[Any]:
            apart = [r1 + n[0] * state[0], r2 + n[1] * state[0]]
            return [-dot(n, apart) / (1 - time)]

        moved = flow(velocity, [mp.mpf(0)], mp.mpf(0), t)[0]
        return r1 + n[0] * moved - (1 - t) * r1

    points = (
        {"phi": "0.7", "r1": "1.3", "r2": "-0.4", "t": "0.6"},
        {"phi": "2.1", "r1": "-0.5", "r2": "0.9", "t": "0.3"},
    )
    formula = Formula("deviation by a constant projector", args, t * rest[0])
    claim = Claim(formula, "integrated flow", oracle, points, DIGITS, EXTRAPOLATED)
    printed = Formula(
        "the same with P for its complement", args, -(1 - t) * sp.log(1 - t) * rest[0]
    )
    return Verification((claim, _pieces(), _deviation(0, False)), printed)


def _pieces() -> Claim:
    """The deviation by projectors that change at t = 1/3, from `ProjectorPath`."""
    r = real_symbols("r1 r2")
    first = sp.Matrix([[9, 12], [12, 16]]) / 25
    path = ProjectorPath((0, "1/3"), (first, sp.diag(1, 0)))
    expr = path.deviation(sp.Matrix(r), sp.zeros(2, 1), "3/4")[0]
    formula = Formula("deviation by two projectors", r, expr)

    def oracle(r1: Any, r2: Any) -> Any:
        def early(time: Any, state: Any) -> list[Any]:
            share = (3 * state[0] + 4 * state[1]) / 25 / (1 - time)
            return [-3 * share, -4 * share]

        def late(time: Any, state: Any) -> list[Any]:
            return [-state[0] / (1 - time), mp.mpf(0)]

        third, end = mp.mpf(1) / 3, mp.mpf(3) / 4
        state = flow(early, [r1, r2], mp.mpf(0), third)
        return flow(late, state, third, end)[0] - (1 - end) * r1

    return Claim(formula, "integrated flow", oracle, sample(formula, 2), DIGITS, EXTRAPOLATED)


def _product_rule() -> Claim:
    """(2.62), for R = sin(w t)."""
    w = sp.Symbol("w", real=True)
    R = sp.sin(w * t)
    expr = -(x0 - y) - R + (1 - t) * sp.diff(R, t)

    def oracle(x0: Any, y: Any, w: Any, t: Any) -> Any:
        return mp.diff(lambda a: (1 - a) * x0 + a * y + (1 - a) * mp.sin(w * a), t)

    return _claim("speed by (2.61)", (x0, y, w, t), expr, "differences of (2.61)", oracle)


def _split() -> list[Claim]:
    """(2.63), lines 2 to 4, for a projector onto the direction phi; first component."""
    phi = sp.Symbol("phi", real=True)
    start, labels, R = (real_symbols(f"{name}1 {name}2") for name in ("a", "y", "R"))
    n = sp.cos(phi), sp.sin(phi)

    def rest(vector: Sequence[sp.Expr]) -> sp.Expr:
        """The first component of what the projector leaves out."""
        return vector[0] - n[0] * dot(n, vector)

    here = [(1 - t) * a + t * b + (1 - t) * c for a, b, c in zip(start, labels, R, strict=True)]
    apart = [a - b for a, b in zip(here, labels, strict=True)]
    written = [
        (1 - t) * a + t * b - b + (1 - t) * c for a, b, c in zip(start, labels, R, strict=True)
    ]
    both = [a - b + c for a, b, c in zip(start, labels, R, strict=True)]
    lines = {
        "line 2": -apart[0] / (1 - t) + rest(apart) / (1 - t),
        "line 3": -written[0] / (1 - t) + rest(written) / (1 - t),
        "line 4": -(start[0] - labels[0]) - R[0] + rest(both),
    }

    def oracle(phi: Any, t: Any, **v: Any) -> Any:
        n = mp.matrix([mp.cos(phi), mp.sin(phi)])
        a, b, c = (mp.matrix([v[f"{name}1"], v[f"{name}2"]]) for name in ("a", "y", "R"))
        return (-n * n.T * ((1 - t) * a + t * b + (1 - t) * c - b) / (1 - t))[0]

    args = (phi, *start, *labels, *R, t)
    return [
        _claim(f"(2.63), {name}", args, expr, "line 1 in numbers", oracle)
        for name, expr in lines.items()
    ]


def _remainder() -> list[Claim]:
    """(2.64) on the circle, where the normal is x itself."""
    apart = [a - b for a, b in zip(FROM, TO, strict=True)]
    R = [
        (place - (1 - t) * a - t * b) / (1 - t) for place, a, b in zip(ROUND, FROM, TO, strict=True)
    ]
    along_normal = dot(ROUND, R) + dot(ROUND, apart)

    def oracle(k: int, angle: Any, rho: Any, t: Any) -> Any:
        def left(time: Any) -> Any:
            turned = 2 * mp.atan(mp.tan(angle / 2) * (1 - time) ** rho)
            place, start = (
                (mp.cos(turned), mp.sin(turned))[k],
                (mp.cos(angle), mp.sin(angle))[k],
            )
            return (place - (1 - time) * start - time * (rho, 0)[k]) / (1 - time)

        return mp.diff(left, t)

    return [
        Claim(
            Formula(f"(2.64), output {k + 1}", CIRCLE, ROUND[k] * along_normal / (1 - t)),
            "differences of R along the flow",
            lambda k=k, **values: oracle(k, **values),
            ON_CIRCLE,
        )
        for k in (0, 1)
    ]


def _prescribed() -> tuple[Claim, Claim]:
    """(3.4) and (3.5): a curved path in output space, and the model that is led along it."""
    bends = real_symbols("b1 b2")

    def led(values: dict[str, Any], end: Any) -> list[Any]:
        theta = [values[w.name] for w in THETA]
        straight, curved = ([values[f"{name}{k}"] for k in (1, 2)] for name in "yb")

        def velocity(time: Any, theta: Any) -> list[Any]:
            D = jacobian(outputs, theta)
            way = mp.matrix([a + 2 * time * b for a, b in zip(straight, curved, strict=True)])
            return list(D.T * mp.lu_solve(D * D.T, way))

        return outputs(flow(velocity, theta, mp.mpf(0), end))

    def component(k: int) -> Claim:
        expr = OUTPUTS[k] + t * LABELS[k] + t**2 * bends[k]
        formula = Formula(f"output {k + 1} on the path", (*THETA, *LABELS, *bends, t), expr)
        point = {**START, "b1": "-0.3", "b2": "0.5"}
        return Claim(
            formula,
            "a model led by (3.5)",
            lambda t, **values: led(values, t)[k],
            ({**point, "t": "0.4"}, {**point, "t": "0.9"}),
            DIGITS,
            EXTRAPOLATED,
        )

    return component(0), component(1)


def _surface(theta: Any) -> list[Any]:
    """Outputs (p, p q, q) of two parameters: a surface with straight lines in it, p or q fixed."""
    p, q = theta
    return [p, p * q, q]


def _least(D: Any, way: Any) -> list[Any]:
    """D^+ times a velocity, for D of full column rank."""
    return list(mp.lu_solve(D.T * D, D.T * mp.matrix(way)))


def _within_range() -> list[Claim]:
    """(3.7), three outputs of two parameters: where it holds for all s (3.5) follows the line, where not it
    leaves it at once, at a speed that is the part of y - x_0 outside of ran D."""
    p, q, *way = real_symbols("p q d1 d2 d3")
    line = (p, p * q + t * p * way[2], q + t * way[2])
    outside = (q * way[0] - way[1] + p * way[2]) ** 2 / (1 + p**2 + q**2)

    def led(p: Any, q: Any, d3: Any, t: Any) -> list[Any]:
        """By (3.5), with y - x_0 = (0, p, 1) d3."""

        def velocity(_: Any, theta: Any) -> list[Any]:
            return _least(jacobian(_surface, theta), [0, p * d3, d3])

        return _surface(flow(velocity, [p, q], mp.mpf(0), t))

    def leaving(p: Any, q: Any, **way: Any) -> Any:
        velocity = _least(jacobian(_surface, [p, q]), list(way.values()))
        speed = along(_surface, [p, q], velocity)
        return sum((a - b) ** 2 for a, b in zip(speed, way.values(), strict=True))

    formula = Formula("squared speed off the line", (p, q, *way), outside)
    point = {"p": "0.7", "q": "-0.4", "d3": "1.3", "t": "0.6"}
    return [
        *(
            Claim(
                Formula(f"output {k + 1} on a line in the surface", (p, q, way[2], t), line[k]),
                "a model led by (3.5)",
                lambda k=k, **values: led(**values)[k],
                (point, point | {"d3": "-2", "t": "0.9"}),
                DIGITS,
                EXTRAPOLATED,
            )
            for k in range(3)
        ),
        Claim(formula, "outputs along (3.5)", leaving, sample(formula, 2)),
    ]


_straight, _ideal, _path = _trained(), _line(), _prescribed()
_left = _leaving()
ROUTES: dict[str, Verification] = {
    "output-space-flow/2.49": _descent(),
    "output-space-flow/2.50": holds(_decay()),
    "output-space-flow/2.53": holds(_inverse()),
    "output-space-flow/2.55": holds(*_reparametrised()),
    "output-space-flow/2.56": holds(*_ideal),
    "output-space-flow/proposition-2.4": holds(*_straight),
    "output-space-flow/2.57": holds(*_straight),
    "output-space-flow/proposition-2.5": _left,
    "output-space-flow/2.58": holds(*_constrained()),
    "output-space-flow/2.59": _left,
    "output-space-flow/2.60": _constant(),
    "output-space-flow/2.62": holds(_product_rule()),
    "output-space-flow/2.63": holds(*_split()),
    "output-space-flow/2.64": holds(*_remainder()),
    "output-space-flow/3.4": holds(*_path),
    "output-space-flow/3.5": holds(*_path),
    "output-space-flow/3.7": holds(_ideal[0], *_within_range()),
}

r"""Attracting and repelling rays of a sample: (14), lemma 2 and (15).

The oracles use no derivatives. The angular velocity of a neuron is $-r\,dh/d\theta$ with
$h = \sum_j\rho_j \langle\tilde x_j, d(\theta)\rangle_+$. As h is piecewise linear in the plane, its
difference quotient along the tangent of a ray is its slope there, on each side.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import sympy as sp
from mpmath import mp
from sympy import And, Or, Piecewise, sign, sqrt

from analytic.checks.claims import Claim, Point
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import charge, rho, x
from analytic.ledger.verification import Verification, real_symbols

__all__ = ["ROUTES"]

s = sp.Symbol("s", real=True)
X, RHO = real_symbols("x1 x2 x3 x4"), real_symbols("rho1 rho2 rho3 rho4")
MIDDLE = 1  # the sample whose rays are looked at is x2


def slopes(samples: Sequence[tuple[Any, Any]], place: Any, right: bool) -> tuple[Any, Any]:
    """dh/dtheta just before and just after a ray of `place`, from pairs (x_j, rho_j)."""
    size, step = mp.sqrt(1 + place**2), mp.mpf(1) / 1000  # no other ray lies within a step
    d = (1 / size, -place / size) if right else (-1 / size, place / size)

    def h(shift: Any) -> Any:
        u, v = d[0] - shift * d[1], d[1] + shift * d[0]
        return sum(rho * max(u * x + v, 0) for x, rho in samples)

    return (h(0) - h(-step)) / step, (h(step) - h(0)) / step


def _opposed(sides: tuple[Any, Any]) -> int:
    return int(sides[0] * sides[1] < 0)


def _beside(rho: Any, s: Any, x: Any, right: bool) -> tuple[Any, Any]:
    """The slopes on both sides of a ray of x, with a second sample whose residual makes s_k = s.

    In the paper's order the arc A_k is active at x and A_(k+1) is not on a right ray; on a left ray
    it is the other way round.
    """
    neighbour = x + 1 if right else x - 1
    overlap = (1 + x * neighbour) / mp.sqrt(1 + x**2)
    rest = (s - rho * mp.sqrt(1 + x**2)) / overlap if right else -s / overlap
    return slopes([(x, rho), (neighbour, rest)], x, right)


def _transition() -> Verification:
    """(14): sign(s_k) has to equal the sign of rho; the paper prints the opposite."""
    args = (rho, s, x)
    within = s**2 < rho**2 * (1 + x**2)
    formula = Formula("(14)", args, Piecewise((1, And(s * rho > 0, within)), (0, True)))
    printed = Formula("(14) as printed", args, Piecewise((1, And(s * rho < 0, within)), (0, True)))
    both = charge**2 * s * (s - rho * sqrt(1 + x**2))
    product = Formula("angular speeds multiplied", (charge, *args), both)
    shares = ("-0.9995", "-0.3", "-0.001", "0.001", "0.4", "0.9995", "1.0005", "1.7")
    sizes = {"3/4": "5/4", "-12/5": "13/5"}  # sqrt(1 + x^2)
    points = tuple(
        {"rho": one, "x": place, "s": Fraction(share) * Fraction(one) * Fraction(size)}
        for (place, size), one in zip(sizes.items(), ("1.6", "-0.7"), strict=True)
        for share in shares
    )
    claims = [
        Claim(formula, f"slopes on both sides of a {name} ray", _both(right), points)
        for name, right in (("right", True), ("left", False))
    ]

    def oracle(r: Any, **v: Any) -> Any:
        before, after = _beside(**v, right=True)
        return r**2 * before * after

    charged = tuple({**point, "r": "-1.3"} for point in points[3:5])
    claims.append(Claim(product, "slopes on both sides of a right ray", oracle, charged))
    return Verification(tuple(claims), printed)


def _both(right: bool) -> Any:
    return lambda **v: _opposed(_beside(**v, right=right))


def _sum(right: bool) -> sp.Expr:
    """rho_k times S, over the samples beyond x_k."""
    beyond = range(MIDDLE + 1, 4) if right else range(MIDDLE)
    terms = (RHO[i] * (1 + X[i] * X[MIDDLE]) for i in beyond)
    return RHO[MIDDLE] * sum(terms)


def _condition(right: bool, printed: bool = False) -> sp.Basic:
    above = _sum(right) > -(RHO[MIDDLE] ** 2) * (1 + X[MIDDLE] ** 2)
    return above if printed else And(above, _sum(right) < 0)


def _pairs(v: dict[str, Any]) -> list[tuple[Any, Any]]:
    return [(v[one.name], v[two.name]) for one, two in zip(X, RHO, strict=True)]


def _points() -> tuple[Point, ...]:
    """Points where S is various multiples of -rho_k (1 + x_k^2), some close to the bounds 0 and 1."""
    shares = [Fraction(one) for one in ("-0.6", "-0.001", "0.001", "0.5", "0.999", "1.001", "1.8")]
    points: list[Point] = []
    for places, size in (
        (("-1.3", "-0.4", "0.7", "1.9"), "1.1"),
        (("0.5", "0.9", "1.4", "2.2"), "-0.8"),
    ):
        place, own, third = [Fraction(p) for p in places], Fraction(size), Fraction(size) / 3
        N = 1 + place[1] ** 2
        overlap = [1 + p * place[1] for p in place]
        for k, share in enumerate(shares):
            other_share = shares[(3 * k + 1) % len(shares)]  # so that both rays take every share
            last = (-share * own * N - third * overlap[2]) / overlap[3]
            values = (-other_share * own * N / overlap[0], own, third, last)
            point = {one.name: value for one, value in zip(X, place, strict=True)}
            points.append(point | {one.name: v for one, v in zip(RHO, values, strict=True)})
    return tuple(points)


def _ray(right: bool) -> Verification:
    """(15), one ray at a time: 1 for an attractor of neurons with this r, -1 for a repulsor."""
    args = (charge, *X, *RHO)
    name = "right" if right else "left"
    pull = sign(charge * RHO[MIDDLE])
    formula = Formula(f"{name} ray", args, Piecewise((pull, _condition(right)), (0, True)))
    printed = Piecewise((pull, _condition(right, printed=True)), (0, True))

    def oracle(r: Any, **v: Any) -> Any:
        before, after = (-r * slope for slope in slopes(_pairs(v), v["x2"], right))
        return int(before > 0 > after) - int(before < 0 < after)

    points = tuple({**point, "r": ("0.8", "-1.7")[k % 2]} for k, point in enumerate(_points()))
    claim = Claim(formula, "angular speeds on both sides", oracle, points)
    return Verification((claim,), Formula(f"{name} ray as printed", args, printed))


def _datum() -> Verification:
    """Lemma 2: whether one of the two rays of a sample attracts or repels."""
    args = (*X, *RHO)

    def either(printed: bool) -> sp.Expr:
        return Piecewise((1, Or(*(_condition(way, printed) for way in (True, False)))), (0, True))

    def oracle(**v: Any) -> Any:
        return max(_opposed(slopes(_pairs(v), v["x2"], right)) for right in (True, False))

    formula = Formula("a sample that attracts or repels", args, either(False))
    claim = Claim(formula, "slopes on both sides of both rays", oracle, _points())
    printed = Formula("lemma 2 as printed", args, either(True))
    return Verification((claim,), printed)


_right, _left, _sample = _ray(True), _ray(False), _datum()
ROUTES: dict[str, Verification] = {
    "univariate-relu/14": _transition(),
    "univariate-relu/lemma-2": Verification(
        (*_sample.claims, *_right.claims, *_left.claims), _sample.printed
    ),
    "univariate-relu/15": Verification((*_right.claims, *_left.claims), _right.printed),
}  # fmt: skip

"""Gaussian bumps of erf networks, (B.44) to (B.70): against derivatives of erf and elimination."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations, product
from math import factorial
from typing import Any

import sympy as sp
from mpmath import mp, mpf
from sympy.combinatorics.permutations import Permutation

from analytic.checks.claims import Claim, sample
from analytic.checks.oracles import MetricJet, network_jet
from analytic.checks.oracles import determinant as det
from analytic.expressions.formula import Formula
from analytic.finite.bumps import bumps, determinant
from analytic.ledger.curvature.finite import ROUTES as FINITE
from analytic.ledger.verification import (
    Verification,
    dot,
    holds,
    printed_times_three,
    real_symbols,
    shifted,
)

__all__ = ["ROUTES"]

Vector = Sequence[Any]


@dataclass(frozen=True)
class Net:
    """Weights by units, biases, an input and a direction: expressions, or mpmath numbers."""

    w: Sequence[Vector]
    b: Vector
    x: Vector
    u: Vector

    @classmethod
    def of(cls, n: int, d: int) -> Net:
        sizes = {f"w{j}": d for j in range(1, n + 1)} | {"b": n, "x": d, "u": d}
        rows = [real_symbols(" ".join(f"{a}{k + 1}" for k in range(m))) for a, m in sizes.items()]
        return cls(rows[:n], *rows[n:])

    def units(self, chosen: Iterable[int]) -> Net:
        w, b = zip(*((self.w[j], self.b[j]) for j in chosen))
        return replace(self, w=w, b=b)

    def at(self, values: dict[str, Any]) -> Net:
        """The network with numbers for symbols; arbitrary ones for symbols without a value."""

        def ready(vector: Vector) -> Vector:
            return [
                mp.mpmathify(e.evalf(mp.dps)) if e.is_number else values.get(e.name, mpf(3) / 7)
                for e in map(sp.sympify, vector)
            ]

        return Net([ready(w) for w in self.w], *map(ready, (self.b, self.x, self.u)))

    @property
    def z(self) -> Vector:
        return [dot(w, self.x) + b for w, b in zip(self.w, self.b, strict=True)]

    @property
    def Q(self) -> sp.Matrix:
        """(B.49)."""
        return sum((sp.Matrix(w) * sp.Matrix([w]) for w in self.w), sp.zeros(len(self.x)))

    @property
    def bw(self) -> Vector:
        return [dot(self.b, column) for column in zip(*self.w)]


def _claim(name: str, net: Net, oracle: Callable[[Net], Any], expr: sp.Expr | None = None) -> Claim:
    """A claim at points of moderate size, so that no exponential is negligible beside another."""
    expr = STATEMENTS[name](net) if expr is None else expr
    args = tuple(sorted(expr.free_symbols, key=str))
    formula = Formula(f"({name}), n={len(net.w)}, d={len(net.x)}", args, expr)
    points = tuple({k: value / 4 for k, value in point.items()} for point in sample(formula, 3))
    route = oracle.__name__.strip("_").replace("_", " ")
    return Claim(formula, route, lambda **values: oracle(net.at(values)), points)


# Oracles. Their names are printed in LEDGER.md as the routes of the claims.


def _jet(net: Net) -> MetricJet:
    slopes = [[mp.diff(lambda t: mp.erf(t / mp.sqrt(2)), z, k) for k in (1, 2, 3)] for z in net.z]
    return network_jet(slopes, net.w)


def _features(net: Net) -> Any:
    return det(_jet(net).g)


def _textbook_curvature(net: Net) -> Any:
    return _jet(net).scalar()


def _curvature_and_volume(net: Net) -> Any:
    return _textbook_curvature(net) * _features(net) ** 2


def _preactivations(net: Net) -> Any:
    return mp.fsum(z**2 for z in net.z)


def _hessian(net: Net) -> Any:
    """u.H.u / 2 of the sum of squared preactivations."""
    return mp.diff(lambda t: _preactivations(replace(net, x=shifted(net.x, net.u, t))), 0, 2) / 2


def _common_zero(net: Net) -> Any:
    """u.c of the point c where every preactivation vanishes."""
    return dot(net.u, mp.lu_solve(mp.matrix(net.w), mp.matrix([-b for b in net.b])))


def _elimination(net: Net) -> Any:
    return mp.det(mp.matrix(net.w).T * mp.matrix(net.w))


# The paper's formulas. Its Levi-Civita symbols are written as sums over signed permutations.


def _signed(d: int) -> list[tuple[int, tuple[int, ...]]]:
    return [(Permutation(list(p)).signature(), p) for p in permutations(range(d))]


def _det(rows: Any) -> sp.Expr:
    """Leibniz; for the weights of d units, M."""
    A = sp.Matrix(rows)
    return sum(s * sp.prod(A[i, j] for i, j in enumerate(p)) for s, p in _signed(A.rows))


def _form(Q: Any, x: Vector, centre: Vector | None = None) -> sp.Expr:
    away = sp.Matrix(x) - sp.Matrix(centre or [0] * len(x))
    return (away.T * sp.Matrix(Q) * away)[0]


def _bump(t: Net, centre: Vector) -> sp.Expr:
    return _det(t.Q) * sp.exp(-_form(t.Q, t.x, centre))


def _summed(net: Net, term: Callable[[Net], sp.Expr]) -> sp.Expr:
    """(2/(pi n))^d / d! times the sum over ordered d-tuples of units."""
    n, d = len(net.w), len(net.x)
    total = sum(term(net.units(t)) for t in permutations(range(n), d))
    return (2 / (sp.pi * n)) ** d * total / factorial(d)


def _inverted(t: Net) -> Vector:
    return list(-t.Q.adjugate() * sp.Matrix(t.bw) / _det(t.Q))


def _crossed(t: Net) -> Vector:
    ((j1, j2), (k1, k2)), (bj, bk) = t.w, t.b
    return [part / (j1 * k2 - j2 * k1) for part in (-(bj * k2 - bk * j2), bj * k1 - bk * j1)]


def _b50(t: Net) -> sp.Expr:
    signs = product(_signed(len(t.x)), repeat=2)
    return sum(s * r * sp.prod(t.Q[i, j] for i, j in zip(p, q)) for (s, p), (r, q) in signs)


def _b59(t: Net) -> sp.Expr:
    return -sum(
        s * r * t.b[i] * t.u[n] * sp.prod(t.w[j][l] for j, l in zip(js, ls))
        for (s, (i, *js)), (r, (n, *ls)) in product(_signed(len(t.x)), repeat=2)
    )


def _b60(t: Net) -> sp.Expr:
    def B(columns: Sequence[int]) -> sp.Expr:  # (B.61)
        return _det([[b, *(w[l] for l in columns)] for w, b in zip(t.w, t.b)])

    return -sum(s * t.u[n] * B(ls) for s, (n, *ls) in _signed(len(t.x)))


def _b62(net: Net) -> sp.Expr:
    pairs = map(net.units, combinations(range(len(net.w)), 2))
    return (2 / (sp.pi * len(net.w))) ** 2 * sum(_bump(t, _crossed(t)) for t in pairs)


STATEMENTS: dict[str, Callable[[Net], sp.Expr]] = {
    "B.45": lambda net: _summed(net, lambda t: _det(t.w) ** 2 * sp.exp(-dot(t.z, t.z))),
    "B.46": lambda t: _form(t.Q, t.x, _inverted(t)),  # minus the exponent
    "B.48": lambda t: _form(t.Q, t.x) + 2 * dot(t.bw, t.x) + dot(t.b, t.b),
    "B.49": lambda t: _form(t.Q, t.u),
    "B.50": lambda t: _b50(t) / 6,
    "B.51": lambda t: sp.expand(_b50(t)) / 6,  # Q multiplied out
    "B.53": lambda t: sum(_det(rows) ** 2 for rows in product(t.w, repeat=3)) / 6,
    "B.54": lambda t: _det(t.w) ** 2,
    "B.55": lambda net: _summed(net, lambda t: _bump(t, _inverted(t))),
    "B.56": lambda t: dot(t.u, _inverted(t)),
    "B.57": lambda t: -sp.expand(dot(t.u, t.Q.adjugate() * sp.Matrix(t.bw))) / _det(t.Q),
    "B.58": lambda t: _b59(t) * _det(t.w) / (2 * _det(t.Q)),
    "B.59": lambda t: _b59(t) / (2 * _det(t.w)),
    "B.60": lambda t: _b60(t) / (2 * _det(t.w)),
    "B.62": _b62,
    "B.63": lambda t: dot(t.u, _crossed(t)),
}

SPACE = replace(Net.of(4, 3), w=((1, 0, 2), (-1, 1, 0), (0, 1, 1), (2, -1, 1)))

# The example of three units.

b, root = real_symbols("b")[0], sp.sqrt(3)
TRIANGLE = (1, 0), (-sp.S.Half, root / 2), (-sp.S.Half, -root / 2)
CIRCLE = replace(Net.of(3, 2), w=TRIANGLE, b=(b, b, b))
CENTRES = (-1, -root), (2, 0), (-1, root)
PRECISIONS = (5, -root, 3), (2, 0, 6), (5, root, 3)  # four times Q11, Q12, Q22
x1, x2 = CIRCLE.x
_outside, _fall = x1**2 + x2**2 - 4 * b**2, sp.exp(-sp.S(3) / 2 * (x1**2 + x2**2 + 2 * b**2))
_sides = (sp.exp((x1 + sign * root * x2 - 2 * b) ** 2 / 4) for sign in (1, -1))
_S = sp.exp((x1 + b) ** 2) + sum(_sides)


def _pairs(name: str, oracle: Callable[[Net], Any], exprs: Iterable[sp.Expr]) -> Verification:
    """Of units 1 and 2, 2 and 3, 1 and 3."""
    nets = map(CIRCLE.units, ((0, 1), (1, 2), (0, 2)))
    return holds(*(_claim(name, net, oracle, e) for net, e in zip(nets, exprs, strict=True)))


ROUTES: dict[str, Verification] = {
    "curvature/B.44-B.45": holds(
        *FINITE["curvature/3"].claims, _claim("B.45", Net.of(3, 2), _features)
    ),
    "curvature/B.46": holds(_claim("B.46", Net.of(2, 2), _preactivations)),
    "curvature/B.47-B.48": holds(_claim("B.48", Net.of(3, 3), _preactivations)),
    "curvature/B.49": holds(_claim("B.49", Net.of(3, 3), _hessian)),
    "curvature/B.50-B.54": holds(
        *(_claim(f"B.{k}", Net.of(3, 3), _elimination) for k in (50, 51, 53, 54))
    ),
    "curvature/B.55": holds(
        _claim("B.55", Net.of(3, 2), _features),
        _claim("B.55", SPACE, _features, determinant(bumps(SPACE.w, SPACE.b), SPACE.x)),
    ),
    "curvature/B.56-B.60": holds(
        _claim("B.57", Net.of(2, 2), _common_zero),
        *(_claim(f"B.{k}", Net.of(3, 3), _common_zero) for k in (56, 58, 59, 60)),
    ),
    "curvature/B.62": holds(_claim("B.62", Net.of(3, 2), _features)),
    "curvature/B.63": holds(_claim("B.63", Net.of(2, 2), _common_zero)),
    "curvature/B.64": holds(_claim("B.49", Net.of(2, 2), _hessian)),
    "curvature/B.66": _pairs("B.66", _common_zero, (b * dot(CIRCLE.u, c) for c in CENTRES)),
    "curvature/B.67": _pairs(
        "B.67", _hessian, (_form([[p, q], [q, r]], CIRCLE.u) / 4 for p, q, r in PRECISIONS)
    ),
    "curvature/B.68": holds(_claim("B.68", CIRCLE, _features, _fall * _S / (3 * sp.pi**2))),
    "curvature/B.69-B.70": printed_times_three(
        _claim("B.70", CIRCLE, _textbook_curvature, -9 * sp.pi / 4 * _outside / (_fall * _S**2)),
        _claim("B.69", CIRCLE, _curvature_and_volume, -_outside * _fall / (4 * sp.pi**3)),
    ),
}

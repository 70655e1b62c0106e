"""Finite networks in any dimension, (B.17) to (B.43): sums over minors of the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations, product
from math import factorial
from typing import Any

import numpy as np
import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, sample
from analytic.checks.oracles import determinant
from analytic.expressions.formula import Formula
from analytic.finite.forms import Minors, inverse, symmetric, vector, vector_values
from analytic.finite.units import Units
from analytic.geometry.riemann import Curvature
from analytic.ledger.curvature.hessian import (
    Chart,
    Read,
    Ways,
    inverse_along,
    riemann_along,
    scalar,
)
from analytic.ledger.curvature.planar import along, curvature_claim, rates, rows_of, slope, volume
from analytic.ledger.verification import Verification, holds, printed_times_three

__all__ = ["ROUTES"]


def _orders(d: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The nonzero components of the Levi-Civita symbol: sign and indices."""
    return ((sp.LeviCivita(*order), order) for order in permutations(range(d)))


def _leibniz(g: np.ndarray) -> Any:
    """(B.17)."""
    return sum(
        sign * sp.prod(g[m, order[m]] for m in range(len(g))) for sign, order in _orders(len(g))
    )


def _leibniz_twice(g: np.ndarray) -> Any:
    """(B.18)."""
    d, total = len(g), 0
    for (one, mu), (two, nu) in product(_orders(d), repeat=2):
        total += one * two * sp.prod(g[m, n] for m, n in zip(mu, nu, strict=True))
    return total / factorial(d)


def _matrix(name: str, d: int, expr: Any) -> Claim:
    formula = Formula(f"{name}, d={d}", Chart(d).symbols("g"), expr)

    def oracle(**values: Any) -> Any:
        return determinant(symmetric("g", 2, d, values).tolist())

    return Claim(formula, "elimination", oracle, sample(formula, 2))


def _volumes(plane: Units, space: Units) -> tuple[Claim, ...]:
    """(B.19) to (B.22)."""
    w, spelled_out, by_minors = plane.weights, 0, 0
    for chosen in product(range(plane.n), repeat=2):
        for (one, mu), (two, nu) in product(_orders(2), repeat=2):
            factors = (w[j][m] * w[j][n] for j, m, n in zip(chosen, mu, nu, strict=True))
            spelled_out += (
                one * two * sp.prod(plane.slopes[j] ** 2 for j in chosen) * sp.prod(factors)
            )
    for chosen in permutations(range(space.n), 3):
        rows = np.array([space.weights[j] for j in chosen])
        by_minors += sp.prod(space.slopes[j] ** 2 for j in chosen) * _leibniz(rows) ** 2
    return (
        volume(space, "(B.19)", _leibniz_twice(space.metric())),
        volume(plane, "(B.20)", spelled_out / (plane.n**2 * factorial(2))),
        volume(space, "(B.21)", by_minors / (space.n**3 * factorial(3))),
        volume(space, "(B.22)", space.determinant()),
    )


def _cofactors(d: int) -> Claim:
    """(B.25) along two covectors."""
    g, c, e = Chart(d).g, vector("c", d), vector("e", d)
    total = 0
    for (one, mu), (two, nu) in product(_orders(d), repeat=2):
        rest = sp.prod(g[m, n] for m, n in zip(mu[1:], nu[1:], strict=True))
        total += one * two * c[mu[0]] * e[nu[0]] * rest
    expr = total / (factorial(d - 1) * _leibniz(g))
    formula = Formula(f"(B.25), d={d}", Chart(d).symbols("g", "ce"), expr)

    def oracle(**values: Any) -> Any:
        return inverse_along(
            symmetric("g", 2, d, values), *(vector_values(values, way, d) for way in "ce")
        )

    return Claim(formula, "linear system", oracle, sample(formula, 2))


def _slope(units: Units) -> Claim:
    """(B.26) along three vectors."""
    total = 0
    for w, rate in zip(map(np.array, units.weights), rates(units), strict=True):
        total += sp.Rational(2, units.n) * rate * sp.prod(w @ vector(way, units.d) for way in "auv")

    def oracle(**values: Any) -> Any:
        return slope(units, values, *(vector_values(values, way, units.d) for way in "auv"))

    formula = along(units, "(B.26)", total, "auv")
    return Claim(formula, "derivative of the metric", oracle, sample(formula, 2))


def _riemann_raised(at: Curvature, ways: Ways) -> Any:
    """R^m_nij along the covector c and v, a, b."""
    return np.einsum("lm,mnij,l,n,i,j->", at.inverse, at.riemann, *(ways[way] for way in "cvab"))


def _ricci(at: Curvature, ways: Ways) -> Any:
    return ways["v"] @ at.ricci @ ways["b"]


def _riemann_sum(units: Units, by_minors: bool) -> Any:
    """(B.28) or, with the sums over Levi-Civita indices written as minors, (B.29)."""
    n, d, w, rate = units.n, units.d, [np.array(row) for row in units.weights], rates(units)
    m, v, a, b = (vector(way, d) for way in "uvab")
    total = 0
    for i, k, *rest in product(range(n), repeat=d + 1):
        if by_minors:
            sums = _leibniz(np.array([w[i], *(w[j] for j in rest)]))
            sums *= _leibniz(np.array([w[k], *(w[j] for j in rest)]))
        else:
            sums = 0
            for (one, mu), (two, nu) in product(_orders(d), repeat=2):
                inner = sp.prod(
                    w[j][r] * w[j][s] for j, r, s in zip(rest, mu[1:], nu[1:], strict=True)
                )
                sums += one * two * w[i][mu[0]] * w[k][nu[0]] * inner
        bracket = (w[i] @ m) * (w[i] @ a) * (w[k] @ v) * (w[k] @ b)
        bracket -= (w[i] @ m) * (w[i] @ b) * (w[k] @ v) * (w[k] @ a)
        slopes = sp.prod(units.slopes[j] ** 2 for j in rest)
        total += slopes * rate[i] * rate[k] * sums * bracket
    return -total / (n ** (d + 1) * factorial(d - 1) * units.determinant())


def _ways(letters: str, d: int) -> list[np.ndarray]:
    return [vector(letter, d) for letter in letters]


def _hessian(units: Units) -> Any:
    """(B.27)."""
    t, up, (u, v, a, b) = units.derivative(), inverse(units.metric()), _ways("uvab", units.d)
    return -((t @ u @ a) @ up @ (t @ v @ b) - (t @ u @ b) @ up @ (t @ v @ a)) / 4


def _tensors(units: Units, *names: str) -> list[Claim]:
    """(B.27) to (B.40): each tensor from the one before, and as a sum over minors."""
    sums, up, basis = (
        Minors(units),
        inverse(units.metric()),
        np.eye(units.d, dtype=int).astype(object),
    )
    c, u, v, a, b = _ways("cuvab", units.d)
    indices = list(np.ndindex(units.d, units.d))
    steps: dict[str, tuple[Callable[[], Any], Read, str]] = {
        "B.27": (lambda: _hessian(units), riemann_along, "uvab"),
        "B.28": (lambda: _riemann_sum(units, by_minors=False), riemann_along, "uvab"),
        "B.29": (lambda: _riemann_sum(units, by_minors=True), riemann_along, "uvab"),
        "B.30": (lambda: sums.riemann(u, v, a, b), riemann_along, "uvab"),
        "B.31": (lambda: sums.riemann(up @ c, v, a, b), _riemann_raised, "cvab"),
        "B.32": (lambda: sums.riemann_raised(c, v, a, b), _riemann_raised, "cvab"),
        "B.33": (lambda: sum(sums.riemann_raised(e, v, e, b) for e in basis), _ricci, "vb"),
        "B.34": (lambda: sums.ricci(v, b), _ricci, "vb"),
        "B.35": (lambda: sum(up[i] * sums.ricci(*basis[list(i)]) for i in indices), scalar, ""),
        "B.36": (lambda: sums.scalar(), scalar, ""),
        "B.40": (lambda: sums.scalar_by_squares(), scalar, ""),
    }
    chosen = ((name, steps[name]) for name in names)
    return [
        curvature_claim(units, f"({name})", expr(), read, ways)
        for name, (expr, read, ways) in chosen
    ]


def _symmetrised() -> tuple[Claim, ...]:
    """(B.37) to (B.39) in three dimensions: units i, j, l2, l3, m2, m3."""
    units = Units.generic(6, 3)
    i, j, l, m, M = 0, 1, (2, 3), (4, 5), units.minor
    il, jl, im, jm = M(i, *l), M(j, *l), M(i, *m), M(j, *m)
    exprs = {
        "(B.37)": (il**2 * jm**2 - il * jl * im * jm) + (im**2 * jl**2 - im * jm * il * jl),
        "(B.38)": il**2 * jm**2 + im**2 * jl**2 - 2 * il * jl * im * jm,
        "(B.39)": (il * jm - im * jl) ** 2,
    }

    def oracle(**values: Any) -> Any:
        rows = rows_of(units, values)
        at = {
            (k, part): determinant([rows[n] for n in (k, *part)]) for k in (i, j) for part in (l, m)
        }
        crossed = sum(at[i, p] ** 2 * at[j, q] ** 2 for p, q in ((l, m), (m, l)))
        return crossed - 2 * mp.fprod(at.values())

    formulas = [Formula(name, units.symbols[:18], expr) for name, expr in exprs.items()]
    return tuple(Claim(f, "minors by elimination", oracle, sample(f, 2)) for f in formulas)


def _exchange() -> Claim:
    """(B.41): units i, j, l, m of two inputs."""
    units = Units.generic(4, 2)
    i, j, l, m, M = 0, 1, 2, 3, units.minor
    formula = Formula("M_ij M_lm", units.symbols[:8], M(i, j) * M(l, m))

    def oracle(**values: Any) -> Any:
        rows = rows_of(units, values)

        def area(i: int, j: int) -> Any:
            return determinant([rows[i], rows[j]])

        return area(i, l) * area(j, m) - area(i, m) * area(j, l)

    return Claim(formula, "the other side, by elimination", oracle, sample(formula, 3))


def _plane_scalars(units: Units) -> tuple[Claim, ...]:
    """(B.42) and (B.43)."""
    n, p, rate, M, det = units.n, units.slopes, rates(units), units.minor, units.determinant()
    triples = sum(
        rate[i] * rate[j] * p[k] ** 2 * M(i, k) * M(j, k) * M(i, j) ** 2
        for i, j, k in product(range(n), repeat=3)
    )
    pairs = sum(p[l] ** 2 * p[m] ** 2 * M(l, m) ** 2 for l, m in product(range(n), repeat=2))
    return (
        curvature_claim(units, "(B.42)", -triples * pairs / (2 * n**5 * det**3), scalar),
        curvature_claim(units, "(B.43)", -triples / (n**3 * det**2), scalar),
    )


_PLANE, _GENERIC = Units.generic(3, 2), Units.generic(4, 3)
# In three dimensions symbolic weights would take a minute: use integers in general position.
_SPACE = replace(_GENERIC, weights=((1, 2, 0), (0, 1, -3), (2, -1, 1), (1, 1, 3)))

ROUTES: dict[str, Verification] = {
    "curvature/B.17-B.18": holds(
        _matrix("(B.17)", 4, _leibniz(Chart(4).g)),
        _matrix("(B.17)", 3, _leibniz(Chart(3).g)),
        _matrix("(B.18)", 3, _leibniz_twice(Chart(3).g)),
    ),
    "curvature/B.19-B.22": holds(*_volumes(_PLANE, _GENERIC)),
    "curvature/B.25": holds(_cofactors(2), _cofactors(3)),
    "curvature/B.26": holds(_slope(Units.generic(3, 3))),
    "curvature/B.27-B.30": printed_times_three(
        *_tensors(_PLANE, "B.27", "B.28", "B.29", "B.30"), *_tensors(_SPACE, "B.30")
    ),
    "curvature/B.31-B.32": printed_times_three(
        *_tensors(_SPACE, "B.31", "B.32"), *_tensors(_PLANE, "B.32")
    ),
    "curvature/B.33-B.34": printed_times_three(
        *_tensors(_SPACE, "B.33", "B.34"), *_tensors(_PLANE, "B.34")
    ),
    "curvature/B.35-B.36": printed_times_three(
        *_tensors(_SPACE, "B.35", "B.36"), *_tensors(_PLANE, "B.36")
    ),
    "curvature/B.37-B.39": holds(*_symmetrised()),
    "curvature/B.40": printed_times_three(*_tensors(_PLANE, "B.40"), *_tensors(_SPACE, "B.40")),
    "curvature/B.41": holds(_exchange()),
    "curvature/B.42-B.43": printed_times_three(*_plane_scalars(_PLANE)),
}

"""Finite networks of two inputs, (B.1) to (B.16), in weights w, slopes p and second derivatives pp."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, sample
from analytic.checks.oracles import MetricJet, determinant, network_jet
from analytic.expressions.formula import Formula
from analytic.finite.forms import symmetric, vector, vector_values
from analytic.finite.units import Units
from analytic.geometry.riemann import Curvature, curvature_of_jet
from analytic.ledger.curvature import finite
from analytic.ledger.curvature.hessian import (
    Chart,
    Read,
    Values,
    Ways,
    inverse_along,
    riemann_along,
    scalar,
)
from analytic.ledger.verification import Verification, dot, holds, printed_times_three, real_symbols

__all__ = ["ROUTES", "along", "curvature_claim", "rates", "rows_of", "slope", "volume"]

_THREE = Units.generic(3, 2)
THIRD = mp.mpf(7) / 5  # an arbitrary value of phi''', on which no curvature depends


def value(entry: sp.Expr, values: Values) -> Any:
    """The value of a symbol, 0 if there is none; an integer unchanged."""
    return mp.mpf(int(entry)) if entry.is_Integer else values.get(entry.name, mp.mpf(0))


def rows_of(units: Units, values: Values) -> list[list[Any]]:
    return [[value(w, values) for w in row] for row in units.weights]


def network(units: Units, values: Values) -> MetricJet:
    pairs = zip(units.slopes, units.second_derivatives, strict=True)
    slopes = [(value(p, values), value(pp, values), THIRD) for p, pp in pairs]
    return network_jet(slopes, rows_of(units, values))


def volume(units: Units, name: str, expr: Any) -> Claim:
    """An expression in w and p against the determinant of the metric, by elimination."""
    args = units.symbols[: -units.n]
    formula = Formula(f"{name}, n={units.n}, d={units.d}", args, expr)

    def oracle(**values: Any) -> Any:
        return determinant(network(units, values).g)

    return Claim(formula, "determinant of the metric", oracle, sample(formula, 2))


def along(units: Units, name: str, expr: Any, vectors: str) -> Formula:
    """An expression in the units and in some vectors."""
    ways = (symbol for way in vectors for symbol in vector(way, units.d))
    return Formula(f"{name}, n={units.n}, d={units.d}", (*units.symbols, *ways), expr)


def curvature_claim(units: Units, name: str, expr: Any, read: Read, vectors: str = "") -> Claim:
    """A claim about an expression, with `read` of the textbook curvature of the network as oracle."""
    formula = along(units, name, expr, vectors)

    def textbook(**values: Any) -> Any:
        at = network(units, values).curvature()
        return read(at, {way: vector_values(values, way, units.d) for way in vectors})

    return Claim(formula, "textbook curvature", textbook, sample(formula, 2))


def slope(units: Units, values: Values, way: Any, u: Any, v: Any) -> Any:
    """The derivative along a vector of u.g.v, where phi' is p + pp z up to higher terms."""
    slopes = [[value(e, values) for e in part] for part in (units.slopes, units.second_derivatives)]

    def metric(step: Any) -> Any:
        total = 0
        for w, p, pp in zip(rows_of(units, values), *slopes, strict=True):
            total += (p + pp * step * dot(w, way)) ** 2 * dot(w, u) * dot(w, v)
        return total / units.n

    return mp.diff(metric, 0)


def _volumes(units: Units) -> tuple[Claim, ...]:
    """(B.2) to (B.6)."""
    (g11, g12), (_, g22) = units.metric()
    n, w, p, M = units.n, units.weights, units.slopes, units.minor

    def pair(j: int, k: int) -> Any:
        bracket = w[j][0] ** 2 * w[k][1] ** 2 - w[j][0] * w[j][1] * w[k][0] * w[k][1]
        return p[j] ** 2 * p[k] ** 2 * bracket

    def square(j: int, k: int) -> Any:
        return M(j, k) ** 2 * p[j] ** 2 * p[k] ** 2

    exprs = {
        "(B.2)": g11 * g22 - g12**2,
        "(B.3)": sum(pair(j, k) for j, k in product(range(n), repeat=2)) / n**2,
        "(B.4)": sum(pair(j, k) for j, k in permutations(range(n), 2)) / n**2,
        "(B.5)": sum(square(j, k) for k, j in combinations(range(n), 2)) / n**2,
        "(B.6)": sum(square(j, k) for j, k in product(range(n), repeat=2)) / (2 * n**2),
    }
    return tuple(volume(units, name, expr) for name, expr in exprs.items())


def _inverse() -> Claim:
    """(B.8) along two covectors."""
    (g11, g12), (_, g22) = Chart(2).g
    adjugate, c, e = np.array([[g22, -g12], [-g12, g11]]), vector("c", 2), vector("e", 2)
    expr = c @ adjugate @ e / (g11 * g22 - g12**2)
    formula = Formula("inverse of a plane metric", Chart(2).symbols("g", "ce"), expr)

    def oracle(**values: Any) -> Any:
        return inverse_along(
            symmetric("g", 2, 2, values), *(vector_values(values, way, 2) for way in "ce")
        )

    return Claim(formula, "linear system", oracle, sample(formula, 3))


def _surface() -> Claim:
    """(B.9) for any plane metric, R being twice Gauss's curvature by the formula of Brioschi."""
    E, F, G = g = real_symbols("g11 g12 g22")
    Ex, Ey, Fx, Fy, Gx, Gy = first = real_symbols("g11x g11y g12x g12y g22x g22y")
    second = real_symbols("g11yy g12xy g22xx")
    corner = -second[0] / 2 + second[1] - second[2] / 2
    one = sp.Matrix([[corner, Ex / 2, Fx - Ey / 2], [Fy - Gx / 2, E, F], [Gy / 2, F, G]])
    two = sp.Matrix([[0, Ey / 2, Gx / 2], [Ey / 2, E, F], [Gx / 2, F, G]])
    R = 2 * (one.det() - two.det()) / (E * G - F**2) ** 2
    u, v, a, b = (vector(way, 2) for way in "uvab")
    metric = np.array([[E, F], [F, G]])
    area = (u @ metric @ a) * (v @ metric @ b) - (u @ metric @ b) * (v @ metric @ a)
    args = (*g, *first, *second, *u, *v, *a, *b)
    formula = Formula("Riemann tensor of a surface", args, R / 2 * area)

    def oracle(**values: Any) -> Any:
        def entry(*index: int) -> Any:
            name = "g" + "".join(str(i + 1) for i in sorted(index[:2]))
            name += "".join("xy"[i] for i in sorted(index[2:]))
            return values.get(name, mp.mpf(4) / 3)  # other second derivatives do not matter

        jet = (np.frompyfunc(entry, k, 1)(*np.indices((2,) * k)) for k in (2, 3, 4))
        return riemann_along(
            curvature_of_jet(*jet), {way: vector_values(values, way, 2) for way in "uvab"}
        )

    return Claim(formula, "textbook curvature", oracle, sample(formula, 2))


def _three_terms() -> Claim:
    """(B.10) for any metric with totally symmetric derivatives: t112 is d_1 g_12."""
    g11, g12, g22, t111, t112, t122, t222 = Chart(2).symbols()
    bracket = g11 * (t122 * t122 - t222 * t112)
    bracket += g12 * (t111 * t222 - t112 * t122)
    bracket += g22 * (t112 * t112 - t122 * t111)
    return Chart(2).claim("(B.10)", "", bracket / (2 * (g11 * g22 - g12**2) ** 2), scalar)


def rates(units: Units) -> list[Any]:
    """phi' phi'' of each unit."""
    return [p * pp for p, pp in zip(units.slopes, units.second_derivatives, strict=True)]


def _antisymmetric(units: Units) -> Claim:
    """(B.11) along six vectors: a, b for the derivatives, u, v and c, e for the metric."""
    n, ways, rate, w = units.n, "abuvce", rates(units), [np.array(row) for row in units.weights]
    a, b, u, v, c, e = (vector(way, 2) for way in ways)
    expr = 0
    for j, k in permutations(range(n), 2):
        wedge = (w[j] @ a) * (w[k] @ b) - (w[j] @ b) * (w[k] @ a)
        sides = (w[j] @ u) * (w[j] @ v) * (w[k] @ c) * (w[k] @ e)
        expr += sp.Rational(4, n**2) * rate[j] * rate[k] * wedge * sides

    def oracle(**values: Any) -> Any:
        a, b, *sides = (vector_values(values, way, 2) for way in ways)

        def both(a: Any, b: Any) -> Any:
            return slope(units, values, a, *sides[:2]) * slope(units, values, b, *sides[2:])

        return both(a, b) - both(b, a)

    formula = along(units, "(B.11)", expr, ways)
    return Claim(formula, "derivatives of the metric", oracle, sample(formula, 2))


def _density(at: Curvature, ways: Ways) -> Any:
    """(det g)^2 R."""
    return determinant(at.metric.tolist()) ** 2 * at.scalar


def cycle(i: Any, j: Any, k: Any) -> Any:
    """The round bracket of (B.12)."""
    return (
        i[0] ** 2 * j[1] ** 2 * k[0] * k[1]
        + i[0] * i[1] * j[0] ** 2 * k[1] ** 2
        + i[1] ** 2 * j[0] * j[1] * k[0] ** 2
    )


def _triples(units: Units, term: Callable[[int, int, int], Any]) -> Any:
    p, rate = units.slopes, rates(units)
    indices = product(range(units.n), repeat=3)
    return sum(term(i, j, k) * p[i] ** 2 * rate[j] * rate[k] for i, j, k in indices) / units.n**3


def _density_steps(units: Units) -> dict[str, Claim]:
    """(B.12), (B.13), (B.15) and, for three units, (B.16)."""
    w, M, (p, pp) = units.weights, units.minor, (units.slopes, units.second_derivatives)
    (g11, g12), (_, g22) = units.metric()

    def plain(i: int, j: int, k: int) -> Any:
        return 2 * M(j, k) * cycle(w[i], w[j], w[k])

    def exchanged(i: int, j: int, k: int) -> Any:
        return M(j, k) * (cycle(w[i], w[j], w[k]) - cycle(w[i], w[k], w[j]))

    def minors(i: int, j: int, k: int) -> Any:
        return M(j, k) ** 2 * M(i, j) * M(i, k)

    inner = M(1, 2) * p[0] * pp[1] * pp[2] - M(0, 2) * p[1] * pp[0] * pp[2]
    inner += M(0, 1) * p[2] * pp[0] * pp[1]
    three = sp.Rational(2, 27) * M(0, 1) * M(1, 2) * M(2, 0) * p[0] * p[1] * p[2] * inner
    R = -_triples(units, minors) / (g11 * g22 - g12**2) ** 2
    return {
        "B.12": curvature_claim(units, "(B.12)", _triples(units, plain), _density),
        "B.13": curvature_claim(units, "(B.13)", _triples(units, exchanged), _density),
        "B.15": curvature_claim(units, "(B.15)", R, scalar),
        "B.16": curvature_claim(units, "(B.16)", three, _density),
    }


def _identity() -> Claim:
    """(B.14)."""
    i, j, k, M = 0, 1, 2, _THREE.minor
    formula = Formula("-M_jk M_ij M_ik", _THREE.symbols[:6], -M(j, k) * M(i, j) * M(i, k))

    def oracle(**values: Any) -> Any:
        i, j, k = rows_of(_THREE, values)
        return cycle(i, j, k) - cycle(i, k, j)

    return Claim(formula, "the bracket itself", oracle, sample(formula, 3))


ROUTES: dict[str, Verification] = {
    "curvature/B.1": finite.ROUTES["curvature/2"],
    "curvature/B.2-B.6": holds(*_volumes(_THREE)),
    "curvature/B.8": holds(_inverse()),
    "curvature/B.9": holds(_surface()),
    "curvature/B.10": printed_times_three(_three_terms()),
    "curvature/B.11": holds(_antisymmetric(_THREE)),
    "curvature/B.14": holds(_identity()),
    **{
        f"curvature/{key}": printed_times_three(claim)
        for key, claim in _density_steps(_THREE).items()
    },
}

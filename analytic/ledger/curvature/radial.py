r"""Metrics $e^\Omega(I + 2\Omega' xx^T)$, (6), (7), (C.13) to (C.23), from the jet of any Omega."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, sample
from analytic.checks.oracles import MetricJet, determinant, omega_jet, point_at_radius
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import d, r
from analytic.ledger.verification import Verification, dot, holds, printed_times_three, real_symbols

__all__ = ["ROUTES"]

THIRD = mp.mpf(3) / 8  # an arbitrary value of Omega''', on which no statement here depends
o0, o1, o2 = JET = (*real_symbols("o0"), sp.Symbol("o1", positive=True), *real_symbols("o2"))
x, u, v, w, y = (real_symbols(f"{name}1 {name}2 {name}3") for name in "xuvwy")
_s = r**2
_stretch = 1 + 2 * _s * o1


def _vector(values: dict[str, Any], name: str) -> list[Any]:
    return [values[f"{name}{k}"] for k in (1, 2, 3)]


def _jet(values: dict[str, Any]) -> MetricJet:
    """In three dimensions at the point x, or in d at a point of norm r."""
    at = point_at_radius(values["r"], int(values["d"])) if "r" in values else _vector(values, "x")
    return omega_jet(at, (values["o0"], values["o1"], values["o2"], THIRD))


def _in_d(name: str, expr: sp.Expr, route: str, oracle: Any) -> Claim:
    """A scalar statement, tried in dimensions 2, 3 and 4."""
    formula = Formula(name, (d, r, *JET), expr)
    points = tuple(sample(formula, 1, seed=k, d=k)[0] for k in (2, 3, 4))
    return Claim(formula, route, lambda **values: oracle(_jet(values), values), points)


def _at_x(name: str, args: tuple[sp.Symbol, ...], expr: sp.Expr, route: str, oracle: Any) -> Claim:
    """A tensor statement in three dimensions, contracted with as many vectors as it has indices."""
    formula = Formula(name, (*JET, *x, *args), expr)
    return Claim(formula, route, lambda **values: oracle(_jet(values), values), sample(formula, 3))


def _inverse(jet: MetricJet) -> Any:
    return mp.matrix(jet.g) ** -1


def _contract(matrix: Any, a: Any, b: Any) -> Any:
    return mp.fsum(a[i] * matrix[i, j] * b[j] for i in range(len(a)) for j in range(len(b)))


def _moving_metric(values: dict[str, Any]) -> Any:
    """d/dt of v.g(x + t u).w, with Omega continued by its Taylor polynomial."""
    at, to, a, b = (_vector(values, name) for name in "xuvw")
    start = dot(at, at)
    jet = [values["o0"], values["o1"], values["o2"], THIRD]

    def contracted_metric(t: Any) -> Any:
        here = [p + t * q for p, q in zip(at, to, strict=True)]
        step = dot(here, here) - start
        value = mp.fsum(c * step**k / mp.factorial(k) for k, c in enumerate(jet))
        slope = mp.fsum(c * step**k / mp.factorial(k) for k, c in enumerate(jet[1:]))
        return mp.exp(value) * (dot(a, b) + 2 * slope * dot(here, a) * dot(here, b))

    return mp.diff(contracted_metric, 0)


def _riemann(jet: MetricJet, values: dict[str, Any]) -> Any:
    tensor = jet.curvature().riemann
    vectors = [_vector(values, name) for name in "uvwy"]
    for vector in vectors:  # each contraction takes the leading index away
        tensor = np.sum([c * part for c, part in zip(vector, tensor, strict=True)], axis=0)
    return tensor


def _traces(jet: MetricJet, values: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """tr g^-1, tr g^-2, x.g^-1 x, x.g^-2 x."""
    inverse, at = _inverse(jet), point_at_radius(values["r"], int(values["d"]))
    square = inverse * inverse
    size = range(len(at))
    return (
        mp.fsum(inverse[i, i] for i in size),
        mp.fsum(square[i, i] for i in size),
        _contract(inverse, at, at),
        _contract(square, at, at),
    )


_xx = dot(x, x)
_at_stretch = 1 + 2 * _xx * o1
_front = -sp.exp(o0) * o1**2
_ratio = 1 + 2 * _s * o2 / o1

_ricci = _in_d(
    "radial Ricci scalar",
    -(d - 1)
    * sp.exp(-o0)
    * o1**2
    * _s
    / _stretch**2
    * (d + 2 + 2 * _s * ((d - 2) * o1 + 2 * o2 / o1)),
    "textbook curvature",
    lambda jet, values: jet.scalar(),
)
_volume = _in_d(
    "radial determinant",
    sp.exp(d * o0) * _stretch,
    "determinant of the matrix",
    lambda jet, values: determinant(jet.g),
)


def _half_tensor(a: Any, b: Any, c: Any, e: Any) -> sp.Expr:
    """The bracket of (C.16) before antisymmetrisation, contracted with a, b, c, e."""
    ratio = 1 + 2 * _xx * o2 / o1
    pairs = dot(x, b) * dot(x, e) * dot(a, c) + dot(x, a) * dot(x, c) * dot(b, e)
    return _xx * dot(a, c) * dot(b, e) + ratio * pairs


_tensor = _at_x(
    "radial Riemann tensor",
    (*u, *v, *w, *y),
    _front / _at_stretch * (_half_tensor(u, v, w, y) - _half_tensor(u, v, y, w)),
    "textbook curvature",
    _riemann,
)

_tr = sp.exp(-o0) * (d - 2 * _s * o1 / _stretch)
_tr2 = sp.exp(-2 * o0) * (d - 1 + 1 / _stretch**2)
_xgx = sp.exp(-o0) * _s / _stretch
_xggx = sp.exp(-2 * o0) * _s / _stretch**2
_contracted = _in_d(
    "contraction of the Riemann tensor",
    _front.subs(_xx, _s) / _stretch * (_s * (_tr**2 - _tr2) + 2 * _ratio * (_tr * _xgx - _xggx)),
    "textbook curvature",
    lambda jet, values: jet.scalar(),
)

ROUTES: dict[str, Verification] = {
    "curvature/6": holds(_volume),
    "curvature/7": printed_times_three(_ricci),
    "curvature/C.13": holds(_volume),
    "curvature/C.14": holds(
        _at_x(
            "radial inverse",
            (*u, *v),
            sp.exp(-o0) * (dot(u, v) - 2 * o1 / _at_stretch * dot(x, u) * dot(x, v)),
            "inverse of the matrix",
            lambda jet, values: _contract(_inverse(jet), _vector(values, "u"), _vector(values, "v")),
        )
    ),
    "curvature/C.15": holds(
        _at_x(
            "derivative of the radial metric",
            (*u, *v, *w),
            2 * sp.exp(o0) * o1
            * (dot(x, u) * dot(v, w) + dot(x, v) * dot(u, w) + dot(x, w) * dot(u, v))
            + 4 * sp.exp(o0) * (o2 + o1**2) * dot(x, u) * dot(x, v) * dot(x, w),
            "numerical derivative",
            lambda jet, values: _moving_metric(values),
        )
    ),
    "curvature/C.16": printed_times_three(_tensor),
    "curvature/C.17": holds(
        _at_x(
            "inverse on x",
            u,
            sp.exp(-o0) * dot(x, u) / _at_stretch,
            "inverse of the matrix",
            lambda jet, values: _contract(_inverse(jet), _vector(values, "x"), _vector(values, "u")),
        )
    ),
    "curvature/C.18": holds(
        _in_d("x.g^-1 x", _xgx, "inverse of the matrix", lambda jet, values: _traces(jet, values)[2])
    ),
    "curvature/C.20": printed_times_three(_contracted),
    "curvature/C.21": holds(
        _in_d(
            "tr^2 - tr of the inverse squared",
            sp.exp(-2 * o0) * (d - 1) * (d - 4 * _s * o1 / _stretch),
            "inverse of the matrix",
            lambda jet, values: _traces(jet, values)[0] ** 2 - _traces(jet, values)[1],
        )
    ),
    "curvature/C.22": holds(
        _in_d(
            "tr x.g^-1 x - x.g^-2 x",
            sp.exp(-2 * o0) * _s / _stretch * (d - 1),
            "inverse of the matrix",
            lambda jet, values: _traces(jet, values)[0] * _traces(jet, values)[2] - _traces(jet, values)[3],
        )
    ),
    "curvature/C.23": printed_times_three(_ricci),
}  # fmt: skip

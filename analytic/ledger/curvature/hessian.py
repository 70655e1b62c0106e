"""The Riemann tensor of a metric g with totally symmetric derivatives t = dg, q = ddg, (A.2)-(A.19)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp
from mpmath import mp

from analytic.checks.claims import Claim, sample
from analytic.expressions.formula import Formula
from analytic.finite.forms import components, inverse, symmetric, vector, vector_values
from analytic.geometry.riemann import Curvature, curvature_of_jet
from analytic.ledger.verification import Verification, dot, holds, printed_times_three, real_symbols

__all__ = ["ROUTES", "Chart", "Read", "Values", "Ways", "inverse_along", "riemann_along", "scalar"]

Values = dict[str, Any]
Ways = dict[str, np.ndarray]  # vectors by letter
Read = Callable[[Curvature, Ways], Any]


def inverse_along(g: np.ndarray, c: Any, e: Any) -> Any:
    """c.g^-1.e for two covectors, by solving a linear system in numbers."""
    return dot(c, mp.lu_solve(mp.matrix(g.tolist()), mp.matrix(e)))


@dataclass(frozen=True)
class Chart:
    """Symbols for g, t = dg and q = ddg at a point; claims contract tensors with generic vectors."""

    d: int

    def symbols(self, kinds: str = "gt", vectors: str = "") -> tuple[sp.Symbol, ...]:
        names = [n for kind in kinds for n in components(kind, "gtq".index(kind) + 2, self.d)]
        return (
            *real_symbols(" ".join(names)),
            *(s for way in vectors for s in vector(way, self.d)),
        )

    @property
    def g(self) -> np.ndarray:
        return symmetric("g", 2, self.d)

    @cached_property
    def up(self) -> np.ndarray:
        return inverse(self.g)

    def t(self, *ways: Any) -> Any:
        """dg contracted with some vectors, or with symbolic ones by letter; other indices stay free."""
        value = symmetric("t", 3, self.d)
        for way in ways:
            value = value @ (vector(way, self.d) if isinstance(way, str) else way)
        return value

    def hessian(self, m: Any, n: Any, a: Any, b: Any) -> Any:
        """(A.12) with the factor corrected from -3/4 to -1/4."""
        t, up = self.t, self.up
        return -(t(m, a) @ up @ t(n, b) - t(m, b) @ up @ t(n, a)) / 4

    def claim(self, name: str, vectors: str, expr: Any, read: Read, kinds: str = "gt") -> Claim:
        """A claim about an expression, with `read` of the textbook curvature of the metric as oracle."""
        d = self.d
        formula = Formula(f"{name}, d={d}", self.symbols(kinds, vectors), expr)

        def textbook(**values: Any) -> Any:
            # arbitrary second derivatives, where the statement does not depend on them
            spare = {key: mp.mpf(k * k + 3) / 7 for k, key in enumerate(components("q", 4, d))}
            jet = (symmetric(kind, k, d, spare | values) for k, kind in enumerate("gtq", start=2))
            return read(
                curvature_of_jet(*jet), {way: vector_values(values, way, d) for way in vectors}
            )

        return Claim(formula, "textbook curvature", textbook, sample(formula, 2))


_PLANE, _SPACE, _Q = Chart(2), Chart(3), symmetric("q", 4, 2)


def riemann_along(at: Curvature, ways: Ways) -> Any:
    """R_mnij along u, v, a, b."""
    return np.einsum("mnij,m,n,i,j->", at.riemann, *(ways[way] for way in "uvab"))


def scalar(at: Curvature, ways: Ways) -> Any:
    return at.scalar


def _slope() -> Claim:
    """(A.2), which is linear in the law of the weights: it is enough to check a law of three atoms."""
    atoms, x, b, m = range(3), vector("x", 2), vector("b", 3), vector("m", 3)
    w, ways = [vector(f"w{j}", 2) for j in (1, 2, 3)], [vector(way, 2) for way in "cuv"]
    slopes = [m[j] * -sp.sin(w[j] @ x + b[j]) * sp.cos(w[j] @ x + b[j]) for j in atoms]
    expr = 2 * sum(slopes[j] * sp.prod(w[j] @ way for way in ways) for j in atoms)
    formula = Formula("(A.2)", (*np.concatenate([*w, x, b, m, *ways]),), expr)

    def oracle(**values: Any) -> Any:
        x, c, u, v, *w = (
            vector_values(values, letter, 2) for letter in ("x", *"cuv", "w1", "w2", "w3")
        )
        b, m = (vector_values(values, letter, 3) for letter in "bm")

        def metric(step: Any) -> Any:
            slopes = [mp.cos(dot(w[j], x + step * c) + b[j]) for j in atoms]
            return sum(m[j] * slopes[j] ** 2 * dot(w[j], u) * dot(w[j], v) for j in atoms)

        return mp.diff(metric, 0)

    return Claim(formula, "derivative of the metric", oracle, sample(formula, 2))


def _tangential() -> Claim:
    """(A.3) for any surface: Gamma is the tangential part of the second derivative."""
    J = np.array([vector(f"j{k}", 2) for k in (1, 2, 3)])  # three features, two coordinates
    H = np.array([symmetric(f"h{k}_", 2, 2) for k in (1, 2, 3)])
    dg = np.einsum("kma,kn->mna", H, J) + np.einsum("km,kna->mna", J, H)
    c, u, v = (vector(way, 2) for way in "cuv")
    first, second, third = (np.einsum(f"{at},n,b->r", dg, u, v) for at in ("rbn", "nrb", "nbr"))
    bracket = first + second - third
    args = (*J.flat, *H[:, *np.triu_indices(2)].flat, *c, *u, *v)
    formula = Formula("Christoffel symbols of a surface", args, c @ inverse(J.T @ J) @ bracket / 2)

    def oracle(**values: Any) -> Any:
        c, u, v = (vector_values(values, way, 2) for way in "cuv")
        rows = [vector_values(values, f"j{k}", 2).tolist() for k in (1, 2, 3)]
        second_derivatives = [u @ symmetric(f"h{k}_", 2, 2, values) @ v for k in (1, 2, 3)]
        tangent, _ = mp.qr_solve(mp.matrix(rows), mp.matrix(second_derivatives))
        return dot(c, tangent)

    return Claim(formula, "tangential part of the second derivative", oracle, sample(formula, 2))


def _christoffel(at: Curvature, ways: Ways) -> Any:
    return np.einsum("kij,k,i,j->", at.christoffel, *(ways[way] for way in "cuv"))


def _antisymmetrised(part: Callable[[Any, Any], Any]) -> Any:
    """part(e1, e2) - part(e2, e1): in a plane an antisymmetric tensor has this component only."""
    east, north = np.eye(2, dtype=int).astype(object)
    return part(east, north) - part(north, east)


def _mixed_riemann(at: Curvature, ways: Ways) -> Any:
    """R^m_n12 along the covector c and u."""
    return np.einsum("lm,mn,l,n->", at.inverse, at.riemann[:, :, 0, 1], ways["c"], ways["u"])


def _definition(sign: int) -> Any:
    """(A.5) in a plane, with a sign before the products of Christoffel symbols."""
    x, c, u = (vector(way, 2) for way in "xcu")
    slopes = _PLANE.t() + _Q @ x
    up = inverse(_PLANE.g + _PLANE.t(x) + _Q @ x @ x / 2)

    def gamma(way: np.ndarray, end: np.ndarray) -> np.ndarray:
        return up @ (slopes @ way @ end) / 2

    def half(a: np.ndarray, b: np.ndarray) -> Any:
        return sp.diff(c @ gamma(b, u), x @ a) + sign * (c @ gamma(a, gamma(b, u)))

    return _antisymmetrised(half).subs(dict.fromkeys(x, 0))


def _mixed() -> Verification:
    """(A.5) to (A.8), with q among the arguments: it cancels between (A.6) and (A.7)."""
    t, up, c, u = _PLANE.t, _PLANE.up, vector("c", 2), vector("u", 2)
    C, step = up @ c, sp.Dummy("step")

    def quarter(a: Any, b: Any) -> Any:
        return t(a, C) @ up @ t(b, u) / 4

    def inverse_slope(a: Any, b: Any) -> Any:
        """Half of (d_a g^{mr}) d_r g_bn, from the inverse along a line."""
        varied_inverse = inverse(_PLANE.g + step * t(a))
        return sp.diff(c @ varied_inverse @ t(b, u), step).subs(step, 0) / 2

    def product_slope(a: Any, b: Any) -> Any:
        """Half of d_a (g^{mr} d_r g_bn)."""
        return inverse_slope(a, b) + C @ (_Q @ a @ b @ u) / 2

    exprs = {
        "(A.5)": _definition(+1),
        "(A.6)": _antisymmetrised(product_slope) + _antisymmetrised(quarter),
        "(A.7)": _antisymmetrised(inverse_slope) + _antisymmetrised(quarter),
        "(A.8)": -_antisymmetrised(quarter),
    }
    claims = [_PLANE.claim(name, "cu", expr, _mixed_riemann, "gtq") for name, expr in exprs.items()]
    flipped = replace(claims[0].statement, name="(A.5) as printed", expr=_definition(-1))
    return Verification(tuple(claims), flipped)


def _slope_of_inverse() -> Claim:
    c, e = (_SPACE.up @ vector(way, 3) for way in "ce")
    formula = Formula("(A.9), d=3", _SPACE.symbols("gt", "ace"), -_SPACE.t("a", c, e))

    def oracle(**values: Any) -> Any:
        g, t = (symmetric(kind, k, 3, values) for k, kind in ((2, "g"), (3, "t")))
        a, c, e = (vector_values(values, way, 3) for way in "ace")
        return mp.diff(lambda step: inverse_along(g + step * (t @ a), c, e), 0)

    return Claim(formula, "derivative of the inverse", oracle, sample(formula, 2))


def _riemann_steps() -> tuple[Claim, ...]:
    """(A.10) to (A.12): the first is (A.8) with the index lowered again."""
    u, t, up = vector("u", 2), _PLANE.t, _PLANE.up
    back = up @ (_PLANE.g @ u)
    first = -(t("a", back) @ up @ t("b", "v") - t("b", back) @ up @ t("a", "v")) / 4
    t, up = _SPACE.t, _SPACE.up
    second = -(t("a", "u") @ up @ t("b", "v") - t("b", "u") @ up @ t("a", "v")) / 4
    return (
        _SPACE.claim("(A.12)", "uvab", _SPACE.hessian(*"uvab"), riemann_along),
        _SPACE.claim("(A.11)", "uvab", second, riemann_along),
        _PLANE.claim("(A.10)", "uvab", first, riemann_along),
    )


def _ordered(name: str, expr: Any) -> Verification:
    """(A.12) for other orders of the indices, against the tensor in the first one."""
    return holds(_SPACE.claim(name, "uvab", expr, riemann_along))


def _scalars() -> tuple[Claim, ...]:
    """(A.17) to (A.19)."""
    up, t = _PLANE.up, _PLANE.t()
    mixed = np.einsum("ms,sar->mar", up, t)  # d_a g_sr with s raised
    trace = np.einsum("aar->r", mixed)
    half = np.einsum("mar,rl,lbn->mnab", mixed, up, t)
    straight, crossed = (
        np.einsum(f"ma,nb,{pair},rl->", up, up, t, t, up) for pair in ("amr,bnl", "bmr,anl")
    )
    once = np.outer(trace, trace) - np.einsum("abr,bal->rl", mixed, mixed)
    exprs = {
        "(A.17)": -np.einsum("bn,anab->", up, half - half.swapaxes(2, 3)) / 4,
        "(A.18)": -(straight - crossed) / 4,
        "(A.19)": -np.sum(up * once) / 4,
    }
    return tuple(_PLANE.claim(name, "", expr, scalar) for name, expr in exprs.items())


_SHORT = vector("c", 3) @ _SPACE.up @ _SPACE.t("u", "v") / 2  # (A.4)

ROUTES: dict[str, Verification] = {
    "curvature/A.2": holds(_slope()),
    "curvature/A.3-A.4": holds(_tangential(), _SPACE.claim("(A.4)", "cuv", _SHORT, _christoffel)),
    "curvature/A.5-A.8": _mixed(),
    "curvature/A.9": holds(_slope_of_inverse()),
    "curvature/A.10-A.12": printed_times_three(*_riemann_steps()),
    "curvature/A.13": _ordered("-R_mnba", -_SPACE.hessian(*"uvba")),
    "curvature/A.14": _ordered("-R_nmab", -_SPACE.hessian(*"vuab")),
    "curvature/A.15": _ordered("R_abmn", _SPACE.hessian(*"abuv")),
    "curvature/A.16": _ordered("the rest", -_SPACE.hessian(*"uabv") - _SPACE.hessian(*"ubva")),
    "curvature/A.17-A.19": printed_times_three(*_scalars()),
}

r"""Sums, products and layers of rotation-invariant kernels, by what they do to T, a and b.

A kernel $K(|x|^2, x\cdot y, |y|^2)$ has $T = k(x, x)$ and the metric $a I + b\,xx^T$. The laws, and the
code's own algebra, are put to differences of a sum, a product and a layer of kernels.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import sympy as sp
from mpmath import mp

from analytic.activations import gaussian
from analytic.checks.claims import Claim, sample
from analytic.checks.kernel_oracles import metric_by_differences
from analytic.checks.oracles import MetricJet, point_at_radius
from analytic.expressions.backends import compile_mpmath
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V, d, kxx, kxy, kyy, r, s
from analytic.geometry.kernel_jet import Germ, Passage, linear
from analytic.geometry.layer_moments import textbook
from analytic.ledger.beyond.radial import planar
from analytic.ledger.verification import Verification, holds

GRAM = (kxx, kxy, kyy)
COEFFICIENTS = m0, m1, n0, n1, n2 = sp.symbols("m0:2 n0:3", positive=True)
ACT = gaussian  # of every layer
Triple = tuple[sp.Expr, sp.Expr, sp.Expr]  # T, a, b as functions of s


def triple(K: sp.Expr) -> Triple:
    """By the chain rule, at y = x."""
    slope = sp.diff(K, kxy)
    b = 4 * sp.diff(K, kxx, kyy) + 4 * sp.diff(slope, kxx) + sp.diff(slope, kxy)
    return tuple(f.subs(dict.fromkeys(GRAM, s)) for f in (K, slope, b))


def _rate(f: sp.Expr) -> sp.Expr:
    return sp.diff(f, s)


def bend(T: sp.Expr, a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """2a' - b, which vanishes where the metric has the form (5)."""
    return 2 * _rate(a) - b


def gap(T: sp.Expr, a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """a + sb - s T'^2/T, which Cauchy and Schwarz keep from falling below 0."""
    return a + s * b - s * _rate(T) ** 2 / T


def added(one: Triple, two: Triple) -> tuple[sp.Expr, sp.Expr]:
    """bend and gap of k1 + k2."""
    (T1, *_), (T2, *_) = one, two
    apart = _rate(T1) / T1 - _rate(T2) / T2
    return bend(*one) + bend(*two), gap(*one) + gap(*two) + s * T1 * T2 / (T1 + T2) * apart**2


def multiplied(one: Triple, two: Triple) -> tuple[sp.Expr, sp.Expr]:
    """bend and gap of k1 k2."""
    (T1, a1, _), (T2, a2, _) = one, two
    cross = _rate(T1) * a2 + _rate(T2) * a1 - _rate(T1) * _rate(T2)
    return T1 * bend(*two) + T2 * bend(*one) + 2 * cross, T1 * gap(*two) + T2 * gap(*one)


def passed(one: Triple, f: sp.Expr, g: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """bend and gap of E[phi(u) phi(v)] where u, v have the covariance k1; f = F and g = G of V."""
    T, a, _ = one
    F, G, dF, dG = (e.subs(V, T) for e in (f, g, sp.diff(f, V), sp.diff(g, V)))
    turned = bend(*one) * G + 2 * dG * _rate(T) * (a - _rate(T))
    slack = G / T + 2 * dG - dF**2 / F
    return turned, gap(*one) * G + s * _rate(T) ** 2 * slack


def _claims(name: str, laws: tuple[sp.Expr, sp.Expr], made: Germ, kernel: sp.Expr) -> list[Claim]:
    """Both laws and the Ricci scalar of the code's own algebra, against differences of the kernel."""
    body = compile_mpmath((*GRAM, *COEFFICIENTS), kernel)

    def found(d: Any, r: Any, rest: dict[str, Any]) -> MetricJet:
        values = list(rest.values())

        def k(x: Any, y: Any) -> Any:
            return body(mp.fdot(x, x), mp.fdot(x, y), mp.fdot(y, y), *values)

        return metric_by_differences(k, point_at_radius(r, int(d)))

    def bent(r: Any, **rest: Any) -> Any:
        _, b, da = planar(found(2, r, rest), r)
        return 2 * da - b

    def left(r: Any, **rest: Any) -> Any:
        a, b, _ = planar(found(2, r, rest), r)
        values = list(rest.values())

        def T(t: Any) -> Any:
            return body(t, t, t, *values)

        return a + r**2 * (b - mp.diff(T, r**2) ** 2 / T(r**2))

    def scalar(d: Any, r: Any, **rest: Any) -> Any:
        return found(d, r, rest).scalar()

    at = {s: r**2}
    formulas = [
        Formula(f"2a' - b of a {name}", (r, *COEFFICIENTS), laws[0].subs(at)),
        Formula(f"Cauchy-Schwarz gap of a {name}", (r, *COEFFICIENTS), laws[1].subs(at)),
        Formula(f"Ricci scalar of a {name}", (d, r, *COEFFICIENTS), made.ricci(d).subs(at)),
    ]
    fixed = ({}, {}, {"d": 3})
    return [
        Claim(formula, "differences of the kernel", oracle, sample(formula, 1, **point))
        for formula, oracle, point in zip(formulas, (bent, left, scalar), fixed, strict=True)
    ]


def _within(k: sp.Expr) -> sp.Expr:
    """E[phi(u) phi(v)] as a kernel, where u and v have the covariance k."""
    own = {end: k.subs(dict.fromkeys(GRAM, end)) for end in (kxx, kyy)}
    return ACT.kernel.expr.subs({**own, kxy: k}, simultaneous=True)


def _through(germ: Germ) -> Germ:
    return germ.through(Passage(*(part.subs(V, germ.T) for part in astuple(textbook(ACT)))))


def _routes() -> list[Claim]:
    x = linear(s)
    one, two = _through(x.scaled(m1).raised(m0)), ((x * x).scaled(n2) + x.scaled(n1)).raised(n0)
    k1, k2 = _within(m0 + m1 * kxy), n0 + n1 * kxy + n2 * kxy**2
    pair = triple(k1), triple(k2)
    return [
        *_claims("sum", added(*pair), one + two, k1 + k2),
        *_claims("product", multiplied(*pair), one * two, k1 * k2),
        *_claims("layer", passed(pair[0], ACT.F.expr, ACT.G.expr), _through(one), _within(k1)),
    ]


ROUTES: dict[str, Verification] = {"beyond/kernel-algebra": holds(*_routes())}

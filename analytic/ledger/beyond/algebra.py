r"""Sums, products and layers of rotation-invariant kernels, by what they do to T, a and b.

A kernel $K(|x|^2, x\cdot y, |y|^2)$ has $T = k(x, x)$ and the metric $a I + b\,xx^T$. The laws, and the
code's own algebra, are compared with finite differences of a sum, a product and a layer of kernels.
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
from analytic.geometry.kernel_jet import KernelJet, LayerMoments, linear
from analytic.geometry.layer_moments import textbook_layer_moments
from analytic.ledger.beyond.radial import planar
from analytic.ledger.verification import Verification, holds

__all__ = ["ROUTES", "defect", "gap", "of_layer", "of_product", "of_sum"]

GRAM = (kxx, kxy, kyy)
COEFFICIENTS = m0, m1, n0, n1, n2 = sp.symbols("m0:2 n0:3", positive=True)
ACT = gaussian  # of every layer
Triple = tuple[sp.Expr, sp.Expr, sp.Expr]  # T, a, b as functions of s


def triple(K: sp.Expr) -> Triple:
    """T, a and b of a kernel K(kxx, kxy, kyy) of inner products, by the chain rule at y = x."""
    slope = sp.diff(K, kxy)
    b = 4 * sp.diff(K, kxx, kyy) + 4 * sp.diff(slope, kxx) + sp.diff(slope, kxy)
    return tuple(f.subs(dict.fromkeys(GRAM, s)) for f in (K, slope, b))


def _prime(f: sp.Expr) -> sp.Expr:
    return sp.diff(f, s)


def defect(T: sp.Expr, a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """2a' - b, which is 0 if and only if the metric has the form (5)."""
    return 2 * _prime(a) - b


def gap(T: sp.Expr, a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """a + sb - s T'^2/T >= 0, the gap in a Cauchy-Schwarz inequality."""
    return a + s * b - s * _prime(T) ** 2 / T


def of_sum(one: Triple, two: Triple) -> tuple[sp.Expr, sp.Expr]:
    """Defect and gap of k1 + k2."""
    (T1, *_), (T2, *_) = one, two
    difference = _prime(T1) / T1 - _prime(T2) / T2
    more = s * T1 * T2 / (T1 + T2) * difference**2
    return defect(*one) + defect(*two), gap(*one) + gap(*two) + more


def of_product(one: Triple, two: Triple) -> tuple[sp.Expr, sp.Expr]:
    """Defect and gap of k1 k2."""
    (T1, a1, _), (T2, a2, _) = one, two
    cross = _prime(T1) * a2 + _prime(T2) * a1 - _prime(T1) * _prime(T2)
    return T1 * defect(*two) + T2 * defect(*one) + 2 * cross, T1 * gap(*two) + T2 * gap(*one)


def of_layer(one: Triple, f: sp.Expr, g: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Defect and gap of E[phi(u) phi(v)] where u, v have the covariance k1; f = F and g = G of V."""
    T, a, _ = one
    F, G, dF, dG = (e.subs(V, T) for e in (f, g, sp.diff(f, V), sp.diff(g, V)))
    new_defect = defect(*one) * G + 2 * dG * _prime(T) * (a - _prime(T))
    more = G / T + 2 * dG - dF**2 / F
    return new_defect, gap(*one) * G + s * _prime(T) ** 2 * more


def _claims(
    name: str, laws: tuple[sp.Expr, sp.Expr], jet: KernelJet, kernel: sp.Expr
) -> list[Claim]:
    """Both laws and the Ricci scalar of the code's own algebra, against differences of the kernel."""
    body = compile_mpmath((*GRAM, *COEFFICIENTS), kernel)

    def by_differences(d: Any, r: Any, coefficients: dict[str, Any]) -> MetricJet:
        values = list(coefficients.values())

        def k(x: Any, y: Any) -> Any:
            return body(mp.fdot(x, x), mp.fdot(x, y), mp.fdot(y, y), *values)

        return metric_by_differences(k, point_at_radius(r, int(d)))

    def defect_by_differences(r: Any, **coefficients: Any) -> Any:
        _, b, da = planar(by_differences(2, r, coefficients), r)
        return 2 * da - b

    def gap_by_differences(r: Any, **coefficients: Any) -> Any:
        a, b, _ = planar(by_differences(2, r, coefficients), r)
        values = list(coefficients.values())

        def T(t: Any) -> Any:
            return body(t, t, t, *values)

        return a + r**2 * (b - mp.diff(T, r**2) ** 2 / T(r**2))

    def ricci_by_differences(d: Any, r: Any, **coefficients: Any) -> Any:
        return by_differences(d, r, coefficients).scalar()

    at = {s: r**2}
    formulas = [
        Formula(f"2a' - b of a {name}", (r, *COEFFICIENTS), laws[0].subs(at)),
        Formula(f"Cauchy-Schwarz gap of a {name}", (r, *COEFFICIENTS), laws[1].subs(at)),
        Formula(f"Ricci scalar of a {name}", (d, r, *COEFFICIENTS), jet.ricci(d).subs(at)),
    ]
    routes = defect_by_differences, gap_by_differences, ricci_by_differences
    fixed = ({}, {}, {"d": 3})
    return [
        Claim(formula, "differences of the kernel", route, sample(formula, 1, **point))
        for formula, route, point in zip(formulas, routes, fixed, strict=True)
    ]


def _within(k: sp.Expr) -> sp.Expr:
    """E[phi(u) phi(v)] as a kernel, where u and v have the covariance k."""
    variances = {end: k.subs(dict.fromkeys(GRAM, end)) for end in (kxx, kyy)}
    return ACT.kernel.expr.subs({**variances, kxy: k}, simultaneous=True)


def _through(jet: KernelJet) -> KernelJet:
    moments = astuple(textbook_layer_moments(ACT))
    return jet.through(LayerMoments(*(part.subs(V, jet.T) for part in moments)))


def _routes() -> list[Claim]:
    x = linear(s)
    one = _through(x.scaled(m1).plus_constant(m0))
    two = ((x * x).scaled(n2) + x.scaled(n1)).plus_constant(n0)
    k1, k2 = _within(m0 + m1 * kxy), n0 + n1 * kxy + n2 * kxy**2
    pair = triple(k1), triple(k2)
    return [
        *_claims("sum", of_sum(*pair), one + two, k1 + k2),
        *_claims("product", of_product(*pair), one * two, k1 * k2),
        *_claims(
            "layer",
            of_layer(pair[0], ACT.F.expr, ACT.require("G").expr),
            _through(one),
            _within(k1),
        ),
    ]


ROUTES: dict[str, Verification] = {"beyond/kernel-algebra": holds(*_routes())}

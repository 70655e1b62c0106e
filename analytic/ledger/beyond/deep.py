"""Metrics and curvature of deep kernels, against finite differences of the composed kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import sympy as sp

from analytic.activations import erf, gaussian
from analytic.activations.activation import Activation
from analytic.catalogue import catalogue
from analytic.checks.claims import Claim, Point
from analytic.checks.kernel_oracles import (
    WideNetwork,
    nngp_by_differences,
    ntk_by_differences,
    oracle_at_radius,
)
from analytic.checks.oracles import MetricJet, point_at_radius
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V, d, depth, r, s, sigma, xi, zeta
from analytic.ledger.beyond.radial import planar
from analytic.ledger.verification import Verification, dot, holds, metric_along, real_symbols

__all__ = ["ROUTES"]

x, u, v = (real_symbols(f"{name}1 {name}2") for name in "xuv")
ARGS = (sigma, zeta, xi, *x, *u, *v)
POINT: Point = {"sigma": "1.1", "zeta": "0.5", "xi": "1.3", "x1": "0.6", "x2": "-0.9", "u1": "1.2",
                "u2": "0.4", "v1": "-0.3", "v2": "0.8"}  # fmt: skip
SHAPES: tuple[Point, ...] = (
    {"d": 3, "sigma": "1.1", "zeta": "0.4", "xi": "0.7", "r": "0.9", "depth": 2},
    {"d": 2, "sigma": "0.6", "zeta": "0.5", "xi": "1.3", "r": "1.4", "depth": 3},
)


def _at(Q: sp.Expr, *moments: sp.Expr) -> list[sp.Expr]:
    return [moment.subs(V, Q) for moment in moments]


def _layers(act: Activation, layers: int) -> tuple[sp.Expr, sp.Expr]:
    """u.g.v of the NNGP and of the NTK after so many layers, by a recursion over the layers."""
    F, G, G2 = (f.expr for f in map(act.require, ("F", "G", "G2")))
    rates = [sp.diff(f, V) for f in (F, G, G2)]
    g = dot(u, v)
    Q, h = sigma**2 * dot(x, x) + zeta**2, sigma**2 * g
    dQ = [2 * sigma**2 * dot(x, direction) for direction in (u, v)]
    T, t, dT = 1 + dot(x, x), g, [2 * dot(x, direction) for direction in (u, v)]
    for layer in range(1, layers + 1):
        bias, scale = (0, xi**2) if layer == layers else (1, sigma**2)
        (f, N, N2), (df, dG, dG2) = _at(Q, F, G, G2), _at(Q, *rates)
        dN = [dG * step for step in dQ]
        g, n = (a * h + b / 2 * dQ[0] * dQ[1] for a, b in ((N, dG), (N2, dG2)))
        t = g + scale * (n * T + N * t + (dN[0] * dT[1] + dN[1] * dT[0]) / 4)
        dT = [df * a + scale * (b * T + N * c) for a, b, c in zip(dQ, dN, dT, strict=True)]
        T = f + bias + scale * N * T
        Q, h, dQ = sigma**2 * f + zeta**2, sigma**2 * g, [sigma**2 * df * step for step in dQ]
    return g, t


def _metrics(act: Activation, layers: int) -> tuple[Claim, Claim]:
    def claim(name: str, expr: sp.Expr, kernel: Callable[..., Any]) -> Claim:
        formula = Formula(f"{name} metric, {act.name}, depth {layers}", ARGS, expr)

        def oracle(**values: Any) -> Any:
            net = WideNetwork(act, values["sigma"], values["zeta"], layers, values["xi"])
            vectors = ([values[f"{name}{k}"] for k in (1, 2)] for name in "xuv")
            return metric_along(partial(kernel, net), *vectors)

        return Claim(formula, "differences of the kernel", oracle, (POINT,))

    nngp, ntk = _layers(act, layers)
    return claim("NNGP", nngp, WideNetwork.nngp), claim("NTK", ntk, WideNetwork.ntk)


def _catalogued(
    name: str, oracle: Callable[..., Any], quantity: Callable[[MetricJet], Any], *shapes: Point
) -> Claim:
    """That a formula of the catalogue agrees with a quantity of the kernel's jet by differences."""
    formula = catalogue[name]
    names = {symbol.name for symbol in formula.args}
    points = tuple({k: v for k, v in shape.items() if k in names} for shape in shapes)
    return Claim(formula, "differences of the kernel", oracle(quantity), points)


def _second_layer(act: Activation) -> tuple[sp.Expr, sp.Expr]:
    r"""a and $b - 2a' = 2\sigma^4G'(Q)\,Q'\,E[\phi\phi'']$ at depth 2, the average of the layer below."""
    F, G = act.F.expr, act.require("G").expr
    below = sigma**2 * s + zeta**2
    Q = sigma**2 * F.subs(V, below) + zeta**2
    a = sigma**4 * G.subs(V, Q) * G.subs(V, below)
    phi_phi2 = (sp.diff(F, V) - G).subs(V, below)  # E[phi phi'']
    rate = sp.diff(G, V).subs(V, Q) * sp.diff(Q, s)
    return a, 2 * sigma**4 * rate * phi_phi2


def _defect(act: Activation) -> Claim:
    formula = Formula(
        f"b - 2a' at depth 2, {act.name}", (sigma, zeta, r), _second_layer(act)[1].subs(s, r**2)
    )

    def oracle(sigma: Any, zeta: Any, r: Any) -> Any:
        _, b, da = planar(
            nngp_by_differences(WideNetwork(act, sigma, zeta, 2), point_at_radius(r, 2)), r
        )
        return b - 2 * da

    points = ({"sigma": "1.1", "zeta": "0.4", "r": "0.9"},)
    return Claim(formula, "differences of the kernel", oracle, points)


def _seven(a: sp.Expr) -> sp.Expr:
    """(7) of the curvature paper times 1/3, which assumes b = 2a'."""
    first, second = sp.diff(sp.log(a), s), sp.diff(sp.log(a), s, 2)
    front = -(d - 1) * s * first / (a * (1 + 2 * s * first) ** 2)
    bracket = (d + 2) * first + 2 * s * ((d - 2) * first**2 + 2 * second)
    return (front * bracket).subs(s, r**2)


def _at_depth_one(act: Activation, oracle: Callable[..., Any]) -> Claim:
    a = sigma**2 * act.require("G").expr.subs(V, sigma**2 * s + zeta**2)
    formula = Formula("(7) at depth 1", (d, sigma, zeta, r), _seven(a))
    points = ({"d": 3, "sigma": "1.1", "zeta": "0.4", "r": "0.9"},)
    return Claim(formula, "differences of the kernel", oracle(MetricJet.scalar), points)


_nngp, _ntk = (oracle_at_radius(jet, gaussian) for jet in (nngp_by_differences, ntk_by_differences))
_shallow, _deeper = _metrics(erf, 2), _metrics(gaussian, 3)

ROUTES: dict[str, Verification] = {
    "beyond/deep-nngp-metric": holds(
        _shallow[0],
        _deeper[0],
        _catalogued("deep.gaussian.nngp.magnification", _nngp, MetricJet.volume, *SHAPES),
    ),
    "beyond/deep-ntk-metric": holds(
        _shallow[1],
        _deeper[1],
        _catalogued("deep.gaussian.ntk.magnification", _ntk, MetricJet.volume, *SHAPES),
    ),
    "beyond/deep-curvature": Verification(
        (
            _catalogued("deep.gaussian.nngp.ricci", _nngp, MetricJet.scalar, SHAPES[0]),
            _catalogued("deep.gaussian.ntk.ricci", _ntk, MetricJet.scalar, *SHAPES),
            _defect(gaussian),
            _defect(erf),
            _at_depth_one(gaussian, _nngp),
        ),
        Formula("(7) at depth 2", (d, sigma, zeta, r, depth), _seven(_second_layer(gaussian)[0])),
    ),
}

r"""Geometry of the shallow NTK $\Theta = E[\phi\phi] + \xi^2 E[\phi'\phi'](1 + x\cdot y)$ (appendix D).

Its metric is $a I + b\,xx^T$ with $a = \Psi = (\sigma^2+\xi^2)G + \sigma^2\xi^2 G_2 (1+s)$ and
$b = 2(\Psi' - c)$, $c = \sigma^2\xi^2 G_2$. In floats it is computed as the network of depth 1.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from analytic.activations.activation import Activation
from analytic.activations.log_derivatives import factored, quick, rise
from analytic.expressions.formula import Formula
from analytic.expressions.special import off_origin
from analytic.expressions.symbols import V, d, kxx, kxy, kyy, r, s, sigma, xi, xy, zeta
from analytic.geometry.deep.symbol import Activated, Deep, deep_ricci, deep_volume
from analytic.geometry.layer_moments import bent
from analytic.geometry.radial import RadialMetric, origin_curvature

PAPER = "Zavatone-Veth et al."
_variance = sigma**2 * s + zeta**2
_sum, _product = sigma**2 + xi**2, sigma**2 * xi**2


def kernel(act: Activation) -> Formula:
    slope = act.require("slope")
    return Formula(
        f"ntk.{act.name}.kernel",
        (kxx, kxy, kyy, xy, xi, *act.parameters),
        act.kernel.expr + xi**2 * (1 + xy) * slope.expr,
        slope.domain,
        f"{PAPER}, (D.3)",
        act.kernel.floating + xi**2 * (1 + xy) * slope.floating,
    )


def metric(act: Activation) -> RadialMetric:
    """The pullback metric as its two radial coefficients (D.18) to (D.20)."""
    G, G2 = (f.expr.subs(V, _variance) for f in (act.require("G"), bent(act)))
    a = _sum * G + _product * G2 * (1 + s)
    return RadialMetric(a, 2 * (sp.diff(a, s) - _product * G2))


def magnification(act: Activation) -> Formula:
    """sqrt(det g)."""
    g, (at_zero, _) = metric(act), _at_origin(act)
    textbook = _with_origin(act, at_zero ** (d / 2), g.a ** ((d - 1) / 2) * sp.sqrt(g.along))
    return _formula(act, "magnification", textbook, deep_volume, "from (D.18) to (D.20)")


def ricci(act: Activation) -> Formula:
    """The Ricci scalar, which the paper calls not easy to compute."""
    curvature = metric(act).scalar_curvature()
    textbook = factored(curvature) if _simple(act) else curvature
    textbook = _with_origin(act, origin(act).expr, textbook)
    return _formula(act, "ricci", textbook, deep_ricci, "beyond appendix D")


def origin(act: Activation) -> Formula:
    """The Ricci scalar at x = 0: the NTK metric is curved where the NNGP metric is flat."""
    slope = _rise(act)
    textbook, floats = (
        origin_curvature(a, c, slope)
        for a, c in (_at_origin(act), _at_origin(act, lambda f: f.floating, off_origin(zeta**2)))
    )
    args = (d, sigma, zeta, xi, *act.parameters)
    name, domain = f"ntk.{act.name}.origin", bent(act).domain
    return Formula(name, args, textbook, domain, "beyond appendix D", floats)


def _at_origin(
    act: Activation,
    face: Callable[[Formula], sp.Expr] = lambda f: f.expr,
    variance: sp.Expr = zeta**2,
) -> tuple[sp.Expr, sp.Expr]:
    """a and c at x = 0."""
    G, G2 = (face(f).subs(V, variance) for f in (act.require("G"), bent(act)))
    return _sum * G + _product * G2, _product * G2


def _rise(act: Activation) -> sp.Expr:
    """Of a at x = 0, which without bias may have a term in r."""
    slope = sigma * (_sum * rise(act.G) + _product * rise(bent(act)))
    return sp.Piecewise((slope, sp.Eq(zeta, 0)), (0, True)) if slope != 0 else slope


def _with_origin(act: Activation, origin: sp.Expr, elsewhere: sp.Expr) -> sp.Expr:
    """Where the moments have no derivative at V = 0, for one because a degree is open, x = 0 is apart."""
    apart = any(p.name == "q" for p in act.parameters) or _rise(act) != 0
    return sp.Piecewise((origin, sp.Eq(s, 0)), (elsewhere, True)) if apart else elsewhere


def _simple(act: Activation) -> bool:
    """Whether `factor` is quick: the two moments are powers of V, and the degree is a number."""
    return quick(act.G) and quick(act.G2) and not act.parameters and act.G.expr.is_polynomial(V)


def _formula(
    act: Activation, what: str, textbook: sp.Expr, node: type[Deep], source: str
) -> Formula:
    return Formula(
        f"ntk.{act.name}.{what}",
        (d, sigma, zeta, xi, r, *act.parameters),
        textbook.subs({s: r**2}),
        bent(act).domain,
        f"{PAPER}, {source}",
        node((Activated(act),), (sigma,), (zeta,), (xi,), d, r, 1),
    )

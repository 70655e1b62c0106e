r"""Geometry of the shallow NTK $\Theta = E[\phi\phi] + \xi^2 E[\phi'\phi'](1 + x\cdot y)$ (appendix D).

Its metric is $a I + b\,xx^T$ with $a = \Psi = (\sigma^2+\xi^2)G + \sigma^2\xi^2 G_2 (1+s)$ and
$b = 2(\Psi' - c)$, $c = \sigma^2\xi^2 G_2$. In floats it is computed as the network of depth 1.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from analytic.activations.activation import Activation, require_activation
from analytic.activations.log_derivatives import factored, quick, sqrt_coefficient
from analytic.expressions.formula import Formula
from analytic.expressions.special import off_origin
from analytic.expressions.symbols import V, d, is_degree, kxx, kxy, kyy, r, s, sigma, xi, xy, zeta
from analytic.geometry.deep.symbol import ActivationAtom, DeepGeometry, DeepRicci, DeepVolume
from analytic.geometry.layer_moments import require_finite_G2
from analytic.geometry.radial import RadialMetric, origin_curvature

__all__ = ["kernel", "magnification", "metric", "origin", "ricci"]

PAPER = "Zavatone-Veth et al."
_variance = sigma**2 * s + zeta**2
_sum, _product = sigma**2 + xi**2, sigma**2 * xi**2


def kernel(act: Activation) -> Formula:
    """The tangent kernel Theta of one hidden layer, as a function of the covariances and of x.y.

    Returned is a Formula in kxx, kxy, kyy, xy = x.y, xi and the open parameters of the activation. What
    is no Activation, or jumps, is refused with an InputError.

    >>> from analytic import ntk
    >>> from analytic.activations import relu
    >>> round(ntk.kernel(relu)(kxx=1.0, kxy=1.0, kyy=1.0, xy=1.0, xi=1.0), 12)
    1.5
    """
    slope = require_activation(act).require("slope")
    return Formula(
        f"ntk.{act.name}.kernel",
        (kxx, kxy, kyy, xy, xi, *act.parameters),
        act.kernel.expr + xi**2 * (1 + xy) * slope.expr,
        slope.domain,
        f"{PAPER}, (D.3)",
        act.kernel.floating + xi**2 * (1 + xy) * slope.floating,
    )


def metric(act: Activation) -> RadialMetric:
    """The pullback metric a I + b x x^T as its coefficients in s = |x|^2, (D.18) to (D.20).

    An activation whose slope jumps has none, and is refused with an InputError.

    >>> from analytic import ntk
    >>> from analytic.activations import monomial
    >>> ntk.metric(monomial(1)).a
    sigma**2 + xi**2
    """
    moments = require_activation(act).require("G"), require_finite_G2(act)
    G, G2 = (moment.expr.subs(V, _variance) for moment in moments)
    a = _sum * G + _product * G2 * (1 + s)
    return RadialMetric(a, 2 * (sp.diff(a, s) - _product * G2))


def magnification(act: Activation) -> Formula:
    """The magnification sqrt(det g).

    Returned is a Formula in d, sigma, zeta, xi, r = |x| and the open parameters of the activation. An
    activation whose slope jumps has no such metric, and is refused with an InputError.

    >>> from analytic import ntk
    >>> from analytic.activations import erf
    >>> round(ntk.magnification(erf)(d=2, sigma=1.0, zeta=0.5, xi=1.0, r=1.0), 6)
    0.684285
    """
    g, (at_zero, _) = metric(act), _at_origin(act)
    textbook = _with_origin(act, at_zero ** (d / 2), g.a ** ((d - 1) / 2) * sp.sqrt(g.along))
    return _formula(act, "magnification", textbook, DeepVolume, "from (D.18) to (D.20)")


def ricci(act: Activation) -> Formula:
    """The Ricci scalar, which the paper calls not easy to compute.

    Returned is a Formula in the arguments of `magnification`, and what is refused is the same.

    >>> from analytic import ntk
    >>> from analytic.activations import erf
    >>> print(ntk.ricci(erf).evaluate(6, d=2, sigma=1, zeta="1/2", xi=1, r=1))
    -1.654
    """
    curvature = metric(act).scalar_curvature()
    textbook = factored(curvature) if _simple(act) else curvature
    textbook = _with_origin(act, origin(act).expr, textbook)
    return _formula(act, "ricci", textbook, DeepRicci, "beyond appendix D")


def origin(act: Activation) -> Formula:
    """The Ricci scalar at x = 0: the NTK metric is curved where the NNGP metric is flat.

    Returned is a Formula in d, sigma, zeta, xi and the open parameters; what is refused is the same as by
    `magnification`.

    >>> from analytic import ntk
    >>> from analytic.activations import erf
    >>> ntk.origin(erf)(d=2, sigma=1.0, zeta=0.5, xi=1.0) < 0
    True
    """
    linear = _linear_term(require_activation(act))
    textbook, floats = (
        origin_curvature(a, c, linear)
        for a, c in (_at_origin(act), _at_origin(act, lambda f: f.floating, off_origin(zeta**2)))
    )
    args = (d, sigma, zeta, xi, *act.parameters)
    name, domain = f"ntk.{act.name}.origin", require_finite_G2(act).domain
    return Formula(name, args, textbook, domain, "beyond appendix D", floats)


def _at_origin(
    act: Activation,
    form: Callable[[Formula], sp.Expr] = lambda f: f.expr,
    variance: sp.Expr = zeta**2,
) -> tuple[sp.Expr, sp.Expr]:
    """a and c at x = 0, from the textbook forms of the moments or from others."""
    G, G2 = (form(f).subs(V, variance) for f in (act.require("G"), require_finite_G2(act)))
    return _sum * G + _product * G2, _product * G2


def _linear_term(act: Activation) -> sp.Expr:
    """The coefficient of r = |x| in a at x = 0: it may differ from 0 without bias only."""
    of_G, of_G2 = sqrt_coefficient(act.require("G")), sqrt_coefficient(require_finite_G2(act))
    linear = sigma * (_sum * of_G + _product * of_G2)
    return sp.Piecewise((linear, sp.Eq(zeta, 0)), (0, True)) if linear != 0 else linear


def _with_origin(act: Activation, origin: sp.Expr, elsewhere: sp.Expr) -> sp.Expr:
    """The value with a case of its own for x = 0, where the moments may lack a derivative at V = 0.

    An open degree q is such a case, because derivatives of V^q are powers of 0 there.
    """
    singular = any(map(is_degree, act.parameters)) or _linear_term(act) != 0
    return sp.Piecewise((origin, sp.Eq(s, 0)), (elsewhere, True)) if singular else elsewhere


def _simple(act: Activation) -> bool:
    """Whether `sp.factor` is quick: the two moments are powers of V, and the degree is a number."""
    G, G2 = act.require("G"), act.require("G2")
    return quick(G) and quick(G2) and not act.parameters and G.expr.is_polynomial(V)


def _formula(
    act: Activation, what: str, textbook: sp.Expr, node: type[DeepGeometry], citation: str
) -> Formula:
    return Formula(
        f"ntk.{act.name}.{what}",
        (d, sigma, zeta, xi, r, *act.parameters),
        textbook.subs({s: r**2}),
        require_finite_G2(act).domain,
        f"{PAPER}, {citation}",
        node((ActivationAtom(act),), (sigma,), (zeta,), (xi,), d, r, 1),
    )

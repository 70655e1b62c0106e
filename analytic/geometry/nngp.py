r"""Geometry of the shallow NNGP kernel, from nothing but an activation's $G(V) = E[\phi'^2]$.

The metric is $e^\Omega(I + 2\Omega' x x^T)$ with $e^\Omega = \sigma^2 G(V)$, $V = \sigma^2 s +
\zeta^2$ (curvature paper, (5)). The forms for floats are written in the logarithmic derivative $\epsilon = V
G'/G$, its rate $\dot\epsilon = V\epsilon'$ and the share $\tau = \sigma^2 s/V$ of the input in the
variance. Nothing in them cancels, from r = 1e-8 to 1e8 and at zeta = 0. With the ratio P of the
eigenvalue of the metric along x to the one across it,

$$P = (1-\tau) + \tau(1 + 2\epsilon), \qquad
R = -\frac{(d-1)\,\tau\epsilon}{V G P^2}\big[(d-2)\epsilon P
    + 4\big((1-\tau)\epsilon + \tau\dot\epsilon\big)\big].$$
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from analytic.activations.activation import Activation, require_activation
from analytic.activations.log_derivatives import (
    LogDerivatives,
    algebraic,
    factored,
    log_derivatives,
    log_of_product,
    quick,
    sqrt_coefficient,
)
from analytic.expressions.formula import Formula
from analytic.expressions.special import log_variance, share, volume
from analytic.expressions.symbols import V, d, r, s, sigma, zeta
from analytic.geometry.radial import RadialMetric, origin_curvature

__all__ = [
    "PAPER", "kernel", "magnification", "metric", "omega", "radial", "ricci", "slope", "tangential",
]  # fmt: skip

PAPER = "Zavatone-Veth et al."
_variance = sigma**2 * s + zeta**2
_no_variance = sp.And(sp.Eq(s, 0), sp.Eq(zeta, 0))


def kernel(act: Activation) -> Formula:
    """The kernel E[phi(u) phi(v)] for a Gaussian pair of preactivations.

    Returned is a Formula in kxx, kxy, kyy, the covariances of the pair, and the open parameters of the
    activation. What is no Activation is refused with an InputError.

    >>> from analytic import nngp
    >>> from analytic.activations import erf
    >>> round(nngp.kernel(erf)(kxx=1.0, kxy=1.0, kyy=1.0), 12)
    0.333333333333
    """
    return _named(require_activation(act).kernel, act, "kernel", f"{PAPER}, (C.3)")


def slope(act: Activation) -> Formula:
    """The derivative kernel E[phi'(u) phi'(v)] for a Gaussian pair of preactivations.

    Returned is a Formula in the arguments of `kernel`. A phi that jumps has none, and is refused with an
    InputError.

    >>> from analytic import nngp
    >>> from analytic.activations import relu
    >>> nngp.slope(relu)(1.0, 0.0, 1.0)
    0.25
    """
    return _named(
        require_activation(act).require("slope"),
        act,
        "slope",
        "E[phi'(u) phi'(v)], by Price's theorem d(kernel)/d(kxy)",
    )


def metric(act: Activation) -> RadialMetric:
    """The pullback metric a I + b x x^T as its coefficients, which are expressions in s = |x|^2 (5).

    >>> from analytic import nngp
    >>> from analytic.activations import relu
    >>> nngp.metric(relu).a, nngp.metric(relu).b  # flat
    (sigma**2/2, 0)
    """
    a = sigma**2 * require_activation(act).require("G").expr.subs(V, _variance)
    return RadialMetric(a, 2 * sp.diff(a, s))


def omega(act: Activation) -> Formula:
    """Omega, with e^Omega = sigma^2 G the eigenvalue of the metric across x.

    Returned is a Formula in sigma, zeta, r = |x| and the open parameters of the activation. One whose
    E[phi'^2] diverges is refused with an InputError.

    >>> from analytic import nngp
    >>> from analytic.activations import erf
    >>> nngp.omega(erf).args
    (sigma, zeta, r)
    """
    floats = _ForFloats(act)
    return _formula(act, "omega", sp.log(metric(act).a), floats.log_a, "(C.11)")


def tangential(act: Activation) -> Formula:
    """The eigenvalue of the metric across x, of multiplicity d - 1, a Formula like `omega`.

    >>> from analytic import nngp
    >>> from analytic.activations import relu
    >>> round(nngp.tangential(relu)(sigma=2.0, zeta=0.0, r=1.0), 12)
    2.0
    """
    floats = _ForFloats(act)
    return _formula(act, "tangential", metric(act).a, sigma**2 * floats.G, "(5)")


def radial(act: Activation) -> Formula:
    """The eigenvalue of the metric along x, a Formula like `omega`.

    >>> from analytic import nngp
    >>> from analytic.activations import erf
    >>> f = nngp.radial(erf)
    >>> f(1.0, 0.0, 2.0) < f(1.0, 0.0, 1.0)  # erf saturates
    True
    """
    floats = _ForFloats(act)
    return _formula(act, "radial", _along(act), sigma**2 * floats.G * floats.P, "(5)")


def magnification(act: Activation) -> Formula:
    """The magnification sqrt(det g).

    Returned is a Formula in d, sigma, zeta, r = |x| and the open parameters of the activation. One whose
    E[phi'^2] diverges is refused with an InputError.

    >>> from analytic import nngp
    >>> from analytic.activations import erf
    >>> nngp.magnification(erf)(d=2, sigma=1.0, zeta=0.5, r=[0.0, 1.0, 2.0]).round(4)
    array([0.5198, 0.2228, 0.0821])
    """
    floats = _ForFloats(act)
    textbook = metric(act).a ** ((d - 1) / 2) * sp.sqrt(_along(act))
    stable = volume(sigma**2 * floats.G, floats.log_a, floats.P, d)
    return _formula(act, "magnification", textbook, stable, "(C.13)", dimension=True)


def ricci(act: Activation) -> Formula:
    """The Ricci scalar; the paper prints three times this value, (7).

    Returned is a Formula in the arguments of `magnification`, and what is refused is the same.

    >>> from analytic import nngp
    >>> from analytic.activations import erf
    >>> print(nngp.ricci(erf).evaluate(10, d=2, sigma=1, zeta=0, r=1))
    -3.627598728
    """
    at = _ForFloats(act)
    G = act.require("G")
    textbook = factored(metric(act).scalar_curvature()) if quick(G) else _without_poles(act)
    bracket = (d - 2) * at.eps * at.P + 4 * (at.one_minus_tau * at.eps + at.tau * at.rate_eps)
    stable = -(d - 1) * at.tau * at.eps_over_V / (at.G * at.P**2) * bracket
    if coefficient := sqrt_coefficient(G):
        a = sigma**2 * G.expr.subs(V, 0)
        limit = origin_curvature(a, sp.S.Zero, sigma**3 * coefficient)
        textbook, stable = (
            sp.Piecewise((limit, _no_variance), (f, True)) for f in (textbook, stable)
        )
    return _formula(act, "ricci", textbook, stable, "(7), corrected by 1/3", dimension=True)


def _without_poles(act: Activation) -> sp.Expr:
    """(7) without its division by Omega', which may vanish: GELU's does at V = 10.2133."""
    a, a1, a2 = (sp.diff(metric(act).a, s, k) for k in range(3))
    E = a + 2 * s * a1
    bracket = (d - 2) * a1 * E + 4 * (a * a1 + s * (a * a2 - a1**2))
    return -(d - 1) * s * a1 / (a**2 * E**2) * bracket


def _along(act: Activation) -> sp.Expr:
    """The eigenvalue along x, in a form that has a value at x = 0 and zeta = 0 too."""
    along, G = metric(act).a * _eigenvalue_ratio(act), act.require("G").expr
    vanishes = G.subs(V, 0) == 0 and not algebraic(G)  # G'/G stays 0/0 there
    return sp.Piecewise((0, _no_variance), (along, True)) if vanishes else along


def _eigenvalue_ratio(act: Activation) -> sp.Expr:
    r"""$P = 1 + 2 s \Omega' = 1 + 2\tau\epsilon$, in a form that has a value at x = 0 and zeta = 0 too."""
    G = act.require("G")
    log_slope = sp.diff(G.expr, V) / G.expr
    if log_slope.subs(V, 0).is_finite:
        ratio = 1 + 2 * sigma**2 * s * log_slope.subs(V, _variance)
        return factored(ratio) if algebraic(ratio) else ratio
    eps = factored(V * log_slope) if quick(G) else sp.expand(V * sp.diff(G.expr, V)) / G.expr
    return 1 + 2 * share(sigma**2 * s, zeta**2, 1) * eps.subs(V, _variance)


def _formula(
    act: Activation,
    what: str,
    textbook: sp.Expr,
    stable: sp.Expr,
    citation: str,
    dimension: bool = False,
) -> Formula:
    args = (sigma, zeta, r, *act.parameters)
    at_r = {s: r**2}
    return Formula(
        f"nngp.{act.name}.{what}",
        (d, *args) if dimension else args,
        textbook.subs(at_r),
        act.require("G").domain,
        f"{PAPER}, {citation}",
        stable.subs(at_r),
    )


def _named(formula: Formula, act: Activation, what: str, citation: str) -> Formula:
    return replace(formula, name=f"nngp.{act.name}.{what}", citation=citation)


@dataclass(frozen=True)
class _ForFloats:
    """The parts of the formulas for floats, by the symbols of the module's docstring."""

    act: Activation

    def __post_init__(self) -> None:
        require_activation(self.act)

    @property
    def tau(self) -> sp.Expr:
        return share(sigma**2 * s, zeta**2, 1)

    @property
    def one_minus_tau(self) -> sp.Expr:
        return share(zeta**2, sigma**2 * s, 0)

    @property
    def G(self) -> sp.Expr:
        return self.act.require("G").floating.subs(V, _variance)

    @property
    def _of_G(self) -> LogDerivatives:
        return log_derivatives(self.act.require("G"), self.act.log_derivative)

    @property
    def eps(self) -> sp.Expr:
        return self._of_G.eps.subs(V, _variance)

    @property
    def rate_eps(self) -> sp.Expr:
        return self._of_G.rate.subs(V, _variance)

    @property
    def eps_over_V(self) -> sp.Expr:
        return self._of_G.eps_over_V.subs(V, _variance)

    @property
    def P(self) -> sp.Expr:
        return self.one_minus_tau + self.tau * self._of_G.one_plus_2_eps.subs(V, _variance)

    @property
    def log_a(self) -> sp.Expr:
        """log(sigma^2 G) factor by factor: no power of V overflows, and no digit is lost near 0."""
        log_G = log_of_product(self.act.require("G").floating)
        numbers = [part for part in sp.Add.make_args(log_G) if part.is_number]
        power = log_G.coeff(sp.log(V))
        other = log_G - sp.Add(*numbers) - power * sp.log(V)
        constant = sp.log(sigma**2 * sp.exp(sp.Add(*numbers)))
        power_of_V = log_variance(power, sigma, r, zeta) if power != 0 else sp.S.Zero
        return constant + other.subs(V, _variance) + power_of_V

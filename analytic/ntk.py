r"""Geometry of the shallow NTK $\Theta = E[\phi\phi] + \xi^2 E[\phi'\phi'](1 + x\cdot y)$ (appendix D).

Its metric is $a I + b\,xx^T$ with $a = \Psi = (\sigma^2+\xi^2)G + \sigma^2\xi^2 G_2 (1+s)$ and
$b = 2(\Psi' - c)$, $c = \sigma^2\xi^2 G_2$. For floats, let w = w_1, w_2 be the shares of the two
terms of a, P_1 and P_2 their stretches along x, $u = s/(1+s)$, $\tau = \sigma^2 s/V$, and
$\kappa$ the rate at which the second outgrows the first. Then nothing large cancels in

$$\alpha = \tau\epsilon_G + w_2\kappa,\quad \gamma = w_2 u,\quad P = w_1P_1 + w_2P_2,$$
$$R = -\frac{d-1}{saP}\Big[(d-2)(2\gamma+\alpha^2) + 4\theta\gamma
      + \frac{2(\alpha-2\gamma)\,\theta P}{P}\Big], \qquad \theta = s\,\frac{d}{ds}.$$
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy as sp

from analytic.activation import Activation
from analytic.domain import InputError
from analytic.elasticity import Elasticities, algebraic, elasticities, factored, quick
from analytic.expectation import one_sided
from analytic.formula import Formula
from analytic.radial import RadialMetric
from analytic.special import off_origin, share, volume
from analytic.symbols import V, d, kxx, kxy, kyy, r, s, sigma, xi, xy, zeta

PAPER = "Zavatone-Veth et al."
_variance = sigma**2 * s + zeta**2
_sum, _product = sigma**2 + xi**2, sigma**2 * xi**2
_s = off_origin(s)  # the float face divides by it
_inner = sigma**2 * _s + zeta**2


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
    g, face = metric(act), _Face(act)
    at_zero, _ = _at_origin(act)
    textbook = _with_origin(act, at_zero ** (d / 2), g.a ** ((d - 1) / 2) * sp.sqrt(g.along))
    stable = volume(face.a, sp.log(face.a), face.P if _bends(act) else sp.S.One, d)
    return _formula(act, "magnification", textbook, stable, "from (D.18) to (D.20)")


def ricci(act: Activation) -> Formula:
    """The Ricci scalar, which the paper calls not easy to compute."""
    curvature = metric(act).scalar_curvature()
    textbook = factored(curvature) if _simple(act) else curvature
    textbook = _with_origin(act, origin(act).expr, textbook)
    stable = _Face(act).ricci if _bends(act) else sp.S.Zero
    return _formula(act, "ricci", textbook, stable, "beyond appendix D")


def origin(act: Activation) -> Formula:
    r"""$R(0) = -2d(d-1)c/a^2$: the NTK metric is curved where the NNGP metric is flat."""
    textbook, floats = (
        -2 * d * (d - 1) * c / a**2
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


def _with_origin(act: Activation, origin: sp.Expr, elsewhere: sp.Expr) -> sp.Expr:
    """Where the degree is open, a power of V has no derivative at V = 0, and x = 0 is a case apart."""
    open_degree = any(p.name == "q" for p in act.parameters)
    return sp.Piecewise((origin, sp.Eq(s, 0)), (elsewhere, True)) if open_degree else elsewhere


def bent(act: Activation) -> Formula:
    """E[phi''^2], which the metric rests on; refused where phi' jumps and it is infinite."""
    reason = dict(act.absent).get("G2")
    if reason is None and not act.parameters:
        slope = act.derivative()
        for b in act.kinks:
            if one_sided(slope, b, act.kinks, 1) != one_sided(slope, b, act.kinks, -1):
                reason = f"phi' jumps at {b}, so E[phi''^2] diverges"
    if reason is not None:
        raise InputError(
            f"The NTK metric of {act.name} does not exist: {reason}. Take a smoother activation, "
            "or the NNGP metric."
        )
    why = "else E[phi''^2] diverges and there is no NTK metric"
    return replace(act.G2, domain=replace(act.G2.domain, why=why))


def _bends(act: Activation) -> bool:
    """A line does not: its metric is constant, and the rates of E[phi''^2] = 0 are 0/0."""
    return act.G2.expr != 0


def _simple(act: Activation) -> bool:
    """Whether `factor` is quick: the two moments are powers of V, and the degree is a number."""
    return quick(act.G) and quick(act.G2) and not act.parameters and act.G.expr.is_polynomial(V)


def _formula(
    act: Activation, what: str, textbook: sp.Expr, stable: sp.Expr, source: str
) -> Formula:
    at_r = {s: r**2}
    return Formula(
        f"ntk.{act.name}.{what}",
        (d, sigma, zeta, xi, r, *act.parameters),
        textbook.subs(at_r),
        bent(act).domain,
        f"{PAPER}, {source}",
        stable.subs(at_r),
    )


@dataclass(frozen=True)
class _Face:
    """The ingredients of the float face, named as in the opening docstring."""

    act: Activation

    @property
    def tau(self) -> sp.Expr:
        return share(sigma**2 * _s, zeta**2, 1)

    @property
    def rest(self) -> sp.Expr:
        """1 - tau."""
        return share(zeta**2, sigma**2 * _s, 0)

    @property
    def terms(self) -> tuple[sp.Expr, sp.Expr]:
        """The two terms of a."""
        G, G2 = (f.floating.subs(V, _inner) for f in (self.act.G, self.act.G2))
        return _sum * G, _product * G2 * (1 + _s)

    @property
    def a(self) -> sp.Expr:
        return sp.Add(*self.terms)

    @property
    def shares(self) -> tuple[sp.Expr, sp.Expr]:
        first, second = self.terms
        return share(first, second, 1), share(second, first, 0)

    @property
    def rates(self) -> tuple[Elasticities, Elasticities]:
        """Of G and of G2."""
        return elasticities(self.act.G, self.act.elasticity), elasticities(self.act.G2)

    @property
    def stretches(self) -> tuple[sp.Expr, sp.Expr]:
        return tuple(self.rest + self.tau * e.stretch.subs(V, _inner) for e in self.rates)

    @property
    def P(self) -> sp.Expr:
        return sum(w * P for w, P in zip(self.shares, self.stretches, strict=True))

    def _moved(self, first: sp.Expr, second: sp.Expr) -> sp.Expr:
        r"""$\theta(\tau\epsilon)$ for elasticities of V."""
        first, second = first.subs(V, _inner), second.subs(V, _inner)
        return self.tau * (self.rest * first + self.tau * second)

    @property
    def ricci(self) -> sp.Expr:
        (w1, w2), (of_G, of_G2), tau, u = self.shares, self.rates, self.tau, _s / (1 + _s)
        psi = 1 + of_G2.first - of_G.first  # the elasticity of V G2/G
        psi = (factored(psi) if algebraic(psi) else psi).subs(V, _inner)
        split = tau * (zeta**2 - sigma**2) / (sigma**2 * (1 + _s))  # u - tau
        kappa = tau * psi + split
        alpha, gamma = tau * of_G.first.subs(V, _inner) + w2 * kappa, w2 * u
        gamma_rate = gamma * (w1 * (self.rest + tau * psi) + w2 / (1 + _s))
        P_rate = 2 * w1 * self._moved(of_G.first, of_G.second)
        P_rate += 2 * w2 * self._moved(of_G2.first, of_G2.second)
        P_rate += 2 * w1 * w2 * kappa * tau * (psi - 1)
        bracket = (d - 2) * (2 * gamma + alpha**2) + 4 * gamma_rate
        bracket += 2 * (alpha - 2 * gamma) * P_rate / self.P
        return -(d - 1) * bracket / (_s * self.a * self.P)

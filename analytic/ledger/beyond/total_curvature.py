r"""Total curvature of the two-dimensional NNGP metric by Gauss-Bonnet, and where its sign changes.

As a surface of revolution, it has at the coordinate radius r the circumference $2\pi\rho$ with
$\rho = \sqrt{as}$, and $d\rho/d(\text{arc length}) = (1+s\Omega')/\sqrt{1+2s\Omega'}$, which is 1 at a
smooth origin.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.activations import ACTIVATIONS, gaussian, gelu, monomial
from analytic.activations.activation import Activation
from analytic.checks.claims import Claim, Point
from analytic.checks.oracles import MetricJet, nngp_metric_oracle, omega_jet, point_at_radius
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import V, d, q, r, s, sigma, w, zeta
from analytic.geometry import nngp
from analytic.ledger.verification import Verification, holds, real_symbols

__all__ = ["ROUTES"]

SETTINGS: tuple[Point, ...] = (
    {"sigma": "0.8", "zeta": "0.6", "r": "1.7"},
    {"sigma": "1.1", "zeta": "0.3", "r": "0.9"},
)


def _density(act: Activation) -> Callable[[Any, Any, Any], Any]:
    """R/2 times the area element per radius; `nngp.ricci` and `nngp.magnification` have their own claims."""
    curvature, volume = nngp.ricci(act).mpmath, nngp.magnification(act).mpmath

    def density(r: Any, sigma: Any, zeta: Any) -> Any:
        at = {"d": 2, "sigma": sigma, "zeta": zeta, "r": r}
        return mp.pi * r * curvature(**at) * volume(**at)

    return density


def _disc(act: Activation) -> Claim:
    """The total curvature inside the circle of radius r."""
    G = act.require("G").expr.subs(V, sigma**2 * s + zeta**2)
    log_derivative = s * sp.diff(sp.log(G), s)
    total = 2 * sp.pi * (1 - (1 + log_derivative) / sp.sqrt(1 + 2 * log_derivative))
    name = f"total curvature of a disc, {act.name}"
    formula, density = Formula(name, (sigma, zeta, r), total.subs(s, r**2)), _density(act)

    def oracle(sigma: Any, zeta: Any, r: Any) -> Any:
        return mp.quad(lambda at: density(at, sigma, zeta), [0, r / 4, r / 2, r])

    return Claim(formula, "integral of the curvature", oracle, SETTINGS)


def _plane() -> Claim:
    """The total curvature of the whole plane for monomials; it does not depend on sigma and zeta."""
    formula = Formula(
        "total curvature of monomials", (q, sigma, zeta), 2 * sp.pi * (1 - q / sp.sqrt(2 * q - 1))
    )

    def oracle(q: Any, sigma: Any, zeta: Any) -> Any:
        density, unit = _density(monomial(int(q))), zeta / sigma

        def over_angle(angle: Any) -> Any:
            return density(unit * mp.tan(angle), sigma, zeta) * unit / mp.cos(angle) ** 2

        return mp.quad(over_angle, [0, mp.pi / 4, mp.pi / 2])

    points = tuple({"q": k, "sigma": "0.8", "zeta": "0.6"} for k in (2, 3))
    return Claim(formula, "integral of the curvature", oracle, points)


def _planar_curvature() -> Claim:
    """R in d = 2, factored so that its sign can be read off."""
    jets = real_symbols("o0 o1 o2")
    o0, o1, o2 = jets
    expr = -4 * sp.exp(-o0) * s * o1 * (o1 + s * o2) / (1 + 2 * s * o1) ** 2
    formula = Formula("R of a plane", (r, *jets), expr.subs(s, r**2))

    def textbook(r: Any, o0: Any, o1: Any, o2: Any) -> Any:
        return omega_jet(point_at_radius(r, 2), (o0, o1, o2, mpf(3) / 7)).scalar()

    shapes = ({"o1": "0.4", "o2": "0.3"}, {"o1": "0.4", "o2": "-0.9"}, {"o1": "-0.1", "o2": "0.2"})
    points = tuple({"r": "1.3", "o0": "0.2", **shape} for shape in shapes)
    return Claim(formula, "textbook curvature", textbook, points)


def _sign_change_radius(
    name: str, act: Activation, variance: sp.Expr, near: Any, points: tuple[Point, ...]
) -> Claim:
    """The radius at which R changes sign, stated by the preactivation variance sigma^2 r^2 + zeta^2 there."""
    formula = Formula(name, (sigma, zeta, *act.parameters), sp.sqrt(variance - zeta**2) / sigma)
    curvature = nngp_metric_oracle(act, MetricJet.scalar)

    def oracle(sigma: Any, zeta: Any, **parameters: Any) -> Any:
        def at(r: Any) -> Any:
            return curvature(d=2, sigma=sigma, zeta=zeta, r=r, **parameters)

        guess = near(sigma, zeta, *parameters.values())
        return mp.findroot(at, (guess * mpf("0.9"), guess * mpf("1.1")), solver="anderson")

    return Claim(formula, "root of textbook curvature", oracle, points)


def _sine() -> Claim:
    """R of sine is negative inside this radius and positive outside."""
    outer = 1 + sp.LambertW(sp.exp(-1 - 2 * w**2 * zeta**2))
    variance = zeta**2 + outer / (2 * w**2)
    points = ({"sigma": "0.8", "zeta": "0.6", "w": "1.3"},)
    return _sign_change_radius(
        "turning radius, sine", ACTIVATIONS["sine"], variance, lambda a, b, w: 0.8 / (a * w), points
    )


def _gaussian() -> tuple[Claim, Claim]:
    """R of the Gaussian activation is positive in a ring, which exists for zeta < 1 only."""
    inner = zeta / (sp.sqrt(3 * (1 + 2 * zeta**2)) - 2 * zeta)
    points = ({"sigma": "0.8", "zeta": "0.6"},)

    def start(sigma: Any, zeta: Any) -> Any:
        return mp.sqrt(zeta * (1 - zeta) / 2) / sigma

    def end(sigma: Any, zeta: Any) -> Any:
        return mp.sqrt(1 - zeta**2) / sigma

    return (
        _sign_change_radius("inner radius of the ring", gaussian, inner, start, points),
        _sign_change_radius("outer radius of the ring", gaussian, sp.S.One, end, points),
    )


def _minima() -> Claim:
    """The number of extrema of R as a function of the radius, for monomials."""
    formula = Formula("stationary radii of R, monomials", (d, q, zeta), sp.S.One)

    def oracle(d: Any, q: Any, zeta: Any) -> Any:
        """Changes of sign of the differences of textbook curvature, on a grid from 1e-2 to 1e2."""
        curvature = nngp_metric_oracle(monomial(int(q)), MetricJet.scalar)
        with mp.workdps(15):
            radii = [zeta * mpf(10) ** (mpf(k) / 5) for k in range(-10, 11)]
            values = [curvature(d=d, sigma=mpf(1), zeta=zeta, r=r) for r in radii]
        steps = [mp.sign(b - a) for a, b in pairwise(values)]
        return sum(a != b for a, b in pairwise(steps))

    points = tuple({"d": d, "q": q, "zeta": "0.7"} for d, q in ((2, 2),))
    return Claim(formula, "changes of sign along a ray", oracle, points)


def _one_positive_root() -> Claim:
    """The number of positive roots of dR/dt at zeta = 1; other zeta only rescale t."""
    formula = Formula("positive roots of dR/dt, monomials", (d, q), sp.S.One)
    t = sp.Symbol("t", positive=True)

    def oracle(**values: Any) -> Any:
        size, degree = int(values["d"]), int(values["q"])
        R = nngp.ricci(monomial(degree)).expr.subs({d: size, sigma: 1, zeta: 1, r: sp.sqrt(t)})
        numerator = sp.fraction(sp.cancel(sp.diff(sp.cancel(R), t)))[0]
        return sp.Poly(numerator, t).count_roots(0, sp.oo)

    points = tuple({"d": d, "q": q} for d in (2, 3, 11, 40) for q in (2, 3, 7))
    return Claim(formula, "Sturm's theorem", oracle, points)


ROUTES: dict[str, Verification] = {
    "beyond/gauss-bonnet": holds(_disc(gelu), _disc(gaussian)),
    "beyond/total-monomial": holds(_plane()),
    "beyond/planar-sign": holds(_planar_curvature(), _sine(), *_gaussian()),
    "beyond/monomial-minimum": holds(_minima(), _one_positive_root()),
}

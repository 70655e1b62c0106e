"""Volume elements of networks that have learnt one datum, (E.15) to (E.41)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.checks.claims import Claim, Point
from analytic.expressions.formula import Formula
from analytic.expressions.symbols import d, q, r, ratio, rho, s
from analytic.ledger.curvature.radial import ROUTES as RADIAL
from analytic.ledger.verification import Verification, dot, holds, real_symbols
from analytic.perturbation import chi, fluctuation, linear
from analytic.perturbation.polynomials import PolynomialNetwork, monomial_network, volume

__all__ = ["ROUTES"]

Average = Callable[[PolynomialNetwork], Any]


def _cubic(d: Any = 2) -> PolynomialNetwork:
    """No symmetry: phi is neither odd nor even, and no input lies on an axis."""
    parts = (("0.3", "1", "0.5", "-0.2"), ("0.6", "-0.9")[: int(d)], ("0.8", "0.5")[: int(d)])
    return PolynomialNetwork(*([mpf(c) for c in part] for part in parts))


def _monomial(d: Any, q: Any, rho: Any = "0.6", r: Any = "1.3") -> PolynomialNetwork:
    """Inputs of lengths r and 1."""
    across = [mp.sqrt(1 - mpf(rho) ** 2), *[mpf(0)] * (int(d) - 2)][: int(d) - 1]
    return monomial_network(int(q), [mpf(r), *(0 * c for c in across)], [mpf(rho), *across])


def _evaluated(make_network: Callable[[], PolynomialNetwork], values: dict[str, Average]) -> Point:
    """The values of some averages of a network, with digits to spare."""
    with mp.workdps(60):
        network = make_network()
        return {name: average(network) for name, average in values.items()}


# (E.15), (E.16) and (E.38) as coefficients of 1/n, corrected by kappa.

_square, _chi, _level = sp.symbols("square chi level", positive=True)
_datum = mpf("1.7")  # a ratio, for what does not depend on it


def _posterior_shift(net: PolynomialNetwork, ratio: Any) -> Any:
    return net.first_order(ratio, volume) / volume(net.average[1])


def _jensen_gap(d: Any, square: Any) -> Any:
    """The coefficient of 1/n in the mean volume minus the volume of the mean metric."""
    net = _cubic()
    inverse = net.average[1] ** -1
    mean = mp.fsum(
        inverse[i, j] * net.first_order(_datum, lambda g, i=i, j=j: g[i, j])
        for i, j in product(range(2), repeat=2)
    )
    return _posterior_shift(net, _datum) - mean / 2


_extrapolated = partial(linear.coefficient, start=64, terms=14, digits=60)


def _linear_jensen_gap(d: Any, square: Any) -> Any:
    """The same of a linear network, whose mean metric differs from the unit matrix along x_a only."""
    posterior = partial(linear.posterior_volume, d=int(d), t=_datum)
    return _extrapolated(lambda n: 1 + posterior(n) - mp.sqrt(linear.posterior_moment(n, _datum)))


def _linear_posterior_shift(d: Any, ratio: Any, **rest: Any) -> Any:
    return _extrapolated(partial(linear.posterior_volume, d=int(d), t=ratio))


def _erratum(
    name: str, args: Any, printed: Any, kappa: Any, *routes: tuple[Any, Any]
) -> Verification:
    """Two oracles for the coefficient including kappa, which the printed form lacks."""
    true = Formula(name, args, printed + kappa)
    ways = ("second variation", "exact linear posterior")
    claims = (Claim(true, way, *route) for way, route in zip(ways, routes, strict=True))
    return Verification(tuple(claims), replace(true, name=f"{name} as printed", expr=printed))


_general = _evaluated(_cubic, {"chi": PolynomialNetwork.chi, "square": PolynomialNetwork.square})
_kappa, _data = -_square / 8 - d**2 / 8 + d / 4, (ratio - 1) * (_chi - d) / 4
_errata = {
    "curvature/E.15": _erratum(
        "(E.15)", (d, _square), sp.S.Zero, _kappa,
        (_jensen_gap, ({"d": 2, "square": _general["square"]},)),
        (_linear_jensen_gap, tuple({"d": k, "square": k**2 + 2 * k} for k in (1, 4))),
    ),
    "curvature/E.16": _erratum(
        "(E.16)", (d, ratio, _chi, _square), _data, _kappa,
        (lambda d, ratio, chi, square: _posterior_shift(_cubic(), ratio),
         tuple({"d": 2, "ratio": t, **_general} for t in ("0.4", "2.5"))),
        (_linear_posterior_shift, ({"d": 3, "ratio": "2.5", "chi": 5, "square": 15},)),
    ),
    "curvature/E.38": _erratum(
        "(E.38)", (d, q, rho, ratio), (ratio - 1) * (chi.expr - d) / 4, fluctuation.expr,
        (lambda d, q, rho, ratio: _posterior_shift(_monomial(d, q, rho), ratio),
         ({"d": 2, "q": 2, "rho": "0.6", "ratio": "0.3"},
          {"d": 2, "q": 3, "rho": "-0.35", "ratio": "1.9"},
          {"d": 1, "q": 4, "rho": 1, "ratio": "2.2"})),
        (_linear_posterior_shift, ({"d": 2, "q": 1, "rho": "0.6", "ratio": "0.3"},)),
    ),
}  # fmt: skip


def _mean(body: Callable[..., Any]) -> Average:
    """E[body(phi, w, z_a, z)] where phi(z, k) is the k-th derivative."""
    return lambda net: net.mean(partial(body, net.at))


def _degree(net: PolynomialNetwork) -> int:
    return len(net.phi) - 1


def _powers(shift: int) -> Average:
    """E[z_a^(2q) z^(2q+shift)]."""
    return lambda net: net.mean(
        lambda w, z_a, z: z_a ** (2 * _degree(net)) * z ** (2 * _degree(net) + shift)
    )


_kernel_slope = _mean(lambda phi, w, z_a, z: phi(z_a) ** 2 * phi(z, 1) ** 2)
_length = _mean(lambda phi, w, z_a, z: phi(z_a) ** 2 * phi(z, 1) ** 2 * dot(w, w))
_along = _mean(lambda phi, w, z_a, z: phi(z_a) ** 2 * phi(z, 1) ** 2 * z**2)
_at_datum = _mean(lambda phi, w, z_a, z: phi(z_a) * phi(z_a, 1) * z_a * phi(z, 1) ** 2)
_at_input = _mean(lambda phi, w, z_a, z: phi(z_a) ** 2 * phi(z, 1) * phi(z, 2) * z)
_slope = _mean(lambda phi, w, z_a, z: phi(z, 1) ** 2)
_slope_rate = _mean(lambda phi, w, z_a, z: phi(z, 2) ** 2 + phi(z, 1) * phi(z, 3))
_kernel = _mean(lambda phi, w, z_a, z: phi(z) ** 2)


def _identity(
    name: str,
    args: Any,
    expr: Any,
    average: Average,
    make_network: Any,
    *at: Point,
    **averages: Average,
) -> Verification:
    """A claim whose left-hand side is `average`; the right-hand side is `expr` with values of `averages`."""

    def network(**values: Any) -> PolynomialNetwork:
        return make_network(**{k: v for k, v in values.items() if k not in averages})

    points = tuple({**one, **_evaluated(partial(network, **one), averages)} for one in at)
    formula = Formula(name, args, sp.sympify(expr))
    return holds(Claim(formula, "average over weights", lambda **v: average(network(**v)), points))


def _combined(*parts: Verification) -> Verification:
    return holds(*(claim for one in parts for claim in one.claims))


def _output(net: PolynomialNetwork) -> Any:
    """E[f^2] of two units over every sign of their readout, which average as Gaussian weights do."""
    alone, signs = net.mean(lambda w, z_a, z: net.at(z)), product((1, -1), repeat=2)
    pairs = [(v[i] * v[j], i == j) for v in signs for i, j in product(range(2), repeat=2)]
    return mp.fsum(sign * (_kernel(net) if same else alone**2) for sign, same in pairs) / 8


def _odd(k: sp.Expr) -> sp.Expr:
    """(2k-1)!!"""
    return 2**k * sp.gamma(k + sp.S.Half) / sp.sqrt(sp.pi)


_first, _second, _third, _omega, _rate, _y = real_symbols("first second third Omega rate y")
_norm, _in_d = _odd(q) ** 2, d + 2 * (2 * q - 1)
_flat, _line = partial(_monomial, 2), partial(_monomial, 1, rho=1)
_degrees, _shapes = ({"q": 2}, {"q": 4}), ({"d": 2, "q": 3}, {"d": 3, "q": 2})
_lengths = ({"r": "1.3", "q": 1}, {"r": "0.7", "q": 4})
_pairs = ({"q": 1, "rho": "0.3"}, {"q": 4, "rho": "-0.7"}, {"q": 3, "rho": 1})
_overlaps = ({"d": 2, "rho": "0.3"}, {"d": 3, "rho": "-0.8"})
_fourth = sp.Rational(4, 3) * rho**4
_quadratic = _identity(
    "(E.35)", (d, rho), 4 * (-_fourth + (d + 2) * rho**2 + 1),
    lambda net: net.chi() - len(net.x), partial(_monomial, q=2), *_overlaps,
)  # fmt: skip
_plus = Formula("(E.35) with plus", (d, rho), 4 * (_fourth + (d + 2) * rho**2 + 1))

ROUTES: dict[str, Verification] = _errata | {
    "curvature/E.18": RADIAL["curvature/C.14"],  # the same statement
    "curvature/E.20": _identity(
        "(E.20)", (_omega, _rate, s, _level, _first, _second),
        sp.exp(-_omega) / _level * (_first - 2 * _rate / (1 + 2 * s * _rate) * _second),
        PolynomialNetwork.chi, _cubic, {}, first=_length, second=_along, level=lambda net: net.average[0],
        s=lambda net: dot(net.x, net.x), Omega=lambda net: mp.log(_slope(net)),
        rate=lambda net: _slope_rate(net) / _slope(net),  # by Price's theorem
    ),
    "curvature/E.21": _identity(
        "(E.21)", (d, _first, _second, _third), d * _first + 2 * (_second + _third),
        _length, _cubic, {"d": 1}, {"d": 2}, first=_kernel_slope, second=_at_datum, third=_at_input,
    ),
    "curvature/E.22": _identity(
        "(E.22)", (r, q), q**2 / (2 * q - 1) * r ** (2 * (q - 1)), _slope, _line, *_lengths
    ),
    "curvature/E.23": _identity(
        "(E.23)", (q, _first), q * _first, _at_datum, _flat, *_degrees, first=_kernel_slope
    ),
    "curvature/E.24": _identity(
        "(E.24)", (q, _first), (q - 1) * _first, _at_input, _flat, *_degrees, first=_kernel_slope
    ),
    "curvature/E.25-E.26": _combined(
        _identity("(E.25)", (d, q, _first), _in_d * _first,
                  _length, _monomial, *_shapes, first=_kernel_slope),
        _identity("(E.26)", (d, q, _first), q**2 / _norm * _in_d * _first,
                  _length, _monomial, *_shapes, first=_powers(-2)),
    ),
    "curvature/E.27": _identity(
        "(E.27)", (q, _first), q**2 / _norm * _first, _along, _flat, *_degrees, first=_powers(0)
    ),
    "curvature/E.28": _identity(
        "(E.28)", (d, q, _first, _second),
        (2 * q - 1) / _norm * _in_d * _first - 2 * (q - 1) / _norm * _second,
        PolynomialNetwork.chi, partial(_monomial, r=1), *_shapes, first=_powers(-2), second=_powers(0),
    ),
    "curvature/E.31": _identity(
        "(E.31)", (q, rho), sp.hyper((-q, -q), (sp.S.Half,), rho**2),
        lambda net: _powers(0)(net) * net.phi[-1] ** 4, partial(_flat, r=1), *_pairs,
    ),
    "curvature/E.32": _identity(
        "(E.32)", (q, rho), sp.hyper((1 - q, -q), (sp.S.Half,), rho**2),
        lambda net: (2 * _degree(net) - 1) * _powers(-2)(net) * net.phi[-1] ** 4,
        partial(_flat, r=1), *_pairs,
    ),
    "curvature/E.33": _identity(
        "(E.33)", (d, q, rho), chi.expr, PolynomialNetwork.chi, _monomial,
        {"d": 2, "q": 4, "rho": "-0.3"}, {"d": 3, "q": 2, "rho": "0.9"}, {"d": 1, "q": 3, "rho": 1},
    ),
    "curvature/E.34": _identity(
        "(E.34)", (d, rho), 2, lambda net: net.chi() - len(net.x), partial(_monomial, q=1), *_overlaps
    ),
    "curvature/E.35": replace(_quadratic, printed=_plus),  # a sign that the text allows
    "curvature/E.36": _identity(
        "(E.36)", (d, q), d + 2 * q, PolynomialNetwork.chi, partial(_monomial, rho=0), *_shapes
    ),
    "curvature/E.37": _identity(
        "(E.37)", (d, q), _odd(2 * q - 1) / _norm * ((2 * q - 1) * d + 2 * q),
        PolynomialNetwork.chi, partial(_monomial, rho=1), *_shapes, {"d": 1, "q": 6},
    ),
    "curvature/E.39": holds(Claim(
        Formula("(E.39)", (_y, r), _y**2 / r**2 - 1), "error of a linear network",
        lambda y, r: _extrapolated(lambda n: linear.posterior_spread(n, (y / r) ** 2)),
        ({"y": "1.3", "r": "0.8"}, {"y": "0.5", "r": "0.9"}),
    )),
    "curvature/E.40-E.41": _combined(
        _identity("(E.40)", (_level,), _level, _output, _cubic, {}, level=_kernel),
        _identity("(E.41)", (r, q), r ** (2 * q), _kernel, _line, *_lengths),
    ),
}  # fmt: skip

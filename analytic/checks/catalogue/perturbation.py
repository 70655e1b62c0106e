"""Claims about every perturbation.* formula, by the averages over weights that define it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from mpmath import mp

from analytic.checks.claims import Claim
from analytic.checks.oracles import point_at_radius
from analytic.perturbation import chi, fluctuation, magnification
from analytic.perturbation.factors import derived_chi, derived_fluctuation
from analytic.perturbation.polynomials import PolynomialNetwork, monomial_network, volume

__all__ = ["CLAIMS"]


def _network(d: Any, q: Any, rho: Any) -> PolynomialNetwork:
    """A monomial network at x and x_a of different lengths, in general position."""
    x = point_at_radius(mp.mpf("1.3"), int(d))
    if d == 1:
        return monomial_network(int(q), x, [rho * mp.mpf("0.7")])
    across = [-x[1], x[0], *x[2:]]
    along = mp.fdot(across, x) / mp.fdot(x, x)
    across = [c - along * e for c, e in zip(across, x, strict=True)]
    turn = mp.sqrt((1 - rho**2) * mp.fdot(x, x) / mp.fdot(across, across))
    x_a = [mp.mpf("0.7") * (rho * e + turn * c) for c, e in zip(across, x, strict=True)]
    return monomial_network(int(q), x, x_a)


def _chi(d: Any, q: Any, rho: Any) -> Any:
    return _network(d, q, rho).chi()


def _fluctuation(d: Any, q: Any) -> Any:
    """Half the second variation of the volume, averaged over the weights of a unit, over the volume."""
    net = _network(d, q, mp.mpf(1))
    _, metric = net.average

    def along(*unit: Any) -> Any:
        step = net.unit_terms(*unit)[1] - metric
        return mp.diff(lambda e: volume(metric + e * step), 0, 2) / 2

    return net.mean(along) / volume(metric)


def _magnification(d: Any, q: Any, rho: Any, ratio: Any, n: Any) -> Any:
    net = _network(d, q, rho)
    return 1 + net.first_order(ratio, volume) / volume(net.average[1]) / n


def _isserlis(expr: Callable[[int], Any], q: Any, **values: Any) -> Any:
    derived = expr(int(q))
    point = {symbol: values[symbol.name] for symbol in derived.free_symbols}
    return mp.mpmathify(derived.subs(point).evalf(mp.dps))


POINTS = (
    {"d": 1, "q": 4, "rho": -1},
    {"d": 2, "q": 1, "rho": "0.3"},
    {"d": 2, "q": 3, "rho": "-0.85"},
    {"d": 3, "q": 2, "rho": "0.6"},
    {"d": 2, "q": 5, "rho": 0},
)
LARGE = ({"d": 1000, "q": 2, "rho": "0.001"}, {"d": 7, "q": 6, "rho": "-0.5"})
SHAPES = tuple({"d": point["d"], "q": point["q"]} for point in POINTS[:4])
WIDE = tuple({"d": point["d"], "q": point["q"]} for point in LARGE)
LEARNT = tuple(
    {**point, "ratio": ratio, "n": 50}
    for point, ratio in zip(POINTS[:4], ("0.4", "2.5", 0, 1), strict=True)
)


def _claims() -> Iterator[Claim]:
    yield Claim(chi, "average over weights", _chi, POINTS)
    yield Claim(chi, "Isserlis", partial(_isserlis, derived_chi), LARGE)
    yield Claim(fluctuation, "second variation of the volume", _fluctuation, SHAPES)
    yield Claim(fluctuation, "Isserlis", partial(_isserlis, derived_fluctuation), WIDE)
    yield Claim(magnification, "second variation of the posterior", _magnification, LEARNT)


CLAIMS = {"perturbation": _claims}

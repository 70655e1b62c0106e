"""Gaussian expectations at mpmath's working precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

from mpmath import mp, mpf

from analytic.expressions.arguments import InputError, Number
from analytic.expressions.quadrature.rules import half_line, radius, segment

__all__ = ["moment", "pair", "require_converged"]

Function = Callable[[Any], Any]

CLOSE = mpf(
    "0.95"
)  # for a larger correlation, integrating v given u is cheaper than a finer lattice


def moment(f: Function, V: Number, power: int = 0, kinks: Sequence[float | mpf] = ()) -> Any:
    r"""$E[t^k f(\sqrt V t)]$ for standard normal t and k = `power`; f may have kinks, all listed."""
    dps = mp.dps
    with mp.workdps(dps + 10):
        scale = mp.sqrt(V)

        def density(t: Any) -> Any:
            return t**power * f(scale * t) * _normal(t, mp.prec)

        def on_grids() -> Any | None:
            return _refined(partial(_trapezoid, density), _reach(density, dps), dps)

        def from_cuts() -> Any:
            far = mp.sqrt(2 * (dps + 5) * mp.log(10)) + 1  # where the density is negligible
            near = [mp.mpmathify(b) / scale for b in kinks if abs(b) < far * scale]
            spread = int(max(0, mp.log10(scale or 1))) + 1
            return _from_cuts(density, sorted({mpf(0), *near}), dps, spread)

        if kinks:
            total = from_cuts()
        elif scale < 12:
            total = on_grids()
            total = from_cuts() if total is None else total
        else:  # uniform grids may step over a feature of unit size, but follow an oscillation
            try:
                total = from_cuts()
            except ArithmeticError:
                if (total := on_grids()) is None:
                    raise
    return +total


def pair(
    f: Function,
    g: Function,
    kxx: Number,
    kxy: Number,
    kyy: Number,
    kinks: Sequence[float | mpf] = (),
) -> Any:
    r"""$E[f(u) g(v)]$ of a Gaussian pair with this covariance; a kink may lie at zero only."""
    if any(kinks):
        raise InputError(
            f"A two-point expectation can have a kink at 0 only, but kinks {tuple(kinks)} were given: "
            "smooth the activation, or shift its kink to 0."
        )
    dps = mp.dps
    with mp.workdps(dps + 10):
        kxx, kxy, kyy = (mp.mpmathify(k) for k in (kxx, kxy, kyy))
        su, sv = mp.sqrt(kxx), mp.sqrt(kyy)
        rho = kxy / (su * sv) if su and sv else mpf(0)
        rule = _on_lattice if abs(rho) < CLOSE else _along_one
        grid = partial(rule, f, g, su, sv, rho)
        aligned = _reach(lambda t: f(su * t) * g(sv * t) * mp.npdf(t), dps)
        total = None if kinks else _refined(grid, aligned, dps)
        if total is None:
            angle = mp.atan2(mp.sqrt(max(kxx * kyy - kxy**2, mpf(0))), kxy)
            total = _in_sectors(f, g, su, sv, angle, dps)
    return +total


def _on_lattice(
    f: Function, g: Function, su: Any, sv: Any, rho: Any, reach: Any, per_unit: int
) -> tuple[Any, Any]:
    r"""The trapezoidal rule in $u/s_u$ and $v/s_v$, with one value of f and of g for each line.

    The density at (i h, j h) is $a_i\,a_j\,e^{ij}$ up to a constant, so that a row is a polynomial in $e^i$.
    """
    n, step, det = int(reach * per_unit), mpf(1) / per_unit, 1 - rho**2
    nodes = [step * k for k in range(-n, n + 1)]
    factors = [mp.exp(-(t**2) / (2 * det)) for t in nodes]
    column = [a * g(sv * t) for a, t in zip(factors, nodes, strict=True)][::-1]
    e, terms = mp.exp(rho * step**2 / det), []
    for i, (a, t) in enumerate(zip(factors, nodes, strict=True), -n):
        power, row = e**i, mpf(0)
        for value in column:
            row = row * power + value
        terms.append(a * f(su * t) * row * power**-n)
    scale = step**2 / (2 * mp.pi * mp.sqrt(det))
    return scale * mp.fsum(terms), scale * mp.fsum(terms, absolute=True)


def _along_one(
    f: Function, g: Function, su: Any, sv: Any, rho: Any, reach: Any, per_unit: int
) -> tuple[Any, Any]:
    """The trapezoidal rule in u, and in v given u: for any correlation, but with n^2 values of g."""
    n, across = int(reach * per_unit), sv * mp.sqrt(max(1 - rho**2, mpf(0)))
    nodes = [mpf(k) / per_unit for k in range(-n, n + 1)]
    weights = [mp.npdf(t) / per_unit for t in nodes]
    terms = [
        p * f(su * t) * mp.fdot(weights, [g(sv * rho * t + across * y) for y in nodes])
        for t, p in zip(nodes, weights, strict=True)
    ]
    return mp.fsum(terms), mp.fsum(terms, absolute=True)


@lru_cache(2**15)
def _normal(t: Any, precision: int) -> Any:
    """The standard normal density, cached because rules use the same nodes for every variance."""
    return mp.npdf(t)


def _reach(density: Function, dps: int) -> Any:
    """How far from 0 a density must be followed until it is negligible on both sides."""
    reach, floor = mp.sqrt(2 * (dps + 5) * mp.log(10)) + 1, mpf(10) ** (-dps - 5)
    near = max(abs(density(t)) for t in (mpf(-1), mpf(0), mpf(1)))
    while reach < 100 and max(abs(density(reach)), abs(density(-reach))) > floor * near:
        reach += 4
    return reach


def _trapezoid(density: Function, reach: Any, per_unit: int) -> Any:
    steps = int(reach * per_unit)
    terms = [density(mpf(k) / per_unit) / per_unit for k in range(-steps, steps + 1)]
    return mp.fsum(terms), mp.fsum(terms, absolute=True)


def _refined(rule: Callable[[Any, int], Any], reach: Any, dps: int) -> Any | None:
    """The trapezoidal rule on finer grids, whose error falls geometrically for an analytic integrand.

    The difference of two grids is the error of the coarser; the finer one's is that to the power
    of the ratio of steps. None when no grid is fine enough.
    """
    last, before = None, 1
    for per_unit in (3, 5, 8, 12, 20, 32):
        total, size = rule(reach, per_unit)
        if last is not None:
            coarse = abs(total - last) / (size or 1)
            if coarse ** (mpf(per_unit) / before) <= mpf(10) ** (-dps - 2):
                return total
        last, before = total, per_unit
    return None


def _from_cuts(density: Function, cuts: Sequence[Any], dps: int, spread: int) -> Any:
    """The integral over the line, cut at kinks and at zero; the outer pieces have logarithmic nodes."""
    pieces = [
        [w * (density(cuts[-1] + t) + density(cuts[0] - t)) for t, w in half_line(dps, spread)]
    ]
    for left, right in pairwise(cuts):
        width = right - left
        pieces.append(
            [
                width * w * density(left + width * near if near < far else right - width * far)
                for (near, far), w in segment(2 * dps)
            ]
        )
    if abs(pieces[0][0]) > mpf(10) ** (-0.4 * dps) * mp.fsum(pieces[0], absolute=True):
        raise ArithmeticError(
            "A Gaussian average diverges: the function is not integrable at zero."
        )
    return require_converged(pieces, 0.4 * dps)


def _in_sectors(f: Function, g: Function, su: Any, sv: Any, angle: Any, dps: int) -> Any:
    """In polar coordinates, over the four sectors in each of which u and v have one sign."""
    total = mpf(0)
    for sign in (1, -1):
        for width, relative_sign in ((mp.pi - angle, 1), (angle, -1)):
            if width:
                total += _one_sector(f, g, sign * su, relative_sign * sign * sv, width, dps)
    return total / (2 * mp.pi)


def _one_sector(f: Function, g: Function, su: Any, sv: Any, width: Any, dps: int) -> Any:
    """The integral over one sector, with more angles if the first rule has not converged."""
    for angles in (segment(dps), segment(3 * dps)):
        terms = []
        for (near, far), weight in angles:
            cu, cv = su * mp.sin(width * near), sv * mp.sin(width * far)
            # a rectifier is 0 in most sectors, and half of the values are never needed
            ring = mp.fsum(
                p * value * g(cv * rho) for rho, p in radius(dps) if (value := f(cu * rho))
            )
            terms.append(width * weight * ring)
        try:
            return require_converged([terms], dps / 2)
        except ArithmeticError as error:
            not_converged = error
    raise not_converged


def require_converged(pieces: Sequence[Sequence[Any]], digits: float) -> Any:
    """The sum of all terms, unless every second node alone gives fewer than so many digits.

    The error of a double-exponential rule is about the square of that with half the nodes, so callers
    ask for about half the digits that they want.
    """
    terms = [term for piece in pieces for term in piece]
    half = [2 * term for piece in pieces for term in piece[::2]]
    total = mp.fsum(terms)
    if abs(total - mp.fsum(half)) > mpf(10) ** -digits * mp.fsum(terms, absolute=True):
        raise ArithmeticError(
            "A Gaussian average did not converge: the function is too steep or oscillates too fast "
            "for its variance; lower the variance or give the average in closed form."
        )
    return total

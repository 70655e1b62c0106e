"""A law of (a, b) of one's own: densities of its knots by SymPy, kernels by one integral over them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import sympy as sp
from mpmath import mp

from analytic.expressions.arguments import InputError
from analytic.expressions.opaque import Opaque, Table
from analytic.expressions.symbols import u
from analytic.splines.initialisation import Initialisation, high, low

NODES, WEIGHTS = np.polynomial.legendre.leggauss(96)
a, b = sp.symbols("a b", real=True)
SLOPE = sp.Symbol("slope", positive=True)
DIGITS = 40  # of moments that no closed form was found for


class below(Opaque):
    r"""$\int_{u\le l} [(l-u)(h-u)]^{\mathrm{order}}\,\nu(u)\,du$ of (nu, order, l, h), for l <= h."""

    @property
    def free_symbols(self) -> set[sp.Symbol]:
        return set().union(*(arg.free_symbols for arg in self.args[2:]))

    @property
    def inputs(self) -> tuple[sp.Expr, ...]:
        return self.args[2:]

    def on_mpmath(self, table: Table) -> Callable[..., Any]:
        density, order = table((u,), sp.Tuple(self.args[0])), int(self.args[1])

        def total(l: Any, h: Any) -> Any:
            def term(at: Any) -> Any:
                return ((l - at) * (h - at)) ** order * density(at)[0]

            cuts = [-mp.inf, *(cut for cut in (-1, 0, 1) if cut < l), l]
            return mp.quad(term, cuts)

        return total

    def on_arrays(self, xp: Any, table: Table) -> Callable[..., Any]:
        density, order = table((u,), sp.Tuple(self.args[0])), int(self.args[1])
        return partial(_on_arrays, xp, density, order)


def _on_arrays(xp: Any, density: Callable[..., Any], order: int, l: Any, h: Any) -> Any:
    """In the angle of u, from -infinity and from 0, where a density may have a kink."""
    l, h = (end if hasattr(end, "dtype") else xp.asarray(end) for end in (l, h))
    kind = {"dtype": l.dtype, "device": l.device} if hasattr(l, "new_tensor") else {}
    nodes, weights = (xp.asarray(part, **kind) for part in ((1 + NODES) / 2, WEIGHTS / 2))
    l, h = l[..., None], h[..., None]
    one, zero = 0.0 * l + 1, 0.0 * l
    low, high = xp.minimum(l, zero), xp.maximum(l, zero)
    # An angle from the axis of -infinity has all its digits however far out.
    fall, rise = xp.atan2(one, -low) * nodes, xp.atan(high) * nodes
    total = 0.0
    for at, rate in (
        (-1 / xp.tan(fall), xp.atan2(one, -low) / xp.sin(fall) ** 2),
        (xp.tan(rise), xp.atan(high) / xp.cos(rise) ** 2),
    ):
        term = ((l - at) * (h - at)) ** order * density(at)[0]
        total = total + (term * rate * weights).sum(-1)
    return total


def of(density: sp.Expr, name: str = "own") -> Initialisation:
    """The law with this density in the symbols `a` and `b`, which must not tell (a, b) from (-a, -b)."""
    density = _read(density)
    symbols = {symbol.name: symbol for symbol in density.free_symbols}
    if set(symbols) - {"a", "b"}:
        raise InputError(f"A density of a and b was expected, but it depends on {set(symbols)}.")
    density = density.subs({symbol: {"a": a, "b": b}[n] for n, symbol in symbols.items()})
    if sp.simplify(density - density.subs({a: -a, b: -b}, simultaneous=True)) != 0:
        raise InputError(
            "The density changes under (a, b) -> (-a, -b): use (p(a, b) + p(-a, -b))/2, or one of "
            "analytic.splines for a law that looks one way."
        )
    _check_sign(density)
    _check_tails(density)
    count, weight = (_knots(density, power) for power in (1, 3))
    total, slopes, biases = (
        _over_line(f, what)
        for f, what in (
            (count, "integral"),
            (weight, "E[a^2]"),
            (u**2 * weight, "E[b^2]"),
        )
    )
    if abs(total - 1) > sp.Float(10) ** -12:
        raise InputError(f"The density integrates to {sp.N(total, 6)}, not to 1: divide by that.")
    return Initialisation(
        name,
        (),
        kernel=_both_sides(weight, 1),
        active=_both_sides(count, 0),
        count=count,
        weight=weight,
        slopes=slopes,
        biases=biases,
    )


def _read(density: Any) -> sp.Expr:
    try:
        found = sp.sympify(density)
    except sp.SympifyError:
        found = None
    if not isinstance(found, sp.Expr):
        raise InputError(f"A density in the symbols a and b was expected, not {density!r}.")
    return found


def _check_sign(density: sp.Expr) -> None:
    """On some circles; a law that is negative elsewhere only has no positive kernel either."""
    f = sp.lambdify((a, b), density, "mpmath")
    for radius in map(mp.mpf, ("0.1", "0.5", "1", "2", "4")):
        for k in range(12):  # the other half plane is the same
            place = radius * mp.cos(k * mp.pi / 12), radius * mp.sin(k * mp.pi / 12)
            value = mp.mpmathify(f(*place))
            if mp.im(value) or mp.re(value) < 0:
                where = ", ".join(
                    f"{n} = {mp.nstr(v, 3)}" for n, v in zip("ab", place, strict=True)
                )
                raise InputError(
                    f"The density is {mp.nstr(value, 3)} at {where}, but no chance is below 0."
                )


def _check_tails(density: sp.Expr) -> None:
    """Second moments need r^4 p -> 0 along rays; SymPy may search for ever for what is infinite."""
    f = sp.lambdify((a, b), density, "mpmath")
    for k in range(6):
        ray = mp.expjpi((k + mp.mpf(1) / 3) / 6)
        near, far = (
            r**4 * f(r * ray.real, r * ray.imag) for r in (mp.mpf(10) ** 8, mp.mpf(10) ** 16)
        )
        if 2 * far > near:
            raise InputError(
                "E[a^2] + E[b^2] of the law is infinite: choose one with second moments."
            )


def _both_sides(density: sp.Expr, order: int) -> sp.Expr:
    mirrored = density.subs(u, -u)
    order = sp.Integer(order)
    return (below(density, order, low, high) + below(mirrored, order, -high, -low)) / 2


def _knots(density: sp.Expr, power: int) -> sp.Expr:
    """nu_p(u) = 2 int_0^oo a^p p(a, a u) da."""
    term = SLOPE**power * density.subs({a: SLOPE, b: SLOPE * u}, simultaneous=True)
    found = sp.simplify(2 * sp.integrate(term, (SLOPE, 0, sp.oo), conds="none"))
    if not all(_agree(found, term, place) for place in (sp.Rational(1, 3), sp.Rational(-7, 5))):
        raise InputError(
            f"No density of knots was found for {density}: either E[a^2] is infinite, or SymPy cannot "
            "integrate it over a with b = a u. Choose a law with second moments and such an integral."
        )
    return found


def _agree(found: sp.Expr, term: sp.Expr, place: sp.Rational) -> bool:
    """Whether an integral that SymPy has found is what quadrature says at one place."""
    value = sp.N(found.subs(u, place), 20)
    if not value.is_Float:
        return False
    f = sp.lambdify(SLOPE, term.subs(u, place), "mpmath")
    with mp.workdps(20):
        sure = 2 * mp.quad(f, [0, 1, 4, mp.inf])
        return bool(abs(sure - mp.mpf(value)) <= mp.mpf(10) ** -12 * abs(sure))


def _over_line(density: sp.Expr, what: str) -> sp.Expr:
    f = sp.lambdify(u, density, "mpmath")
    with mp.workdps(DIGITS + 5):
        value = mp.quad(f, [-mp.inf, -1, 0, 1, mp.inf])
        again = mp.quad(f, [-mp.inf, -3, -mp.mpf(1) / 2, 0, mp.mpf(1) / 2, 3, mp.inf])
        settled = mp.isfinite(value) and abs(value - again) <= mp.mpf(10) ** -20 * abs(value)
    if not settled:
        raise InputError(f"The law has no finite {what}: choose one with second moments.")
    return sp.Float(value, DIGITS)

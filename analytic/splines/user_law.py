"""A user's own law of (a, b): densities of knots by SymPy, and kernels by a quadrature over knots."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import sympy as sp
from mpmath import mp

from analytic.expressions.arguments import InputError
from analytic.expressions.opaque import Opaque, Table
from analytic.expressions.symbols import u, x
from analytic.splines.initialisation import Initialisation, high, low

__all__ = ["initialisation_of", "integral_below"]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(96)
a, b = sp.symbols("a b", real=True)
SLOPE = sp.Symbol("slope", positive=True)
DIGITS = 40  # of second moments, which are computed by quadrature


class integral_below(Opaque):
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
        return partial(_quadrature_on_arrays, xp, density, order)


def _quadrature_on_arrays(xp: Any, density: Callable[..., Any], order: int, l: Any, h: Any) -> Any:
    """Gauss-Legendre in the angle atan(u), separately for u < 0 and u > 0: a density may have a kink at 0."""
    l, h = (end if hasattr(end, "dtype") else xp.asarray(end) for end in (l, h))
    kind = {"dtype": l.dtype, "device": l.device} if hasattr(l, "new_tensor") else {}
    nodes, weights = (xp.asarray(part, **kind) for part in ((1 + NODES) / 2, WEIGHTS / 2))
    l, h = l[..., None], h[..., None]
    one, zero = 0.0 * l + 1, 0.0 * l
    low, high = xp.minimum(l, zero), xp.maximum(l, zero)
    # Measured from u = -infinity, the angle keeps its relative precision for very negative u.
    left, right = xp.atan2(one, -low) * nodes, xp.atan(high) * nodes
    total = 0.0
    for at, rate in (
        (-1 / xp.tan(left), xp.atan2(one, -low) / xp.sin(left) ** 2),
        (xp.tan(right), xp.atan(high) / xp.cos(right) ** 2),
    ):
        term = ((l - at) * (h - at)) ** order * density(at)[0]
        total = total + (term * rate * weights).sum(-1)
    return total


def initialisation_of(density: sp.Expr, name: str = "own") -> Initialisation:
    """The law with this density in the symbols `a` and `b`, which must be the same at (-a, -b)."""
    density = _require_density(density)
    symbols = {symbol.name: symbol for symbol in density.free_symbols}
    if set(symbols) - {"a", "b"}:
        raise InputError(f"A density of a and b was expected, but it depends on {set(symbols)}.")
    density = density.subs({symbol: {"a": a, "b": b}[n] for n, symbol in symbols.items()})
    if sp.simplify(density - density.subs({a: -a, b: -b}, simultaneous=True)) != 0:
        raise InputError(
            "The density changes under (a, b) -> (-a, -b): use (p(a, b) + p(-a, -b))/2, or one of "
            "analytic.splines for a law that looks one way."
        )
    _require_nonnegative(density)
    _require_second_moments(density)
    count, weight = (_knot_density(density, power) for power in (1, 3))
    total, slopes, biases = (
        _integral_over_line(f, what)
        for f, what in (
            (count, "integral"),
            (weight, "E[a^2]"),
            (u**2 * weight, "E[b^2]"),
        )
    )
    mixed = _integral_over_line(u * weight, "E[ab]", sp.sqrt(slopes * biases))
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
        kernel_drift=(slopes * x - mixed) / 2,  # one of (a, b) and (-a, -b) is active
        kernel_metric=slopes / 2,
    )


def _require_density(density: Any) -> sp.Expr:
    try:
        expr = sp.sympify(density)
    except sp.SympifyError:
        expr = None
    if not isinstance(expr, sp.Expr):
        raise InputError(f"A density in the symbols a and b was expected, not {density!r}.")
    return expr


def _require_nonnegative(density: sp.Expr) -> None:
    """Refuse a density that is negative or complex at one of 60 points on circles around 0."""
    f = sp.lambdify((a, b), density, "mpmath")
    for radius in map(mp.mpf, ("0.1", "0.5", "1", "2", "4")):
        for k in range(12):  # half of each circle: the density is symmetric
            place = radius * mp.cos(k * mp.pi / 12), radius * mp.sin(k * mp.pi / 12)
            value = mp.mpmathify(f(*place))
            if mp.im(value) or mp.re(value) < 0:
                where = ", ".join(
                    f"{n} = {mp.nstr(v, 3)}" for n, v in zip("ab", place, strict=True)
                )
                raise InputError(
                    f"The density is {mp.nstr(value, 3)} at {where}, but a density is at least 0."
                )


def _require_second_moments(density: sp.Expr) -> None:
    """Refuse a density with infinite second moments: they need r^4 p -> 0 along every ray.

    Checked before SymPy integrates, which may never end for a divergent integral.
    """
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
    return (
        integral_below(density, order, low, high) + integral_below(mirrored, order, -high, -low)
    ) / 2


def _knot_density(density: sp.Expr, power: int) -> sp.Expr:
    """nu_p(u) = 2 int_0^oo a^p p(a, a u) da."""
    term = SLOPE**power * density.subs({a: SLOPE, b: SLOPE * u}, simultaneous=True)
    integral = sp.simplify(2 * sp.integrate(term, (SLOPE, 0, sp.oo), conds="none"))
    places = (sp.Rational(1, 3), sp.Rational(-7, 5))
    if not all(_agrees_with_quadrature(integral, term, place) for place in places):
        raise InputError(
            f"No density of knots was found for {density}: either E[a^2] is infinite, or SymPy cannot "
            "integrate it over a with b = a u. Choose a law with second moments and such an integral."
        )
    return integral


def _agrees_with_quadrature(integral: sp.Expr, term: sp.Expr, place: sp.Rational) -> bool:
    """Whether SymPy's integral agrees with a quadrature at one value of u."""
    value = sp.N(integral.subs(u, place), 20)
    if not value.is_Float:
        return False
    f = sp.lambdify(SLOPE, term.subs(u, place), "mpmath")
    with mp.workdps(20):
        expected = 2 * mp.quad(f, [0, 1, 4, mp.inf])
        return bool(abs(expected - mp.mpf(value)) <= mp.mpf(10) ** -12 * abs(expected))


def _integral_over_line(density: sp.Expr, what: str, size: sp.Expr = sp.S.Zero) -> sp.Expr:
    """The integral to 20 digits of itself, or of `size` where that is larger, as it may be 0."""
    f = sp.lambdify(u, density, "mpmath")
    with mp.workdps(DIGITS + 5):
        value = mp.quad(f, [-mp.inf, -1, 0, 1, mp.inf])
        again = mp.quad(f, [-mp.inf, -3, -mp.mpf(1) / 2, 0, mp.mpf(1) / 2, 3, mp.inf])
        largest = max(abs(value), mp.mpmathify(size))
        converged = mp.isfinite(value) and abs(value - again) <= mp.mpf(10) ** -20 * largest
    if not converged:
        raise InputError(f"The law has no finite {what}: choose one with second moments.")
    return sp.Float(value, DIGITS)

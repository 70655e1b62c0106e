r"""Two-point averages $E[f(u)g(v)]$ as one integral over an angle, where the radial part is known.

In polar coordinates of the plane $|u| = xR$ and $|v| = yR$ along a ray, where R has the density
$Re^{-R^2/2}$. The signs of u and v cut the plane into four sectors: two of the angle $\vartheta$ between
the two points, where the signs are opposite, and two of $\pi - \vartheta$, where they are equal. In each
of them x and y are sines of the polar angle, and the integrand is smooth if f and g have kinks at
zero only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.expressions.opaque import Opaque, Table
from analytic.expressions.quadrature.arrays import Estimated, like, unit
from analytic.expressions.quadrature.exact import require_converged
from analytic.expressions.quadrature.rules import segment
from analytic.expressions.special import gram_det

__all__ = ["AngularAverage", "X", "Y"]

X, Y = sp.symbols("x y", nonnegative=True)  # |u| / R and |v| / R along a ray
BLOCK = 1024  # points that are computed at once


class AngularAverage(Opaque):
    """Arguments: averages over R for the signs (+, +), (+, -), (-, +), (-, -) of u, v; kxx, kxy, kyy."""

    kind = "a quadrature over an angle"

    def __new__(cls, *args: Any) -> AngularAverage:
        return super().__new__(cls, *map(sp.sympify, args))

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """Free symbols of the averages over R, in a fixed order."""
        inner = sp.Tuple(*self.args[:4]).free_symbols - {X, Y}
        return tuple(sorted(inner, key=lambda symbol: symbol.name))

    @property
    def free_symbols(self) -> set[sp.Symbol]:
        return sp.Tuple(*self.inputs).free_symbols

    @property
    def inputs(self) -> tuple[sp.Expr, ...]:
        return (*self.args[4:], *self.parameters)

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> AngularAverage | None:
        """X and Y are integration variables, so nothing is substituted for them."""
        return self if old in (X, Y) else None

    def on_mpmath(self, table: Table) -> Callable[..., Any]:
        equal, opposite = self._compiled(table)

        def sector(f: Callable[..., Any], more: Sequence[Any], width: Any, *scales: Any) -> Any:
            """The integral over one sector, with more nodes until it has converged."""
            digits, (su, sv) = mp.dps, scales
            largest = (scale * min(width, 1) for scale in scales)
            # A bound on the digits that averages over R lose to cancellation at small or large x, y.
            cancelled = sum(4 * abs(int(mp.log10(size))) for size in largest if size)
            with mp.extradps(cancelled):
                for refinement in (1, 2, 4, 8, 16):
                    terms = [
                        weight * f(su * mp.sin(width * near), sv * mp.sin(width * far), *more)[0]
                        for (near, far), weight in segment(refinement * digits)
                    ]
                    if not all(scales) and mp.fsum(terms, absolute=True) < mpf(10) ** -digits:
                        return mpf(0)  # a point of variance 0: all terms are rounding errors
                    try:
                        return width * require_converged([terms], digits / 2)
                    except ArithmeticError as error:
                        not_converged = error
            raise not_converged

        def average(kxx: Any, kxy: Any, kyy: Any, *more: Any) -> Any:
            with mp.extradps(10):
                scales = mp.sqrt(kxx), mp.sqrt(kyy)
                root = mp.sqrt(max(kxx * kyy - kxy**2, mpf(0)))
                # A point of variance 0 has no angle, and any will do.
                any_angle = mp.pi / 2 if root == kxy == 0 else None
                total = sector(equal, more, any_angle or mp.atan2(root, -kxy), *scales)
                total += sector(opposite, more, any_angle or mp.atan2(root, kxy), *scales)
                return total / (2 * mp.pi)

        return average

    def on_arrays(self, xp: Any, table: Table) -> Callable[..., Any]:
        equal, opposite = self._compiled(table)

        def block(kxx: Any, kxy: Any, kyy: Any, *more: Any) -> Any:
            su, sv = (xp.sqrt(k)[..., None] for k in (kxx, kyy))
            more = tuple(part[..., None] for part in more)
            near, far, weight = (like(xp, kxx, part) for part in unit(_rule_digits(su, sv)))
            root = xp.sqrt(gram_det.array(xp, kxx, kyy, kxy))
            no_angle = (root == 0) & (kxy == 0)  # a point of variance 0
            angles = {
                side: xp.where(no_angle, math.pi / 2, xp.atan2(root, side * kxy))[..., None]
                for side in (1, -1)
            }
            parts = []
            for f, side in ((equal, -1), (opposite, 1)):
                width, supplement = angles[side], angles[-side]
                # Measured from the nearer end, as sin(width near) loses its digits next to width = pi.
                first, last = (
                    xp.sin(xp.where(here < 0.5, width * here, supplement + width * there))
                    for here, there in ((near, far), (far, near))
                )
                (value,) = f(su * first, sv * last, *more)
                parts.append(width * weight * value / (2 * math.pi))
            fine, size = sum(p.sum(-1) for p in parts), sum(abs(p).sum(-1) for p in parts)
            coarse = sum(2 * p[..., ::2].sum(-1) for p in parts)
            return Estimated(fine, abs(fine - coarse), size).require_converged()

        def average(*values: Any) -> Any:
            arrays = [value + 0.0 * sum(values) for value in values]  # all of one shape
            flat = [value.reshape(-1) for value in arrays]
            pieces = [
                block(*(value[start : start + BLOCK] for value in flat))
                for start in range(0, max(1, len(flat[0])), BLOCK)
            ]
            return xp.concatenate(pieces).reshape(arrays[0].shape)

        return average

    def _compiled(self, table: Table) -> list[Callable[..., Any]]:
        """The averages over R, for equal and for opposite signs."""
        args = (X, Y, *self.parameters)
        return [table(args, sp.Tuple(sp.Add(*pair))) for pair in self._pairs]

    @property
    def _pairs(self) -> tuple[tuple[sp.Expr, sp.Expr], tuple[sp.Expr, sp.Expr]]:
        plus_plus, plus_minus, minus_plus, minus_minus = self.args[:4]
        return (plus_plus, minus_minus), (plus_minus, minus_plus)

    def _latex(self, printer: Any) -> str:
        kxx, kxy, kyy = map(printer.doprint, self.args[4:])
        sums = (sp.Add(*pair) for pair in self._pairs)
        parts = [
            rf"\frac{{1}}{{2\pi}}\int_0^{{w={width}}}\left({printer.doprint(f)}\right)d\theta"
            for f, width in zip(sums, (r"\pi-\vartheta", r"\vartheta"), strict=True)
            if f != 0
        ]
        angle = rf"\vartheta=\arccos\frac{{{kxy}}}{{\sqrt{{{kxx}\,{kyy}}}}}"
        slopes = rf"x=\sqrt{{{kxx}}}\sin\theta,\;y=\sqrt{{{kyy}}}\sin(w-\theta)"
        return rf"{'+'.join(parts)},\;{slopes},\;{angle}"


def _rule_digits(*scales: Any) -> int:
    """Digits of a tanh-sinh rule whose nodes resolve the edges of a sector at large variance."""
    largest = max([1.0, *(scale.max().item() for scale in scales if len(scale))])
    return 24 + 16 * math.ceil(min(math.log10(largest), 12.0))

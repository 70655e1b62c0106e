r"""Two-point averages $E[f(u)g(v)]$ whose radial part is known: one integral over the angle is left.

In polar coordinates $|u| = xR$ and $|v| = yR$ along a ray, with the law $Re^{-R^2/2}$ of R. The plane
falls into four sectors where u and v keep their signs, of the angle $\vartheta$ between the two points
(opposite signs) and of $\pi - \vartheta$ (equal signs); there x and y are sines, and a function of them is
integrated that is smooth between kinks at zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp
from mpmath import mp, mpf

from analytic.expressions.opaque import Opaque, Table
from analytic.expressions.quadrature.arrays import Estimated, like, unit
from analytic.expressions.quadrature.exact import trusted
from analytic.expressions.quadrature.rules import segment
from analytic.expressions.special import gram_det

X, Y = sp.symbols("x y", nonnegative=True)  # slopes of |u| and |v| along a ray
BLOCK = 1024  # points at once


class AngularAverage(Opaque):
    """Averages along a ray for the signs (+, +), (+, -), (-, +), (-, -), then kxx, kxy, kyy."""

    def __new__(cls, *args: Any) -> AngularAverage:
        return super().__new__(cls, *map(sp.sympify, args))

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """Free symbols of the averages along a ray, in a fixed order."""
        inner = sp.Tuple(*self.args[:4]).free_symbols - {X, Y}
        return tuple(sorted(inner, key=lambda symbol: symbol.name))

    @property
    def free_symbols(self) -> set[sp.Symbol]:
        return sp.Tuple(*self.inputs).free_symbols

    @property
    def inputs(self) -> tuple[sp.Expr, ...]:
        return (*self.args[4:], *self.parameters)

    def _eval_subs(self, old: sp.Basic, new: sp.Basic) -> AngularAverage | None:
        """Slopes along a ray are bound."""
        return self if old in (X, Y) else None

    def on_mpmath(self, table: Table) -> Callable[..., Any]:
        equal, opposite = self._compiled(table)

        def sector(f: Callable[..., Any], more: Sequence[Any], width: Any, *scales: Any) -> Any:
            """Finer angles where the functions are steep; what no rule resolves is refused."""
            digits, (su, sv) = mp.dps, scales
            reached = (scale * min(width, 1) for scale in scales)
            cancelled = sum(4 * abs(int(mp.log10(size))) for size in reached if size)  # at most
            with mp.extradps(cancelled):
                for fine in (1, 2, 4, 8, 16):
                    terms = [
                        weight * f(su * mp.sin(width * near), sv * mp.sin(width * far), *more)[0]
                        for (near, far), weight in segment(fine * digits)
                    ]
                    if not all(scales) and mp.fsum(terms, absolute=True) < mpf(10) ** -digits:
                        return mpf(0)  # one point is at 0, and only rounding is left
                    try:
                        return width * trusted([terms], digits / 2)
                    except ArithmeticError as error:
                        refused = error
            raise refused

        def average(kxx: Any, kxy: Any, kyy: Any, *more: Any) -> Any:
            with mp.extradps(10):
                scales = mp.sqrt(kxx), mp.sqrt(kyy)
                root = mp.sqrt(max(kxx * kyy - kxy**2, mpf(0)))
                right = mp.pi / 2 if root == kxy == 0 else None  # a point at 0 has no angle
                total = sector(equal, more, right or mp.atan2(root, -kxy), *scales)
                total += sector(opposite, more, right or mp.atan2(root, kxy), *scales)
                return total / (2 * mp.pi)

        return average

    def on_arrays(self, xp: Any, table: Table) -> Callable[..., Any]:
        equal, opposite = self._compiled(table)

        def block(kxx: Any, kxy: Any, kyy: Any, *more: Any) -> Any:
            su, sv = (xp.sqrt(k)[..., None] for k in (kxx, kyy))
            more = [part[..., None] for part in more]
            near, far, weight = (like(xp, kxx, part) for part in unit(_fineness(su, sv)))
            root = xp.sqrt(gram_det.array(xp, kxx, kyy, kxy))
            right = (root == 0) & (kxy == 0)  # a point at 0 has no angle
            angles = {
                side: xp.where(right, math.pi / 2, xp.atan2(root, side * kxy))[..., None]
                for side in (1, -1)
            }
            parts = []
            for f, side in ((equal, -1), (opposite, 1)):
                width, rest = angles[side], angles[-side]
                # sin(width near) by the nearer end: it vanishes at the far one where width = pi.
                first, last = (
                    xp.sin(xp.where(here < 0.5, width * here, rest + width * there))
                    for here, there in ((near, far), (far, near))
                )
                (value,) = f(su * first, sv * last, *more)
                parts.append(width * weight * value / (2 * math.pi))
            fine, size = sum(p.sum(-1) for p in parts), sum(abs(p).sum(-1) for p in parts)
            coarse = sum(2 * p[..., ::2].sum(-1) for p in parts)
            return Estimated(fine, abs(fine - coarse), size).trusted()

        def average(*values: Any) -> Any:
            whole = [value + 0.0 * sum(values) for value in values]  # of one shape
            flat = [value.reshape(-1) for value in whole]
            pieces = [
                block(*(value[start : start + BLOCK] for value in flat))
                for start in range(0, max(1, len(flat[0])), BLOCK)
            ]
            return xp.concatenate(pieces).reshape(whole[0].shape)

        return average

    def _compiled(self, table: Table) -> list[Callable[..., Any]]:
        """Averages along a ray for equal and for opposite signs."""
        args = (X, Y, *self.parameters)
        return [table(args, sp.Tuple(sp.Add(*pair))) for pair in self._pairs]

    @property
    def _pairs(self) -> tuple[tuple[sp.Expr, sp.Expr], tuple[sp.Expr, sp.Expr]]:
        both, right, left, neither = self.args[:4]
        return (both, neither), (right, left)

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


def _fineness(*scales: Any) -> int:
    """Digits of a rule that resolves the edge of a sector, where steep functions fall off."""
    steepest = max([1.0, *(scale.max().item() for scale in scales if len(scale))])
    return 24 + 16 * math.ceil(min(math.log10(steepest), 12.0))

r"""Two-point averages for tiles of Gram matrices, with $\det = k_{xx}k_{yy} - k_{xy}^2$ known apart.

A covariance from a matrix product carries its rounding; for a function with a kink, whose kernel
depends on the angle between two points, that costs half the digits near collinear points. There the
determinant must be known better than kxy tells, and a piecewise linear function hands it on through
its $\mathrm{gap} = \sqrt{F(k_{xx})F(k_{yy})} - \mathrm{kernel}$, in which nothing large cancels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp
from sympy import Abs, atan2, pi, sqrt

from analytic.activations.activation import Activation
from analytic.expressions.angular_average import AngularAverage
from analytic.expressions.expectation import PairMoment
from analytic.expressions.special import gram_det, rectified_pair
from analytic.expressions.symbols import kxx, kxy, kyy, z

det = sp.Symbol("det", positive=True)
ARGS = (kxx, kxy, kyy, det)


@dataclass(frozen=True)
class Tile:
    """Expressions in kxx, kxy, kyy and det; slope is None where it diverges.

    `after` is the gap and the determinant that a piecewise linear function hands on. `angular` says
    that digits are lost near collinear points if det is not known better than kxy.
    """

    kernel: sp.Expr
    slope: sp.Expr | None
    after: tuple[sp.Expr, sp.Expr] | None = None
    angular: bool = False

    @property
    def apart(self) -> Tile:
        """The same for points that are far from collinear, where the arc sine will do and is faster."""
        if self.angular and self.after is None:  # a row of zeros has an angle there
            return self
        kernel, slope = (
            None if part is None else _by_sines(part) for part in (self.kernel, self.slope)
        )
        return replace(self, kernel=kernel, slope=slope)

    @property
    def needs_det(self) -> bool:
        return any(part is not None and part.has(det) for part in (self.kernel, self.slope))


def tile(act: Activation) -> Tile | None:
    """The faces of an activation for tiles, or None if its kernel is a quadrature."""
    slopes = _piecewise_linear(act)
    if slopes is not None:
        return _linear(slopes[0]) if slopes[0] == slopes[1] else _angular(*slopes)
    parts = (part.expr for part in (act.kernel, act.slope) if part is not None)
    if any(part.has(PairMoment, AngularAverage) for part in parts):
        return None
    slope = None if act.slope is None else _apart(act.slope.floating)
    return Tile(_apart(act.kernel.floating), slope, angular=bool(act.kinks))


def _by_sines(expr: sp.Expr) -> sp.Expr:
    """With atan(u / sqrt(w)) = asin(u / sqrt(u^2 + w)), where rows and columns may come apart."""

    def sine(u: sp.Expr, w: sp.Expr) -> sp.Expr:
        square = sp.factor((u**2 + w).subs(det, kxx * kyy - kxy**2))
        return sp.asin(u / sp.Mul(*map(sqrt, sp.Mul.make_args(square))))

    def straight(ratio: sp.Expr) -> sp.Expr:
        u, root = sp.fraction(ratio)
        return sine(u, root**2)

    def around(y: sp.Expr, x: sp.Expr) -> sp.Expr:
        return pi / 2 - sine(x, y**2)

    return expr.replace(sp.atan, straight).replace(atan2, around)


def _apart(expr: sp.Expr) -> sp.Expr:
    """With the symbol of the determinant wherever it is computed, at whatever scale."""

    def known(a: sp.Expr, b: sp.Expr, c: sp.Expr) -> sp.Expr:
        return (a / kxx) ** 2 * det

    def sector(q: sp.Expr, *gram: sp.Expr) -> sp.Expr:
        return rectified_pair(q, *gram, (gram[0] / kxx) ** 2 * det)

    return expr.replace(gram_det, known).replace(rectified_pair, sector).replace(sp.exp, _decay)


def _decay(power: sp.Expr) -> sp.Expr:
    """exp(-c |u -+ v|^2), whose small distances are known from the determinant."""
    c = sp.expand(power).coeff(kxx)
    for sign in (1, -1):
        plain = kxx + kyy - 2 * sign * kxy
        if sp.expand(power - c * plain) == 0:
            close = (sqrt(kxx) - sqrt(kyy)) ** 2 + 2 * _rest
            return sp.exp(c * sp.Piecewise((close, sign * kxy > 0), (plain, True)))
    return sp.exp(power)


def _piecewise_linear(act: Activation) -> tuple[sp.Expr, sp.Expr] | None:
    """The slopes left and right of 0 of a function that is linear on both sides."""
    size = sp.Symbol("size", positive=True)
    left, right = (sp.cancel(act.phi.expr.subs(z, side * size) / (side * size)) for side in (-1, 1))
    return (left, right) if left.is_number and right.is_number else None


_scale = sqrt(kxx) * sqrt(kyy)
_rest = det / (_scale + Abs(kxy))  # sqrt(kxx kyy) - |kxy|
_obtuse = sp.Piecewise((-2 * kxy, kxy < 0), (0, True))  # |kxy| - kxy, which no sum may split


def _linear(slope: sp.Expr) -> Tile:
    square = slope**2
    return Tile(square * kxy, square, (square * (_rest + _obtuse), square**2 * det))


def _angular(left: sp.Expr, right: sp.Expr) -> Tile:
    """A part that is linear, and one that is rectified: the angle is that of both positive."""
    product, jump = left * right, (right - left) ** 2 / (2 * pi)
    root, size = sqrt(det), Abs(kxy)
    angle, acute = atan2(root, -kxy), atan2(root, size)
    mean, half = (left + right) ** 2 / 4, (right - left) ** 2 / 4
    gap = mean * (_rest + _obtuse) + half * (_rest - 2 / pi * (root - acute * size))
    return Tile(
        kernel=product * kxy + jump * (root + angle * kxy),
        slope=product + jump * angle,
        after=(gap, gap * (2 * (mean + half) * _scale - gap)),
        angular=True,
    )

r"""Two-point averages for tiles of Gram matrices, where $\det = k_{xx}k_{yy} - k_{xy}^2$ is an argument too.

A covariance from a matrix product has rounding errors. The kernel of a function with a kink depends on
the angle between two points, and near collinear points these errors cost it half its digits. So the
determinant must be known more accurately than it follows from kxy. A piecewise linear function gives the
determinant of the next layer by its gap $\sqrt{F(k_{xx})F(k_{yy})} - \mathrm{kernel}$, without cancellation.
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

__all__ = ["ARGS", "Tile", "det", "tile"]

det = sp.Symbol("det", positive=True)
ARGS = (kxx, kxy, kyy, det)


@dataclass(frozen=True)
class Tile:
    """Expressions in kxx, kxy, kyy and det; slope is None where it diverges.

    `after` is the gap and the determinant of the next layer, for a piecewise linear function. `angular`
    says that digits are lost near collinear points unless det is more accurate than kxy.
    """

    kernel: sp.Expr
    slope: sp.Expr | None
    after: tuple[sp.Expr, sp.Expr] | None = None
    angular: bool = False

    @property
    def far_from_collinear(self) -> Tile:
        """The same for points that are not nearly collinear, with the arc sine, which is faster."""
        if self.angular and self.after is None:  # its value at an input of zeros is by atan2(0, 0)
            return self
        kernel, slope = (
            None if part is None else _by_arc_sines(part) for part in (self.kernel, self.slope)
        )
        return replace(self, kernel=kernel, slope=slope)

    @property
    def needs_det(self) -> bool:
        return any(part is not None and part.has(det) for part in (self.kernel, self.slope))


def tile(act: Activation) -> Tile | None:
    """The averages of an activation for tiles, or None if its kernel is a quadrature."""
    slopes = _piecewise_linear(act)
    if slopes is not None:
        return _linear(slopes[0]) if slopes[0] == slopes[1] else _angular(*slopes)
    parts = (part.expr for part in (act.kernel, act.slope) if part is not None)
    if any(part.has(PairMoment, AngularAverage) for part in parts):
        return None
    slope = None if act.slope is None else _with_det(act.slope.floating)
    return Tile(_with_det(act.kernel.floating), slope, angular=bool(act.kinks))


def _by_arc_sines(expr: sp.Expr) -> sp.Expr:
    """With atan(u / sqrt(w)) = asin(u / sqrt(u^2 + w)), whose root factors by row and column."""

    def arc_sine(u: sp.Expr, w: sp.Expr) -> sp.Expr:
        square = _factored((u**2 + w).subs(det, kxx * kyy - kxy**2))
        return sp.asin(u / sp.Mul(*map(sqrt, sp.Mul.make_args(square))))

    def of_atan(ratio: sp.Expr) -> sp.Expr:
        u, root = sp.fraction(ratio)
        return arc_sine(u, root**2)

    def of_atan2(y: sp.Expr, x: sp.Expr) -> sp.Expr:
        return pi / 2 - arc_sine(x, y**2)

    return expr.replace(sp.atan, of_atan).replace(atan2, of_atan2)


def _factored(square: sp.Expr) -> sp.Expr:
    """Factors of a polynomial in the covariances, in units in which that of kxx is 1 beside the constant.

    In other units the long integers of a factor c = p/q would be cleared of denominators, and factored
    for minutes.
    """
    polynomial = sp.Poly(square, kxx, kxy, kyy)
    constant, linear = (polynomial.coeff_monomial(term) for term in (1, kxx))
    unit = constant / linear if constant and linear else sp.S.One
    covariances = (kxx, kxy, kyy)
    factors = sp.factor(square.subs({k: unit * k for k in covariances}, simultaneous=True))
    return factors.subs({k: k / unit for k in covariances}, simultaneous=True)


def _with_det(expr: sp.Expr) -> sp.Expr:
    """With the symbol `det` wherever the determinant is computed, which may be at another scale."""

    def determinant(a: sp.Expr, b: sp.Expr, c: sp.Expr) -> sp.Expr:
        return (a / kxx) ** 2 * det

    def rectified(q: sp.Expr, *gram: sp.Expr) -> sp.Expr:
        return rectified_pair(q, *gram, (gram[0] / kxx) ** 2 * det)

    expr = expr.replace(gram_det, determinant).replace(rectified_pair, rectified)
    return expr.replace(sp.exp, _exp_of_distance)


def _exp_of_distance(power: sp.Expr) -> sp.Expr:
    """exp(-c |u -+ v|^2), where the determinant gives small distances without cancellation."""
    c = sp.expand(power).coeff(kxx)
    for sign in (1, -1):
        plain = kxx + kyy - 2 * sign * kxy
        if sp.expand(power - c * plain) == 0:
            close = (sqrt(kxx) - sqrt(kyy)) ** 2 + 2 * _gap
            return sp.exp(c * sp.Piecewise((close, sign * kxy > 0), (plain, True)))
    return sp.exp(power)


def _piecewise_linear(act: Activation) -> tuple[sp.Expr, sp.Expr] | None:
    """The slopes left and right of 0 of a function that is linear on both sides."""
    size = sp.Symbol("size", positive=True)
    left, right = (sp.cancel(act.phi.expr.subs(z, side * size) / (side * size)) for side in (-1, 1))
    return (left, right) if left.is_number and right.is_number else None


_scale = sqrt(kxx) * sqrt(kyy)
_gap = det / (_scale + Abs(kxy))  # sqrt(kxx kyy) - |kxy|
_obtuse = sp.Piecewise((-2 * kxy, kxy < 0), (0, True))  # |kxy| - kxy, which SymPy must not expand


def _linear(slope: sp.Expr) -> Tile:
    square = slope**2
    return Tile(square * kxy, square, (square * (_gap + _obtuse), square**2 * det))


def _angular(left: sp.Expr, right: sp.Expr) -> Tile:
    """A linear function plus a rectified one; `angle` is that of the sector where u and v are positive."""
    product, jump = left * right, (right - left) ** 2 / (2 * pi)
    root, size = sqrt(det), Abs(kxy)
    angle, acute = atan2(root, -kxy), atan2(root, size)
    mean, half = (left + right) ** 2 / 4, (right - left) ** 2 / 4
    gap = mean * (_gap + _obtuse) + half * (_gap - 2 / pi * (root - acute * size))
    return Tile(
        kernel=product * kxy + jump * (root + angle * kxy),
        slope=product + jump * angle,
        after=(gap, gap * (2 * (mean + half) * _scale - gap)),
        angular=True,
    )

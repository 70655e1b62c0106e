"""Leaky ReLU, absolute value, sign and step: their kernels depend on the angle between two points."""

from __future__ import annotations

import sympy as sp
from sympy import Abs, S, asin, atan2, pi, sqrt

from analytic.activations.activation import GRAM, Activation, activation, require_real
from analytic.expressions.arguments import RealNumber
from analytic.expressions.special import gram_det, rectified_pair
from analytic.expressions.symbols import V, kxx, kxy, kyy, z

__all__ = ["absolute", "leaky_relu", "sign", "step", "two_slope"]

_scale = sqrt(kxx * kyy)
_rho = kxy / _scale
_collinear = Abs(_rho) >= 1
_no_angle = sp.Eq(kxx * kyy, 0)  # a point of variance 0 has none
_root = sqrt(gram_det(kxx, kyy, kxy))

# E[sign(u) sign(v)], E|u||v| and P(u > 0, v > 0).
_signs = sp.Piecewise((0, _no_angle), (sp.sign(kxy), _collinear), (2 / pi * asin(_rho), True))
_sizes = sp.Piecewise(
    (0, _no_angle),
    (Abs(kxy), _collinear),
    (2 / pi * _scale * (sqrt(1 - _rho**2) + _rho * asin(_rho)), True),
)
_stable_signs = 2 / pi * atan2(kxy, _root)
_both_positive = atan2(_root, -kxy) / (
    2 * pi
)  # keeps its digits near opposite points, where it is 0

_BEND = "phi' jumps at 0, so E[phi''^2] diverges"
_JUMP = {
    "slope": "phi jumps at 0, so E[phi'^2] diverges",
    "G": "phi jumps at 0, so E[phi'^2] diverges",
    "G2": "phi jumps at 0, so E[phi''^2] diverges",
}


def two_slope(left: RealNumber, right: RealNumber) -> Activation:
    """left z for z < 0, right z for z > 0; its slope at 0, which matters at variance 0, is their mean.

    What is no real number is refused with an InputError.

    >>> from analytic.activations import two_slope
    >>> two_slope(-1, 3).G.expr
    5
    """
    return _two_slope("two_slope", require_real("left", left), require_real("right", right))


def leaky_relu(slope: RealNumber = "1/100") -> Activation:
    """max(0, z) + slope min(0, z).

    What is no real number is refused with an InputError.

    >>> from analytic.activations import leaky_relu
    >>> leaky_relu("1/10").G.expr
    101/200
    """
    return _two_slope("leaky_relu", require_real("slope", slope), S.One)


def _two_slope(name: str, left: sp.Expr, right: sp.Expr) -> Activation:
    mean, half = (right + left) / 2, (right - left) / 2
    square = (left**2 + right**2) / 2
    if left == right:
        return activation(
            name, left * z, kernel=square * kxy, slope=square, F=square * V, G=square, G2=S.Zero
        )
    slope = mean**2 + half**2 * _stable_signs
    if left * right >= 0:  # then a sum without a negative term exists, in which nothing cancels
        positive_sum = left * right + 4 * half**2 * _both_positive
        slope = sp.Piecewise((mean**2, _no_angle), (positive_sum, True))
    return activation(
        name,
        sp.Piecewise((right * z, z > 0), (left * z, True)),
        kinks=(0,),
        absent={"G2": _BEND},
        kernel=(
            mean**2 * kxy + half**2 * _sizes,
            4 * half**2 * rectified_pair(1, *GRAM) + left * right * kxy,
        ),
        slope=(mean**2 + half**2 * _signs, slope),
        F=square * V,
        G=square,
    )


absolute = _two_slope("absolute", S.NegativeOne, S.One)


# At variance 0 both are 0, as sign(0) and step(0) are.
sign = activation(
    "sign",
    sp.Piecewise((1, z > 0), (-1, z < 0), (0, True)),
    kinks=(0,),
    absent=_JUMP,
    kernel=(_signs, _stable_signs),
    F=sp.Piecewise((0, sp.Eq(V, 0)), (1, True)),
)


step = activation(
    "step",
    sp.Piecewise((1, z > 0), (0, True)),
    kinks=(0,),
    absent=_JUMP,
    kernel=(
        sp.Piecewise((0, _no_angle), ((1 + _signs) / 4, True)),
        sp.Piecewise((0, _no_angle), (_both_positive, True)),
    ),
    F=sp.Piecewise((0, sp.Eq(V, 0)), (S.Half, True)),
)

"""erf, Gaussian, GELU and ELU, whose moments are made of the normal density and its integrals."""

from __future__ import annotations

import sympy as sp
from sympy import Rational, S, asin, atan2, exp, pi, sin, sqrt

from analytic.activations.activation import Activation, activation
from analytic.expressions.angular_average import AngularAverage, X, Y
from analytic.expressions.special import (
    expm1,
    gram_det,
    scaled_tail,
    sine_excess,
    tail_bend,
    tail_corner,
    tail_step,
)
from analytic.expressions.symbols import V, kxx, kxy, kyy, z

__all__ = ["elu", "erf", "gaussian", "gelu"]

_D = (1 + kxx) * (1 + kyy) - kxy**2


_stable_D = 1 + kxx + kyy + gram_det(kxx, kyy, kxy)  # kxx kyy - kxy^2 >= 0 without cancellation


_half = S.Half


erf = activation(
    "erf",
    sp.erf(z / sqrt(2)),
    kernel=(2 / pi * asin(kxy / sqrt((1 + kxx) * (1 + kyy))), 2 / pi * atan2(kxy, sqrt(_stable_D))),
    slope=(2 / (pi * sqrt(_D)), 2 / (pi * sqrt(_stable_D))),
    F=(2 / pi * asin(V / (1 + V)), 2 / pi * atan2(V, sqrt(1 + 2 * V))),
    G=2 / (pi * sqrt(1 + 2 * V)),
    G2=2 * V / (pi * (1 + 2 * V) ** Rational(3, 2)),
)


gaussian = activation(
    "gaussian",
    exp(-(z**2) / 2),
    kernel=(1 / sqrt(_D), 1 / sqrt(_stable_D)),
    slope=(kxy / _D ** Rational(3, 2), kxy / _stable_D ** Rational(3, 2)),
    F=1 / sqrt(1 + 2 * V),
    G=V / (1 + 2 * V) ** Rational(3, 2),
    G2=(1 + 2 * V + 3 * V**2) / (1 + 2 * V) ** Rational(5, 2),
)


def _gelu() -> Activation:
    a, b, c = kxx, kyy, kxy
    second = (a * b - c**2 + c**2 / (1 + a) + c**2 / (1 + b)) / sqrt(_D)
    near = (gram_det(a, b, c) + c**2 / (1 + a) + c**2 / (1 + b)) / sqrt(_stable_D)
    angle = atan2(sqrt(_stable_D), -c)
    m = sqrt(1 + a) * sqrt(1 + b)
    # At large variances and nearly opposite points the two terms of the kernel cancel: this is their sum.
    far = (
        m * sine_excess(angle)
        + 1 / sqrt(_stable_D)
        - sin(angle) * (sqrt((1 + b) / (1 + a)) + sqrt((1 + a) / (1 + b)))
    )
    opposite = sp.And(c < 0, 4 * _stable_D < c**2)
    kernel = c / 4 + c / (2 * pi) * asin(c / sqrt((1 + a) * (1 + b))) + second / (2 * pi)
    slope = (
        Rational(1, 4)
        + asin(c / sqrt((1 + a) * (1 + b))) / (2 * pi)
        + c / (2 * pi * sqrt(_D)) * (1 / (1 + a) + 1 / (1 + b) + 1 / _D)
    )
    stable_slope = angle + c / sqrt(_stable_D) * (1 / (1 + a) + 1 / (1 + b) + 1 / _stable_D)
    term = V / ((1 + V) * sqrt(1 + 2 * V))
    root = (1 + 2 * V) ** Rational(3, 2)
    angle_G = Rational(1, 4) + atan2(V, sqrt(1 + 2 * V)) / (2 * pi)
    return activation(
        "gelu",
        z * (1 + sp.erf(z / sqrt(2))) / 2,
        kernel=(kernel, sp.Piecewise((far, opposite), (c * angle + near, True)) / (2 * pi)),
        slope=(slope, stable_slope / (2 * pi)),
        F=(
            V / 4 + V / (2 * pi) * asin(V / (1 + V)) + V * term / pi,
            V * (angle_G + term / pi),
        ),
        G=(
            Rational(1, 4) + (asin(V / (1 + V)) + 2 * term + V / root) / (2 * pi),
            angle_G + (2 * term + V / root) / (2 * pi),
        ),
        G2=(4 + 12 * V + 11 * V**2) / (2 * pi * (1 + 2 * V) ** Rational(5, 2)),
    )


gelu = _gelu()


def _elu() -> Activation:
    def below(x: sp.Expr) -> sp.Expr:
        return sp.erfc(x / sqrt(2)) / 2

    tail, x = exp(2 * V) * below(2 * sqrt(V)), sqrt(V / 2)
    slopes = (S.One, *(sqrt(pi) * scaled_tail(1, y / sqrt(2)) for y in (Y, X, X + Y)))
    # ELU is z plus psi(z) = e^z - 1 - z >= 0 for z < 0, else 0. By Stein's lemma E[u psi(v)] is a one-point
    # average, so only E[psi(u) psi(v)] is left to integrate over the angle.
    linear = kxy / 2 * sp.Add(*(scaled_tail(0, sqrt(k / 2)) for k in (kxx, kyy)))
    curved = AngularAverage(0, 0, 0, sqrt(pi) * tail_bend(X / sqrt(2), Y / sqrt(2)), kxx, kxy, kyy)
    return activation(
        "elu",
        sp.Piecewise((z, z > 0), (expm1(z), True)),
        kinks=(0,),
        kernel=linear + curved,
        slope=AngularAverage(*slopes, kxx, kxy, kyy),
        F=(
            V / 2 + _half + tail - 2 * exp(V / 2) * below(sqrt(V)),
            V / 2 + tail_corner(0, x, x) / 2,
        ),
        G=(_half + tail, 1 - tail_step(0, 0, 2 * x) / 2),
        G2=(tail, scaled_tail(0, 2 * x) / 2),
    )


elu = _elu()

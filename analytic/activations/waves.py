"""Sine, cosine, exponential and snake: activations made of exponentials."""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy import Abs, Rational, cos, cosh, exp, sin, sinh

from analytic.activation import Activation, activation, positive, symbols_of
from analytic.special import bernoulli, expm1
from analytic.symbols import V, a, kxx, kxy, kyy, w, z


def sine(w: Any = w) -> Activation:
    """sin(w z)."""
    w = positive("w", w)
    mean, size, decay = w**2 * (kxx + kyy) / 2, Abs(kxy), exp(-2 * w**2 * V)
    return activation(
        "sine",
        sin(w * z),
        parameters=symbols_of(w),
        kernel=(
            exp(-mean) * sinh(w**2 * kxy),
            -sp.sign(kxy) * exp(w**2 * size - mean) * expm1(-2 * w**2 * size) / 2,
        ),
        slope=(
            w**2 * exp(-mean) * cosh(w**2 * kxy),
            w**2 * (exp(w**2 * kxy - mean) + exp(-(w**2) * kxy - mean)) / 2,
        ),
        F=((1 - decay) / 2, -expm1(-2 * w**2 * V) / 2),
        G=(w**2 * (1 + decay) / 2, w**2 * (1 + expm1(-2 * w**2 * V) / 2)),
        G2=(w**4 * (1 - decay) / 2, -(w**4) * expm1(-2 * w**2 * V) / 2),
    )


def cosine(w: Any = w) -> Activation:
    """cos(w z): the even partner of the sine, so their kernels and slopes change places."""
    w = positive("w", w)
    odd, decay = sine(w), exp(-2 * w**2 * V)
    return activation(
        "cosine",
        cos(w * z),
        parameters=symbols_of(w),
        kernel=(odd.slope.expr / w**2, odd.slope.stable / w**2),
        slope=(odd.kernel.expr * w**2, odd.kernel.stable * w**2),
        F=(1 + decay) / 2,
        G=(w**2 * (1 - decay) / 2, -(w**2) * expm1(-2 * w**2 * V) / 2),
        G2=w**4 * (1 + decay) / 2,
        elasticity=bernoulli(0, 2 * w**2 * V),
    )


def exponential(w: Any = w) -> Activation:
    """exp(w z)."""
    w = positive("w", w)
    kernel = exp(w**2 * (kxx + 2 * kxy + kyy) / 2)
    F = exp(2 * w**2 * V)
    return activation(
        "exponential",
        exp(w * z),
        parameters=symbols_of(w),
        kernel=kernel,
        slope=w**2 * kernel,
        F=F,
        G=w**2 * F,
        G2=w**4 * F,
    )


def snake(a: Any = a) -> Activation:
    """z + sin(a z)^2 / a."""
    a = positive("a", a)
    c, size = 2 * a**2, Abs(kxy)
    waves = (1 - exp(-c * kxx)) * (1 - exp(-c * kyy))
    waves += exp(-c * (kxx + kyy)) * (cosh(2 * c * kxy) - 1)
    both = expm1(-c * kxx) * expm1(-c * kyy)
    cross = exp(c * (2 * size - kxx - kyy)) * expm1(-2 * c * size) ** 2 / 2
    rippled = (Rational(3, 2) - 2 * exp(-c * V) + exp(-4 * c * V) / 2) / (4 * a**2)
    wave = sine(2 * a)
    return activation(
        "snake",
        z + sin(a * z) ** 2 / a,
        parameters=symbols_of(a),
        kernel=(kxy + waves / (4 * a**2), kxy + (both + cross) / (4 * a**2)),
        slope=(1 + wave.kernel.expr, 1 + wave.kernel.stable),
        F=(V + rippled, V + (expm1(-c * V) ** 2 + expm1(-2 * c * V) ** 2 / 2) / (4 * a**2)),
        G=(Rational(3, 2) - exp(-4 * c * V) / 2, 1 - expm1(-4 * c * V) / 2),
        G2=c * (1 + exp(-4 * c * V)),
    )

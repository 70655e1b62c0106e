"""Sine, cosine, exponential, snake, random Fourier features and Gabor: sums of exponentials."""

from __future__ import annotations

import sympy as sp
from sympy import Abs, Rational, S, cos, cosh, exp, pi, sin, sinh, sqrt, tanh

from analytic.activations.activation import (
    Activation,
    activation,
    require_positive,
    require_real,
    symbols_of,
)
from analytic.expressions.arguments import RealNumber
from analytic.expressions.expectation import Moment
from analytic.expressions.special import bernoulli, expm1, gram_det
from analytic.expressions.symbols import V, a, kxx, kxy, kyy, w, z

__all__ = ["cosine", "exponential", "gabor", "rbf", "sine", "snake"]


def sine(w: RealNumber = w, phase: RealNumber = 0) -> Activation:
    """sin(w z + phase); the phase is a number.

    What is no number above 0, nor an open symbol, is refused with an InputError.

    >>> from analytic.activations import sine
    >>> sine(2).phi.expr, sine().parameters
    (sin(2*z), (w,))
    """
    w, phase = require_positive("w", w), require_real("phase", phase)
    if phase != 0:
        return _shifted("phased_sine", S.One, w, phase)
    mean, decay = w**2 * (kxx + kyy) / 2, exp(-2 * w**2 * V)
    even = (exp(w**2 * kxy - mean) + exp(-(w**2) * kxy - mean)) / 2
    return activation(
        "sine",
        sin(w * z),
        parameters=symbols_of(w),
        kernel=(exp(-mean) * sinh(w**2 * kxy), even * tanh(w**2 * kxy)),
        slope=(w**2 * exp(-mean) * cosh(w**2 * kxy), w**2 * even),
        F=((1 - decay) / 2, -expm1(-2 * w**2 * V) / 2),
        G=(w**2 * (1 + decay) / 2, w**2 * (1 + expm1(-2 * w**2 * V) / 2)),
        G2=(w**4 * (1 - decay) / 2, -(w**4) * expm1(-2 * w**2 * V) / 2),
    )


def cosine(w: RealNumber = w) -> Activation:
    """cos(w z): its kernel and its slope are those of the sine, exchanged.

    What is no number above 0, nor an open symbol, is refused with an InputError.

    >>> from analytic.activations import cosine
    >>> cosine(1).F(V=0.0)
    1.0
    """
    w = require_positive("w", w)
    odd, decay = sine(w), exp(-2 * w**2 * V)
    return activation(
        "cosine",
        cos(w * z),
        parameters=symbols_of(w),
        kernel=(odd.require("slope").expr / w**2, odd.require("slope").floating / w**2),
        slope=(odd.kernel.expr * w**2, odd.kernel.stable * w**2),
        F=(1 + decay) / 2,
        G=(w**2 * (1 - decay) / 2, -(w**2) * expm1(-2 * w**2 * V) / 2),
        G2=w**4 * (1 + decay) / 2,
        log_derivative=bernoulli(0, 2 * w**2 * V),
    )


def exponential(w: RealNumber = w) -> Activation:
    """exp(w z).

    What is no number above 0, nor an open symbol, is refused with an InputError.

    >>> from analytic.activations import exponential
    >>> exponential(1).F.expr
    exp(2*V)
    """
    w = require_positive("w", w)
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


def snake(a: RealNumber = a) -> Activation:
    """z + sin(a z)^2 / a.

    What is no number above 0, nor an open symbol, is refused with an InputError.

    >>> from analytic.activations import snake
    >>> snake(1).phi.expr
    z + sin(z)**2
    """
    a = require_positive("a", a)
    c, size = 2 * a**2, Abs(kxy)
    waves = (1 - exp(-c * kxx)) * (1 - exp(-c * kyy))
    waves += exp(-c * (kxx + kyy)) * (cosh(2 * c * kxy) - 1)
    both = expm1(-c * kxx) * expm1(-c * kyy)
    cross = exp(c * (2 * size - kxx - kyy)) * expm1(-2 * c * size) ** 2 / 2
    ripple = (Rational(3, 2) - 2 * exp(-c * V) + exp(-4 * c * V) / 2) / (4 * a**2)
    wave = sine(2 * a)
    return activation(
        "snake",
        z + sin(a * z) ** 2 / a,
        parameters=symbols_of(a),
        kernel=(kxy + waves / (4 * a**2), kxy + (both + cross) / (4 * a**2)),
        slope=(1 + wave.kernel.expr, 1 + wave.kernel.floating),
        F=(V + ripple, V + (expm1(-c * V) ** 2 + expm1(-2 * c * V) ** 2 / 2) / (4 * a**2)),
        G=(Rational(3, 2) - exp(-4 * c * V) / 2, 1 - expm1(-4 * c * V) / 2),
        G2=c * (1 + exp(-4 * c * V)),
    )


def rbf(gamma: RealNumber) -> Activation:
    """sqrt(2) sin(sqrt(2 gamma) z + pi/4), whose kernel is exp(-gamma (kxx - 2 kxy + kyy)).

    What is no number above 0, nor an open symbol, is refused with an InputError.

    >>> from analytic.activations import rbf
    >>> round(rbf(1).kernel(1.0, 0.5, 1.0), 6)  # exp(-1)
    0.367879
    """
    return _shifted("rbf", sqrt(2), sqrt(2 * require_positive("gamma", gamma)), pi / 4)


def _shifted(name: str, height: sp.Expr, w: sp.Expr, phase: sp.Expr) -> Activation:
    """height sin(w z + phase), from E[cos w(u - v)] and E[cos w(u + v)]."""
    difference = exp(-(w**2) * (kxx + kyy - 2 * kxy) / 2)
    total = exp(-(w**2) * (kxx + kyy + 2 * kxy) / 2)
    odd, rate = sine(w).kernel.stable, 2 * w**2 * V

    def pair(front: sp.Expr, phase: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        c = cos(2 * phase)
        textbook = front * (difference - c * total) / 2
        return textbook, front * (odd + sin(phase) ** 2 * total) if c > 0 else textbook

    def one(front: sp.Expr, phase: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        c = cos(2 * phase)
        textbook = front * (1 - c * exp(-rate)) / 2
        return textbook, front * (sin(phase) ** 2 - c / 2 * expm1(-rate)) if c > 0 else textbook

    square, ahead = height**2, phase + pi / 2  # the phase of the derivative
    return activation(
        name,
        height * sin(w * z + phase),
        parameters=symbols_of(w),
        kernel=pair(square, phase),
        slope=pair(square * w**2, ahead),
        F=one(square, phase),
        G=one(square * w**2, ahead),
        G2=one(square * w**4, phase),
        log_derivative=bernoulli(0, rate) if cos(phase) == 0 else None,  # a cosine, whose G(0) = 0
    )


def _gabor() -> Activation:
    """exp(-z^2) sin(z): the factor exp(-u^2 - v^2) times the density of (u, v) is Gaussian again."""

    def pair(det: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        total = kxx + kyy
        D = 1 + 2 * total + 4 * det
        c, front = kxy / D, exp(-(total + 4 * det) / (2 * D)) / sqrt(D)
        by_sinh = 4 * c * (1 + (1 + total) / D)  # no term is negative, because c sinh(c) >= 0
        return front * sinh(c), front * (by_sinh * sinh(c) + (1 / D + 8 * c**2) * cosh(c))

    kernel, slope = zip(pair(kxx * kyy - kxy**2), pair(gram_det(kxx, kyy, kxy)), strict=True)
    D = 1 + 4 * V
    t = V / D  # the variance under exp(-2 z^2)
    by_exp = -Rational(9, 2) + 44 * t - 200 * t**2 + 320 * t**3 - 128 * t**4
    G2 = Rational(9, 2) - 4 * t + 24 * t**2 + by_exp * exp(-2 * t)
    stable_G2 = t * (40 - 176 * t + 320 * t**2 - 128 * t**3) + by_exp * expm1(-2 * t)
    G = 1 + 12 * V + 32 * V**2 + (1 - 4 * V - 16 * V**2) * exp(-2 * t)
    phi = exp(-(z**2)) * sin(z)
    return activation(
        "gabor",
        phi,
        kernel=kernel,
        slope=slope,
        F=((1 - exp(-2 * t)) / (2 * sqrt(D)), -expm1(-2 * t) / (2 * sqrt(D))),
        # At large V, 1 + 2 V G'/G is near 0: a quadrature computes it without cancellation.
        G=(G / (2 * D ** Rational(5, 2)), Moment(sp.diff(phi, z) ** 2, V)),
        G2=(G2 / sqrt(D), stable_G2 / sqrt(D)),
    )


gabor = _gabor()
